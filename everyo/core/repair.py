"""NaN that is no derivative: an infinite slope times a cotangent of 0, in elementwise rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from everyo.core.device import Backend, backend_of
from everyo.core.operands import WEAK
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, staging

# Elementwise operations with a slope that is infinite, or none, at finite operands; and some of which that
# is so at infinite ones: `arctan2`, `hypot`, `logaddexp`, `tan`. A test compares the first with the rules.
_STEEP = frozenset(
    {"arccos", "arccosh", "arcsin", "arctan2", "arctanh", "bessel_i", "bessel_y", "beta", "beta_density",
     "betainc", "betainc_by_parameters", "betaincinv", "betaln", "boxcox", "boxcox1p", "cbrt", "cosh",
     "digamma", "divide", "ellipe", "ellipk", "ellipkm1", "elliptic_e", "elliptic_k", "entr", "erfcinv",
     "erfcx", "erfcx_derivative", "erfinv", "exp", "exp1", "exp2", "expi", "expm1", "expn", "exprel",
     "exprel_derivative", "fmod", "fraction", "gamma", "gamma_density", "gammainc", "gammainc_by_a",
     "gammaincc", "gammainccinv", "gammaincinv", "gammaln", "huber", "hypot", "inv_boxcox", "inv_boxcox1p",
     "iv", "k0", "k0e", "k1", "k1e", "kl_div", "kv", "kve", "kve_derivative", "log", "log10", "log1p",
     "log2", "log_quotient", "log_ratio", "logaddexp", "logaddexp2", "logit", "ndtri", "polygamma",
     "polygamma_difference", "power", "power_derivative", "power_moment", "pseudo_huber", "reciprocal",
     "rel_entr", "relative_distance", "remainder", "rsqrt", "sinh", "spence", "sqrt", "tan", "xlog1py",
     "xlogy", "yv", "zeta"}
)  # fmt: skip
_STEEP_IF_COMPLEX = frozenset({"arctan", "arcsinh"})  # at 1j and -1j


class _Unwatched:
    """Stands for a watch where a function is traced: any rule may make a NaN when the program runs."""

    @property
    def tripped(self) -> bool:
        return True

    @tripped.setter
    def tripped(self, value: bool) -> None:
        pass

    def __enter__(self) -> _Unwatched:
        return self

    def __exit__(self, *exc: Any) -> None:
        pass


def watch_over(backend: Backend) -> Any:
    """Return a context manager that tells whether a rule has made a NaN; see `Backend.quiet`."""
    return backend.quiet() if staging.get() is None else _Unwatched()


def may_repair(primitive: Primitive, g: Any) -> bool:
    """Whether a NaN that a rule made of a cotangent or tangent may be an infinite slope times nothing.

    A program that is traced holds the repair of the steep operations alone, so that others cost nothing.
    """
    if primitive.family != "elementwise":
        return False
    steep = primitive.silent or primitive.name in _STEEP
    return steep or staging.get() is None or (primitive.name in _STEEP_IF_COMPLEX and g.dtype.kind == "c")


def holds_nan(cotangents: Sequence[Any]) -> bool:
    """Whether cotangents or tangents have a NaN, or may have one: a program's."""
    for c in cotangents:
        data = c
        while isinstance(data, (Tensor, Traced)):
            if isinstance(data, Tensor):
                data = data.data
            elif staging.get() is not None:
                return True
            else:
                data = data.below
        backend = backend_of(data)
        if backend is not None and backend.xp.holds_nan(data):
            return True
    return False


def telling(primitive: Primitive, saved: Sequence[Any], results: Iterable[bool]) -> list[Any]:
    """Return the residuals whose NaN says that an operand is NaN; `results` tells which are the result.

    A result may be NaN at numbers, as that of ``sqrt`` at -1, and tells nothing where the operands do.
    """
    operands = [x for x, result in zip(saved, results) if not result]
    read = sum(hasattr(x, "dtype") or type(x) in WEAK for x in operands)
    return operands if primitive.silent or read == len(primitive.input_names) else [*saved]


