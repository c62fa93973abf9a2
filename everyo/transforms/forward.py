"""Forward mode: `jvp` pushes tangents through a function beside its values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import outlived, wrap
from everyo.core.modes import current_mode, reset_mode, set_mode
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, rule_arguments
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.walk import repair
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe


class JVPTensor(Tensor):
    """A value of one level together with its tangent; both live on the level below.

    Its data is always a tensor, never a raw array, so that no kernel takes it where its interpreter is
    not active (in another thread, or after its end) and loses the tangent.
    """

    __slots__ = ()  # as Tensor: an object takes the class of the value that is assigned to it

    def __init__(self, primal: Any, tangent: Any, interpreter: JVPInterpreter) -> None:
        self.data, self.transform = _tensor(primal), (interpreter, tangent)
        self.grad_node = self.grad = None

    @property
    def level(self) -> int:  # type: ignore[override]
        """The level of the transformation that pairs the two."""
        return self.transform[0].level

    @property
    def tangent(self) -> Any:
        """The tangent."""
        return self.transform[1]


class JVPInterpreter:
    """Processes primitives on `JVPTensor` values of its level.

    Attributes
    ----------
    level : int
        How deep it is nested, from 1.
    adopted : list of weakref
        Tensors from outside that took one of its values in place; `release` gives them the value alone.
    """

    def __init__(self, level: int, watch: Any) -> None:
        self.level, self.watch = level, watch
        self.adopted: list[weakref.ref[Tensor]] = []

    def release(self) -> None:
        """Take the tangents out of tensors that outlive the transformation."""
        for reference in self.adopted:
            x = reference()
            if isinstance(x, JVPTensor) and x.transform[0] is self:
                x.assign(_tensor(x.data))

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute the primitive on the primals, push the tangents, and pair the two."""
        primals, tangents = [], []
        for x in inputs:
            ours = isinstance(x, JVPTensor) and x.transform[0] is self
            if not ours and getattr(x, "level", 0) >= self.level:
                raise outlived(primitive.name)
            primals.append(_below(x.data if ours else x))
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
            return primitive(
                *(op.zeros_like(p) if t is None and _arraylike(p) else t for p, t in pairs), **params
            )
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
        return JVPTensor(out, tangent, self)


def _plain(x: Any) -> bool:
    """Whether `x` is an eager tensor without a graph, which may as well stay raw below."""
    return type(x) is Tensor and x.grad_node is None


def _arraylike(x: Any) -> bool:
    return hasattr(x, "shape")


def _residuals(
    primitive: Primitive, rule: Any, primals: list[Any], out: Any, params: dict[str, Any]
) -> list[Any]:
    """Return what `rule` reads, by the names of its arguments."""
    found: list[Any] = []
    for name in rule_arguments(rule):
        base = name.removesuffix("_shape").removesuffix("_dtype")
        if name == "out":
            found.append(out)
        elif name in params:
            found.append(params[name])
        elif primitive.variadic and base == primitive.input_names[-1]:
            attribute = name[len(base) + 1 :]
            group = primals[primitive.leading :]
            found.append(tuple(getattr(p, attribute) for p in group) if attribute else tuple(group))
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
    from everyo.ops.creation import as_tensor

    for given, role in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(given, (tuple, list)):
            raise DTypeError(
                f"the {role} are not a sequence",
                operation="jvp",
                expected="a tuple with one tensor for each argument of the function",
                found=type(given).__name__,
                remedy="write jvp(f, (x,), (v,)) for a function of one argument",
            )
    if not primals:
        raise ArgumentError("there are no primals", operation="jvp", expected="at least one", found="none")
    points = [as_tensor(p) for p in primals]
    directions = [as_tensor(t) for t in tangents]
    if len(points) != len(directions):
        raise ShapeError(
            "there must be one tangent for each primal",
            operation="jvp",
            expected=f"{len(points)} tangents",
            found=f"{len(directions)}",
            remedy="pass zeros for an argument that does not move",
        )
    for p, t in zip(points, directions, strict=True):
        if tuple(p.shape) != tuple(t.shape):
            raise ShapeError(
                "a tangent has another shape than its primal",
                operation="jvp",
                inputs=describe(p, t),
                expected=f"shape {tuple(p.shape)}",
                found=f"shape {tuple(t.shape)}",
                remedy="pass a tangent of the primal's shape",
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
            pairs = zip(points, directions, strict=True)
            lower = [JVPTensor(_below(p), _below(t), interpreter) for p, t in pairs]
            result = function(*lower)
            if not isinstance(result, Tensor):
                raise DTypeError(
                    "the function did not return a tensor",
                    operation="jvp",
                    expected="one tensor",
                    found=type(result).__name__,
                    remedy="return a tensor; eo.stack or eo.concat joins several",
                )
            if isinstance(result, JVPTensor) and result.transform[0] is interpreter:
                return _tensor(result.data), _tensor(result.tangent)
            return result, op.zeros_like(result)
        finally:
            reset_mode(token)
            interpreter.release()


def _below(x: Tensor) -> Any:
    """Return what the level below computes with: an eager tensor without a graph may as well stay raw."""
    return x.data if _plain(x) else x


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)
