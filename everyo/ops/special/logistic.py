"""The logistic function under SciPy's names, its logarithm and its inverse."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor
from everyo.ops.activations import log_sigmoid, sigmoid
from everyo.ops.docstrings import of_a_real_number
from everyo.ops.families import elementwise
from everyo.ops.signatures import explained
from everyo.ops.special.kernels import real

__all__ = ["expit", "log_expit", "logit"]


@explained
def expit(x: Any, /) -> Tensor:
    """Logistic function ``1 / (1 + exp(-x))``: the same as `everyo.sigmoid`.

    ``d expit(x) = expit(x) (1 - expit(x)) dx``.

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
    >>> print(eo.special.expit(eo.tensor([-1000.0, 0.0])))
    [0.  0.5]
    """
    return sigmoid(x)


@explained
@of_a_real_number
def log_expit(x: Any, /) -> Tensor:
    """Logarithm of `expit`, without overflow: the same as `everyo.log_sigmoid`.

    ``d log_expit(x) = expit(-x) dx``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(f"{eo.special.log_expit(eo.tensor(-1000.0)):.1f}")
    -1000.0
    """
    return log_sigmoid(x)


@elementwise(lambda g, x: g / x + g / (1 - x), domain=(0.1, 0.9))  # as a sum its slopes are so at 0 and 1
def logit(xp: Any, x: Any) -> Any:
    """``log(x / (1 - x))``, the inverse of `expit`, elementwise: ``d logit(x) = dx / (x (1 - x))``.

    It is infinite at 0 and 1, and NaN outside.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.special.logit(eo.tensor([0.5, 1.0])))
    [ 0. inf]
    """
    return real(xp, "logit", x)
