"""The cost of a clustering, and Newton's direction for its centroids."""

from __future__ import annotations

from typing import Any

import everyo as eo

from .function import Function, float64, number, numbers


def cost(points: eo.Tensor, centroids: eo.Tensor) -> eo.Tensor:
    """Return the sum of the squared distances from points (n, d) to their nearest centroids (k, d)."""
    return eo.sum(eo.min(squared_distances(points, centroids), axis=1))


def squared_distances(a: eo.Tensor, b: eo.Tensor) -> eo.Tensor:
    """Return the squared distance of each row of a (n, d) to each row of b (k, d), of shape (n, k).

    The squares are multiplied out, so that the work is a matrix product and no array has three axes.
    """
    squares = eo.sum(a * a, axis=1, keepdims=True) + eo.sum(b * b, axis=1)
    return squares - 2 * (a @ b.T)


def direction(points: eo.Tensor, centroids: eo.Tensor) -> eo.Tensor:
    """Return the gradient divided by the diagonal of the Hessian, of shape (k, d).

    The Hessian is diagonal, so its product with ones is its diagonal.
    """
    gradient = eo.grad(lambda centroids: cost(points, centroids))
    slope, curvature = eo.jvp(gradient, (centroids,), (eo.ones_like(centroids),))
    return slope / curvature


def _read(message: dict[str, Any]) -> tuple:
    return float64(message["points"]), float64(message["centroids"])


FUNCTIONS = {
    "cost": Function(cost, _read, number),
    "dir": Function(direction, _read, numbers),
}
