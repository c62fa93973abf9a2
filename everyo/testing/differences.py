"""Central differences: derivatives estimated from values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from everyo.core.tensor import Tensor, wrap
from everyo.errors import ArgumentError, DTypeError
from everyo.ops.axes import require_callable
from everyo.testing.metric import host, step

Evaluate = Callable[[Any], Sequence[Any]]  # from an array to several arrays


def numerical_gradient(f: Callable[[Any], Any], x: Any, h: float | None = None) -> Any:
    """Estimate the gradient of `f` at `x` by central differences, ``(f(x + h) - f(x - h)) / 2h``.

    Parameters
    ----------
    f : callable
        Of one tensor, array or number; an ordinary Python or NumPy function will do. If it returns
        several elements, the gradient is that of their sum, so an elementwise function gives its
        derivative at each element.
    x : tensor, array or number
        Where; real or complex. It is not changed.
    h : float, optional
        The step; by default the cube root of the dtype's epsilon (6e-6 for float64), times the square
        root of the element's size where that exceeds 1.

    Returns
    -------
    tensor, array or number
        Of the kind, shape and dtype of `x`. For complex `x` it is ``dL/dx + i dL/dy`` of the real part
        L, as everywhere in EveryO.

    Raises
    ------
    DTypeError
        If `x` is not of floating-point or complex numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> round(eo.testing.numerical_gradient(lambda x: x**2 + 3 * x, 2.0), 6)
    7.0
    """
    require_callable(f, "numerical_gradient")
    if isinstance(x, (bool, int, float)):
        width = step("float64", abs(x)) if h is None else h
        return (f(x + width) - f(x - width)) / (2 * width)
    point = host(x)
    if point.dtype.kind not in "fc":
        raise DTypeError(
            "a difference needs real or complex numbers",
            operation="numerical_gradient",
            expected="a float or complex dtype",
            found=str(point.dtype),
            remedy="convert x first, for example x.astype(eo.float64)",
        )

    def evaluate(array: Any) -> list[Any]:
        return [host(f(rebuild(x, array)))]

    gradient = np.zeros_like(point)
    for index, direction, slopes in central_slopes(evaluate, point, h):
        gradient[index] += direction * float(np.sum(slopes[0].real))
    return rebuild(x, gradient)


def rebuild(like: Any, array: Any) -> Any:
    """Return a NumPy array as what `like` is: a tensor on its device, an array or a number."""
    if isinstance(like, Tensor):
        return wrap(like.backend.asarray(array, None, like.device, None))
    return array if isinstance(like, np.ndarray) else array.item() if isinstance(like, complex) else array[()]


def directions(dtype: Any) -> tuple[complex, ...]:
    """Return the real directions in which a number of `dtype` can move."""
    return (1.0, 1.0j) if dtype.kind == "c" else (1.0,)


def central_slopes(
    evaluate: Evaluate, x: Any, h: float | None, dtype: Any = None
) -> Iterator[tuple[Any, complex, list[Any]]]:
    """Yield each index of `x`, each direction there and the slopes of the results along it.

    The step `h` is by default the one for `dtype`, or for that of `x`.
    """
    for index in np.ndindex(x.shape):
        width = step(x.dtype if dtype is None else dtype, float(abs(x[index]))) if h is None else h
        for direction in directions(x.dtype):
            yield index, direction, central(evaluate, x, index, direction, width)


def central(evaluate: Evaluate, x: Any, index: Any, direction: complex, h: float) -> list[Any]:
    """Return the central difference of each result as one element of `x` moves."""
    (ahead, up), (back, down) = (moved(evaluate, x, index, s * direction, h) for s in (1, -1))
    if np.isfinite(x[index]) and not up + down > 0:
        raise ArgumentError(
            "the step of the differences moves nothing",
            operation="central difference",
            expected=f"a step that changes {x[index]} in {x.dtype}",
            found=repr(h),
            remedy="leave eps (or h) out, or choose a larger one",
        )
    with np.errstate(all="ignore"):
        return [(a - b) / (up + down) for a, b in zip(ahead, back, strict=True)]


def moved(evaluate: Evaluate, x: Any, index: Any, direction: complex, h: float) -> tuple[list[Any], float]:
    """Return the results where one element of `x` has moved, and how far it moved in its dtype."""
    there = x.copy()
    with np.errstate(all="ignore"):
        there[index] = x[index] + x.dtype.type(h * direction)
        results = [wide(r) for r in evaluate(there)]
    return results, abs(complex(there[index]) - complex(x[index]))


def wide(array: Any) -> Any:
    """Return an array in double precision."""
    return array.astype(np.result_type(array.dtype, np.float64))
