"""gradcheck and its relatives: derivatives compared with differences, entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.core.modes import enable_grad
from everyo.core.tensor import Tensor, wrap
from everyo.ops.signatures import explained
from everyo.testing.differences import central_slopes, moved, wide
from everyo.testing.metric import GradientCheckError, host, relative_error, step, tolerance
from everyo.testing.point import Function, Point, arguments, dot, floats, pull

_JUMP, _KINK = 4.0, 1e-3  # growth of a slope at a jump; distance of one-sided slopes at a kink


@explained
def gradcheck(
    f: Function,
    *inputs: Any,
    eps: float | None = None,
    tol: float | None = None,
    seed: int = 0,
    kinks: bool = False,
    **unknown: Any,
) -> bool:
    """Check reverse-mode gradients of `f` against central differences.

    The results are weighted with random numbers and summed; the gradient of that sum with respect to
    each input is compared entry by entry with ``(L(x + h) - L(x - h)) / 2h``.

    Parameters
    ----------
    f : callable
        Takes tensors; returns a tensor or a tuple of them. It must give the same result every time.
    *inputs : tensors, arrays or anything else
        Where to check. Every float or complex tensor or array is differentiated, on a copy; other
        arguments are passed on as they are. One tuple or list of them will do as well, as in PyTorch. Use
        float64: differences in float32 prove little.
    eps : float, optional
        The difference step h; see `numerical_gradient`.
    tol : float, optional
        The largest allowed `relative_error`; by default the `tolerance` of the coarsest dtype among
        inputs and results.
    seed : int, default 0
        For the weights.
    kinks : bool, default False
        Accept any value between the one-sided derivatives where `f` has a kink, and any value where
        it jumps.

    Returns
    -------
    bool
        True.

    Raises
    ------
    GradientCheckError
        If a gradient is off; the message and the attributes name the worst entry.
    DTypeError
        If there is nothing to differentiate.
    ArgumentError
        If there is no such option.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.3, 2.0], dtype=eo.float64)
    >>> assert eo.testing.gradcheck(lambda x: x * eo.sin(x), x)
    """
    point = Point(f, arguments(inputs, unknown, "gradcheck"), "gradcheck")
    weights = point.weights(seed)
    leaves, results = point.recorded()
    point.demand_same(results)
    gradients = pull(results, [leaves[i] for i in point.wrt], [wrap(w) for w in weights], False)
    for i, g in zip(point.wrt, gradients, strict=True):
        _compare_input(point, i, host(g), weights, eps, tol, kinks)
    return True


@explained
def gradgradcheck(
    f: Function,
    *inputs: Any,
    eps: float | None = None,
    tol: float | None = None,
    seed: int = 0,
    kinks: bool = False,
    **unknown: Any,
) -> bool:
    """Check second derivatives: `gradcheck` of the gradient of `f`, recorded with ``create_graph=True``.

    The gradient is differentiated with respect to the inputs and to the weights of the results.

    Parameters
    ----------
    f : callable
        Takes tensors; returns a tensor or a tuple of them. It must give the same result every time.
    *inputs : tensors, arrays or anything else
        Where to check, as for `gradcheck`.
    eps : float, optional
        The difference step; see `numerical_gradient`.
    tol : float, optional
        The largest allowed `relative_error`; by default the `tolerance` of the coarsest dtype.
    seed : int, default 0
        For the random weights.
    kinks : bool, default False
        Accept any value between the one-sided derivatives where the gradient has a kink.

    Returns
    -------
    bool
        True.

    Raises
    ------
    GradientCheckError
        If a second derivative is off; its ``input`` beyond the inputs of `f` counts the weights.
    DTypeError
        If there is nothing to differentiate.
    ArgumentError
        If there is no such option.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.3, 2.0], dtype=eo.float64)
    >>> assert eo.testing.gradgradcheck(lambda x: x * eo.sin(x), x)
    """
    gradient, points = differentiated(f, arguments(inputs, unknown, "gradgradcheck"), seed)
    return gradcheck(gradient, *points, eps=eps, tol=tol, seed=seed + 1, kinks=kinks)


@explained
def check_jvp(
    f: Function,
    *inputs: Any,
    eps: float | None = None,
    tol: float | None = None,
    seed: int = 0,
    **unknown: Any,
) -> bool:
    """Check forward mode: along a random direction v, `jvp` against differences and reverse mode.

    The tangent ``J v`` is compared entry by entry with ``(f(x + h v) - f(x - h v)) / 2h``, then
    ``<u, J v>`` with ``<J' u, v>`` for random u.

    Parameters
    ----------
    f : callable
        Takes tensors; returns a tensor or a tuple of them. It must give the same result every time.
    *inputs : tensors, arrays or anything else
        Where to check, as for `gradcheck`.
    eps : float, optional
        The difference step; see `numerical_gradient`.
    tol : float, optional
        The largest allowed `relative_error`; by default the `tolerance` of the coarsest dtype.
    seed : int, default 0
        For the random directions.

    Returns
    -------
    bool
        True.

    Raises
    ------
    GradientCheckError
        If a tangent is off; its ``input`` is the position of the result.
    DTypeError
        If there is nothing to differentiate.
    ArgumentError
        If there is no such option.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.3, 2.0], dtype=eo.float64)
    >>> assert eo.testing.check_jvp(lambda x: x * eo.sin(x), x)
    """
    point = Point(f, arguments(inputs, unknown, "check_jvp"), "check_jvp")
    tangents = point.directions(seed)
    pushed = point.push(tangents)
    h = step(point.dtype) if eps is None else eps
    ahead, back = (
        point.evaluate({i: point.arrays[i] + s * h * v for i, v in tangents.items()}) for s in (1, -1)
    )
    for k, (a, b) in enumerate(zip(ahead, back, strict=True)):
        numeric = (wide(a) - wide(b)) / (2 * h)
        refuse_worst(
            f"the tangent of result {k} differs from central differences",
            point,
            k,
            pushed[k],
            numeric,
            tolerance(point.dtype) if tol is None else tol,
        )
    return dot_product_test(point, tangents, pushed, seed, tol)


def dot_product_test(
    point: Point, tangents: dict[int, Any], pushed: Sequence[Any], seed: int, tol: float | None = None
) -> bool:
    """Check ``<u, J v> = <J' u, v>``, which holds exactly whatever the function."""
    weights = point.weights(seed)
    leaves, results = point.recorded(set(tangents))
    order = list(tangents)
    gradients = pull(results, [leaves[i] for i in order], [wrap(w) for w in weights], False)
    # A result that is NaN (the mean of nothing) has no derivative, whatever its tangent.
    known = [np.where(np.isnan(r), 0, t) for r, t in zip(point.results, pushed, strict=True)]
    forward = sum((dot(u, t) for u, t in zip(weights, known, strict=True)), 0.0)
    reverse = sum((dot(host(g), tangents[i]) for i, g in zip(order, gradients, strict=True)), 0.0)
    error = relative_error(forward, reverse)
    allowed = tolerance(point.dtype) if tol is None else tol
    if not error <= allowed:
        raise GradientCheckError(
            f"forward and reverse mode disagree with respect to input {', '.join(map(str, order))}",
            operation=point.operation,
            inputs=point.description,
            found=f"E = {error:.3g}: <u, Jv> = {forward}, <J'u, v> = {reverse}",
            analytic=forward,
            numeric=reverse,
            error=error,
            tolerance=allowed,
            remedy="correct the vjp or the jvp rule",
        )
    return True


