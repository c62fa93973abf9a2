"""The zeta function of Riemann and Hurwitz."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.families import primitive
from everyo.ops.signatures import explained
from everyo.ops.special.domains import PAIRS
from everyo.ops.special.gamma_family import BERNOULLI
from everyo.ops.special.kernels import in_double, real

__all__ = ["zeta"]

_TERMS = 12  # of the sum itself; the rest is the formula of Euler and Maclaurin


def _zeta_by_x(g: Any, x: Any, q: Any, order: int) -> Any:
    return g * op.zeta(x, q, order=order + 1)


def _zeta_by_q(g: Any, x: Any, q: Any, order: int) -> Any:
    slope = x * op.zeta(x + 1, q, order=order)
    return -g * (slope + order * op.zeta(x + 1, q, order=order - 1) if order else slope)


def _zeta_samples() -> list[Sample]:
    plain = [sample(*pair, order=k) for pair in PAIRS for k in (0, 1)]
    return [*plain, sample(Values([1.5, 3.0, 8.0]), Values([0.3, 20.0, 1.0]), order=2)]


_RULES = (_zeta_by_x, _zeta_by_q)


@primitive(
    _RULES,
    _RULES,
    family="elementwise",
    broadcasts=True,
    domain=((1.5, 4.0), (0.5, 3.0)),
    samples=_zeta_samples,
    silent=True,
)
def _zeta(xp: Any, x: Any, q: Any, *, order: int = 0) -> Any:
    """Derivative of this order in `x` of the sum of ``(k + q)**-x``."""
    if order == 0:
        return real(xp, "zeta", x, q)

    def power(base: Any, x: Any) -> list[Any]:
        """Return ``base**-(x + t)`` as a power series in t."""
        logarithm, terms = -xp.log(base), [base**-x]
        for k in range(order):
            terms.append(terms[-1] * logarithm / (k + 1))
        return terms

    def times(series: list[Any], other: list[Any]) -> list[Any]:
        return [
            sum(series[i] * other[k - i] for i in range(k + 1) if k - i < len(other))
            for k in range(order + 1)
        ]

    def evaluate(x: Any, q: Any) -> Any:
        head = total = sum(power(q + k, x)[order] for k in range(_TERMS))
        y = q + _TERMS
        last = power(y, x)
        pole = [(-1.0) ** k / (x - 1) ** (k + 1) for k in range(order + 1)]
        total = total + y * times(last, pole)[order] + last[order] / 2
        rising = [x, 1.0]  # x (x + 1) ... (x + 2 j - 2), as a polynomial in t
        for j, number in enumerate(BERNOULLI, 1):
            term = times(last, rising)[order]
            total = total + number / math.factorial(2 * j) * term / y ** (2 * j - 1)
            for step in (2 * j - 1, 2 * j):
                rising = times([*rising, *[0.0] * (order + 1)], [x + step, 1.0])
        total = xp.where(last[0] == 0, head, total)  # the factors of what has vanished overflow
        return xp.where((x > 1) & (q > 0), total * math.factorial(order), math.nan)

    return in_double(xp, evaluate, x, q)


@explained
def zeta(x: Any, q: Any = 1.0, /) -> Tensor:
    """Hurwitz zeta function, the sum of ``(k + q)**-x`` for k from 0 on, elementwise; Riemann's for q = 1.

    ``d zeta(x, q) = zeta'(x, q) dx - x zeta(x + 1, q) dq``, with ``zeta'`` by the formula of Euler and
    Maclaurin, differentiated term by term. Source: DLMF 25.11.

    Parameters
    ----------
    x : tensor, array or number
        Real, greater than 1; of any shape.
    q : tensor, array or number, default 1.0
        Real, positive; of a shape that broadcasts.

    Returns
    -------
    Tensor
        Of the broadcast shape; NaN where `x` is less than 1, infinite where it is 1.

    Raises
    ------
    DTypeError
        If an operand is complex.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor(2.0, requires_grad=True)
    >>> value = eo.special.zeta(x)
    >>> value.backward()
    >>> print(f"{value:.4f} {x.grad:.4f}")
    1.6449 -0.9375
    """
    return apply(_zeta, (x, q), {"order": 0})
