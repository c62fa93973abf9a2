"""Trigonometric and hyperbolic functions and their inverses, elementwise."""

from __future__ import annotations

from typing import Any

from everyo.backends.accelerated import fused
from everyo.core.device import scalar_like
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.ops.arithmetic import over, ratio_or_zero
from everyo.ops.families import elementwise

__all__ = [
    "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh",
]  # fmt: skip


@elementwise(lambda g, x: g * op.cos(x))
def sin(xp: Any, x: Any) -> Any:
    """Sine, elementwise: ``d sin(x) = cos(x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.sin(eo.tensor(0.5)):.4f}")
    0.4794
    """
    return xp.sin(x)


@elementwise(lambda g, x: -g * op.sin(x))
def cos(xp: Any, x: Any) -> Any:
    """Cosine, elementwise: ``d cos(x) = -sin(x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.cos(eo.tensor(0.5)):.4f}")
    0.8776
    """
    return xp.cos(x)


def _slope_of_tan(g: Any, x: Any, out: Any) -> Any:
    slope = 1 + out * out
    if x.dtype.kind == "c":  # far from the real axis the square is -1 but for its last digits
        w = op.exp(2j * op.where(op.signbit(op.imag(x)), -x, x))
        slope = op.where(op.abs(op.imag(x)) > 1, over(4 * w, (1 + w) * (1 + w)), slope)
    return g * slope


@elementwise(fused(_slope_of_tan), domain=(-1.2, 1.2), silent=True)
def tan(xp: Any, x: Any) -> Any:
    """Tangent, elementwise: ``d tan(x) = (1 + tan(x)**2) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.tan(eo.tensor(0.5)):.4f}")
    0.5463
    """
    return xp.tan(x)


@elementwise(lambda g, x: g * (-2 * x))
def _one_minus_square(xp: Any, x: Any) -> Any:
    """``1 - x**2`` of real numbers with all digits: near 1 as factors, one of which is 0 at 1.

    Its slope is not that of the factors: a cotangent that is infinite, times the one that is 0, is NaN.
    """
    return xp.where(xp.abs(x) < 0.5, 1 - x * x, (1 - x) * (1 + x))


def _root_of_one_minus_square(x: Any) -> Any:
    """``sqrt(1 - x**2)`` with all digits, its own and those of its derivative.

    On the cuts beyond -1 and 1 the sign of a zero imaginary part tells the branch: ``x - 1`` keeps it, where
    ``1 - x`` and ``x + 1`` do not (Kahan, "Branch cuts for complex elementary functions", 1987).
    """
    if x.dtype.kind != "c":
        return op.sqrt(op.one_minus_square(x))
    return op.where(op.abs(x) < 0.5, op.sqrt(1 - x * x), op.sqrt(-(x - 1)) * op.sqrt(x - (-1)))


@elementwise(fused(lambda g, x: over(g, _root_of_one_minus_square(x))), domain=(-0.8, 0.8))
def arcsin(xp: Any, x: Any) -> Any:
    """Inverse sine, elementwise: ``d arcsin(x) = dx / sqrt(1 - x**2)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.arcsin(eo.tensor(0.5)):.4f}")
    0.5236
    """
    return xp.arcsin(x)


@elementwise(fused(lambda g, x: over(-g, _root_of_one_minus_square(x))), domain=(-0.8, 0.8))
def arccos(xp: Any, x: Any) -> Any:
    """Inverse cosine, elementwise: ``d arccos(x) = -dx / sqrt(1 - x**2)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.arccos(eo.tensor(0.5)):.4f}")
    1.0472
    """
    return xp.arccos(x)


