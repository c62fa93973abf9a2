"""Where a function's derivatives are checked: what moves, what comes out, what is pulled back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.core.backward import grad
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.modes import enable_grad
from everyo.core.tensor import Tensor, wrap
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.axes import require_callable
from everyo.testing.differences import rebuild
from everyo.testing.metric import GradientCheckError, host

Function = Callable[..., Any]
_BOUND = "pass tol=, the bound of an error that is absolute for small derivatives and relative for large ones"
_REMEDIES = {
    "atol": _BOUND,
    "rtol": _BOUND,
    "raise_exception": "catch eo.testing.GradientCheckError: a check raises or returns True",
}


class Point:
    """A function of tensors and the inputs that its derivatives are checked at.

    Attributes
    ----------
    inputs : list
        Copies of the tensors (without a graph), and the other arguments as they are.
    wrt : list of int
        The positions of the differentiated inputs.
    arrays : dict
        Their elements, as NumPy arrays.
    dtype : dtype
        The coarsest of their dtypes and those of the results, which bounds what differences can show.
    """

    def __init__(self, f: Function, inputs: Sequence[Any], operation: str) -> None:
        require_callable(f, operation)
        self.f, self.operation = f, operation
        self.inputs = [_copied(x) for x in inputs]
        self.wrt = [i for i, x in enumerate(self.inputs) if _differentiable(x)]
        self.description = describe(*self.inputs)
        self.arrays = {i: host(self.inputs[i]) for i in self.wrt}
        if not self.wrt:
            self._refuse(
                "there is no input to differentiate with respect to",
                "a float or complex tensor",
                "pass tensors or arrays of floats: eo.tensor(1.0, dtype=eo.float64), x.astype(eo.float64)",
            )
        self.results = self.evaluate({})
        if not self.results:
            self._refuse(
                "the function returns nothing that has a gradient",
                "float or complex results",
                "return a tensor that is computed from the inputs",
            )
        dtypes = [a.dtype for a in (*self.arrays.values(), *self.results)]
        self.dtype = max(dtypes, key=lambda dtype: np.finfo(dtype).eps)

    def _refuse(self, message: str, expected: str, remedy: str) -> None:
        raise DTypeError(
            message,
            operation=self.operation,
            inputs=self.description,
            expected=expected,
            remedy=remedy,
        )

    def evaluate(self, changed: dict[int, Any]) -> list[Any]:
        """Return the float results as arrays, with some inputs changed."""
        arguments = [
            rebuild(x, np.array(changed.get(i, self.arrays[i]), x.dtype)) if i in self.arrays else x
            for i, x in enumerate(self.inputs)
        ]
        return [host(r) for r in floats(self.f(*arguments), self.operation)]

    def recorded(self, positions: set[int] | None = None) -> tuple[list[Any], list[Tensor]]:
        """Return inputs that require grad (all, or those at `positions`) and the results of them."""
        with enable_grad():
            leaves = [
                _copied(x).requires_grad_()
                if i in self.arrays and (positions is None or i in positions)
                else x
                for i, x in enumerate(self.inputs)
            ]
            return leaves, floats(self.f(*leaves), self.operation)

    def weights(self, seed: int) -> list[Any]:
        """Return random weights, away from 0, for each result."""
        rng = np.random.default_rng(seed)
        return [_random(rng, r.shape, r.dtype) for r in self.results]

    def directions(self, seed: int) -> dict[int, Any]:
        """Return a random tangent for each differentiated input, longer where its elements are large."""
        rng = np.random.default_rng(seed + 7)
        return {
            i: np.asarray(_random(rng, a.shape, a.dtype) * np.sqrt(_size(a)), a.dtype)
            for i, a in self.arrays.items()
        }

    def push(self, tangents: dict[int, Any]) -> list[Any]:
        """Return the tangents of the results, as arrays."""
        return [host(t) for t in self.push_tensors([self.inputs[i] for i in tangents], tangents)]

    def push_tensors(self, primals: Sequence[Tensor], tangents: dict[int, Any]) -> list[Tensor]:
        """Return the tangents of the results as the inputs at the positions of `tangents` move."""
        from everyo.transforms.forward import jvp

        def moving(k: int) -> Function:
            def result(*moved: Any) -> Any:
                at = dict(zip(tangents, moved, strict=True))
                return floats(self.f(*(at.get(i, x) for i, x in enumerate(self.inputs))), self.operation)[k]

            return result

        vectors = [v if isinstance(v, Tensor) else rebuild(self.inputs[i], v) for i, v in tangents.items()]
        return [jvp(moving(k), primals, vectors)[1] for k in range(len(self.results))]

    def demand_same(self, results: Sequence[Tensor]) -> None:
        """Raise unless a second call gave what the first gave."""
        for k, (first, second) in enumerate(zip(self.results, results, strict=True)):
            if not np.array_equal(first, host(second), equal_nan=True):
                raise GradientCheckError(
                    "two calls of the function on the same inputs gave different results",
                    operation=self.operation,
                    inputs=self.description,
                    expected="a deterministic function",
                    found=f"another result {k}",
                    remedy="give random operations a generator with a fixed seed, made inside the function",
                )


def arguments(inputs: Sequence[Any], unknown: dict[str, Any], operation: str) -> tuple[Any, ...]:
    """Return the inputs of a check; one tuple or list with tensors in it holds them all, as in PyTorch.

    Raises
    ------
    ArgumentError
        For options that a check has not, PyTorch's among them.
    """
    for name in unknown:
        raise ArgumentError(
            f"there is no option {name}",
            operation=operation,
            expected="eps, tol, seed" + ("" if operation == "check_jvp" else " or kinks"),
            found=f"{name}={unknown[name]!r}",
            remedy=_REMEDIES.get(name, "leave it out"),
        )
    if len(inputs) == 1 and type(inputs[0]) in (tuple, list) and any(map(_can_move, inputs[0])):
        return tuple(inputs[0])
    return tuple(inputs)


def floats(results: Any, operation: str) -> list[Tensor]:
    """Return the results that can carry a gradient."""
    found = list(results) if isinstance(results, (tuple, list)) else [results]
    for r in found:
        if not isinstance(r, Tensor):
            raise DTypeError(
                "the function must return tensors",
                operation=operation,
                expected="a tensor or a tuple of tensors",
                found=type(r).__name__,
                remedy="return tensors, or wrap the result with eo.asarray",
            )
    return [r for r in found if r.dtype.kind in DIFFERENTIABLE]


def pull(
    results: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor], create_graph: bool
) -> list[Tensor]:
    """Return the gradient of the weighted results for each input; zeros where there is no path."""
    pairs = [(r, w) for r, w in zip(results, weights, strict=True) if r.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if pairs:
        roots, seeds = zip(*pairs, strict=True)
        found = grad(roots, inputs, seeds, create_graph=create_graph, allow_unused=True)
    return [
        rebuild(x, np.zeros(x.shape, x.dtype)) if g is None else g for x, g in zip(inputs, found, strict=True)
    ]


def dot(left: Any, right: Any) -> float:
    """Return the real inner product."""
    return float(np.sum((np.conj(left) * right).real, dtype=np.float64))


def _differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.kind in DIFFERENTIABLE


def _can_move(x: Any) -> bool:
    """Whether an argument is differentiated: a tensor or an array of floats."""
    return isinstance(x, (Tensor, np.ndarray, np.generic)) and x.dtype.kind in DIFFERENTIABLE


def _copied(x: Any) -> Any:
    if isinstance(x, Tensor):
        return wrap(x.backend.asarray(x.data, None, x.device, copy=True))
    if _can_move(x):
        return wrap(np.array(x))
    return x


def _size(array: Any) -> Any:
    """Return the absolute values of the elements, at least 1; 1 for those that are not finite."""
    size = np.maximum(np.abs(array), 1)
    return np.where(np.isfinite(size), size, 1)


def _random(rng: Any, shape: Any, dtype: Any) -> Any:
    """Return random numbers of absolute value 0.5 to 1.5, for complex dtypes of either part."""

    def real() -> Any:
        return rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)

    return np.asarray(real() + 1j * real() if dtype.kind == "c" else real(), dtype)
