"""Elementwise arithmetic: sums, products, quotients, powers, roots and absolute values."""

from __future__ import annotations

import math
from typing import Any

from everyo.backends.accelerated import LARGE, fused
from everyo.core.dtypes import float16, to_float
from everyo.core.operands import WEAK
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, describe
from everyo.ops import power_derivatives  # noqa: F401  its primitive
from everyo.ops.families import elementwise, primitive, public
from everyo.ops.known import may_overflow

__all__ = [
    "abs", "absolute", "add", "cbrt", "divide", "floor_divide", "hypot", "mod", "multiply", "negative",
    "positive", "pow", "power", "reciprocal", "remainder", "rsqrt", "sign", "sqrt", "square", "subtract",
]  # fmt: skip


def over(x: Any, y: Any) -> Any:
    """Return ``x / y`` for rules; raw complex arrays divide with errors at the ends of the range."""
    return op.divide(x, y) if "c" in (y.dtype.kind, getattr(x, "dtype", y.dtype).kind) else x / y


def ratio_or_zero(x: Any, y: Any) -> Any:
    """Return ``x / y`` for rules: 0, with all its derivatives, where `y` is 0."""
    zero = y == 0
    return op.where(zero, 0, over(x, op.where(zero, 1, y)))


@elementwise(lambda g: g, lambda g: g)
def add(xp: Any, x1: Any, x2: Any) -> Any:
    """Sum, elementwise: ``d(x1 + x2) = dx1 + dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.add(eo.tensor([1.0, 2.0]), 1))
    [2. 3.]
    """
    return xp.add(x1, x2)


@elementwise(lambda g: g, lambda g: -g)
def subtract(xp: Any, x1: Any, x2: Any) -> Any:
    """Difference, elementwise: ``d(x1 - x2) = dx1 - dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.subtract(eo.tensor([1.0, 2.0]), 1))
    [0. 1.]
    """
    return xp.subtract(x1, x2)


@elementwise(lambda g, x2: g * x2, lambda g, x1: g * x1)
def multiply(xp: Any, x1: Any, x2: Any) -> Any:
    """Product, elementwise: ``d(x1 * x2) = x2 dx1 + x1 dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.multiply(eo.tensor([1.0, 2.0]), 3))
    [3. 6.]
    """
    return xp.multiply(x1, x2)


@fused
def _by_divisor(g: Any, x1: Any, x2: Any) -> Any:
    if g.dtype == float16:  # a loss that is scaled up leaves its range when it is divided by x2
        return -(g * over(over(x1, x2), x2))
    # x2**2, x1 / x2**2 and, in higher orders, g / x2 may leave the range where the quotient's share does not
    return -over(g * over(x1, x2), x2)


@elementwise(
    lambda g, x2: op.divide(g, x2) if g.dtype.kind == "c" else g / x2,
    _by_divisor,
    domain=((-2.0, 2.0), (0.5, 2.0)),
)
def divide(xp: Any, x1: Any, x2: Any) -> Any:
    """Quotient, elementwise: ``d(x1 / x2) = dx1 / x2 - x1 / x2**2 dx2``. Integers give floats.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.divide(eo.tensor([1.0, 3.0]), 2))
    [0.5 1.5]
    """
    return xp.divide(x1, x2)


@elementwise(
    lambda g: op.zeros_like(g), lambda g: op.zeros_like(g), domain=((-5.0, 5.0), (0.5, 2.0)), jumps=(0, 1)
)
def floor_divide(xp: Any, x1: Any, x2: Any) -> Any:
    """Largest whole number below the quotient, elementwise. Its derivatives are 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.floor_divide(eo.tensor([7.0, -7.0]), 2))
    [ 3. -4.]
    """
    return xp.floor_divide(x1, x2)


@elementwise(
    lambda g: g,
    lambda g, x1, x2: -g * op.floor_divide(x1, x2),
    domain=((-5.0, 5.0), (0.5, 2.0)),
    jumps=(0,),
)
def remainder(xp: Any, x1: Any, x2: Any) -> Any:
    """Remainder ``x1 - floor(x1 / x2) * x2``, elementwise; it has the sign of `x2`. Real numbers only.

    ``d remainder(x1, x2) = dx1 - floor(x1 / x2) dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.remainder(eo.tensor([7.0, -7.0]), 4))
    [3. 1.]
    """
    return xp.remainder(x1, x2)


