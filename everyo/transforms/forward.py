"""Forward mode: `jvp` pushes tangents through a function beside its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import wrap
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, rule_arguments
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import Interpreter, Traced
from everyo.core.walk import repair
from everyo.errors import ArgumentError, DTypeError, GraphStateError, ShapeError, describe
from everyo.transforms.levels import as_tensor, lower, raised
from everyo.transforms.trees import differentiable, flatten, matching, split_aux, unflatten


class Dual(Traced):
    """A value and its tangent, both of the level below."""

    __slots__ = ("primal", "tangent")

    def __init__(self, interpreter: Interpreter, primal: Any, tangent: Any) -> None:
        self.interpreter, self.primal, self.tangent = interpreter, primal, tangent

    @property
    def below(self) -> Any:
        return self.primal

    def concrete(self, operation: str) -> Any:
        if operation == "numpy":
            raise GraphStateError(
                "the tensor has a tangent, and a NumPy array would lose it",
                operation=operation,
                inputs=describe(self),
                expected="a tensor that is not differentiated",
                found="a value inside jvp",
                remedy="detach it first: x.detach().numpy()",
            )
        return self.primal


class JVPInterpreter(Interpreter):
    """Computes each operation on the primals and pushes the tangents beside it."""

    name = "jvp"

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self._quiet = backend.quiet()

    def __enter__(self) -> Any:
        self.watch = self._quiet.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._quiet.__exit__(*exc)
        super().__exit__(*exc)

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute the primitive on the primals, push the tangents, and pair the two."""
        primals = [x.data.primal if self.mine(x) else lower(x) for x in inputs]
        tangents = [x.data.tangent if self.mine(x) else None for x in inputs]
        out = primitive(*primals, **params)
        if primitive.jvp is None or all(t is None for t in tangents):
            return self.pair(out, None)
        return self.pair(out, self._push(primitive, primals, tangents, out, params))

    def _push(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], out: Any, params: dict[str, Any]
    ) -> Any:
        self.watch.tripped = False
        if primitive.jvp is LINEAR:
            pairs = zip(primals, tangents, strict=True)
            return primitive(*(_zero(p) if t is None else t for p, t in pairs), **params)
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

    def pair(self, out: Any, tangent: Any) -> Any:
        """Return a value with its tangent; without one it is a constant of the level below."""
        if isinstance(out, tuple):
            tangents = (None,) * len(out) if tangent is None else tangent
            return tuple(self.pair(o, t) for o, t in zip(out, tangents, strict=True))
        return raised(out) if tangent is None else wrap(Dual(self, out, tangent))

    def unpair(self, result: Any) -> tuple[Tensor, Tensor]:
        """Return value and tangent of a result of the function, as tensors of the level below."""
        if self.mine(result):
            return raised(result.data.primal), raised(result.data.tangent)
        value = as_tensor(result)
        return value, op.zeros_like(value)


def _zero(primal: Any) -> Any:
    """Return the tangent of a constant."""
    return op.zeros_like(primal) if hasattr(primal, "shape") else None if primal is None else 0.0


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
        The direction: for each primal one of its structure, shapes and dtypes.
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
    for given, role in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(given, (tuple, list)):
            raise DTypeError(
                f"the {role} are not a sequence",
                operation="jvp",
                expected="a tuple with one entry for each argument of the function",
                found=type(given).__name__,
                remedy="write jvp(f, (x,), (v,)) for a function of one argument",
            )
    leaves, structure = flatten(tuple(primals))
    points = differentiable(leaves, "jvp")
    directions = [as_tensor(t) for t in matching(tuple(tangents), structure, "jvp")]
    for p, t in zip(points, directions, strict=True):
        _require_fit(p, t)
    if not points:
        raise ArgumentError(
            "there is nothing to differentiate", operation="jvp", expected="at least one tensor"
        )
    with JVPInterpreter(points[0].backend) as interpreter:
        duals = [interpreter.pair(lower(p), lower(t)) for p, t in zip(points, directions, strict=True)]
        result = function(*unflatten(structure, duals))
        result, aux = split_aux(result, has_aux, "jvp")
        outputs, output_structure = flatten(result)
        pairs = [interpreter.unpair(interpreter.released(o)) for o in outputs]
        kept, aux_structure = flatten(aux)
        kept = [interpreter.unpair(x)[0] if isinstance(x, Tensor) else x for x in kept]
    value = unflatten(output_structure, [v for v, _ in pairs])
    tangent = unflatten(output_structure, [t for _, t in pairs])
    return (value, tangent, unflatten(aux_structure, kept)) if has_aux else (value, tangent)


def _require_fit(primal: Tensor, tangent: Tensor) -> None:
    """Raise unless a tangent has the shape and dtype of its primal."""
    if tuple(primal.shape) != tuple(tangent.shape):
        raise ShapeError(
            "a tangent has another shape than its primal",
            operation="jvp",
            inputs=describe(primal, tangent),
            expected=f"shape {tuple(primal.shape)}",
            found=f"shape {tuple(tangent.shape)}",
        )
    if primal.dtype != tangent.dtype:
        raise DTypeError(
            "primal and tangent must have one floating dtype",
            operation="jvp",
            inputs=describe(primal, tangent),
            expected=str(primal.dtype),
            found=str(tangent.dtype),
            remedy="convert one with astype",
        )
