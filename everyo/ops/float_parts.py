"""Parts of floating-point numbers: mantissa and exponent, fraction and whole, sign, neighbours, no NaN."""

from __future__ import annotations

from typing import Any

from everyo.backends.accelerated import fused
from everyo.core.batching import pointwise, unchanged
from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Integers, Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, describe
from everyo.ops.creation import as_tensor, asarray, real_number
from everyo.ops.families import elementwise, primitive
from everyo.ops.reductions import inexact
from everyo.ops.signatures import composed, explained

__all__ = [
    "copysign", "fabs", "fix", "frac", "frexp", "ldexp", "modf", "nan_to_num", "nextafter", "rint",
]  # fmt: skip


def _pairs() -> list[Sample]:
    shapes = [((), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,))]
    return [*(sample(*pair) for pair in shapes), sample((3,), -1.5)]


@elementwise(
    fused(lambda g, x1, x2: g * (op.sign(x1) * op.copysign(op.ones_like(x1), x2))),
    lambda g: op.zeros_like(g),
    samples=lambda: [*_pairs(), sample(Values([-1.5, 0.0, 2.0, 0.0]), Values([1.0, 0.5, -0.7, -1.0]))],
    jumps=(1,),
)
def copysign(xp: Any, x1: Any, x2: Any) -> Any:
    """Magnitude of `x1` with the sign of `x2`, elementwise; the sign of zero counts. Real numbers only.

    ``d copysign(x1, x2) = sign(x1) sign(x2) dx1``, and 0 where `x1` is 0, as for ``abs``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.copysign(eo.tensor([3.0, -4.0]), -0.0))
    [-3. -4.]
    """
    return xp.copysign(x1, x2)


@elementwise(
    lambda g: g,
    lambda g: op.zeros_like(g),
    domain=((-2.0, 2.0), (2.5, 3.0)),
    samples=_pairs,
    jumps=(0, 1),
)
def nextafter(xp: Any, x1: Any, x2: Any) -> Any:
    """Nearest number of the dtype to `x1` in the direction of `x2`, elementwise.

    It moves with `x1`: ``d nextafter(x1, x2) = dx1``.

    Examples
    --------
    >>> import everyo as eo
    >>> print((eo.nextafter(eo.tensor(1.0), 2.0) - 1.0).item() == 2**-23)
    True
    """
    return xp.nextafter(x1, x2)


@primitive(  # not elementwise, a family whose operands may all be floats
    (lambda g, x2: op.ldexp(g, x2), None),
    (lambda t, x2: op.ldexp(t, x2), None),
    missing="the exponents are integers",
    broadcasts=True,
    batch=pointwise,
    samples=lambda: [
        sample((), Integers((), 5)),
        sample((2, 3), Values([-2, 0, 3])),
        sample((2, 1), Integers((1, 3), 4)),
        sample((0, 2), Integers((2,), 4)),
    ],
)
def _ldexp(xp: Any, x1: Any, x2: Any) -> Any:
    return xp.ldexp(x1, x2)


@explained
def ldexp(x1: Any, x2: Any, /) -> Tensor:
    """``x1 * 2**x2`` for integers `x2`, elementwise, exact: ``d ldexp(x1, x2) = 2**x2 dx1``.

    Parameters
    ----------
    x1 : tensor, array or number
        Real.
    x2 : tensor or array of integers, or an int
        Of a shape that broadcasts with that of `x1`.

    Returns
    -------
    Tensor
        Of the broadcast shape and the dtype of `x1`; integers give floats.

    Raises
    ------
    DTypeError
        If `x2` is not made of integers, or `x1` is complex or not numeric.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ldexp(eo.tensor([1.0, 3.0]), eo.tensor([4, -1])))
    [16.   1.5]
    """
    exponents = asarray(x2)
    if exponents.dtype.kind not in "biu":
        raise DTypeError(
            "the exponents must be integers",
            operation="ldexp",
            inputs=describe(x1, exponents),
            expected="an integer dtype",
            found=str(exponents.dtype),
            remedy="use x1 * 2.0**x2 for other exponents",
        )
    return apply(op.ldexp, (x1, exponents))


def _some_numbers() -> list[Sample]:
    return [sample(()), sample((2, 3)), sample((0,)), sample(Values([-5.5, 0.375, 6.3]))]


def _frexp_vjp(g: Any, x: Any) -> Any:
    return op.ldexp(g[0], -op.frexp(x)[1]) if 0 in g else None


@primitive(
    (_frexp_vjp,),
    lambda t, x: (op.ldexp(t, -op.frexp(x)[1]), None),
    samples=_some_numbers,
    batch=unchanged,
    domain=(0.6, 0.9),
)
def _frexp(xp: Any, x: Any) -> Any:
    return xp.frexp(x)