@elementwise(lambda g: -g)
def negative(xp: Any, x: Any) -> Any:
    """Negative, elementwise: ``d(-x) = -dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.negative(eo.tensor([1.0, -2.0])))
    [-1.  2.]
    """
    return xp.negative(x)


@elementwise(lambda g: g)
def positive(xp: Any, x: Any) -> Any:
    """The elements as they are: ``d(+x) = dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.positive(eo.tensor([1.0, -2.0])))
    [ 1. -2.]
    """
    return xp.positive(x)


@elementwise(lambda g, x: g * (2 * x))
def square(xp: Any, x: Any) -> Any:
    """Square, elementwise: ``d x**2 = 2 x dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.square(eo.tensor([1.0, -2.0])))
    [1. 4.]
    """
    return xp.square(x)


@elementwise(lambda g, out: -g * out * out, domain=(0.5, 2.0))
def reciprocal(xp: Any, x: Any) -> Any:
    """Reciprocal ``1 / x``, elementwise: ``d(1 / x) = -dx / x**2``. Integers give floats.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.reciprocal(eo.tensor([2.0, -4.0])))
    [ 0.5  -0.25]
    """
    return xp.divide(1, x)  # xp.reciprocal would round integers to 0


def _to_the(x1: Any, x2: Any) -> Any:
    """Return ``x1**x2`` for rules, by the operator where nothing is quicker; see `over`."""
    if x1.size < LARGE and "c" not in (x1.dtype.kind, getattr(x2, "dtype", x1.dtype).kind):
        return x1**x2
    return op.power(x1, x2)


def _power_in_base(g: Any, x1: Any, x2: Any) -> Any:
    """``x2 * x1**(x2 - 1)``, and 0 wherever the exponent is 0."""
    if type(x2) in WEAK:  # the exponent counts down to a constant: exact to any order
        if x2 == 0:
            return op.zeros_like(g)
        if x2 == 1:
            return g
        if x2 == -1:
            inverse = _to_the(x1, -1)
            return -g * inverse * inverse  # its square may leave the range where this does not
        if x2 == 0.5:
            return over(g, 2 * op.sqrt(x1))
        return g * (2 * x1 if x2 == 2 else x2 * _to_the(x1, x2 - 1))
    if _differentiable(g, x1, x2):
        return g * op.power_derivative(x1, x2, by_base=1, by_exponent=0)
    return _general_slope_in_base(g, x1, x2)


def _differentiable(g: Any, *operands: Any) -> bool:
    """Whether the slope of a power of real numbers may be differentiated again."""
    return g.dtype.kind == "f" and any(isinstance(x, Tensor) for x in (g, *operands))


@fused
def _general_slope_in_base(g: Any, x1: Any, x2: Any) -> Any:
    # There the base must not meet 1 / x1; elsewhere the product keeps its derivative in the exponent.
    pole = op.logical_and(x2 == 0, op.logical_not(op.isfinite(1 / x1)))
    return g * (x2 * _to_the(op.where(pole, 1, x1), x2 - 1))


def _power_in_exponent(g: Any, x1: Any, x2: Any, out: Any) -> Any:
    """``x1**x2 * log(x1)``, and 0 where the base is 0 and the power finite."""
    if type(x1) in WEAK:
        if not isinstance(x1, complex) and x1 > 0:
            return g * (out * math.log(x1))
    elif _differentiable(g, x1, x2):
        return g * op.power_derivative(x1, x2, by_base=0, by_exponent=1)
    return _general_slope_in_exponent(g, x1, out)


@fused
def _general_slope_in_exponent(g: Any, x1: Any, out: Any) -> Any:
    constant = op.logical_and(x1 == 0, op.isfinite(out))
    constant = op.logical_or(constant, op.logical_and(x1 == math.inf, out == 0))
    base = op.astype(op.where(constant, 1, x1), dtype=out.dtype)  # complex powers of a real base
    return g * (out * op.log(base))


