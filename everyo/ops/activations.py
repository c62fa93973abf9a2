"""Activation functions of neural networks, elementwise."""

from __future__ import annotations

import math
from typing import Any

from everyo.backends.accelerated import LARGE, fused
from everyo.backends.accelerated import elementwise as accelerated
from everyo.core.device import scalar_like
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.axes import is_one_of
from everyo.ops.creation import real_number
from everyo.ops.families import discrete, elementwise, primitive
from everyo.ops.reductions import inexact

__all__ = [
    "elu",
    "gelu",
    "leaky_relu",
    "log_sigmoid",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
]

SQRT_HALF, INVERSE_SQRT_TAU = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934, 1.6732632423543772848


def _ordered(x: Any) -> Any:
    """Return a kernel's operand unless it is complex: there is no above and below 0."""
    if x.dtype.kind == "c":
        raise TypeError("complex numbers are not ordered")
    return x


@discrete
def _stop_gradient(xp: Any, x: Any) -> Any:
    """The elements as they are, as a constant."""
    return x


@elementwise(
    lambda g, x2: op.where_positive(g, x2),
    lambda g: op.zeros_like(g),
    domain=((-2.0, 2.0), (0.5, 2.0)),
    jumps=(1,),
    samples=lambda: [
        *(sample(*pair) for pair in (((), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,)))),
        sample(Values([1.0, -2.0]), Values([0, 2])),
    ],
)
def _where_positive(xp: Any, x1: Any, x2: Any) -> Any:
    """`x1` where `x2` is positive, `x2` where it is not: the gate of a relu whose result is `x2`."""
    return xp.where_positive(x1, x2)


# By its output, which the next layer keeps anyway: where that is not positive, it is 0 or NaN itself.
@elementwise(lambda g, out: op.where_positive(g, out))
def relu(xp: Any, x: Any) -> Any:
    """Rectified linear unit ``max(x, 0)``, elementwise.

    The derivative is 1 above 0, and 0 below and at 0. NaN stays NaN, and so does its derivative.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> eo.relu(x).sum().backward()
    >>> print(x.grad)
    [0. 0. 1.]
    """
    if x.size >= LARGE and (found := accelerated("relu", x)) is not None:
        return found
    return xp.maximum(_ordered(x), 0)


@elementwise(fused(lambda g, out: g * (out * (scalar_like(1, g) - out))))
def sigmoid(xp: Any, x: Any) -> Any:
    """Logistic function ``1 / (1 + exp(-x))``, elementwise, without overflow.

    ``d sigmoid(x) = sigmoid(x) (1 - sigmoid(x)) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.sigmoid(eo.tensor([-1000.0, 0.0, 1000.0])))
    [0.  0.5 1. ]
    """
    return xp.sigmoid(x)


@elementwise(fused(lambda g, x, out: -g * (out * op.tanh(0.5 * x))))
def _logistic_derivative(xp: Any, x: Any) -> Any:
    s = xp.sigmoid(x)
    opposite = -xp.asarray(x, dtype=s.dtype)  # an unsigned integer has no negative
    return s * xp.sigmoid(opposite)  # one minus the first would lose its digits


@elementwise(fused(lambda g, x: g * op.logistic_derivative(x)))
def _logistic(xp: Any, x: Any) -> Any:
    """`sigmoid` as a slope: its own slopes, of second derivatives, have all digits where it is next to 1."""
    return xp.sigmoid(x)


@elementwise(fused(lambda g, x: g * op.logistic(x)))
def _softplus(xp: Any, x: Any) -> Any:
    if x.size >= LARGE and (found := accelerated("softplus", x)) is not None:
        return found
    return xp.maximum(x, 0.0) + xp.log1p(xp.exp(xp.copysign(x, -1.0)))  # half the time of xp.logaddexp


_FAR = 1e4  # exp(-_FAR) is 0, and _FAR a number, in every precision


def _multiple_slope(g: Any, x: Any, beta: float) -> Any:
    return g * op.logistic(beta * x)


@primitive(
    _multiple_slope,
    _multiple_slope,
    family="elementwise",
    samples=lambda: [*_slopes(beta=2.0), *_slopes(beta=-0.5)],
)
def _softplus_of_multiple(xp: Any, x: Any, *, beta: float) -> Any:
    """``softplus(beta x) / beta``, also where the multiple would overflow."""
    steepness, size = math.fabs(beta), xp.abs(_ordered(x))
    if steepness > 1.0:
        size = xp.minimum(size, _FAR / steepness)
    far = xp.maximum(x, 0.0) if beta > 0.0 else xp.minimum(x, 0.0)
    return far + xp.log1p(xp.exp(size * -steepness)) / beta


