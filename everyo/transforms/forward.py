"""Forward mode: `jvp` pushes tangents through a function beside its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.modes import begin, current_mode, is_constant
from everyo.core.ownership import as_changeable
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, no_rule
from everyo.core.registry import op
from everyo.core.repair import holds_nan, may_repair, repair, telling, watch_over
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Interpreter, Traced
from everyo.errors import DTypeError, GraphStateError, describe
from everyo.guidance.conversions import instead
from everyo.ops.creation import as_tensor
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_function
from everyo.transforms.directions import fitting
from everyo.transforms.levels import lower, raised
from everyo.transforms.trees import (
    differentiable,
    flatten,
    matching,
    require_some,
    returned,
    split_aux,
    tree_map,
    unflatten,
)


class Dual(Traced):
    """A value and its tangent, both of the level below."""

    __slots__ = ("tangent",)
    differentiated = True

    def __init__(self, interpreter: Interpreter, primal: Any, tangent: Any) -> None:
        self.interpreter, self.below, self.tangent = interpreter, primal, tangent

    def concrete(self, operation: str) -> Any:
        if operation in ("numpy", "__dlpack__"):
            raise GraphStateError(
                "the tensor has a tangent, and a NumPy array would lose it",
                operation=operation,
                inputs=describe(self),
                expected="a tensor that is not differentiated",
                found="a value inside jvp",
                remedy=instead(
                    "detach it first: x.detach().numpy()", "; for an array without it x.detach().numpy()"
                ),
            )
        return self.below


class JVPInterpreter(Interpreter):
    """Computes each operation on the primals and pushes the tangents beside it."""

    name = "jvp"

    def __init__(self, backend: Any) -> None:
        super().__init__()
        begin(self.level)
        self._quiet = watch_over(backend)

    def __enter__(self) -> Any:
        self.watch = self._quiet.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._quiet.__exit__(*exc)
        super().__exit__(*exc)

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute the primitive on the primals, push the tangents, and pair the two.

        Inside a `no_grad` block that the function itself has begun, no tangents are pushed.
        """
        primals, tangents = [], []
        for x in inputs:
            data: Any = x.data if isinstance(x, Tensor) else None
            mine = data.__class__ is Dual and data.interpreter is self  # as `mine` does, without its call
            primals.append(data.below if mine else lower(x))
            tangents.append(data.tangent if mine else None)
        out = primitive.on(primals, params)
        if primitive.jvp is None or (current_mode().held >= 0 and is_constant(self.level)):
            return self.pair(out, None)
        return self.pair(out, self._push(primitive, primals, tangents, out, params))

    def _push(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], out: Any, params: dict[str, Any]
    ) -> Any:
        """Return the tangent of the result, or None for zero."""
        rules: Any = primitive.jvp
        if rules is LINEAR:
            pairs = zip(primals, tangents)
            return primitive(*[_zero(p) if t is None else t for p, t in pairs], **params)
        if callable(rules):
            return rules(tangents, *primitive.reader(rules, len(primals))(params, out, *primals))
        total = None
        for i, t in enumerate(tangents):
            if t is None:
                continue
            if rules is BILINEAR:
                term = primitive(*primals[:i], t, *primals[i + 1 :], **params)
            else:
                term = self._partial(primitive, i, t, primals, out, params)
            if term is not None:
                total = term if total is None else total + term
        if total is None or isinstance(total, tuple):  # a tuple for several results
            return total
        if total.shape != out.shape or total.dtype != out.dtype:
            total = op.broadcast_to(op.astype(total, dtype=out.dtype), shape=tuple(out.shape))
        return total

    def _partial(
        self, primitive: Primitive, i: int, t: Any, primals: list[Any], out: Any, params: dict[str, Any]
    ) -> Any:
        """Return what the rule of input `i` makes of its tangent."""
        rules: Any = primitive.jvp
        rule = rules[i]
        if rule is None:
            raise no_rule(primitive, i)
        residuals = primitive.reader(rule, len(primals))(params, out, *primals)
        self.watch.tripped = False
        term = rule(t, *residuals)
        made = self.watch.tripped or (primitive.silent and holds_nan([term]))
        if made and may_repair(primitive, t):
            known = telling(primitive, residuals, [x is out for x in residuals])
            (term,) = repair(
                lambda t, read: [rule(t, *read)], [term], t, residuals, known, primitive.silent, infinite=True
            )
        return term

    def pair(self, out: Any, tangent: Any) -> Any:
        """Return a value with its tangent; without one it is a constant of the level below."""
        if isinstance(out, tuple):
            tangents = (None,) * len(out) if tangent is None else tangent
            return tuple(self.pair(o, t) for o, t in zip(out, tangents, strict=True))
        return raised(out) if tangent is None else wrap(Dual(self, out, tangent))

    def unpair(self, result: Any) -> tuple[Tensor, Tensor]:
        """Return value and tangent of a result of the function, as tensors of the level below."""
        if self.mine(result):
            return raised(result.data.below), raised(result.data.tangent)
        value = as_tensor(result)
        return value, op.zeros_like(value)


