"""Bundle adjustment: what cameras see of points, against what was observed, with a sparse Jacobian."""

from __future__ import annotations

from typing import Any

import numpy as np

import everyo as eo

from .function import Function, float64, numbers

CAMERA, POINT = 11, 3
ROW = CAMERA + POINT + 1  # entries in the Jacobian's row of a reprojection error
SHOWN = 30  # entries of the Jacobian that an answer holds, beside the last


def cross(a: eo.Tensor, b: eo.Tensor) -> eo.Tensor:
    """Return the cross product of two vectors (3,)."""
    return eo.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def rotate(rotation: eo.Tensor, point: eo.Tensor) -> eo.Tensor:
    """Return a point (3,) turned about an axis by its length, after Rodrigues."""
    squared = eo.sum(rotation * rotation)
    still = squared == 0
    angle = eo.sqrt(eo.where(still, 1.0, squared))  # the branch not taken must have a finite derivative
    axis = rotation / angle
    cosine, sine = eo.cos(angle), eo.sin(angle)
    along = eo.sum(axis * point) * (1 - cosine)
    turned = point * cosine + cross(axis, point) * sine + axis * along
    return eo.where(still, point + cross(rotation, point), turned)


def project(camera: eo.Tensor, point: eo.Tensor) -> eo.Tensor:
    """Return where a camera sees a point (3,), of shape (2,).

    A camera (11,) has its rotation (3), its center (3), the focal length, the principal point (2)
    and two parameters of radial distortion.
    """
    rotation, center, focal, principal, radial = (
        camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:],
    )  # fmt: skip
    seen = rotate(rotation, point - center)
    flat = seen[:2] / seen[2]
    squared = eo.sum(flat * flat)
    distortion = 1 + radial[0] * squared + radial[1] * squared * squared
    return flat * distortion * focal + principal


def reprojection_error(
    camera: eo.Tensor, point: eo.Tensor, weight: eo.Tensor, feature: eo.Tensor
) -> eo.Tensor:
    """Return the weighted difference between projection and observed feature, of shape (2,)."""
    return weight * (project(camera, point) - feature)


def weight_error(weight: eo.Tensor) -> eo.Tensor:
    """Return what keeps a weight near 1, of shape ()."""
    return 1 - weight * weight


def objective(
    cameras: eo.Tensor,
    points: eo.Tensor,
    weights: eo.Tensor,
    seen_by: eo.Tensor,
    seen: eo.Tensor,
    features: eo.Tensor,
) -> tuple[eo.Tensor, eo.Tensor]:
    """Return the reprojection errors (p, 2) and the weight errors (p,).

    Parameters
    ----------
    cameras : Tensor of shape (n, 11)
    points : Tensor of shape (m, 3)
    weights : Tensor of shape (p,)
    seen_by, seen : Tensor of shape (p,)
        The camera and the point of each observation.
    features : Tensor of shape (p, 2)
        What was observed.
    """
    errors = eo.vmap(reprojection_error)(cameras[seen_by], points[seen], weights, features)
    return errors, eo.vmap(weight_error)(weights)


def jacobian(
    cameras: eo.Tensor,
    points: eo.Tensor,
    weights: eo.Tensor,
    seen_by: eo.Tensor,
    seen: eo.Tensor,
    features: eo.Tensor,
) -> dict[str, eo.Tensor]:
    """Return the Jacobian in compressed rows: of the reprojection errors, then of the weight errors.

    The columns are those of the cameras, the points and the weights. The result holds "rows" (3 p + 1),
    where each row starts, "cols" and "vals" (31 p).
    """
    by_observation = eo.vmap(eo.jacrev(reprojection_error, argnums=(0, 1, 2)))
    by_camera, by_point, by_weight = by_observation(cameras[seen_by], points[seen], weights, features)
    blocks = eo.concat([by_camera, by_point, eo.expand_dims(by_weight, 2)], axis=2)  # (p, 2, 15)
    slopes = eo.vmap(eo.grad(weight_error))(weights)
    rows, cols = structure(len(cameras), len(points), seen_by, seen)
    return {"rows": rows, "cols": cols, "vals": eo.concat([eo.ravel(blocks), slopes])}


def structure(n: int, m: int, seen_by: eo.Tensor, seen: eo.Tensor) -> tuple[eo.Tensor, eo.Tensor]:
    """Return the rows' starts and the columns of the Jacobian of n cameras and m points."""
    p = seen.size
    starts = [eo.arange(2 * p) * ROW, 2 * p * ROW + eo.arange(p + 1)]
    weight_columns = CAMERA * n + POINT * m + eo.arange(p)
    columns = eo.concat(
        [
            CAMERA * eo.expand_dims(seen_by, 1) + eo.arange(CAMERA),
            CAMERA * n + POINT * eo.expand_dims(seen, 1) + eo.arange(POINT),
            eo.expand_dims(weight_columns, 1),
        ],
        axis=1,
    )
    both = eo.ravel(eo.stack([columns, columns], axis=1))
    return eo.concat(starts), eo.concat([both, weight_columns])


def _read(message: dict[str, Any]) -> tuple:
    n, m, p = (int(message[name]) for name in "nmp")
    observation = np.arange(p)
    return (
        np.tile(float64(message["cam"]), (n, 1)),
        np.tile(float64(message["x"]), (m, 1)),
        np.full(p, float(message["w"])),
        observation % n,
        observation % m,
        np.tile(float64(message["feat"]), (p, 1)),
    )


def _write_errors(result: tuple[eo.Tensor, eo.Tensor]) -> dict[str, Any]:
    errors, weight_errors = result
    return {
        "reproj_error": {"elements": numbers(errors[0]), "repeated": len(errors)},
        "w_err": {"element": weight_errors[0].item(), "repeated": len(weight_errors)},
    }


def _write_jacobian(parts: dict[str, eo.Tensor]) -> dict[str, Any]:
    return {name: [*numbers(x[:SHOWN]), x[-1].item()] for name, x in parts.items()}


FUNCTIONS = {
    "objective": Function(objective, _read, _write_errors),
    "jacobian": Function(jacobian, _read, _write_jacobian),
}
