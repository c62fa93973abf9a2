"""How kernels reach SciPy: in the precision of their operands, or in double and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.dtypes import float16, float32, float64

_BLOCK = 4096


def _precision(xp: Any, operands: tuple[Any, ...]) -> Any:
    """Return the dtype of the result: the common one, float64 for integers."""
    dtype = xp.result_type(*operands)
    return dtype if dtype.kind in "fc" else float64


def scipy(xp: Any, name: str, *operands: Any) -> Any:
    """Return a function of ``scipy.special`` of operands of one precision; float16 is computed in float32."""
    dtype = _precision(xp, operands)
    wide = float32 if dtype == float16 else dtype
    out = getattr(xp.special, name)(*[xp.asarray(x, dtype=wide) for x in operands])
    return out if out.dtype == dtype else xp.asarray(out, dtype=dtype)


def real(xp: Any, name: str, *operands: Any) -> Any:
    """Return a function of ``scipy.special`` whose derivatives are known for real numbers only."""
    if xp.result_type(*operands).kind == "c":
        raise TypeError("complex numbers are not supported")
    return scipy(xp, name, *operands)


def in_double(xp: Any, function: Callable[..., Any], *operands: Any) -> Any:
    """Return an elementwise function of real operands computed in float64, without warnings.

    The function gets 1-d arrays of one length that stay in the cache.
    """
    dtype = _precision(xp, operands)
    if dtype.kind == "c":
        raise TypeError("complex numbers are not supported")
    arrays = xp.broadcast_arrays(*[xp.asarray(x, dtype=float64) for x in operands])
    with xp.errstate(all="ignore"):
        return in_blocks(xp, function, dtype, _BLOCK, *arrays)


def in_blocks(xp: Any, function: Callable[..., Any], dtype: Any, size: int, *arrays: Any) -> Any:
    """Return an elementwise function of arrays of one shape, which it gets as 1-d parts of them."""
    flat = [xp.reshape(x, (-1,)) for x in arrays]
    out = xp.empty(flat[0].shape, dtype=dtype)
    for start in range(0, out.size, size):
        block = slice(start, start + size)
        out[block] = function(*[x[block] for x in flat])
    return xp.reshape(out, arrays[0].shape)