def _zero(primal: Any) -> Any:
    """Return the tangent of a constant."""
    return op.zeros_like(primal) if hasattr(primal, "shape") else None if primal is None else 0.0


@explained
def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> Any:
    """Return the value of a function and its directional derivative.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees of tensors.
    primals : sequence of pytrees of tensors
        Where it is evaluated: one for each argument.
    tangents : sequence of pytrees of tensors
        The direction: for each primal one of its structure, shapes and dtypes. A Python number takes the
        dtype of its primal.
    has_aux : bool, default False
        The function returns ``(value, aux)``; `aux` is then returned as a third item.

    Returns
    -------
    value, tangent : pytrees of tensors
        ``function(*primals)`` and ``J @ tangents``.

    Raises
    ------
    ShapeError, DTypeError
        If a tangent does not fit its primal, or the function returns no tensor.
    ArgumentError
        If there are no primals.

    Examples
    --------
    >>> import everyo as eo
    >>> value, tangent = eo.jvp(lambda x: x * x, (eo.tensor([3.0]),), (eo.tensor([1.0]),))
    >>> print(value, tangent)
    [9.] [6.]
    """
    return along(function, primals, tangents, has_aux, "jvp")


def along(
    function: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool,
    operation: str,
) -> Any:
    """Return what `jvp` returns; `operation` is what errors name."""
    require_function(operation, function)
    for given, role in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(given, (tuple, list)):
            raise DTypeError(
                f"the {role} are not a sequence",
                operation=operation,
                expected="a tuple with one entry for each argument of the function",
                found=type(given).__name__,
                remedy="write jvp(f, (x,), (v,)) for a function of one argument",
            )
    leaves, structure = flatten(tuple(primals))
    points = differentiable(leaves, operation)
    directions = fitting(matching(tuple(tangents), structure, operation), points, operation, "tangent")
    require_some(points, operation)

    def call(duals: Sequence[Tensor]) -> Any:
        return function(*unflatten(structure, duals))

    values, pushed, output_structure, aux = push(call, points, directions, has_aux, operation)
    value, tangent = unflatten(output_structure, values), unflatten(output_structure, pushed)
    return (value, tangent, aux) if has_aux else (value, tangent)


def push(
    call: Callable[[Sequence[Tensor]], Any],
    points: Sequence[Tensor],
    directions: Sequence[Tensor],
    has_aux: bool,
    operation: str,
) -> tuple[list[Tensor], list[Tensor], Any, Any]:
    """Call a function on points with tangents; return values, tangents and structure of its result.

    Last comes the auxiliary data, whose tensors are those of the level below.
    """
    with JVPInterpreter(points[0].backend) as interpreter:
        pairs = zip(points, directions, strict=True)
        duals = [as_changeable(interpreter.pair(lower(p), lower(t)), p) for p, t in pairs]
        result, aux = split_aux(call(duals), has_aux, operation)
        leaves, structure = flatten(result)
        values, tangents = [], []
        for leaf in leaves:
            value, tangent = interpreter.unpair(returned(interpreter.released(leaf), operation))
            values.append(value)
            tangents.append(tangent)
        if has_aux:
            aux = tree_map(lambda x: interpreter.unpair(x)[0] if isinstance(x, Tensor) else x, aux)
    return values, tangents, structure, aux
