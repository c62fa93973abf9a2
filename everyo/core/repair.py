"""NaN that is no derivative: an infinite slope times a cotangent of 0, in elementwise rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.device import Backend
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
     "exprel_derivative", "fmod", "gamma", "gamma_density", "gammainc", "gammainc_by_a", "gammaincc",
     "gammainccinv", "gammaincinv", "gammaln", "huber", "hypot", "inv_boxcox", "inv_boxcox1p", "iv", "k0",
     "k0e", "k1", "k1e", "kl_div", "kv", "kve", "kve_derivative", "log", "log10", "log1p", "log2",
     "log_quotient", "log_ratio", "logaddexp", "logaddexp2", "logit", "ndtri", "polygamma",
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
    """Whether cotangents or tangents have a NaN, or may have one: a program's or a transformation's."""
    for c in cotangents:
        data = c.data if isinstance(c, Tensor) else c
        if data is not None and (isinstance(data, Traced) or bool(op.any(op.isnan(data)))):
            return True
    return False


def repair(cotangents: Sequence[Any], g: Any, saved: Sequence[Any]) -> list[Any]:
    """Set NaN to 0 where the incoming cotangent is 0: an infinite slope times nothing is nothing.

    A residual that is itself NaN keeps its NaN, and a finite slope stays: the derivative with respect to the
    incoming cotangent is that slope also where it is 0. Called only when an elementwise rule made a NaN. The
    convention can hide an indeterminate form: ``sqrt(x) * sqrt(x)`` at 0 sends a cotangent of 0 into an
    infinite slope and gets the gradient 0, where the limit is 1.
    """
    dead = op.equal(g, 0)
    for residual in saved:
        if getattr(residual, "dtype", None) is not None:
            known = op.logical_not(op.isnan(residual))
            if residual.dtype.kind == "c":  # with one infinite part it is infinite, whatever the other is
                known = op.logical_or(known, op.isinf(residual))
            dead = op.logical_and(dead, known)
    return [
        None if c is None else op.where(op.logical_and(dead, op.isnan(c)), op.zeros_like(c), c)
        for c in cotangents
    ]
