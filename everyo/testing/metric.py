"""How far two gradients are apart, how far they may be, and the error that says where."""

from __future__ import annotations

from typing import Any

import numpy as np

from everyo.core.dtypes import as_dtype
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, EveryOError

_TOLERANCES = {"float16": 0.1, "float32": 1e-2, "float64": 1e-6, "complex64": 1e-2, "complex128": 1e-6}


class GradientCheckError(EveryOError, AssertionError):
    """A derivative that disagrees with its check; the attributes describe the worst entry.

    Attributes
    ----------
    input : int or None
        The position of the input (of the result, in a check of forward mode).
    index : tuple of int or None
        Where in it; None if the two numbers are sums over all entries.
    analytic, numeric : number
        The derivative that was checked, and what it was checked against.
    error, tolerance : float
        Their `relative_error`, and what it may be.
    """

    def __init__(
        self,
        message: str,
        *,
        input: int | None = None,
        index: tuple[int, ...] | None = None,
        analytic: Any = None,
        numeric: Any = None,
        error: float = float("nan"),
        tolerance: float = 0.0,
        **context: Any,
    ) -> None:
        self.input, self.index, self.analytic, self.numeric = input, index, analytic, numeric
        self.error, self.tolerance = error, tolerance
        place = "" if index is None else f" at index {index}"
        context.setdefault("expected", f"E <= {tolerance:g}")
        context.setdefault("found", f"E = {error:.3g}{place}: analytic {analytic!s}, numeric {numeric!s}")
        super().__init__(message, **context)


def host(x: Any) -> Any:
    """Return a tensor, array or number as a NumPy array."""
    return np.asarray(x.backend.to_numpy(x.data) if isinstance(x, Tensor) else x)


def relative_error(analytic: Any, numeric: Any) -> Any:
    """Return how far a gradient is from its numerical estimate, elementwise.

    ``E = |ga - gn| / max(1, |ga|, |gn|)``: absolute for small gradients, relative for large ones. It is
    0 for equal infinities, infinite where only one side is infinite, and NaN where a side is NaN.

    Parameters
    ----------
    analytic, numeric : tensor, array or number
        Of shapes that broadcast together.

    Returns
    -------
    float or numpy.ndarray
        A float for two numbers.

    Raises
    ------
    ValueError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.testing.relative_error(200.0, 201.0)
    0.004975124378109453
    """
    a, n = host(analytic), host(numeric)
    wide = np.result_type(a, n, np.float64)
    a, n = a.astype(wide), n.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a - n) / np.maximum(1.0, np.maximum(np.abs(a), np.abs(n)))
    error = np.where(np.isnan(error) & ~np.isnan(a) & ~np.isnan(n), np.inf, error)
    error = np.where(a == n, 0.0, error)
    return float(error) if error.ndim == 0 else error


def tolerance(dtype: Any) -> float:
    """Return the E that a central difference in `dtype` can be held to.

    1e-6 in double precision, 1e-2 in single: check in float64 where you can. No one tolerance suits
    every function; `gradcheck` takes another as `tol`.

    Parameters
    ----------
    dtype : dtype-like
        A float or complex dtype.

    Returns
    -------
    float
        The largest `relative_error` to allow.

    Raises
    ------
    DTypeError
        If `dtype` is neither a float nor a complex dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.testing.tolerance(eo.float64)
    1e-06
    """
    name = str(as_dtype(dtype))
    if name not in _TOLERANCES:
        raise DTypeError(
            "only floating-point and complex gradients are compared",
            operation="tolerance",
            expected=", ".join(_TOLERANCES),
            found=name,
            remedy="convert to a float dtype",
        )
    return _TOLERANCES[name]


def step(dtype: Any, size: float = 1.0) -> float:
    """Return the difference step for a number of absolute value `size`.

    The cube root of the dtype's epsilon balances truncation and rounding; a large number moves
    further, because its own rounding is coarser.
    """
    return float(np.cbrt(np.finfo(as_dtype(dtype)).eps)) * max(1.0, size) ** 0.5
