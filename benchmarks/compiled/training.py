"""Whole training steps: forward, cross entropy, backward and Adam's update, in float32."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .networks import Network, parts_of_everyo, parts_of_torch

RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8
STEPS = 4  # whose losses are compared


class ModuleTrainer:
    """Training in EveryO, compiled, or in PyTorch, eager.

    Parameters
    ----------
    library : {"everyo", "torch"}
        Which one.
    network : Network
        What is trained.
    weights : list of ndarray, optional
        Where to start; the library's own initial values if not given.
    """

    def __init__(self, library: str, network: Network, weights: Sequence[np.ndarray] | None = None) -> None:
        root = importlib.import_module(library)
        parts = parts_of_everyo() if library == "everyo" else parts_of_torch()
        model = network.module(root, parts)
        self._parameters = list(model.parameters())
        if weights is not None:
            model.load_state_dict(dict(zip(model.state_dict(), map(root.tensor, weights), strict=True)))
        self._data = tuple(root.from_numpy(array) for array in network.data(False))
        cross_entropy = root.nn.functional.cross_entropy
        optimizer = self._optimizer = root.optim.Adam(self._parameters, lr=RATE, betas=BETAS, eps=EPSILON)

        def step(x, labels):
            optimizer.zero_grad()
            loss = cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            return loss

        def evaluate(x, labels):
            with root.no_grad():
                return cross_entropy(model(x), labels)

        compiled = root.compile if library == "everyo" else lambda f: f
        self._step, self._evaluate = compiled(step), compiled(evaluate)

    def step(self) -> Any:
        """Train once; return the loss."""
        return self._step(*self._data)

    def evaluate(self) -> Any:
        """Return the loss."""
        return self._evaluate(*self._data)

    def number(self, loss: Any) -> float:
        """Return a loss as a number."""
        return loss.item()

    def weights(self) -> list[np.ndarray]:
        """Return copies of the weights."""
        return [np.array(parameter.detach().numpy()) for parameter in self._parameters]

    def moments(self) -> list[np.ndarray]:
        """Return Adam's means of the gradients."""
        means = [self._optimizer.state[parameter]["exp_avg"] for parameter in self._parameters]
        return [np.array(mean) for mean in means]


class JAXTrainer:
    """Training in JAX, with Adam written out."""

    def __init__(self, network: Network, weights: Sequence[np.ndarray]) -> None:
        import jax
        import jax.numpy as jnp

        self._jax, self._network = jax, network
        self._parameters = [jnp.asarray(self._turned(i, w, True)) for i, w in enumerate(weights)]
        self._state = [(jnp.zeros_like(w), jnp.zeros_like(w)) for w in self._parameters]
        self._count = jnp.zeros((), jnp.int32)
        x, labels = network.data(False)
        self._data = jnp.asarray(x.transpose(0, 2, 3, 1) if network.images else x), jnp.asarray(labels)

        def loss(parameters, x, labels):
            logs = jax.nn.log_softmax(network.in_jax(parameters, x))
            return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))

        def update(parameter, gradient, mean, square, count):
            mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
            square = BETAS[1] * square + (1 - BETAS[1]) * gradient * gradient
            spread = jnp.sqrt(square / (1 - BETAS[1] ** count)) + EPSILON
            return parameter - RATE * mean / (1 - BETAS[0] ** count) / spread, (mean, square)

        def step(parameters, state, count, x, labels):
            value, gradients = jax.value_and_grad(loss)(parameters, x, labels)
            count = count + 1
            updated = [
                update(p, g, *s, count.astype(p.dtype))
                for p, g, s in zip(parameters, gradients, state, strict=True)
            ]
            return value, [p for p, _ in updated], [s for _, s in updated], count

        self._step, self._evaluate = jax.jit(step, donate_argnums=(0, 1, 2)), jax.jit(loss)

    def _turned(self, position: int, weight: np.ndarray, to_jax: bool) -> np.ndarray:
        """Return a parameter in JAX's layout, or back in that of the modules."""
        if weight.ndim == 2 and position not in self._network.tables:
            return weight.T
        if weight.ndim == 4:
            return weight.transpose(2, 3, 1, 0) if to_jax else weight.transpose(3, 2, 0, 1)
        return weight

    def step(self) -> Any:
        """Train once; return the loss."""
        loss, self._parameters, self._state, self._count = self._step(
            self._parameters, self._state, self._count, *self._data
        )
        self._jax.block_until_ready((loss, self._parameters))
        return loss

    def evaluate(self) -> Any:
        """Return the loss."""
        return self._jax.block_until_ready(self._evaluate(self._parameters, *self._data))

    def number(self, loss: Any) -> float:
        """Return a loss as a number."""
        return loss.item()

    def moments(self) -> list[np.ndarray]:
        """Return Adam's means of the gradients, in the layout of the modules."""
        return [self._turned(i, np.asarray(mean), False) for i, (mean, _) in enumerate(self._state)]


Trainer = ModuleTrainer | JAXTrainer


def trainer(library: str, network: Network, weights: Sequence[np.ndarray] | None = None) -> Trainer:
    """Return a library's trainer, which starts from `weights` if they are given."""
    if library == "jax":
        assert weights is not None
        return JAXTrainer(network, weights)
    return ModuleTrainer(library, network, weights)


def results(trained: Trainer) -> list[np.ndarray]:
    """Train a few steps; return the losses, and the means of the gradients after the first step.

    The weights themselves are not compared: where a gradient is zero but for rounding, Adam makes a whole
    step of its sign.
    """
    losses = [trained.number(trained.step())]
    moments = trained.moments()
    losses += [trained.number(trained.step()) for _ in range(STEPS - 1)]
    return [np.array(losses), *moments]