def softplus(x: Any, /, beta: float = 1.0) -> Tensor:
    """Smooth version of relu, ``log(1 + exp(beta x)) / beta``, elementwise, without overflow.

    ``d softplus(x) = sigmoid(beta x) dx``.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.
    beta : float, default 1.0
        How sharp the bend is.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give floats.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric, or `beta` is no real number.
    GraphStateError
        If `beta` is a tensor that requires grad.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.softplus(eo.tensor([-1000.0, 1000.0])))
    [   0. 1000.]
    """
    beta = real_number(beta, "softplus", "beta")
    return _softplus(x) if beta == 1.0 else apply(_softplus_of_multiple, (x,), {"beta": beta})


def log_sigmoid(x: Any, /) -> Tensor:
    """Logarithm of the logistic function, ``-log(1 + exp(-x))``, elementwise, without overflow.

    ``d log_sigmoid(x) = sigmoid(-x) dx``.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give floats.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.log_sigmoid(eo.tensor(-1000.0)):.1f}")
    -1000.0
    """
    return -_softplus(-inexact(x))


@fused
def _silu_bend(g: Any, x: Any) -> Any:
    return g * (op.logistic_derivative(x) * (2 - x * op.tanh(0.5 * x)))


@elementwise(_silu_bend)
def _silu_derivative(xp: Any, x: Any) -> Any:
    s = xp.sigmoid(x)
    return s * (1 + x * (1 - s))


@elementwise(fused(lambda g, x: g * op.silu_derivative(x)))
def silu(xp: Any, x: Any) -> Any:
    """``x * sigmoid(x)``, elementwise; also called swish.

    ``d silu(x) = s (1 + x (1 - s)) dx`` with ``s = sigmoid(x)``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.silu(eo.tensor(1.0)):.4f}")
    0.7311
    """
    if x.size >= LARGE and (found := accelerated("silu", x)) is not None:
        return found
    if x.dtype == xp.float16:  # rounded once: far below 0 its sigmoid has few bits
        wide = x.astype(xp.float32)
        return (wide * xp.sigmoid(wide)).astype(x.dtype)
    return x * xp.sigmoid(x)


_FAR = 1e4  # there the density is 0, and a number times it as well


def _gelu_slope(g: Any, x: Any, out: Any) -> Any:  # the result is for the loop, and what follows keeps it
    x = op.clip(x, -_FAR, _FAR)
    return g * (0.5 * op.erfc(-SQRT_HALF * x) + x * (INVERSE_SQRT_TAU * op.exp(-0.5 * x * x)))


def _gelu_slope_by_result(g: Any, x: Any, out: Any) -> Any:
    below = op.where(op.abs(x) < 1e-20, 0.5, out / x)  # the normal distribution, without the error function
    return g * (below + x * (INVERSE_SQRT_TAU * op.exp(-0.5 * x * x)))


@elementwise(fused(_gelu_slope, _gelu_slope_by_result))
def _gelu(xp: Any, x: Any) -> Any:
    if x.size >= LARGE and (found := accelerated("gelu", x)) is not None:
        return found
    narrow = x.dtype.kind == "f" and x.dtype.itemsize < 8  # where rounding -x / sqrt(2) costs x**2 units
    wide = x.astype("float64") if narrow else x
    out = xp.gelu(wide)
    return out.astype(x.dtype) if narrow else out


_BEND, _STEEPNESS = 0.044715, 2.0 * math.sqrt(2.0 / math.pi)
_SATURATED = 30.0  # there the sigmoid is 0 or 1, and the cube does not overflow yet


@fused
def _gelu_tanh_bend(g: Any, x: Any) -> Any:
    x = op.clip(x, -_SATURATED, _SATURATED)
    square = x * x
    inner = _STEEPNESS * x * (1 + _BEND * square)
    slope = _STEEPNESS * (1 + 3 * _BEND * square)
    density = op.logistic_derivative(inner)  # first of all factors, so that none overflows in half precision
    bend = density * slope * (2 - x * slope * op.tanh(0.5 * inner))
    return g * (bend + density * ((6 * _BEND * _STEEPNESS) * square))


@elementwise(_gelu_tanh_bend)
def _gelu_tanh_derivative(xp: Any, x: Any) -> Any:
    x = xp.clip(x, -_SATURATED, _SATURATED)
    square = x * x
    s = xp.sigmoid(_STEEPNESS * x * (1 + _BEND * square))
    return s * (1 + _STEEPNESS * x * (1 - s) * (1 + 3 * _BEND * square))


@elementwise(fused(lambda g, x: g * op.gelu_tanh_derivative(x)))
def _gelu_tanh(xp: Any, x: Any) -> Any:
    if x.size >= LARGE and (found := accelerated("gelu_tanh", x)) is not None:
        return found
    # (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps its digits where tanh is close to -1.
    near = xp.clip(_ordered(x), -_SATURATED, _SATURATED)
    return x * xp.sigmoid(_STEEPNESS * near * (1 + _BEND * near * near))