def _power_samples() -> list[Sample]:
    broadcast = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,))]
    weak = [sample((2, 3), n) for n in (0, 1, 2, 3, -1, 0.5, -2.5)]
    bases = [sample(2.0, (3,)), sample(10, ()), sample(1, (2,))]
    whole = [sample(Values([-2.0, -0.5, 3.0]), n) for n in (2, 3, -1, 0)]
    exponents = Values([2, 3, 0, -1])
    return [sample(*pair) for pair in broadcast] + weak + bases + whole + [
        sample(Values([-2.0, -0.5, 0.0, 3.0]), exponents),
        sample(Values([0.0, 0.0, 0.0]), Values([1, 2, 3])),
    ]  # fmt: skip


@elementwise(
    _power_in_base,
    _power_in_exponent,
    domain=((0.5, 2.0), (-2.0, 2.0)),
    samples=_power_samples,
    keeps_scalars=True,
)
def power(xp: Any, x1: Any, x2: Any) -> Any:
    """Power ``x1**x2``, elementwise.

    ``d x1**x2 = x2 x1**(x2 - 1) dx1 + x1**x2 log(x1) dx2``. The derivative with respect to `x1` is 0
    where ``x2 == 0``; that with respect to `x2` is 0 where ``x1 == 0`` and ``x2 >= 0``, and NaN for a
    negative real base. Higher ones that involve `x1` are limits from ``x1 > 0``.

    Parameters
    ----------
    x1 : tensor, array or number
        The base.
    x2 : tensor, array or number
        The exponent, of a shape that broadcasts with that of `x1`. A Python number is the quickest.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    DTypeError
        If an integer has a negative integer exponent.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.0, 3.0], requires_grad=True)
    >>> (x**2).sum().backward()
    >>> print(x.grad)
    [0. 6.]
    """
    try:
        out = xp.power(x1, x2)  # as the operator, which squares and takes roots where the exponent says so
    except ValueError as error:
        if "negative integer powers" not in str(error):
            raise
        typed = x1 if hasattr(x1, "dtype") else x2
        raise DTypeError(
            "an integer has no integer power of negative exponent",
            operation="power",
            inputs=describe(x1, x2),
            expected="a float base, or exponents that are not negative",
            found=str(error),
            remedy=f"convert the base first: {to_float(typed.dtype)}",
        ) from None
    return xp.complex_power(x1, x2, out) if out.dtype.kind == "c" else out


# At 0 the slope is infinite, as calculus says; the engine makes nothing of it where no cotangent comes in.
@elementwise(fused(lambda g, x, out: over(g, 2 * out)), domain=(0.2, 2.0), silent=True)
def sqrt(xp: Any, x: Any) -> Any:
    """Square root, elementwise: ``d sqrt(x) = dx / (2 sqrt(x))``, infinite at 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.sqrt(eo.tensor([4.0, 9.0])))
    [2. 3.]
    """
    return xp.sqrt(x)


# The cube of the result may leave the range.
@elementwise(fused(lambda g, x, out: -0.5 * g * out * out * out), domain=(0.5, 2.0), silent=True)
def rsqrt(xp: Any, x: Any) -> Any:
    """Reciprocal square root ``1 / sqrt(x)``, elementwise: ``d rsqrt(x) = -dx / (2 x sqrt(x))``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.rsqrt(eo.tensor([4.0, 16.0])))
    [0.5  0.25]
    """
    return xp.divide(1, xp.sqrt(x))


@elementwise(lambda g, out: g / (3 * out) / out, domain=(0.2, 2.0))
def cbrt(xp: Any, x: Any) -> Any:
    """Cube root of real numbers, elementwise: ``d cbrt(x) = dx / (3 cbrt(x)**2)``, infinite at 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.cbrt(eo.tensor([8.0, -27.0], dtype="float64")))
    [ 2. -3.]
    """
    return xp.cbrt(x)


def _share_of_length(side: Any, other: Any, length: Any) -> Any:
    if isinstance(length, Tensor):  # this may be differentiated again
        return op.share(side, other)
    return _share_of_known(side, other, length)


def _share_of_known(side: Any, other: Any, length: Any) -> Any:
    if may_overflow(length):  # the halves have one that is in the range
        infinite = op.isinf(length)
        half = op.hypot(0.5 * side, 0.5 * other)
        side, length = op.where(infinite, 0.5 * side, side), op.where(infinite, half, length)
    return ratio_or_zero(side, length)


