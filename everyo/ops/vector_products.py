"""Products of vectors that NumPy has beside those of the standard."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.complex_parts import conj
from everyo.ops.contraction import dot
from everyo.ops.creation import as_tensors
from everyo.ops.shape import ravel
from everyo.ops.signatures import explained

__all__ = ["vdot"]


@explained
def vdot(x1: Any, x2: Any, /) -> Tensor:
    """Scalar product of two tensors, flattened, with the first one conjugated: ``sum(conj(x1) * x2)``.

    ``d vdot(x1, x2) = vdot(dx1, x2) + vdot(x1, dx2)``.

    Parameters
    ----------
    x1, x2 : tensor, array or number
        Of as many elements as each other, real or complex.

    Returns
    -------
    Tensor
        0-d, of the promoted dtype.

    Raises
    ------
    ShapeError
        If the numbers of elements differ.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.vdot(eo.tensor([1 + 2j]), eo.tensor([3 + 4j])))
    (11-2j)
    """
    x1, x2 = as_tensors([x1, x2], "vdot")
    if x1.size != x2.size:
        raise ShapeError(
            "the tensors differ in their number of elements",
            operation="vdot",
            inputs=describe(x1, x2),
            expected="equal numbers of elements",
            found=f"{x1.size} and {x2.size}",
            remedy="use eo.tensordot or eo.vecdot for other products",
        )
    first = ravel(x1)
    return dot(conj(first) if first.dtype.kind == "c" else first, ravel(x2))