def _factored(near_zero: Any, x: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Return the factors of ``x**2 + 1`` and its like: near a pole or cut they have all digits, as far out.

    Near 0 the product takes their place: there the slopes of the factors cancel.
    """
    small = op.abs(x) < 0.5
    return op.where(small, near_zero, first), op.where(small, 1, second)


@elementwise(fused(lambda g, x, out: g * (-2 * op.where(op.equal(out, 0), 0, x) * out * out)))
def _arctan_slope(xp: Any, x: Any) -> Any:
    """``1 / (1 + x**2)`` of real numbers, whose slope does not underflow before it is small."""
    return 1.0 / (1.0 + 1.0 * x * x)  # which makes floats of integers first


def _slope_of_arctan(g: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return g * op.arctan_slope(x) if isinstance(x, Tensor) else g / (1 + x * x)
    first, second = _factored(1 + x * x, x, x - 1j, x + 1j)
    return over(over(g, first), second)


@elementwise(_slope_of_arctan)
def arctan(xp: Any, x: Any) -> Any:
    """Inverse tangent, elementwise: ``d arctan(x) = dx / (1 + x**2)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.arctan(eo.tensor(1.0)):.4f}")
    0.7854
    """
    return xp.arctan(x)


def _by_square_of_radius(g: Any, x1: Any, x2: Any) -> Any:
    """``g / (x1**2 + x2**2)`` without overflow, and 0 at the origin."""
    radius = op.hypot(x1, x2)
    return ratio_or_zero(ratio_or_zero(g, radius), radius)


def _curvature_of_angle(g: Any, x1: Any, x2: Any) -> Any:
    first, second = op.share(x1, x2), op.share(x2, x1)
    return _by_square_of_radius(g * ((first - second) * (first + second)), x1, x2)


@elementwise(
    lambda g, x1, x2: _by_square_of_radius(-2 * g * op.share(x1, x2) * op.share(x2, x1), x1, x2),
    _curvature_of_angle,
    domain=((-2.0, 2.0), (0.3, 2.0)),
)
def _angle_slope(xp: Any, x1: Any, x2: Any) -> Any:
    """``x2 / (x1**2 + x2**2)``: its own slopes are products, where those of the quotients are inf - inf."""
    return _by_square_of_radius(x2, x1, x2)


def _slope_of_angle(g: Any, x1: Any, x2: Any) -> Any:
    if isinstance(x1, Tensor) or isinstance(x2, Tensor):  # this may be differentiated again
        return g * op.angle_slope(x1, x2)
    return _known_slope_of_angle(g, x1, x2)


@fused
def _known_slope_of_angle(g: Any, x1: Any, x2: Any) -> Any:
    return g * _by_square_of_radius(x2, x1, x2)


@elementwise(
    _slope_of_angle,
    lambda g, x1, x2: -_slope_of_angle(g, x2, x1),
    domain=((-2.0, 2.0), (0.3, 2.0)),
)
def arctan2(xp: Any, x1: Any, x2: Any) -> Any:
    """Angle of the point with ordinate `x1` and abscissa `x2`, elementwise, from -pi to pi.

    ``d arctan2(x1, x2) = (x2 dx1 - x1 dx2) / (x1**2 + x2**2)``, and 0 at the origin.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.arctan2(eo.tensor(1.0), -1.0):.4f}")
    2.3562
    """
    return xp.arctan2(x1, x2)


@elementwise(lambda g, x: g * op.cosh(x))
def sinh(xp: Any, x: Any) -> Any:
    """Hyperbolic sine, elementwise: ``d sinh(x) = cosh(x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.sinh(eo.tensor(1.0)):.4f}")
    1.1752
    """
    return xp.sinh(x)


@elementwise(lambda g, x: g * op.sinh(x))
def cosh(xp: Any, x: Any) -> Any:
    """Hyperbolic cosine, elementwise: ``d cosh(x) = sinh(x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.cosh(eo.tensor(1.0)):.4f}")
    1.5431
    """
    return xp.cosh(x)


@elementwise(lambda g, out: g * (scalar_like(1, g) - out * out))
def tanh(xp: Any, x: Any) -> Any:
    """Hyperbolic tangent, elementwise: ``d tanh(x) = (1 - tanh(x)**2) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.tanh(eo.tensor(1.0)):.4f}")
    0.7616
    """
    return xp.tanh(x)


def _slope_of_arcsinh(g: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        infinite = op.isinf(x)  # where the root itself has no slope
        return g * op.where(infinite, 0, 1 / op.hypot(op.where(infinite, 1, x), 1))
    right = op.where(op.signbit(op.real(x)), -x, x)  # the slope is even; there the roots have no cuts
    first, second = _factored(1 + x * x, x, right - 1j, right + 1j)
    return over(over(g, op.sqrt(first)), op.sqrt(second))


@elementwise(fused(_slope_of_arcsinh))
def arcsinh(xp: Any, x: Any) -> Any:
    """Inverse hyperbolic sine, elementwise: ``d arcsinh(x) = dx / sqrt(x**2 + 1)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.arcsinh(eo.tensor(1.0)):.4f}")
    0.8814
    """
    return xp.arcsinh(x)


def _slope_of_arccosh(g: Any, x: Any) -> Any:
    first, second = x - 1, x - (-1)  # x + 1 would lose the sign of a zero imaginary part: the branch
    if x.dtype.kind == "c":  # near 0 the roots of the factors make sqrt(x**2 - 1), or minus that
        first, second = _factored(1 - x * x, x, first, second)
        turned = op.where(op.signbit(op.imag(x)), g * 1j, g * -1j)
        g = op.where(op.abs(x) < 0.5, turned, g)
    return over(over(g, op.sqrt(first)), op.sqrt(second))


@elementwise(_slope_of_arccosh, domain=(1.3, 3.0))
def arccosh(xp: Any, x: Any) -> Any:
    """Inverse hyperbolic cosine, elementwise: ``d arccosh(x) = dx / sqrt(x**2 - 1)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.arccosh(eo.tensor(2.0)):.4f}")
    1.3170
    """
    return xp.arccosh(x)


def _slope_of_arctanh(g: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return g / op.one_minus_square(x)
    first, second = _factored(1 - x * x, x, 1 - x, 1 + x)
    return over(over(g, first), second)


@elementwise(fused(_slope_of_arctanh), domain=(-0.8, 0.8))
def arctanh(xp: Any, x: Any) -> Any:
    """Inverse hyperbolic tangent, elementwise: ``d arctanh(x) = dx / (1 - x**2)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.arctanh(eo.tensor(0.5)):.4f}")
    0.5493
    """
    return xp.arctanh(x)


acos, asin, atan, atan2 = arccos, arcsin, arctan, arctan2
acosh, asinh, atanh = arccosh, arcsinh, arctanh