def _turn(side: Any, other: Any, along: Any) -> Any:
    """``share(other, side) * along / hypot(side, other)``, 0 at the origin and at infinity.

    As a product it has all digits, where ``1 - share**2`` would be a difference of nearly equal numbers.
    """
    part, length = op.share(other, side), op.hypot(side, other)
    if may_overflow(length):
        infinite = op.isinf(length)
        length = op.where(infinite, op.hypot(0.5 * side, 0.5 * other), length)
        part, distant = op.where(infinite, 0.5 * part, part), op.isinf(length)
        part, along = op.where(distant, 0, part), op.where(distant, 0, along)
    return ratio_or_zero(part, length) * along


@elementwise(
    lambda g, x1, x2: g * _turn(x1, x2, op.share(x2, x1)),
    lambda g, x1, x2: -g * _turn(x1, x2, op.share(x1, x2)),
    domain=(0.5, 2.0),
)
def _share(xp: Any, x1: Any, x2: Any) -> Any:
    """``x1 / hypot(x1, x2)``, the slope of `hypot`, and 0 at the origin."""
    length = xp.hypot(x1, x2)
    side, other = (xp.asarray(x, dtype=length.dtype) for x in (x1, x2))
    return _share_of_known(side, other, length)


@elementwise(
    lambda g, x1, x2, out: g * _share_of_length(x1, x2, out),
    lambda g, x1, x2, out: g * _share_of_length(x2, x1, out),
    domain=(0.5, 2.0),
)
def hypot(xp: Any, x1: Any, x2: Any) -> Any:
    """Length ``sqrt(x1**2 + x2**2)`` of real numbers, elementwise, without overflow.

    ``d hypot(x1, x2) = (x1 dx1 + x2 dx2) / hypot(x1, x2)``, and 0 where both are 0.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.hypot(eo.tensor([3.0]), 4.0))
    [5.]
    """
    return xp.hypot(x1, x2)


def _sides_of_zero() -> list[Sample]:
    return [sample(()), sample((2, 3)), sample((0,)), sample(Values([-1.5, 0.5, 2.0]))]


def _conjugate_sign(x: Any) -> Any:
    return op.conj(op.sign(x)) if x.dtype.kind == "c" else op.sign(x)


def _abs_tangent(t: Any, x: Any) -> Any:
    slope = t * _conjugate_sign(x)
    return op.real(slope) if x.dtype.kind == "c" else slope


@public
@primitive(
    fused(lambda g, x: g * _conjugate_sign(x)),
    _abs_tangent,
    family="elementwise",
    samples=lambda: [*_sides_of_zero(), sample(Values([0.0, 1.0]))],
)
def abs(xp: Any, x: Any) -> Any:
    """Absolute value, elementwise: ``d|x| = sign(x) dx``, and 0 at 0.

    For complex numbers ``d|z| = Re(conj(z) dz) / |z|``: the gradient is ``z / |z|``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.abs(eo.tensor([-1.0, 2.0])))
    [1. 2.]
    """
    return xp.abs(x)


def _over_size(numerator: Any, x: Any) -> Any:
    """Return ``numerator / |x|``, and 0 at 0."""
    size = op.abs(x)
    if may_overflow(size):  # that of half the number is in the range
        infinite = op.isinf(size)
        size = op.where(infinite, op.abs(0.5 * x), size)
        numerator = op.where(infinite, 0.5 * numerator, numerator)
    return ratio_or_zero(numerator, size)


def _sign_cotangent(g: Any, x: Any, out: Any) -> Any:
    if x.dtype.kind != "c":
        return op.zeros_like(g)
    return _over_size(op.conj(out) * (op.imag(g * out) * 1j), x)


def _sign_tangent(t: Any, x: Any, out: Any) -> Any:
    if x.dtype.kind != "c":
        return op.zeros_like(t)
    return _over_size(out * (op.imag(op.conj(out) * t) * 1j), x)


@public
@primitive(_sign_cotangent, _sign_tangent, family="elementwise", samples=_sides_of_zero)
def sign(xp: Any, x: Any) -> Any:
    """Sign, elementwise: -1, 0 or 1, and ``z / |z|`` for complex numbers.

    The derivative is 0 for real numbers; for complex ones ``d sign(z) = i sign(z) Im(dz / sign(z)) / |z|``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.sign(eo.tensor([-3.0, 0.0, 2.0])))
    [-1.  0.  1.]
    """
    return xp.sign(x)


absolute, mod, pow = abs, remainder, power
