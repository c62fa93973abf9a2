"""Products with logarithms, whose limit at 0 is 0, and relative entropies."""

from __future__ import annotations

import math
from typing import Any

from everyo.backends.accelerated import fused
from everyo.core.dtypes import float64
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.ops.families import elementwise
from everyo.ops.special.kernels import in_double, real, scipy

__all__ = ["entr", "kl_div", "rel_entr", "xlog1py", "xlogy"]


_TINY = 1e-290  # quotients below have lost digits, or all


def _pairs() -> list[Sample]:
    shapes = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,)), ((4, 1, 2), (3, 1))]
    return [*(sample(*pair) for pair in shapes), sample(Values([0.5, 1.0, 3.0]), Values([0.5, 1.5, 0.25]))]


def _logarithms() -> list[Sample]:
    return [*_pairs(), sample(Values([0.0, 0.0, -1.5]), Values([0.5, 2.0, 1.0]))]


def _by_divisor(g: Any, x1: Any, x2: Any) -> Any:
    return -g * op.fraction(op.fraction(x1, x2), x2)


@elementwise(lambda g, x2: g / x2, _by_divisor, domain=((0.3, 2.0), (0.3, 2.0)), samples=_pairs)
def _fraction(xp: Any, x1: Any, x2: Any) -> Any:
    """``x1 / x2``, also 0 where both are 0: there the slopes are those along the axes, ``1 / x2`` and 0."""
    dtype = xp.result_type(x1, x2)
    x1, x2 = (xp.asarray(x, dtype=dtype if dtype.kind in "fc" else float64) for x in (x1, x2))
    return xp.divide(x1, xp.where((x1 == 0) & (x2 == 0), xp.ones_like(x2), x2))


@elementwise(
    lambda g, x2: g * op.log(x2),
    lambda g, x1, x2: g * op.fraction(x1, x2),
    domain=((-2.0, 2.0), (0.2, 3.0)),
    samples=_logarithms,
)
def xlogy(xp: Any, x1: Any, x2: Any) -> Any:
    """``x1 log(x2)``, elementwise, and 0 where `x1` is 0.

    ``d xlogy = log(x2) dx1 + x1 / x2 dx2``; at (0, 0) the slopes are those along the axes, ``-inf`` and 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.xlogy(eo.tensor([0.0, 2.0]), eo.tensor([0.0, 1.0])))
    [0. 0.]
    """
    return scipy(xp, "xlogy", x1, x2)


@elementwise(
    lambda g, x2: g * op.log1p(x2),
    lambda g, x1, x2: g * op.fraction(x1, 1 + x2),
    domain=((-2.0, 2.0), (-0.8, 3.0)),
    samples=_logarithms,
)
def xlog1py(xp: Any, x1: Any, x2: Any) -> Any:
    """``x1 log(1 + x2)``, elementwise, accurate for small `x2`, and 0 where `x1` is 0.

    ``d xlog1py = log1p(x2) dx1 + x1 / (1 + x2) dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.xlog1py(eo.tensor([0.0, 2.0]), eo.tensor([-1.0, 0.0])))
    [0. 0.]
    """
    return scipy(xp, "xlog1py", x1, x2)


@elementwise(lambda g, x: g * (-op.log(x) - 1), domain=(0.2, 3.0))
def entr(xp: Any, x: Any) -> Any:
    """Entropy ``-x log(x)``, elementwise; 0 at 0 and ``-inf`` below: ``d entr(x) = -(log(x) + 1) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.entr(eo.tensor([0.0, 2.0, -1.0])))
    [ 0.        -1.3862944      -inf]
    """
    return real(xp, "entr", x)


@elementwise(lambda g, x1: g / x1, lambda g, x2: -g / x2, domain=((0.3, 2.0), (0.3, 2.0)), samples=_pairs)
def _log_ratio(xp: Any, x1: Any, x2: Any) -> Any:
    """``log(x1 / x2)``, accurate where the two are close and where the quotient overflows."""

    def evaluate(x1: Any, x2: Any) -> Any:
        ratio = x1 / x2
        out = xp.where(xp.abs(ratio - 1) < 0.5, xp.log1p((x1 - x2) / x2), xp.log(ratio))
        rare = (ratio < _TINY) | (ratio == math.inf)
        if xp.any(rare):
            out[rare] = xp.log(x1[rare]) - xp.log(x2[rare])
        void = ratio != ratio
        if xp.any(void):
            out[void & (x1 == 0) & (x2 == 0)] = math.inf  # above 0 the functions that use it are infinite
        return out

    return in_double(xp, evaluate, x1, x2)


@elementwise(
    lambda g, x1, x2: g * (op.log_ratio(x1, x2) + 1),
    lambda g, x1, x2: -g * op.fraction(x1, x2),
    domain=((0.3, 2.0), (0.3, 2.0)),
    samples=_pairs,
    silent=True,
)
def rel_entr(xp: Any, x1: Any, x2: Any) -> Any:
    """Relative entropy ``x1 log(x1 / x2)``, elementwise; 0 where `x1` is 0.

    ``d rel_entr = (log(x1 / x2) + 1) dx1 - x1 / x2 dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.rel_entr(eo.tensor([0.0, 2.0, 1.0]), eo.tensor([1.0, 2.0, 0.0])))
    [ 0.  0. inf]
    """
    return real(xp, "rel_entr", x1, x2)


@elementwise(
    lambda g, x2: -g / x2,
    lambda g, x1, x2: -_by_divisor(g, x1, x2),
    domain=((0.3, 2.0), (0.3, 2.0)),
    samples=_pairs,
)
def _relative_distance(xp: Any, x1: Any, x2: Any) -> Any:
    """``(x2 - x1) / x2``, 1 where both are 0; `fraction` loses digits of the slope where `x1` is small."""

    def evaluate(x1: Any, x2: Any) -> Any:
        nothing = (x1 == 0) & (x2 == 0)
        return xp.where(nothing, 1.0, (x2 - x1) / xp.where(nothing, 1.0, x2))

    return in_double(xp, evaluate, x1, x2)


@elementwise(
    lambda g, x1, x2: g * op.log_ratio(x1, x2),
    fused(lambda g, x1, x2: g * op.relative_distance(x1, x2)),
    domain=((0.3, 2.0), (0.3, 2.0)),
    samples=_pairs,
    silent=True,
)
def kl_div(xp: Any, x1: Any, x2: Any) -> Any:
    """Kullback-Leibler divergence ``x1 log(x1 / x2) - x1 + x2``, elementwise.

    ``d kl_div = log(x1 / x2) dx1 + (x2 - x1) / x2 dx2``, both accurate where `x1` and `x2` are close.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.kl_div(eo.tensor([0.0, 2.0]), eo.tensor([1.0, 2.0])))
    [1. 0.]
    """
    out = real(xp, "kl_div", x1, x2)
    lost = xp.isinf(out)
    if xp.any(lost):  # the quotient overflows long before the divergence does
        whole = real(xp, "rel_entr", x1, x2) - x1 + x2
        out = xp.where(lost & (x1 > 0) & (x2 > 0), xp.astype(whole, out.dtype), out)
    return out
