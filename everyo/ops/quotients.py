"""Remainders, common divisors and powers under NumPy's other names, elementwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.batching import unchanged
from everyo.core.dispatch import apply
from everyo.core.dtypes import complex128, float64
from everyo.core.operands import WEAK
from everyo.core.registry import op
from everyo.core.samples import Integers, Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.ops.arithmetic import divide, power
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.families import discrete, elementwise, primitive
from everyo.ops.shape import broadcast_arrays

__all__ = ["divmod", "float_power", "fmod", "gcd", "lcm", "true_divide"]


# The quotient is recovered from the exact result: a rounded x1 / x2 may reach the next whole number.
@elementwise(
    lambda g: g,
    lambda g, x1, x2, out: -g * op.round((x1 - out) / x2),
    domain=((-5.0, 5.0), (0.5, 2.0)),
    jumps=(0,),
    silent=True,
)
def fmod(xp: Any, x1: Any, x2: Any) -> Any:
    """Remainder ``x1 - trunc(x1 / x2) * x2``, elementwise; it has the sign of `x1`. Real numbers only.

    ``d fmod(x1, x2) = dx1 - trunc(x1 / x2) dx2``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.fmod(eo.tensor([7.0, -7.0]), 4))
    [ 3. -3.]
    """
    return xp.fmod(x1, x2)


def _divmod_vjp(g: Any, x1: Any, x2: Any, needs: Sequence[bool]) -> Any:
    if 1 not in g:  # the quotient is constant between its jumps
        return None, None
    return g[1], -g[1] * op.floor_divide(x1, x2) if needs[1] else None


def _divmod_jvp(tangents: Sequence[Any], x1: Any, x2: Any) -> Any:
    moved, turned = tangents
    if turned is None:
        return None, moved
    turned = turned * op.floor_divide(x1, x2)
    return None, -turned if moved is None else moved - turned


@primitive(
    _divmod_vjp,
    _divmod_jvp,
    domain=((-5.0, 5.0), (0.5, 2.0)),
    samples=lambda: [sample((), ()), sample((2, 3), (2, 3)), sample((0,), (0,))],
    batch=unchanged,
    jumps=(0,),
)
def _divmod(xp: Any, x1: Any, x2: Any) -> Any:
    return xp.divmod(x1, x2)


def divmod(x1: Any, x2: Any, /) -> tuple[Tensor, Tensor]:
    """Return `floor_divide` and `remainder` of two operands, elementwise, in one go.

    The quotient has derivative 0; ``d remainder = dx1 - quotient dx2``.

    Parameters
    ----------
    x1, x2 : tensor, array or number
        Real, with shapes that broadcast; a number takes the other's dtype.

    Returns
    -------
    quotient, remainder : Tensor
        Of the broadcast shape and the common dtype.

    Raises
    ------
    DTypeError
        For complex numbers.
    ShapeError
        If the shapes do not broadcast together.

    Examples
    --------
    >>> import everyo as eo
    >>> quotient, remainder = eo.divmod(eo.tensor([7.0, -7.0]), 4)
    >>> print(quotient, remainder)
    [ 1. -2.] [3. 1.]
    """
    pair = as_tensors([x1, x2], "divmod")
    dtype = pair[0].backend.xp.result_type(*(x.dtype for x in pair))
    pair = [x if x.dtype == dtype else op.astype(x, dtype=dtype) for x in pair]
    if pair[0].shape != pair[1].shape:
        pair = list(broadcast_arrays(*pair))
    return apply(_divmod, pair)


def _whole_pairs() -> list[Sample]:
    return [
        sample(Integers((2, 3), 20), Values([4, 6, 0])),
        sample(Integers((), 20), 6),
        sample(Integers((0,), 8), 1),
    ]


@discrete(samples=_whole_pairs)
def gcd(xp: Any, x1: Any, x2: Any) -> Any:
    """Greatest common divisor of integers, elementwise; ``gcd(0, n)`` is ``abs(n)``. It has no gradient.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.gcd(eo.tensor([12, 18]), 8))
    [4 2]
    """
    return xp.gcd(x1, x2)


@discrete(samples=_whole_pairs)
def lcm(xp: Any, x1: Any, x2: Any) -> Any:
    """Lowest common multiple of integers, elementwise; 0 if one is 0. It has no gradient.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.lcm(eo.tensor([4, 6]), 10))
    [20 30]
    """
    return xp.lcm(x1, x2)


def _double(x: Any) -> Any:
    """Return an operand in double precision; a number stays one, for the exact powers of the rules."""
    if type(x) in WEAK:
        return x
    (x,) = as_tensors([x], "float_power", float64)  # lists in full
    return op.astype(x, dtype=complex128 if x.dtype.kind == "c" else float64)


def float_power(x1: Any, x2: Any, /) -> Tensor:
    """Power ``x1**x2``, elementwise, always in double precision; integers give floats.

    The derivatives are those of `power`.

    Parameters
    ----------
    x1, x2 : tensor, array or number
        Shapes that broadcast.

    Returns
    -------
    Tensor
        Of dtype float64, or complex128 if an operand is complex.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast together.
    DTypeError
        If an operand's elements are not numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.float_power(eo.tensor([2, 4]), -1))
    [0.5  0.25]
    """
    base, exponent = _double(x1), _double(x2)
    if type(base) in WEAK and type(exponent) in WEAK:
        base = op.astype(as_tensor(base), dtype=complex128 if type(base) is complex else float64)
    return power(base, exponent)


true_divide = divide
