"""Operations that are random on purpose: dropout."""

from __future__ import annotations

from typing import Any

from everyo.core.dtypes import to_float
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.axes import as_flag
from everyo.ops.creation import as_tensor, real_number
from everyo.ops.random import Generator, source
from everyo.ops.shape import apart
from everyo.ops.signatures import explained

__all__ = ["dropout"]


@explained
def dropout(x: Any, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Set each element to zero with probability `p` and divide the others by ``1 - p``.

    The expected value of each element stays as it is. The gradient is dropped and scaled alike.

    Parameters
    ----------
    x : tensor
        Of any shape and a float or complex dtype.
    p : float, default 0.5
        The probability, from 0 to 1.
    training : bool, default True
        If not, nothing is dropped.
    generator : eo.random.Generator, optional
        Where the random numbers come from; the default generator, which `manual_seed` seeds, if not given.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Raises
    ------
    ArgumentError
        If `p` is not a probability.
    DTypeError
        If `x` has integers or booleans, which cannot be scaled, or `generator` is none.

    Examples
    --------
    >>> import everyo as eo
    >>> generator = eo.random.Generator(0)
    >>> print(eo.dropout(eo.ones(6), 0.5, generator=generator))
    [0. 0. 2. 0. 0. 0.]
    >>> print(eo.dropout(eo.ones(6), 0.5, training=False))
    [1. 1. 1. 1. 1. 1.]
    """
    x, p = as_tensor(x), real_number(p, "dropout", "p")
    if not 0 <= p <= 1:
        raise ArgumentError(
            "p is no probability", operation="dropout", expected="0 <= p <= 1", found=f"p={p!r}"
        )
    if not as_flag(training, "training", "dropout") or p == 0:
        return apart(x)
    if x.dtype.kind not in "fc":
        raise DTypeError(
            "integers and booleans cannot be scaled",
            operation="dropout",
            inputs=describe(x),
            expected="a float or complex dtype",
            found=str(x.dtype),
            remedy=f"convert first: {to_float(x.dtype)}",
        )
    numbers = source(generator, x.device, "dropout")
    kept = op.greater_equal(numbers.uniform(size=tuple(x.shape), dtype="float32"), p)
    # Chosen, not multiplied by zero: a dropped infinity is gone.
    return op.where(kept, x if p == 1 else x * (1 / (1 - p)), 0)
