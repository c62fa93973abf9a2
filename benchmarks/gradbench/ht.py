"""Hand tracking: a skinned model of a hand in a pose, against measured points."""

from __future__ import annotations

from typing import Any

import numpy as np

import everyo as eo

from .function import Function, float64, numbers

FINGERS, JOINTS = 5, 4
STILL = 1e-4  # a rotation by less is taken for none
Model = dict[str, eo.Tensor]


def bone_angles(theta: eo.Tensor, bones: int) -> eo.Tensor:
    """Return the angles of all bones about x, z and y, of shape (bones, 3).

    Bone 0 is the wrist; a finger's first bone is stiff, its second turns about x and z, the other two
    about x.
    """
    fingers = eo.reshape(theta[6:], (FINGERS, JOINTS))
    second = 2 + JOINTS * np.arange(FINGERS)
    angles = eo.zeros((bones, 3), dtype=theta.dtype)
    angles[second, :2] = fingers[:, :2]
    angles[second + 1, 0] = fingers[:, 2]
    angles[second + 2, 0] = fingers[:, 3]
    return angles


def turn(angles: eo.Tensor) -> eo.Tensor:
    """Return the rotation (4, 4) by angles about x, z and y, applied in the order x, y, z."""
    (cx, cz, cy), (sx, sz, sy) = eo.cos(angles), eo.sin(angles)
    transform = eo.eye(4, dtype=angles.dtype)
    transform[0, :3] = eo.stack([cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx])
    transform[1, :3] = eo.stack([sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx])
    transform[2, :3] = eo.stack([-sy, cy * sx, cy * cx])
    return transform


def axis_rotation(rotation: eo.Tensor) -> eo.Tensor:
    """Return the matrix (3, 3) of the rotation about a vector (3,) by its length."""
    squared = eo.sum(rotation * rotation)
    still = squared < STILL**2
    angle = eo.sqrt(eo.where(still, 1.0, squared))  # the branch not taken must have a finite derivative
    axis = rotation / angle
    x, y, z = axis
    zero = eo.zeros_like(x)
    skew = eo.stack([eo.stack([zero, -z, y]), eo.stack([z, zero, -x]), eo.stack([-y, x, zero])])
    identity = eo.eye(3, dtype=rotation.dtype)
    cosine = eo.cos(angle)
    turned = cosine * identity + eo.sin(angle) * skew + (1 - cosine) * eo.outer(axis, axis)
    return eo.where(still, identity, turned)


def vertices(theta: eo.Tensor, model: Model, parents: tuple[int, ...], mirrored: bool) -> eo.Tensor:
    """Return the positions of the model's vertices in a pose, of shape (vertices, 3).

    Parameters
    ----------
    theta : Tensor of shape (26,)
        Global rotation (3), global translation (3), and four angles for each finger.
    model : dict of Tensor
        "base_relatives" and "inverse_base_absolutes" (bones, 4, 4), "base_positions" (vertices, 4),
        "weights" (vertices, bones) and "triangles" (triangles, 3).
    parents : tuple of int
        The bone to which each bone is attached, an earlier one; -1 for none.
    mirrored : bool
        Reflect the x coordinates.
    """
    turns = eo.vmap(turn)(bone_angles(theta, len(parents)))
    relatives = model["base_relatives"] @ turns
    absolutes: list[eo.Tensor] = []
    for bone, parent in enumerate(parents):
        absolutes.append(relatives[bone] if parent < 0 else absolutes[parent] @ relatives[bone])
    transforms = eo.stack(absolutes) @ model["inverse_base_absolutes"]
    by_bone = eo.vmap(lambda transform: model["base_positions"] @ transform[:3].T)(transforms)
    positions = eo.einsum("vb,bvi->vi", model["weights"], by_bone)
    if mirrored:
        positions = positions * eo.tensor([-1.0, 1.0, 1.0], dtype=theta.dtype)
    return positions @ axis_rotation(theta[:3]).T + theta[3:6]


def on_triangle(u: eo.Tensor, corners: eo.Tensor) -> eo.Tensor:
    """Return the point (3,) at barycentric coordinates u (2,) between three corners (3, 3)."""
    return u[0] * corners[0] + u[1] * corners[1] + (1 - u[0] - u[1]) * corners[2]


def objective(
    theta: eo.Tensor,
    us: eo.Tensor,
    model: Model,
    correspondences: eo.Tensor,
    points: eo.Tensor,
    parents: tuple[int, ...],
    mirrored: bool,
) -> eo.Tensor:
    """Return the differences between the measured points and the hand, of shape (3 p,).

    Parameters
    ----------
    theta, model, parents, mirrored
        As for `vertices`.
    us : Tensor of shape (p, 2) or (0,)
        Where on its triangle each point lies; empty if points belong to vertices.
    correspondences : Tensor of shape (p,)
        The triangle, or the vertex, of each point.
    points : Tensor of shape (p, 3)
        What was measured.
    """
    positions = vertices(theta, model, parents, mirrored)
    if us.size == 0:
        return eo.ravel(points - positions[correspondences])
    corners = positions[model["triangles"][correspondences]]
    return eo.ravel(points - eo.vmap(on_triangle)(us, corners))


def jacobian(
    theta: eo.Tensor,
    us: eo.Tensor,
    model: Model,
    correspondences: eo.Tensor,
    points: eo.Tensor,
    parents: tuple[int, ...],
    mirrored: bool,
) -> eo.Tensor:
    """Return the derivatives of the differences, of shape (3 p, 26), or (3 p, 2 + 26) with `us`.

    The first two columns belong to each point's own coordinates in `us`.
    """
    rest = (us, model, correspondences, points, parents, mirrored)
    by_theta = eo.jacfwd(lambda theta: objective(theta, *rest))(theta)
    if us.size == 0:
        return by_theta
    corners = vertices(theta, model, parents, mirrored)[model["triangles"][correspondences]]
    by_point = eo.vmap(eo.jacfwd(on_triangle))(us, corners)  # (p, 3, 2)
    return eo.concat([-eo.reshape(by_point, (-1, 2)), by_theta], axis=1)


def _read(message: dict[str, Any]) -> tuple:
    data = message["data"]
    given = data["model"]
    model = {
        name: float64(given[name])
        for name in ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    }
    model["triangles"] = np.asarray(given["triangles"], dtype=np.int64)
    return (
        float64(message["theta"]),
        float64(message["us"]),
        model,
        np.asarray(data["correspondences"], dtype=np.int64),
        float64(data["points"]),
        tuple(int(parent) for parent in given["parents"]),
        bool(given["is_mirrored"]),
    )


FUNCTIONS = {
    "objective": Function(objective, _read, numbers, static=(5, 6)),
    "jacobian": Function(jacobian, _read, numbers, static=(5, 6)),
}
