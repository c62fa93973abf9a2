"""NumPy's ``order=``: which axis counts fastest where elements are taken one after another."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, UnsupportedOperationError, describe
from everyo.ops.axes import as_list
from everyo.ops.creation import as_tensor
from everyo.ops.shape import ravel, reshape
from everyo.ops.transposition import transpose


def _is_fortran(x: Tensor, order: Any, name: str) -> bool:
    """Whether the first axis counts fastest; refuse an order that the memory of a tensor would decide.

    How NumPy would have laid out what a tensor was computed from cannot be seen in its own memory.
    """
    known = order.upper() if isinstance(order, str) else None
    plain = x.size == 0 or sum(length > 1 for length in x.shape) < 2
    by_memory = known == "A" or (known == "K" and not name.endswith("reshape"))
    if known in ("C", "F") or (by_memory and plain):
        return known == "F"
    raise UnsupportedOperationError(
        "a result depends on the values of a tensor, not on its memory",
        operation=name,
        inputs=describe(x),
        expected='order="C" or order="F"',
        found=f"order={order!r}" + (" of a tensor that may lie in memory otherwise" if by_memory else ""),
        remedy='say order="C" or order="F"',
    )


def reshape_in_order(x: Any, shape: Any, order: Any, copy: Any, name: str) -> Tensor:
    """Return the elements, taken and put in an order, in another shape."""
    x = as_tensor(x)
    if not _is_fortran(x, order, name):
        return reshape(x, shape, copy=copy)
    sizes = as_list(shape) if not isinstance(shape, int) else (shape,)
    return transpose(reshape(transpose(x), tuple(sizes)[::-1], copy=copy))


def ravel_in_order(x: Any, order: Any, name: str) -> Tensor:
    """Return the elements as one axis, taken in an order."""
    x = as_tensor(x)
    return ravel(transpose(x) if _is_fortran(x, order, name) else x)


def checked_layout(order: Any, name: str) -> None:
    """Raise ArgumentError unless an order of memory alone, which makes no difference here, is one."""
    if not isinstance(order, str) or order.upper() not in ("C", "F", "A", "K"):
        raise ArgumentError(
            "there is no such order",
            operation=name,
            expected='"C", "F", "A" or "K"',
            found=f"order={order!r}",
            remedy="leave it out: the elements are the same in any",
        )