def repair(
    pull: Callable[..., Sequence[Any]],
    cotangents: Sequence[Any],
    g: Any,
    saved: Sequence[Any],
    known: Any,
    silent: bool,
    infinite: bool = False,
) -> list[Any]:
    """Set NaN to 0 where the incoming cotangent is 0: an infinite slope times nothing is nothing.

    What is NaN because an operand is, as the residuals `known` tell, stays NaN, and a finite slope stays: the
    derivative with respect to the incoming cotangent is that slope also where it is 0. Called only when an
    elementwise rule, ``pull(g, saved)``, made a NaN. The convention can hide an indeterminate form:
    ``sqrt(x) * sqrt(x)`` at 0 sends a cotangent of 0 into an infinite slope and gets the gradient 0, where
    the limit is 1.

    A slope of exactly 0 counts likewise: of a finite cotangent, which only overflowed on its way, and where
    `infinite` says so, of an infinite one. `silent` is what the primitive says.
    """
    number = _throughout(known, _is_number)
    dead = _both(op.equal(g, 0), number)
    lost = [None if c is None else _both(op.isnan(c), number) for c in cotangents]
    nothing = [None if at is None else op.logical_and(at, dead) for at in lost]
    repaired = _zeroed(cotangents, nothing)
    if staging.get() is not None:  # a traced program would pay for more in every call
        return repaired
    again = False
    if holds_nan(repaired):
        met = op.logical_not(op.isnan(g)) if infinite else op.isfinite(g)
        slopes = pull(op.ones_like(g), saved)
        for i, at in enumerate(lost):
            if at is not None:
                flat = op.logical_and(op.equal(slopes[i], 0), met)
                nothing[i] = op.logical_or(op.logical_and(flat, at), nothing[i])
        again = True
    if any(isinstance(c, Tensor) for c in cotangents):
        if not silent:  # at infinite operands a NaN may have derivatives, as the slope of `hypot`
            finite = _throughout(known, op.isfinite)
            lost = [None if at is None else _both(at, finite) for at in lost]
        cut = [None if at is None else op.logical_or(at, zero) for at, zero in zip(lost, nothing)]
        cotangents = _differentiable(pull, g, saved, cut, dead)
        again = True
    return _zeroed(cotangents, nothing) if again else repaired


def _throughout(known: Iterable[Any], says: Callable[[Any], Any]) -> Any:
    """Return where something holds of all residuals, or True for everywhere."""
    found: Any = True
    for residual in known:
        if getattr(residual, "dtype", None) is not None:
            found = _both(says(residual), found)
    return found


def _is_number(x: Any) -> Any:
    number = op.logical_not(op.isnan(x))
    if x.dtype.kind == "c":  # with one infinite part it is infinite, whatever the other is
        number = op.logical_or(number, op.isinf(x))
    return number


def _both(places: Any, others: Any) -> Any:
    return places if others is True else op.logical_and(places, others)


def _zeroed(cotangents: Sequence[Any], places: Sequence[Any]) -> list[Any]:
    return [None if c is None else op.where(at, op.zeros_like(c), c) for c, at in zip(cotangents, places)]


def _differentiable(
    pull: Callable[..., Sequence[Any]], g: Any, saved: Sequence[Any], cut: Sequence[Any], dead: Any
) -> list[Any]:
    """Return what a rule makes, with nothing going back through it where `cut` says so.

    To its own derivatives a NaN inside it is an operand, and would count as the user's. Where `g` is 0, what
    the rule makes depends on `g` alone.
    """
    made: list[Any] = []
    for i, at in enumerate(cut):
        if at is None:
            made.append(None)
            continue
        held = [_held(x, op.logical_or(dead, at)) for x in saved]
        c = pull(_held(g, at), held)[i]
        made.append(op.where(at, _cut_off(c, [g, *saved]), c) if holds_nan([c]) else c)
    return made


def _varies(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.kind in "fc"


def _held(x: Any, places: Any) -> Any:
    """Return a tensor that is constant at some places; what is none stays."""
    return op.where(places, x.detach(), x) if _varies(x) else x


def _cut_off(c: Any, operands: Iterable[Any]) -> Any:
    """Return a cotangent that is NaN, as it depends on operands by NaN slopes and by nothing else."""
    made = c.detach()
    for x in filter(_varies, operands):
        part = _undefined(x)
        if x.dtype != c.dtype:
            part = op.astype(part if c.dtype.kind == "c" else op.real(part), dtype=c.dtype)
        made = made + part
    return made


def undefined(xp: Any, x: Any) -> Any:
    """NaN, with derivatives that are NaN wherever they are not repaired."""
    return xp.full_like(x, math.nan)


_undefined: Primitive = Primitive(
    undefined,
    vjp=[lambda g, out: _undefined(g) + _undefined(out)],  # the second summand for derivatives of this one
    jvp=[lambda t, out: _undefined(t) + _undefined(out)],
    family="elementwise",
    silent=True,
    listed=False,
)
