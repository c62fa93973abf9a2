"""One adapter for each library, so that a row's arithmetic is written once for all of them.

A row's function has the form ``f(fn, *arrays) -> array``: ``fn`` holds the elementary functions of the
library at hand (``exp``, ``tanh``, ...), everything else is operators and methods that all of them share.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace

import numpy as np

from .harness import Case, explain

TITLES = {
    "everyo": "EveryO",
    "jax": "JAX",
    "torch": "PyTorch",
    "autograd": "autograd",
    "mygrad": "MyGrad",
    "numpy": "NumPy",
    "cpp": "C++",
    "forward": "the call alone",
}

Function = Callable[..., object]


class Tape:
    """What EveryO, PyTorch and MyGrad have in common: leaves, ``backward()`` and ``grad``."""

    functions: SimpleNamespace
    no_grad: Callable[[], object]

    def leaf(self, array: np.ndarray, requires_grad: bool):
        """Return a tensor that holds a copy of the array."""
        raise NotImplementedError

    def clear(self, leaf) -> None:
        """Drop the gradient of a leaf."""
        raise NotImplementedError

    def numpy(self, tensor) -> np.ndarray:
        """Return the array behind a tensor."""
        raise NotImplementedError

    def gradient(self, f: Function, arrays: Sequence[np.ndarray], wrt: Collection[int]) -> Case:
        """Return the case that runs a scalar function forward and backward.

        Parameters
        ----------
        f : callable
            ``f(fn, *arrays)``, returns a scalar.
        arrays : sequence of ndarray
            Its inputs.
        wrt : collection of int
            Positions of the inputs that require a gradient.
        """
        leaves = [self.leaf(array, index in wrt) for index, array in enumerate(arrays)]
        wanted = [leaves[index] for index in sorted(wrt)]
        functions, clear = self.functions, self.clear

        def run() -> None:
            for leaf in wanted:
                clear(leaf)
            f(functions, *leaves).backward()

        def check() -> list[np.ndarray]:
            run()
            return [np.array(self.numpy(leaf.grad)) for leaf in wanted]

        return Case(run, check)

    def forward(self, f: Function, arrays: Sequence[np.ndarray], wrt: Collection[int]) -> Case:
        """Return the case that runs a function forward with recording switched off."""
        leaves = [self.leaf(array, index in wrt) for index, array in enumerate(arrays)]
        functions, no_grad = self.functions, self.no_grad

        def run() -> object:
            with no_grad():
                return f(functions, *leaves)

        return Case(run, lambda: [np.array(self.numpy(run()))])


class EveryO(Tape):
    """Adapter of EveryO."""

    def __init__(self, threads: int) -> None:
        import everyo as eo

        self._eo = eo
        self.no_grad = eo.no_grad
        self.functions = SimpleNamespace(
            exp=eo.exp,
            sin=eo.sin,
            tanh=eo.tanh,
            softmax=lambda x: eo.softmax(x, axis=-1),
            log_softmax=lambda x: eo.log_softmax(x, axis=-1),
        )

    def leaf(self, array, requires_grad):
        return self._eo.tensor(array, requires_grad=requires_grad)

    def clear(self, leaf):
        leaf.zero_grad()

    def numpy(self, tensor):
        return tensor.detach().numpy()


class Torch(Tape):
    """Adapter of PyTorch."""

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._torch = torch
        self.no_grad = torch.no_grad
        self.functions = SimpleNamespace(
            exp=torch.exp,
            sin=torch.sin,
            tanh=torch.tanh,
            softmax=lambda x: torch.softmax(x, -1),
            log_softmax=lambda x: torch.log_softmax(x, -1),
        )

    def leaf(self, array, requires_grad):
        return self._torch.tensor(array, requires_grad=requires_grad)

    def clear(self, leaf):
        leaf.grad = None

    def numpy(self, tensor):
        return tensor.detach().numpy()


class MyGrad(Tape):
    """Adapter of MyGrad."""

    def __init__(self, threads: int) -> None:
        import mygrad as mg
        from mygrad.nnet.activations import logsoftmax, softmax

        self._mg = mg
        self.no_grad = lambda: mg.no_autodiff
        self.functions = SimpleNamespace(
            exp=mg.exp, sin=mg.sin, tanh=mg.tanh, softmax=softmax, log_softmax=logsoftmax
        )

    def leaf(self, array, requires_grad):
        return self._mg.tensor(array, constant=not requires_grad)

    def clear(self, leaf):
        leaf.null_grad()

    def numpy(self, tensor):
        return np.asarray(tensor.data if isinstance(tensor, self._mg.Tensor) else tensor)


class Autograd:
    """Adapter of autograd, which differentiates functions instead of keeping gradients in leaves."""

    def __init__(self, threads: int) -> None:
        import autograd
        import autograd.numpy as anp

        def log_softmax(x):
            shifted = x - anp.max(x, axis=-1, keepdims=True)
            return shifted - anp.log(anp.sum(anp.exp(shifted), axis=-1, keepdims=True))

        self._autograd = autograd
        self.functions = SimpleNamespace(
            exp=anp.exp,
            sin=anp.sin,
            tanh=anp.tanh,
            softmax=lambda x: anp.exp(log_softmax(x)),
            log_softmax=log_softmax,
        )

    def gradient(self, f: Function, arrays: Sequence[np.ndarray], wrt: Collection[int]) -> Case:
        """As in `Tape`."""
        functions = self.functions
        gradient = self._autograd.grad(lambda *inputs: f(functions, *inputs), tuple(sorted(wrt)))
        return Case(lambda: gradient(*arrays), lambda: [np.asarray(part) for part in gradient(*arrays)])

    def forward(self, f: Function, arrays: Sequence[np.ndarray], wrt: Collection[int]) -> Case:
        """As in `Tape`: outside ``grad`` nothing is recorded."""

        def run() -> object:
            return f(self.functions, *arrays)

        return Case(run, lambda: [np.asarray(run())])


ADAPTERS = {"everyo": EveryO, "torch": Torch, "autograd": Autograd, "mygrad": MyGrad}


def is_absent(name: str) -> bool:
    """Say whether a library is not installed here (a bare folder of its name does not count)."""
    spec = importlib.util.find_spec(name)
    return spec is None or spec.origin is None


def load(
    names: Sequence[str] = ("everyo", "torch", "autograd", "mygrad"), threads: int = 1
) -> tuple[dict[str, Tape | Autograd], dict[str, str]]:
    """Import libraries.

    Parameters
    ----------
    names : sequence of str
        Keys of ``ADAPTERS``.
    threads : int
        Threads that each may use.

    Returns
    -------
    adapters : dict
        Those that could be loaded.
    failures : dict of str to str
        The others, and why: ``"absent"`` if it is not installed.
    """
    adapters, failures = {}, {}
    for name in names:
        if is_absent(name):
            failures[name] = "absent"
            continue
        try:
            adapters[name] = ADAPTERS[name](threads)
        except Exception as error:  # a broken library must not stop the others
            failures[name] = explain(error)
    return adapters, failures