def differentiated(f: Function, inputs: Sequence[Any], seed: int) -> tuple[Function, list[Any]]:
    """Return the gradient of `f` as a function of its inputs and of weights, and a point for it."""
    point = Point(f, inputs, "gradgradcheck")
    count = len(inputs)

    def gradient(*moved: Any) -> tuple[Tensor, ...]:
        with enable_grad():
            given = [
                x.detach().requires_grad_() if i in point.arrays and not x.requires_grad else x
                for i, x in enumerate(moved[:count])
            ]
            results = floats(f(*given), "gradgradcheck")
            return tuple(pull(results, [given[i] for i in point.wrt], moved[count:], True))

    return gradient, [*point.inputs, *map(wrap, point.weights(seed))]


def _compare_input(
    point: Point, i: int, analytic: Any, weights: Any, eps: Any, tol: float | None, kinks: bool
) -> None:
    """Compare the gradient of input `i` with differences."""
    x = point.arrays[i]
    allowed = tolerance(point.dtype) if tol is None else tol

    def evaluate(array: Any) -> list[Any]:
        return point.evaluate({i: array})

    def weighted(slopes: Sequence[Any]) -> float:
        return sum((dot(w, s) for w, s in zip(weights, slopes, strict=True)), 0.0)

    numeric = np.zeros(x.shape, wide(x).dtype)
    for index, direction, slopes in central_slopes(evaluate, x, eps, point.dtype):
        slope = weighted(slopes)
        derivative = float((analytic[index] * np.conj(direction)).real)
        if kinks and not relative_error(derivative, slope) <= allowed:
            h = step(point.dtype, float(abs(x[index])))
            slope = _beside_a_kink(evaluate, weighted, x, index, direction, h, derivative, slope, allowed)
        numeric[index] += direction * slope
    refuse_worst(
        f"the gradient of input {i} differs from central differences", point, i, analytic, numeric, allowed
    )


def _beside_a_kink(
    evaluate: Any,
    weighted: Any,
    x: Any,
    index: Any,
    direction: complex,
    h: float,
    derivative: float,
    slope: float,
    tol: float,
) -> float:
    """Return what `derivative` must equal: itself if it is one of several right values at a kink."""
    here = [wide(r) for r in evaluate(x)]
    sides = []
    for width in (h, h / 8):
        for sign in (1, -1):
            there, distance = moved(evaluate, x, index, sign * direction, width)
            sides.append(sign * weighted([(t - o) / distance for t, o in zip(there, here, strict=True)]))
    ahead, back, near_ahead, near_back = sides
    if any(abs(near) > _JUMP * max(1.0, abs(far)) for near, far in ((near_ahead, ahead), (near_back, back))):
        return derivative
    low, high = sorted((near_ahead, near_back))
    if high - low > _KINK * max(1.0, abs(low), abs(high)) and low - tol <= derivative <= high + tol:
        return derivative
    closer = (near_ahead + near_back) / 2  # where only a later derivative jumps
    return min(slope, closer, key=lambda s: abs(s - derivative))


def refuse_worst(
    message: str, point: Point, position: int, analytic: Any, numeric: Any, allowed: float
) -> None:
    """Raise GradientCheckError with the worst entry if one is off by more than `allowed`."""
    errors = np.asarray(relative_error(analytic, numeric))
    if not errors.size:
        return
    ranked = np.where(np.isnan(errors), np.inf, errors)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), errors.shape))
    if ranked[index] <= allowed:
        return
    raise GradientCheckError(
        message,
        operation=point.operation,
        inputs=point.description,
        input=position,
        index=index,
        analytic=host(analytic)[index],
        numeric=host(numeric)[index],
        error=float(errors[index]),
        tolerance=allowed,
        remedy="correct the rule; near a kink or a pole of the function, move the input",
    )
