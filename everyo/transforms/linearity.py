"""Transposition of functions that must be linear: decided operation by operation, refused where one is not.

An operation is linear in some operands if what pulls its cotangent back reads none of them, and its result
vanishes where they do. So the functions run once, at zero, and each value is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from everyo.core.dispatch import each
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.modes import is_constant
from everyo.core.primitive import ALL, BILINEAR, LINEAR, OUT, Primitive
from everyo.core.tape import OutputNode
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import innermost, staging
from everyo.errors import EveryOError, UnsupportedOperationError
from everyo.ops.creation import as_tensor, zeros
from everyo.ops.known import Check
from everyo.transforms.levels import lower, raised
from everyo.transforms.reverse import LevelTape, Taped

Refuse = Callable[[str], EveryOError]  # returns the error for what was found
Spec = tuple[tuple[int, ...], Any]
_CONSTANT = "a constant, whatever they are"

# Set while a pullback is being transposed, so that rules of the user's own are asked whether they are linear.
transposing: ContextVar[bool] = ContextVar("everyo_transposing", default=False)


def obstacle(
    primitive: Primitive, moving: Sequence[bool], values: Sequence[Any], params: dict[str, Any], out: Any
) -> str | None:
    """Return why a call is not linear in its `moving` operands together; None if it is.

    `values` are the operands, zero where they move, and `out` is the result.
    """
    if not _is_affine(primitive, moving, values, params):
        return primitive.name
    if not _is_homogeneous(primitive, moving) and is_nonzero(out):
        return _brought_in(primitive)
    return None


def _is_homogeneous(primitive: Primitive, moving: Sequence[bool]) -> bool:
    """Whether the result of a call that is affine surely vanishes where its moving operands do."""
    return primitive.jvp is BILINEAR or (primitive.jvp is LINEAR and all(moving))


def _brought_in(primitive: Primitive) -> str:
    return f"a constant that {primitive.name} brings in"


class Doubt(NamedTuple):
    """A value that must turn out to be zero, and what it is if it does not."""

    value: Any
    culprit: str


def doubts_of(primitive: Primitive, moving: Sequence[bool], operands: Sequence[Any], out: Any) -> list[Doubt]:
    """Return those that a result has from its operands, and its own, where a program alone knows values."""
    if staging.get() is None:
        return []
    found = {id(d.value): d for x, m in zip(operands, moving, strict=True) if m for d in x.data.doubts}
    if not _is_homogeneous(primitive, moving):
        values = out if isinstance(out, tuple) else (out,)
        found.update((id(v), Doubt(v, _brought_in(primitive))) for v in values)
    return list(found.values())


def settle(doubts: Sequence[Doubt], refuse: Refuse) -> None:
    """Let the program that is traced raise the error for a doubt that turns out to be right."""
    tracer = staging.get()
    if tracer is None or not doubts:
        return
    culprits = [d.culprit for d in doubts]

    def check(*arrays: Any) -> None:
        for culprit, array in zip(culprits, arrays, strict=True):
            if _has_nonzero(array):
                raise refuse(culprit)

    tracer.python(Check(check), [tracer.primal(d.value) for d in doubts])


def _is_affine(
    primitive: Primitive, moving: Sequence[bool], values: Sequence[Any], params: dict[str, Any]
) -> bool:
    """Whether the derivative with respect to the moving operands does not depend on them."""
    places = [i for i, m in enumerate(moving) if m]
    declared = primitive.options.get("linear_in")
    if declared is not None:
        declared = declared(params) if callable(declared) else declared
        if set(places) <= set(declared):
            return True
    if primitive.vjp is None or not set(places).isdisjoint(primitive.options.get("jumps", ())):
        return False
    try:
        origins = primitive.plan(sum(1 << i for i in places), len(values)).origins
    except UnsupportedOperationError:  # there is no derivative with respect to one of them
        return False
    read = {o for o in origins if o >= 0}
    if ALL in origins:
        group = tuple(values[primitive.leading :])
        keep = primitive.options.get("keep")
        kept = group if keep is None else keep(group)
        read.update(i for i, value in enumerate(kept, primitive.leading) if value is not None)
    return OUT not in origins and read.isdisjoint(places)


def is_nonzero(value: Any) -> bool:
    """Whether a value, or one of several, surely has an element that is neither zero nor NaN."""
    if staging.get() is not None:  # a program will know: there are doubts
        return False
    if isinstance(value, tuple):
        return any(map(is_nonzero, value))
    return _has_nonzero(innermost(value))


def _has_nonzero(array: Any) -> bool:
    return bool(((array != 0) & (array == array)).any())


class Followed(Taped):
    """A value on the way from the vectors; with `culprit`, an operation on this way that is not linear."""

    __slots__ = ("culprit", "doubts")

    def __init__(
        self, interpreter: LinearTape, below: Any, culprit: str | None = None, doubts: Sequence[Doubt] = ()
    ) -> None:
        self.interpreter, self.below, self.culprit, self.doubts = interpreter, below, culprit, doubts

    def concrete(self, operation: str) -> Any:
        if operation == "print":
            return self.below
        raise self.interpreter.refuse(f"{operation}()")  # type: ignore[attr-defined]


class LinearTape(LevelTape):
    """A tape that records linear functions alone; its variables are zero."""

    linear = True

    def __init__(self, refuse: Refuse) -> None:
        super().__init__()
        self.refuse = refuse

    def variable(self, x: Tensor) -> Tensor:
        """Return a leaf of this level that stands for `x`."""
        leaf = super().variable(x)
        leaf.data = Followed(self, leaf.data.below)
        return leaf

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on the level below; record the call if it is linear, and mark its results if not."""
        moving = [self.mine(x) for x in inputs]
        values = [x.data.below if m else lower(x) for x, m in zip(inputs, moving, strict=True)]
        out = primitive(*values, **params)
        if primitive.options.get("constant"):
            return each(raised, out)
        culprit = next(
            (x.data.culprit for x, m in zip(inputs, moving, strict=True) if m and x.data.culprit), None
        )
        if culprit is None and is_constant(self.level):
            culprit = "no_grad"
        if culprit is None:
            culprit = obstacle(primitive, moving, values, params, out)
        if culprit is None and primitive.family == "custom":
            primitive.require_linear(moving, values, out)  # type: ignore[attr-defined]
        node = None
        doubts = doubts_of(primitive, moving, inputs, out)
        if culprit is None:
            mask = sum(1 << i for i, m in enumerate(moving) if m)
            node = self._record(primitive, inputs, values, params, out, mask)
        if not isinstance(out, tuple):
            return self._followed(out, node, culprit or primitive.name, doubts)
        return tuple(
            self._followed(o, node and OutputNode(node, i), culprit or primitive.name, doubts)
            for i, o in enumerate(out)
        )

    def _linked(self, value: Any, node: Any) -> Tensor:
        return self._followed(value, node, "")

    def _followed(self, value: Any, node: Any, culprit: str, doubts: Sequence[Doubt] = ()) -> Tensor:
        """Return a result with its node; without one, or of a discrete dtype, with the culprit."""
        linear = node is not None and value.dtype.kind in DIFFERENTIABLE
        made = wrap(Followed(self, value, None if linear else culprit, doubts))
        made.grad_node = node if linear else None
        return made

    def required(self, result: Any) -> Tensor:
        """Return a result of the function; raise unless it is linear in the variables."""
        x = as_tensor(self.released(result))
        if not self.mine(x):
            if is_nonzero(x):
                raise self.refuse(_CONSTANT)
            settle([Doubt(x, _CONSTANT)], self.refuse)
        elif x.data.culprit:
            raise self.refuse(x.data.culprit)
        else:
            settle(x.data.doubts, self.refuse)
        return x


def transposed(
    function: Callable[..., Sequence[Any]], specs: Sequence[Spec], refuse: Refuse
) -> Callable[[Sequence[Any]], list[Tensor]]:
    """Return the transpose of a linear function of tensors, from what it returns to what it takes.

    Parameters
    ----------
    function : callable
        Takes tensors of the shapes and dtypes `specs`, returns tensors.
    refuse : callable
        Returns the error where it turns out not to be linear; its argument says what was found.
    """
    with LinearTape(refuse) as tape:
        variables = [tape.variable(zeros(shape, dtype=dtype)) for shape, dtype in specs]
        outputs = [tape.required(x) for x in function(*variables)]
    return lambda seeds: tape.pull(outputs, seeds, retain=True)
