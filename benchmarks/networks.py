"""Training steps of small networks; the trainers also serve the memory probes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from .harness import Budget, Case, Measurement, Row, Settings, compare
from .libraries import load

SECTION = "Networks"
LEARNING_RATE = 0.01

MLP_SIZES = (784, 256, 10)
MLP_SHAPES = ((256, 784), (256,), (10, 256), (10,))
CONV_SHAPES = ((8, 1, 3, 3), (8,), (16, 8, 3, 3), (16,), (10, 64), (10,))


def mlp(nn):
    """Build the 784-256-10 network from a library's layers."""
    inputs, hidden, outputs = MLP_SIZES
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def convnet(nn):
    """Build a small convolutional network for 8x8 images from a library's layers."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def mlp_data(batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random inputs and labels for `mlp`."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((batch, MLP_SIZES[0]), np.float32)
    return x, rng.integers(0, MLP_SIZES[-1], batch)


def convnet_data(batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random images and labels for `convnet`."""
    rng = np.random.default_rng(1)
    return rng.standard_normal((batch, 1, 8, 8), np.float32), rng.integers(0, 10, batch)


def random_weights(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return weights of a usual size, in PyTorch's layout."""
    rng = np.random.default_rng(2)
    bound = 0.0
    weights = []
    for shape in shapes:
        if len(shape) > 1:
            bound = 1 / np.sqrt(np.prod(shape[1:]))
        weights.append(rng.uniform(-bound, bound, shape).astype(np.float32))
    return weights


class ModuleTrainer:
    """A training step of EveryO or PyTorch, written in the text that both share.

    Parameters
    ----------
    library : {"everyo", "torch"}
        Which one.
    network : callable
        ``network(nn)`` builds the model.
    shapes : sequence of tuple of int
        Shapes of its parameters in PyTorch's layout, the one used between trainers.
    data : tuple of ndarray
        Inputs and integer labels.
    weights : list of ndarray, optional
        Where to start; the library's own initial values if not given.
    """

    def __init__(self, library, network, shapes, data, weights=None):
        root = importlib.import_module(library)
        nn = importlib.import_module(f"{library}.nn")
        optim = importlib.import_module(f"{library}.optim")
        self._loss = importlib.import_module(f"{library}.nn.functional").cross_entropy
        self._shapes = shapes
        self._model = network(nn)
        self._parameters = list(self._model.parameters())
        self._x, self._labels = (root.from_numpy(array) for array in data)
        self._optimizer = optim.SGD(self._parameters, lr=LEARNING_RATE)
        if weights is not None:
            with root.no_grad():
                for parameter, weight in zip(self._parameters, weights, strict=True):
                    parameter.copy_(root.from_numpy(weight))

    def _differentiate(self) -> None:
        self._optimizer.zero_grad()
        self._loss(self._model(self._x), self._labels).backward()

    def step(self) -> None:
        """Forward, cross entropy, backward, update."""
        self._differentiate()
        self._optimizer.step()

    def clear(self) -> None:
        """Drop the gradients."""
        self._optimizer.zero_grad()

    def gradients(self) -> list[np.ndarray]:
        """Return the gradients at the current weights."""
        self._differentiate()
        return self._export([parameter.grad for parameter in self._parameters])

    def weights(self) -> list[np.ndarray]:
        """Return the current weights."""
        return self._export(self._parameters)

    def _export(self, tensors) -> list[np.ndarray]:
        arrays = [np.array(tensor.detach().numpy()) for tensor in tensors]
        return [
            array if array.shape == shape else array.T.reshape(shape)
            for array, shape in zip(arrays, self._shapes, strict=True)
        ]


class NumPyTrainer:
    """The MLP's training step written by hand: what the arithmetic itself costs."""

    def __init__(self, data, weights):
        self._x, self._labels = data
        self._rows = np.arange(len(self._x))
        self._weights = [weight.copy() for weight in weights]

    def gradients(self) -> list[np.ndarray]:
        """Return the gradients at the current weights."""
        w1, b1, w2, b2 = self._weights
        hidden = self._x @ w1.T
        hidden += b1
        np.maximum(hidden, 0, out=hidden)
        logits = hidden @ w2.T
        logits += b2
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        logits[self._rows, self._labels] -= 1
        logits /= len(self._x)
        back = logits @ w2
        back *= hidden > 0
        return [back.T @ self._x, back.sum(axis=0), logits.T @ hidden, logits.sum(axis=0)]

    def step(self) -> None:
        """Forward, cross entropy, backward, update."""
        for weight, gradient in zip(self._weights, self.gradients(), strict=True):
            gradient *= LEARNING_RATE
            weight -= gradient

    def clear(self) -> None:
        """Do nothing: no gradient is kept."""

    def weights(self) -> list[np.ndarray]:
        """Return the current weights."""
        return [weight.copy() for weight in self._weights]


class AutogradTrainer(NumPyTrainer):
    """The MLP's training step in autograd."""

    def __init__(self, data, weights):
        import autograd
        import autograd.numpy as anp

        super().__init__(data, weights)

        def loss(weights):
            w1, b1, w2, b2 = weights
            hidden = anp.maximum(anp.dot(self._x, w1.T) + b1, 0)
            logits = anp.dot(hidden, w2.T) + b2
            shifted = logits - anp.max(logits, axis=1, keepdims=True)
            log_sums = anp.log(anp.sum(anp.exp(shifted), axis=1))
            return anp.mean(log_sums - shifted[self._rows, self._labels])

        self._gradient = autograd.grad(loss)

    def gradients(self) -> list[np.ndarray]:
        """Return the gradients at the current weights."""
        return list(self._gradient(self._weights))


def mlp_trainer(library: str, batch: int, weights: list[np.ndarray] | None = None):
    """Return a library's trainer of the 784-256-10 network.

    Without ``weights``, EveryO and PyTorch start from their own and the others from random ones.
    """
    data = mlp_data(batch)
    if library in ("everyo", "torch"):
        return ModuleTrainer(library, mlp, MLP_SHAPES, data, weights)
    trainer = AutogradTrainer if library == "autograd" else NumPyTrainer
    return trainer(data, random_weights(MLP_SHAPES) if weights is None else weights)


def convnet_trainer(library: str, batch: int, weights: list[np.ndarray] | None = None):
    """Return EveryO's or PyTorch's trainer of the small convolutional network."""
    return ModuleTrainer(library, convnet, CONV_SHAPES, convnet_data(batch), weights)


def training_case(trainer) -> Case:
    """Return the case of a training step; its results are gradients, then weights two steps on."""

    def check() -> list[np.ndarray]:
        gradients = trainer.gradients()
        trainer.step()
        trainer.step()
        return [*gradients, *trainer.weights()]

    return Case(trainer.step, check)


def training(
    title: str,
    make: Callable,
    shapes: Sequence[tuple[int, ...]],
    libraries: Sequence[str],
    batch: int,
    detail: str,
    settings: Settings,
) -> list[Measurement]:
    """Measure a training step in several libraries that start from EveryO's initial weights."""
    # Threads are set where a library has a setting; NumPy's BLAS took its number at the start.
    adapters, failures = load([name for name in libraries if name != "numpy"], settings.threads)
    start: list[np.ndarray] = random_weights(shapes)

    def build(library: str) -> Case:
        if library == "everyo":  # first in the order, so that the others can start where it does
            trainer = make(library, batch)
            start[:] = trainer.weights()
        else:
            trainer = make(library, batch, start)
        return training_case(trainer)

    present = [name for name in libraries if name in adapters or name == "numpy"]
    return [
        compare(
            f"{title}, batch {batch}, {settings.thread_text}",
            {name: partial(build, name) for name in present},
            settings,
            detail=f"{detail}, float32; forward, cross entropy, backward, SGD update",
            failures=failures,
            tolerance=1e-3,
        )
    ]


def tiny_loss(fn, x, target, w1, b1, w2, b2, w3, b3):
    """Return the squared error of a 2-16-16-1 network with tanh."""
    hidden = fn.tanh(x @ w1 + b1)
    hidden = fn.tanh(hidden @ w2 + b2)
    error = hidden @ w3 + b3 - target
    return (error * error).sum()


def tiny_mlp(settings: Settings) -> list[Measurement]:
    """Measure forward and backward of a network so small that only overhead counts."""
    rng = np.random.default_rng(3)
    shapes = [(8, 2), (8, 1), (2, 16), (16,), (16, 16), (16,), (16, 1), (1,)]
    arrays = [rng.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes]
    adapters, failures = load(threads=settings.threads)
    builders = {
        name: partial(library.gradient, tiny_loss, arrays, range(2, 8)) for name, library in adapters.items()
    }
    detail = "x (8, 2), float32; tanh, squared error; forward and backward"
    return [
        compare(
            "MLP 2-16-16-1, batch 8",
            builders,
            settings,
            detail=detail,
            budgets=[Budget(1.0, "torch"), Budget(1.0, "autograd"), Budget(1.0, "mygrad")],
            failures=failures,
        )
    ]


_MLP = partial(
    training,
    "MLP 784-256-10 training step",
    mlp_trainer,
    MLP_SHAPES,
    ("everyo", "torch", "autograd", "numpy"),
    128,
    "x (128, 784)",
)
_CONV = partial(
    training,
    "convolutional network training step",
    convnet_trainer,
    CONV_SHAPES,
    ("everyo", "torch"),
    32,
    "x (32, 1, 8, 8); 3x3 convolutions to 8 and 16 channels, ReLU, 2x2 max pooling, linear",
)

ROWS = [
    Row("mlp-tiny", SECTION, tiny_mlp),
    Row("mlp-step", SECTION, _MLP),
    Row("mlp-step-threads", SECTION, _MLP, all_threads=True),
    Row("conv-step", SECTION, _CONV),
]