@explained
def frexp(x: Any, /) -> tuple[Tensor, Tensor]:
    """Mantissa `m` and exponent `e` with ``x = m * 2**e`` and ``0.5 <= abs(m) < 1``, elementwise.

    The derivative of the mantissa is ``2**-e``; the exponent, an integer, has none.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    mantissa, exponent : Tensor
        Of the same shape; both 0 for 0. The mantissa of an infinity or NaN is the number itself.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> mantissa, exponent = eo.frexp(eo.tensor([1.0, 10.0]))
    >>> print(mantissa, exponent)
    [0.5   0.625] [1 4]
    """
    return apply(_frexp, (x,))


@primitive(
    (lambda g: g.get(0),),
    lambda t: (t, None),
    samples=_some_numbers,
    batch=unchanged,
    jumps=(0,),
)
def _modf(xp: Any, x: Any) -> Any:
    return xp.modf(x)


@explained
def modf(x: Any, /) -> tuple[Tensor, Tensor]:
    """Fraction and whole part of each element, both with its sign.

    The derivative of the fraction is 1, that of the whole part 0.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    fraction, whole : Tensor
        Of the same shape; the fraction of an infinity is 0.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> fraction, whole = eo.modf(eo.tensor([2.25, -3.5]))
    >>> print(fraction, whole)
    [ 0.25 -0.5 ] [ 2. -3.]
    """
    return apply(_modf, (x,))


@explained
def frac(x: Any, /) -> Tensor:
    """Fraction of each element, with its sign: the first result of `modf`.

    The derivative is 1.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of the same shape; integers give floats. 0 for an infinity.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.frac(eo.tensor([2.25, -3.5])))
    [ 0.25 -0.5 ]
    """
    return modf(x)[0]


@explained
def fabs(x: Any, /) -> Tensor:
    """Absolute value of real numbers, elementwise: `abs`, but integers give floats.

    The derivative is ``sign(x)``, and 0 at 0.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give float64.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fabs(eo.tensor([-1, 2])))
    [1. 2.]
    """
    x = inexact(x)
    if x.dtype.kind == "c":
        raise DTypeError(
            "the function is one of real numbers",
            operation="fabs",
            inputs=describe(x),
            expected="a real dtype",
            found=str(x.dtype),
            remedy="use eo.abs, the modulus",
        )
    return op.abs(x)


@explained
def rint(x: Any, /) -> Tensor:
    """Nearest whole number, elementwise: `round`, but integers give floats. The derivative is 0.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape; both parts of complex numbers are rounded.

    Returns
    -------
    Tensor
        Of the same shape; floats keep their dtype, integers give float64. Halves go to the even neighbour.

    Raises
    ------
    DTypeError
        If `x` is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.rint(eo.tensor([0.5, 1.5, -1.7])))
    [ 0.  2. -2.]
    """
    return op.round(inexact(x))


@composed
def fix(x: Any, /) -> Tensor:
    """Nearest whole number towards 0, elementwise: `trunc` under NumPy's other name. The derivative is 0.

    Parameters
    ----------
    x : tensor, array or number
        Real, of any shape.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    DTypeError
        If `x` is complex or not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fix(eo.tensor([1.7, -1.7])))
    [ 1. -1.]
    """
    return op.trunc(as_tensor(x))


def _where_finite(g: Any, x: Any) -> Any:
    """Return the part of `g` that belongs to finite elements, or parts of elements."""
    if x.dtype.kind != "c":
        return op.where(op.isfinite(x), g, 0)
    real = op.where(op.isfinite(op.real(x)), op.real(g), 0)
    return real + op.where(op.isfinite(op.imag(x)), op.imag(g), 0) * 1j


@primitive(
    _where_finite,
    _where_finite,
    family="elementwise",
    samples=lambda: [
        sample((), nan=0.0, posinf=None, neginf=None),
        sample((2, 3), nan=1.0, posinf=2.0, neginf=-2.0),
        sample((0,), nan=0.0, posinf=None, neginf=None),
    ],
)
def _nan_to_num(xp: Any, x: Any, *, nan: float, posinf: float | None, neginf: float | None) -> Any:
    return xp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@explained
def nan_to_num(
    x: Any,
    /,
    *,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Replace NaN and infinities by numbers, elementwise; in complex numbers in each part by itself.

    The derivative is 1 where an element is finite, 0 where it is replaced.

    Parameters
    ----------
    x : tensor, array or number
        Of any shape.
    copy : bool, default True
        Without meaning here: `x` never changes.
    nan : float, default 0.0
        What replaces NaN.
    posinf, neginf : float, optional
        What replaces the infinities: by default the largest and the lowest finite number of the dtype.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    DTypeError
        If `x` is not numeric, or a replacement is no real number.
    GraphStateError
        If a replacement is a tensor that requires grad.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
    >>> y = eo.nan_to_num(x, posinf=9.0)
    >>> y.sum().backward()
    >>> print(y, x.grad)
    [1. 0. 9.] [1. 0. 0.]
    """
    numbers = {
        name: None if value is None else real_number(value, "nan_to_num", name)
        for name, value in (("nan", nan), ("posinf", posinf), ("neginf", neginf))
    }
    return apply(_nan_to_num, (x,), {**numbers, "nan": numbers["nan"] or 0.0})
