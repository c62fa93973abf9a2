"""What rules of the user's own take and return: kept values, and tensors that must fit."""

from __future__ import annotations

import contextlib
import enum
import types
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from everyo.core.device import backend_of
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.modes import current_mode, is_constant
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, downwards, staging
from everyo.errors import DTypeError, GraphStateError, ShapeError, UnsupportedOperationError
from everyo.ops import creation, ranges
from everyo.transforms.forward import Dual
from everyo.transforms.levels import raised
from everyo.transforms.trees import flatten, unflatten

Tensors = list[Tensor]
MaybeTensors = list[Tensor | None]
Spec = tuple[tuple[int, ...], Any]


PLAIN = (bool, int, str, bytes, float, complex, slice, range, type, enum.Enum, types.EllipsisType)


class Layout:
    """What a run has returned: shapes and dtypes, and where each kept value comes from.

    `read` tells whether the run has taken values out of tensors, `born` is an age from before it.

    Attributes
    ----------
    opaque : bool
        Kept values depend on the inputs in ways that no derivative can follow: arrays, and numbers read.
    hidden : bool
        Kept objects may hold values that depend on the inputs: closures, pullbacks, tensors from outside. A
        second run on tensors that are differentiated makes objects that can be followed.
    mapped : bool
        The run was under `vmap`, so that what objects hold is of no use outside of it.
    """

    def __init__(
        self, inputs: Tensors, outs: Tensors, kept: Any, constants: Sequence[Any], read: bool, born: int
    ) -> None:
        leaves, self.structure = flatten(kept)
        here = max(x.level for x in inputs)
        self.inputs: list[Spec] = [(tuple(x.shape), x.dtype) for x in inputs]
        self.outs: list[Spec] = [(tuple(x.shape), x.dtype) for x in outs]
        self.extras: Tensors = []
        self.sources: list[tuple[str, Any]] = []
        self.opaque = self.hidden = self.mapped = False
        for leaf in leaves:
            self.sources.append(self._source(leaf, inputs, outs, here, born))
            if not isinstance(leaf, Tensor) and not any(leaf is c for c in constants):
                self._suspect(leaf, read)
        self.count = len(self.extras)

    def _suspect(self, leaf: Any, read: bool) -> None:
        """Mark what a kept leaf that is no tensor may hide."""
        if backend_of(leaf) is not None:
            self.opaque |= floating(leaf.dtype)
        elif isinstance(leaf, (float, complex)):
            self.opaque |= read
        elif not isinstance(leaf, PLAIN):
            self.opaque |= read
            self.hidden = True

    @property
    def whole(self) -> bool:
        """Whether the inputs are kept beside what the run has kept."""
        return self.opaque or self.hidden

    def _source(self, leaf: Any, inputs: Tensors, outs: Tensors, here: int, born: int) -> tuple[str, Any]:
        if not isinstance(leaf, Tensor):
            return "static", leaf
        for kind, known in (("input", inputs), ("out", outs)):
            for i, x in enumerate(known):
                if leaf is x or (leaf.data is x.data and leaf.grad_node is None):
                    return kind, i
        if leaf.grad_node is not None or leaf.level > here:
            captured = leaf.level <= here and leaf._require_node("custom").age < born
            self.hidden |= captured
            self.opaque |= not captured  # of a graph that the run has made of values it detached
            return "static", leaf
        self.extras.append(leaf)
        return "extra", len(self.extras) - 1

    def pick(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Tensors:
        """Return the kept tensors from the inputs and the results with the kept values behind them.

        The inputs follow where kept values may depend on them in an unknown way.
        """
        places = {"input": (inputs, 0), "out": (outs, 0), "extra": (outs, len(self.outs))}
        kept = [raised(places[kind][0][i + places[kind][1]]) for kind, i in self.sources if kind != "static"]
        return kept + [raised(x) for x in inputs] if self.whole else kept

    def restore(self, residuals: Tensors, statics: Sequence[Any] | None = None) -> Any:
        """Return the tree of kept values around new tensors; `statics` replaces the leaves that are none."""
        tensors = iter(residuals)
        found = [x for _, x in self.sources] if statics is None else statics
        leaves = [
            x if kind == "static" else next(tensors) for x, (kind, _) in zip(found, self.sources, strict=True)
        ]
        return unflatten(self.structure, leaves)


# Whether a compiled function notes that a call has rules; not inside of a call that is noted already.
noting: ContextVar[bool] = ContextVar("everyo_noting", default=True)


def carriers(x: Any) -> set[Any]:
    """Return who differentiates with respect to `x`: interpreters, and None for the eager tape."""
    found: set[Any] = set()
    for t in downwards(x):
        data = t.data
        inside = isinstance(data, Traced)
        if t.grad_node is not None or (inside and (isinstance(data, Dual) or data.interpreter.follows)):
            found.add(data.interpreter if inside else None)
    return found


def carries(x: Any) -> bool:
    """Return whether `x` is being differentiated with respect to something."""
    return bool(carriers(x))


def needs_rules(inputs: Sequence[Any]) -> bool:
    """Return whether a call on `inputs` needs its derivative rules; in a compiled function it may."""
    if staging.get() is not None and noting.get():
        return any(isinstance(x, Tensor) and floating(x.dtype) for x in inputs)
    grad = current_mode().grad
    return any(grad if c is None else not is_constant(c.level) for x in inputs for c in carriers(x))


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
            remedy="return a tensor, or None for zero",
        )
    value = creation.as_tensor(value)
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


def not_linear(name: str, rule: str, found: str) -> UnsupportedOperationError:
    """Return the error for a rule that has no transpose, as something in it is not linear."""
    if found in ("numpy()", "stop_gradient", "no_grad"):
        return not_traceable(name, rule, "transposed")
    backward = rule == "backward"
    vector = "the incoming gradient" if backward else "the tangents"
    return UnsupportedOperationError(
        f"its {rule} is not linear in {vector}, so that it has no transpose for "
        + ("forward mode" if backward else "reverse mode"),
        operation=name,
        expected=f"sums of {vector} times what does not depend on {'it' if backward else 'them'}",
        found=found,
        remedy="give it a rule for forward mode too (an autograd.Function with jvp), or differentiate in "
        "reverse mode alone: eo.grad, eo.vjp, eo.vhp"
        if backward
        else "write it as a custom_vjp or an autograd.Function, or differentiate in forward mode: eo.jvp",
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
