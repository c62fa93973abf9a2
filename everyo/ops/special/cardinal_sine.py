"""The cardinal sine, with derivatives of every order."""

from __future__ import annotations

import functools
import math
from typing import Any

from everyo.backends.accelerated import LARGE
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.families import primitive
from everyo.ops.signatures import explained
from everyo.ops.special.kernels import in_blocks

__all__ = ["sinc"]

_NEGLIGIBLE = 1e-18  # part of the largest term


def _sinc_slope(g: Any, x: Any, order: int) -> Any:
    return g * op.sinc(x, order=order + 1)


def _sinc_samples() -> list[Sample]:
    values = Values([0.0, 1e-9, 0.7, 0.8, 1.0, -2.5])
    return [
        sample((), order=0), sample((2, 3), order=0), sample((0,), order=0), sample(values, order=0),
        sample(values, order=1), sample(values, order=4),
    ]  # fmt: skip


@primitive(_sinc_slope, _sinc_slope, family="elementwise", samples=_sinc_samples)
def _sinc(xp: Any, x: Any, *, order: int) -> Any:
    """Derivative of this order of ``sin(pi x) / (pi x)``.

    With ``z = pi x`` by ``z f[n] = sin[n](z) - n f[n-1]``, where the bracket counts derivatives; that
    cancels for small `z`, where the power series has all digits.
    """
    if x.dtype.kind not in "fc":
        x = xp.asarray(x, dtype=float)
    wide = "float32" if x.dtype.itemsize == 2 else x.dtype  # so that halves are rounded once

    def derivative(x: Any) -> Any:
        return _derivative(xp, xp.astype(x, wide, copy=False), order)

    return in_blocks(xp, derivative, x.dtype, LARGE, x)  # long enough for native sines


def _derivative(xp: Any, x: Any, order: int) -> Any:
    """Return the same for a vector."""
    infinite = xp.isinf(x)
    any_infinite = xp.any(infinite)
    if any_infinite:
        x = xp.where(infinite, xp.ones_like(x), x)
    z = math.pi * x
    turn = x - 2 * xp.round(xp.real(x) / 2)  # exact, so that the sine keeps its digits for large x
    sine = xp.sin(math.pi * turn)
    small = xp.abs(z) < _reach(order) if order else z == 0
    divisor = xp.where(small, xp.ones_like(z), z)
    out = sine / divisor
    if order:
        cosine = xp.cos(math.pi * turn)
        for n in range(1, order + 1):
            above = (sine, cosine, -sine, -cosine)[n % 4]
            out = (above - n * out) / divisor
        out = math.pi**order * out
    if any_infinite:
        out = xp.where(infinite, xp.zeros_like(z), out)
    if xp.any(small):
        places = xp.nonzero(small)  # a mask takes longer
        out[places] = _series(z[places], order) * math.pi**order
    return out


def _series(z: Any, order: int) -> Any:
    """Return the derivative of this order of ``sin(z) / z``, for small `z`, by its power series."""
    total, square = 0.0, z * z
    for coefficient in _coefficients(order):
        total = total * square + coefficient
    return total * z if order % 2 else total + 0 * z


@functools.cache
def _coefficients(order: int) -> list[float]:
    """Return the coefficients of the power series, the last first: as many as matter up to `_reach`."""
    found: list[float] = []
    largest = size = 0.0
    k = (order + 1) // 2
    while not found or size > largest * _NEGLIGIBLE:
        found.append((-1) ** k * math.perm(2 * k, order) / math.factorial(2 * k + 1))
        size = abs(found[-1]) * _reach(order) ** (2 * k - order)
        largest = max(largest, size)
        k += 1
    return found[::-1]


def _reach(order: int) -> float:
    """Return up to which size of `z` the power series is used; it serves 0 alone where order is 0."""
    return 2 + order / 2 if order else 0.0


@explained
def sinc(x: Any, /) -> Tensor:
    """Cardinal sine ``sin(pi x) / (pi x)``, elementwise; 1 at 0 and 0 at infinity.

    ``d sinc(x) = (cos(pi x) - sinc(x)) / x dx``, and 0 at 0; its derivatives of every order are right at 0
    and near it.

    Parameters
    ----------
    x : tensor, array or number
        Real or complex, of any shape; integers are computed in float64.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype.

    Raises
    ------
    DTypeError
        If the elements are no numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.grad(eo.grad(eo.sinc))(eo.tensor(0.0)):.4f}")
    -3.2899
    """
    return apply(_sinc, (x,), {"order": 0})