def gelu(x: Any, /, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit ``x P(x)``, P the normal distribution function, elementwise.

    ``d gelu(x) = (P(x) + x p(x)) dx`` with the normal density p. Source of the function and its
    approximation: Hendrycks and Gimpel (2016), Gaussian Error Linear Units.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.
    approximate : {"none", "tanh"}, default "none"
        "tanh" takes ``(1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2`` for P, and its derivative.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give float64.

    Raises
    ------
    ArgumentError
        If `approximate` is something else.
    DTypeError
        If `x` is not numeric, or is complex with "tanh".

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.gelu(eo.tensor(1.0)):.4f}")
    0.8413
    """
    if not is_one_of(approximate, ("none", "tanh")):
        raise ArgumentError(
            "there is no such approximation",
            operation="gelu",
            expected='approximate="none" or "tanh"',
            found=repr(approximate),
            remedy='leave it out for the exact function, or pass approximate="tanh"',
        )
    return _gelu(x) if approximate == "none" else _gelu_tanh(x)


def _slopes(**params: float) -> list[Sample]:
    return [sample(x, **params) for x in ((), (2, 3), (0,), Values([-1.5, 0.5, 2.0]))]


def _leaky_slope(g: Any, x: Any, negative_slope: float) -> Any:
    return op.where(x > 0, g, negative_slope * g)


@primitive(
    _leaky_slope,
    _leaky_slope,
    family="elementwise",
    samples=lambda: [*_slopes(negative_slope=0.1), *_slopes(negative_slope=-0.5)],
)
def _leaky_relu(xp: Any, x: Any, *, negative_slope: float) -> Any:
    return xp.where(_ordered(x) > 0, x, negative_slope * x)


def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Tensor:
    """``x`` above 0, ``negative_slope * x`` below, elementwise.

    The derivative is 1 above 0, and `negative_slope` below and at 0.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.
    negative_slope : float, default 0.01
        The slope below 0.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give floats.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric, or `negative_slope` is no real number.
    GraphStateError
        If `negative_slope` is a tensor that requires grad.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.leaky_relu(eo.tensor([-1.0, 2.0]), 0.1))
    [-0.1  2. ]
    """
    return apply(
        _leaky_relu, (x,), {"negative_slope": real_number(negative_slope, "leaky_relu", "negative_slope")}
    )


def _elu_slope(g: Any, x: Any, alpha: float) -> Any:
    positive = x > 0
    # The exponent is cut off before the exponential, so that the branch not taken cannot overflow.
    return op.where(positive, g, g * (alpha * op.exp(op.where(positive, 0, x))))


@primitive(
    _elu_slope,
    _elu_slope,
    family="elementwise",
    samples=lambda: [*_slopes(alpha=1.0), *_slopes(alpha=0.5)],
)
def _elu(xp: Any, x: Any, *, alpha: float) -> Any:
    return xp.where(_ordered(x) < 0, alpha * xp.expm1(xp.minimum(x, 0)), x)  # -0.0 stays itself


def elu(x: Any, /, alpha: float = 1.0) -> Tensor:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below, elementwise.

    The derivative is 1 above 0, and ``alpha * exp(x)`` below and at 0.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.
    alpha : float, default 1.0
        Minus the limit far below 0.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give floats.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric, or `alpha` is no real number.
    GraphStateError
        If `alpha` is a tensor that requires grad.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.elu(eo.tensor(-1.0)):.4f}")
    -0.6321
    """
    return apply(_elu, (x,), {"alpha": real_number(alpha, "elu", "alpha")})


def selu(x: Any, /) -> Tensor:
    """``elu`` with the scale and the `alpha` of self-normalizing networks, elementwise.

    The derivative is ``scale`` above 0, and ``scale * alpha * exp(x)`` below and at 0, with
    ``scale = 1.0507...`` and ``alpha = 1.6732...``. Source: Klambauer et al. (2017), Self-Normalizing
    Neural Networks.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give floats.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.selu(eo.tensor(-1.0)):.4f}")
    -1.1113
    """
    return SELU_SCALE * elu(x, SELU_ALPHA)


@elementwise(lambda g, x: g / (1 + op.abs(x)) / (1 + op.abs(x)))
def softsign(xp: Any, x: Any) -> Any:
    """``x / (1 + |x|)``, elementwise: ``d softsign(x) = dx / (1 + |x|)**2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.softsign(eo.tensor([-1.0, 3.0])))
    [-0.5   0.75]
    """
    x = xp.asarray(_ordered(x), dtype=xp.float64) if x.dtype.kind in "biu" else _ordered(x)
    infinite = xp.isinf(x)
    near = xp.where(infinite, xp.zeros_like(x), x)
    return xp.where(infinite, xp.copysign(1.0, x), near / (1 + xp.abs(near)))
