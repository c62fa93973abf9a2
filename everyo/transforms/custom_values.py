"""What rules of the user's own take and return: kept values, and tensors that must fit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.modes import current_mode
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced
from everyo.errors import DTypeError, GraphStateError, ShapeError, UnsupportedOperationError
from everyo.ops import creation, ranges
from everyo.transforms.forward import Dual
from everyo.transforms.levels import as_tensor, raised
from everyo.transforms.trees import flatten, unflatten

Tensors = list[Tensor]
Optional = list[Tensor | None]
Spec = tuple[tuple[int, ...], Any]


class Layout:
    """What a run has returned: shapes and dtypes, and where each kept value comes from."""

    def __init__(self, inputs: Tensors, outs: Tensors, kept: Any, constants: Sequence[Any]) -> None:
        leaves, self.structure = flatten(kept)
        here = max(x.level for x in inputs)
        self.inputs: list[Spec] = [(tuple(x.shape), x.dtype) for x in inputs]
        self.outs: list[Spec] = [(tuple(x.shape), x.dtype) for x in outs]
        self.extras: Tensors = []
        self.sources: list[tuple[str, Any]] = []
        self.opaque = False  # kept values depend on the inputs in ways that the engine does not know
        for leaf in leaves:
            self.sources.append(self._source(leaf, inputs, outs, here))
            if hasattr(leaf, "dtype") and not isinstance(leaf, Tensor) and floating(leaf.dtype):
                self.opaque |= not any(leaf is c for c in constants)  # an array, perhaps of an input
        self.count = len(self.extras)

    def _source(self, leaf: Any, inputs: Tensors, outs: Tensors, here: int) -> tuple[str, Any]:
        if not isinstance(leaf, Tensor):
            return "static", leaf
        for kind, known in (("input", inputs), ("out", outs)):
            for i, x in enumerate(known):
                if leaf is x or (leaf.data is x.data and leaf.grad_node is None):
                    return kind, i
        if leaf.grad_node is not None or leaf.level > here:
            self.opaque = True
            return "static", leaf
        self.extras.append(leaf)
        return "extra", len(self.extras) - 1

    def pick(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Tensors:
        """Return the kept tensors from the inputs and the results with the kept values behind them.

        The inputs follow where the kept values depend on them in an unknown way.
        """
        places = {"input": (inputs, 0), "out": (outs, 0), "extra": (outs, len(self.outs))}
        kept = [raised(places[kind][0][i + places[kind][1]]) for kind, i in self.sources if kind != "static"]
        return kept + [raised(x) for x in inputs] if self.opaque else kept

    def restore(self, residuals: Tensors) -> Any:
        """Return the tree of kept values around new tensors."""
        tensors = iter(residuals)
        return unflatten(self.structure, [x if k == "static" else next(tensors) for k, x in self.sources])


def carriers(x: Any) -> set[Any]:
    """Return who differentiates with respect to `x`: interpreters, and None for the eager tape."""
    found: set[Any] = set()
    while isinstance(x, Tensor):
        data = x.data
        if not isinstance(data, Traced):
            if x.grad_node is not None:
                found.add(None)
            break
        if x.grad_node is not None or isinstance(data, Dual):
            found.add(data.interpreter)
        x = data.below
    return found


def carries(x: Any) -> bool:
    """Return whether `x` is being differentiated with respect to something."""
    return bool(carriers(x))


def differentiated(inputs: Sequence[Any]) -> bool:
    """Return whether a call on `inputs` needs its derivative rules."""
    if current_mode().grad:
        return any(carries(x) for x in inputs)
    return any(c is not None and c.name == "jvp" for x in inputs for c in carriers(x))


def fitted(name: str, rule: str, value: Any, spec: Spec, what: str) -> Tensor | None:
    """Return what a rule has returned for one tensor; raise if it does not fit the tensor."""
    shape, dtype = spec
    if value is None or not floating(dtype):
        return None
    if isinstance(value, (int, float, complex)):
        value = creation.asarray(value, dtype=dtype)
    elif not hasattr(value, "dtype"):
        raise DTypeError(
            f"{what} that {rule} returned is no tensor",
            operation=name,
            expected="a tensor, an array, or None for zero",
            found=type(value).__name__,
        )
    value = as_tensor(value)
    if tuple(value.shape) != shape:
        raise ShapeError(
            f"{what} that {rule} returned has the wrong shape",
            operation=name,
            expected=f"shape {shape}",
            found=f"shape {tuple(value.shape)}",
            remedy="sum over the axes that the function broadcasts",
        )
    if value.dtype != dtype:
        raise DTypeError(
            f"{what} that {rule} returned has the wrong dtype",
            operation=name,
            expected=str(dtype),
            found=str(value.dtype),
            remedy="take eo.real(...) of it"
            if dtype.kind == "f" and value.dtype.kind == "c"
            else "use astype",
        )
    return value


def probe(spec: Spec) -> Tensor:
    """Return a tensor of no special values, at which a linear function is not zero by chance."""
    shape, dtype = spec
    size = 1
    for n in shape:
        size *= n
    steps = ranges.arange(1, size + 1, dtype="float64").reshape(shape) * 0.6180339887498949
    return (steps % 1.0 + 0.5).astype(dtype)


def floating(dtype: Any) -> bool:
    """Whether values of a dtype have derivatives."""
    return dtype.kind in DIFFERENTIABLE


def conjugated(c: Tensor) -> Tensor:
    """Turn a cotangent into the gradient that users know, or back."""
    return op.conj(c) if c.dtype.kind == "c" else c


def zeros(spec: Spec) -> Tensor:
    """Return zeros of a shape and dtype."""
    return creation.zeros(spec[0], dtype=spec[1])


def detached(tensors: Sequence[Any]) -> list[Any]:
    """Return tensors as constants; None stays."""
    return [x if x is None else op.stop_gradient(x) for x in tensors]


def spread(values: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """Return `count` items: values in their places, and None."""
    given = dict(zip(places, values, strict=True))
    return [given.get(i) for i in range(count)]


def not_traceable(name: str, rule: str, how: str = "differentiated") -> UnsupportedOperationError:
    """Return the error for a rule that is differentiated and cannot be."""
    return UnsupportedOperationError(
        f"its {rule} is {how}, but computes something outside of EveryO's operations",
        operation=name,
        expected=f"a {rule} written in EveryO's operations, from its arguments and what was saved",
        found="values that were detached or became NumPy arrays, or once_differentiable",
        remedy=f"write {rule} in eo functions: a derivative of it then follows",
    )


@contextlib.contextmanager
def explained(name: str, rule: str, live: bool) -> Iterator[None]:
    """Explain the error of a tensor that cannot become an array because it is differentiated."""
    try:
        yield
    except GraphStateError as error:
        if live and error.operation == "numpy":
            raise not_traceable(name, rule) from error
        raise
