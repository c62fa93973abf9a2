"""Forward mode: `jvp` pushes tangents through a function beside its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.backward import repair
from everyo.core.dispatch import wrap
from everyo.core.modes import current_mode, reset_mode, set_mode
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, rule_arguments
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, ShapeError, describe


class JVPTensor(Tensor):
    """A value of one level together with its tangent; both live on the level below."""

    __slots__ = ("level", "tangent")

    def __init__(self, primal: Any, tangent: Any, level: int) -> None:
        self.data, self.tangent, self.level = primal, tangent, level
        self.grad_node = self.grad = None


class JVPInterpreter:
    """Processes primitives on `JVPTensor` values of its level."""

    def __init__(self, level: int, watch: Any) -> None:
        self.level, self.watch = level, watch

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute the primitive on the primals, push the tangents, and pair the two."""
        primals, tangents = [], []
        for x in inputs:
            ours = isinstance(x, JVPTensor) and x.level == self.level
            primals.append(x.data if ours else x.data if _plain(x) else x)
            tangents.append(x.tangent if ours else None)
        out = primitive(*primals, **params)
        if primitive.jvp is None or all(t is None for t in tangents):
            return self._pair(out, None)
        return self._pair(out, self._push(primitive, primals, tangents, out, params))

    def _push(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], out: Any, params: dict[str, Any]
    ) -> Any:
        self.watch.tripped = False
        if primitive.jvp is LINEAR:
            pairs = zip(primals, tangents, strict=True)
            return primitive(*(op.zeros_like(p) if t is None and _arraylike(p) else t for p, t in pairs), **params)
        if primitive.jvp is BILINEAR:
            terms = [
                primitive(*primals[:i], t, *primals[i + 1 :], **params)
                for i, t in enumerate(tangents)
                if t is not None
            ]
        elif callable(primitive.jvp):
            return primitive.jvp(tangents, *_residuals(primitive, primitive.jvp, primals, out, params))
        else:
            terms = []
            for i, t in enumerate(tangents):
                rule = primitive.jvp[i] if primitive.jvp else None
                if t is None or rule is None:
                    continue
                residuals = _residuals(primitive, rule, primals, out, params)
                term = rule(t, *residuals)
                if self.watch.tripped and primitive.family == "elementwise":
                    (term,) = repair([term], t, residuals)
                    self.watch.tripped = False
                terms.append(term)
        total = terms[0] if terms else None
        for term in terms[1:]:
            total = total + term
        if total is not None and (total.shape != out.shape or total.dtype != out.dtype):
            total = op.broadcast_to(op.astype(total, dtype=out.dtype), shape=tuple(out.shape))
        return total

    def _pair(self, out: Any, tangent: Any) -> Any:
        if isinstance(out, tuple):
            tangents = (None,) * len(out) if tangent is None else tangent
            return tuple(self._pair(o, t) for o, t in zip(out, tangents, strict=True))
        if tangent is None:
            return out if isinstance(out, Tensor) else wrap(out)
        return JVPTensor(out, tangent, self.level)


def _plain(x: Any) -> bool:
    """Whether `x` is an eager tensor without a graph, which may as well stay raw below."""
    return type(x) is Tensor and x.grad_node is None


def _arraylike(x: Any) -> bool:
    return hasattr(x, "shape")


def _residuals(primitive: Primitive, rule: Any, primals: list[Any], out: Any, params: dict[str, Any]) -> list[Any]:
    """Return what `rule` reads, by the names of its arguments."""
    found: list[Any] = []
    for name in rule_arguments(rule):
        base = name.removesuffix("_shape").removesuffix("_dtype")
        if name == "out":
            found.append(out)
        elif name in params:
            found.append(params[name])
        elif primitive.variadic:
            attribute = name[len(base) + 1 :]
            found.append(tuple(getattr(p, attribute) for p in primals) if attribute else tuple(primals))
        elif name in primitive.input_names:
            found.append(primals[primitive.input_names.index(name)])
        else:
            value = primals[primitive.input_names.index(base)]
            found.append(getattr(value, name[len(base) + 1 :]))
    return found


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return the value of a function and its directional derivative.

    Parameters
    ----------
    function : callable
        Takes tensors, returns a tensor.
    primals : sequence of tensors
        Where it is evaluated.
    tangents : sequence of tensors
        The direction: one tangent for each primal, of its shape and dtype.

    Returns
    -------
    value, tangent : Tensor
        ``function(*primals)`` and ``J @ tangents``, of the value's shape.

    Raises
    ------
    ShapeError, DTypeError
        If a tangent does not fit its primal.

    Examples
    --------
    >>> import everyo as eo
    >>> value, tangent = eo.jvp(lambda x: x * x, (eo.tensor([3.0]),), (eo.tensor([1.0]),))
    >>> print(value, tangent)
    [9.] [6.]
    """
    from everyo.ops.creation import as_tensor

    points = [as_tensor(p) for p in primals]
    directions = [as_tensor(t) for t in tangents]
    if len(points) != len(directions):
        raise ShapeError(
            "there must be one tangent for each primal",
            operation="jvp",
            expected=f"{len(points)} tangents",
            found=f"{len(directions)}",
        )
    for p, t in zip(points, directions, strict=True):
        if tuple(p.shape) != tuple(t.shape):
            raise ShapeError(
                "a tangent has another shape than its primal",
                operation="jvp",
                inputs=describe(p, t),
                expected=f"shape {tuple(p.shape)}",
                found=f"shape {tuple(t.shape)}",
            )
        if p.dtype != t.dtype or p.dtype.kind not in "fc":
            raise DTypeError(
                "primal and tangent must have one floating dtype",
                operation="jvp",
                inputs=describe(p, t),
                expected="the same float or complex dtype",
                found=f"{p.dtype} and {t.dtype}",
                remedy="convert them with astype",
            )
    mode = current_mode()
    level = len(mode.interpreters) + 1
    with points[0].backend.quiet() as watch:
        interpreter = JVPInterpreter(level, watch)
        token = set_mode(mode.replace(interpreters=(*mode.interpreters, interpreter)))
        try:
            lower = [
                JVPTensor(*(x.data if _plain(x) else x for x in pair), level)
                for pair in zip(points, directions, strict=True)
            ]
            result = function(*lower)
        finally:
            reset_mode(token)
    if isinstance(result, JVPTensor) and result.level == level:
        value, tangent = result.data, result.tangent
        return _tensor(value), _tensor(tangent)
    return _tensor(result), wrap(result.backend.xp.zeros_like(result.data))


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)
