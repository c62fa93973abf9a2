"""The problems in JAX, as a user of JAX would write them: float64, compiled by ``jax.jit``.

Each function takes the arguments of EveryO's function of the same name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import ba, gmm, ode

jax.config.update("jax_enable_x64", True)


# lse


def lse_primal(x):
    """As `lse.primal`."""
    largest = jnp.max(x)
    return largest + jnp.log(jnp.sum(jnp.exp(x - largest)))


# llsq


def llsq_primal(x, n):
    """As `llsq.primal`."""
    t = jnp.linspace(-1.0, 1.0, n)

    def step(value, coefficient):
        return value * t + coefficient, None

    value, _ = jax.lax.scan(step, jnp.zeros_like(t), x, reverse=True)
    residual = jnp.sign(t) - value
    return 0.5 * jnp.sum(residual * residual)


# gmm


def _factor(q, l):
    columns, rows = np.triu_indices(q.size, 1)
    return jnp.diag(jnp.exp(q)).at[rows, columns].set(l)


def _log_density(x, alpha, mu, q, factor):
    z = (x - mu) @ factor.T
    return alpha + jnp.sum(q) - 0.5 * jnp.sum(z * z, axis=1)


def gmm_objective(parameters, x, m, gamma):
    """As `gmm.objective`."""
    alpha, mu, q, l = (parameters[name] for name in ("alpha", "mu", "q", "l"))
    n, d = x.shape
    factors = jax.vmap(_factor)(q, l)
    densities = jax.vmap(_log_density, in_axes=(None, 0, 0, 0, 0))(x, alpha, mu, q, factors)
    likelihood = jnp.sum(jax.nn.logsumexp(densities, axis=0)) - n * jax.nn.logsumexp(alpha)
    prior = m * jnp.sum(q) - 0.5 * gamma**2 * jnp.sum(factors * factors)
    return likelihood + prior + gmm.constant(n, d, alpha.size, m, gamma)


# ode


def ode_primal(x, steps):
    """As `ode.primal`."""
    h = ode.END / steps

    def slope(y):
        return x * jnp.concatenate([jnp.ones(1), y[:-1]])

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return jax.lax.scan(step, jnp.zeros_like(x), length=steps)[0]


# kmeans


def kmeans_cost(points, centroids):
    """As `kmeans.cost`."""
    squares = jnp.sum(points * points, axis=1, keepdims=True) + jnp.sum(centroids * centroids, axis=1)
    return jnp.sum(jnp.min(squares - 2 * points @ centroids.T, axis=1))


def kmeans_direction(points, centroids):
    """As `kmeans.direction`."""
    gradient = jax.grad(lambda centroids: kmeans_cost(points, centroids))
    slope, curvature = jax.jvp(gradient, (centroids,), (jnp.ones_like(centroids),))
    return slope / curvature


# lstm


def lstm_objective(main, extra, state, sequence):
    """As `lstm.objective`."""
    depth, width = main.shape[0] // 2, sequence.shape[1]
    parameters = main.reshape(depth, 2, 4, width)
    in_weight, out_weight, out_bias = extra
    pairs = state.reshape(depth, 2, width)

    def step(states, symbol):
        signal, following = symbol * in_weight, []
        for i in range(depth):
            (w, b), (hidden, cell) = parameters[i], states[i]
            forget = jax.nn.sigmoid(signal * w[0] + b[0])
            ingate = jax.nn.sigmoid(hidden * w[1] + b[1])
            outgate = jax.nn.sigmoid(signal * w[2] + b[2])
            cell = cell * forget + ingate * jnp.tanh(hidden * w[3] + b[3])
            signal = outgate * jnp.tanh(cell)
            following.append((signal, cell))
        return following, signal * out_weight + out_bias

    start = [(pairs[i, 0], pairs[i, 1]) for i in range(depth)]
    _, predicted = jax.lax.scan(step, start, sequence[:-1])
    normalizer = jnp.log(2 + jnp.sum(jnp.exp(predicted), axis=1, keepdims=True))
    return -jnp.mean(sequence[1:] * (predicted - normalizer))


def lstm_jacobian(main, extra, state, sequence):
    """As `lstm.jacobian`."""
    gradients = jax.grad(lstm_objective, argnums=(0, 1))(main, extra, state, sequence)
    return jnp.concatenate([x.ravel() for x in gradients])


# ba


def _rotate(rotation, point):
    squared = jnp.sum(rotation * rotation)
    still = squared == 0
    angle = jnp.sqrt(jnp.where(still, 1.0, squared))
    axis = rotation / angle
    along = jnp.sum(axis * point) * (1 - jnp.cos(angle))
    turned = point * jnp.cos(angle) + jnp.cross(axis, point) * jnp.sin(angle) + axis * along
    return jnp.where(still, point + jnp.cross(rotation, point), turned)


def _reprojection_error(camera, point, weight, feature):
    seen = _rotate(camera[:3], point - camera[3:6])
    flat = seen[:2] / seen[2]
    squared = jnp.sum(flat * flat)
    distortion = 1 + camera[9] * squared + camera[10] * squared * squared
    return weight * (flat * distortion * camera[6] + camera[7:9] - feature)


def _weight_error(weight):
    return 1 - weight * weight


def ba_objective(cameras, points, weights, seen_by, seen, features):
    """As `ba.objective`."""
    errors = jax.vmap(_reprojection_error)(cameras[seen_by], points[seen], weights, features)
    return errors, jax.vmap(_weight_error)(weights)


def ba_jacobian(cameras, points, weights, seen_by, seen, features):
    """As `ba.jacobian`."""
    by_observation = jax.vmap(jax.jacrev(_reprojection_error, argnums=(0, 1, 2)))
    by_camera, by_point, by_weight = by_observation(cameras[seen_by], points[seen], weights, features)
    blocks = jnp.concatenate([by_camera, by_point, by_weight[:, :, None]], axis=2)
    slopes = jax.vmap(jax.grad(_weight_error))(weights)
    n, m, p = len(cameras), len(points), seen.size
    rows = jnp.concatenate([jnp.arange(2 * p) * ba.ROW, 2 * p * ba.ROW + jnp.arange(p + 1)])
    weight_columns = ba.CAMERA * n + ba.POINT * m + jnp.arange(p)
    columns = jnp.concatenate(
        [
            ba.CAMERA * seen_by[:, None] + jnp.arange(ba.CAMERA),
            ba.CAMERA * n + ba.POINT * seen[:, None] + jnp.arange(ba.POINT),
            weight_columns[:, None],
        ],
        axis=1,
    )
    both = jnp.stack([columns, columns], axis=1).ravel()
    cols = jnp.concatenate([both, weight_columns])
    return {"rows": rows, "cols": cols, "vals": jnp.concatenate([blocks.ravel(), slopes])}


# ht


def _turn(angles):
    (cx, cz, cy), (sx, sz, sy) = jnp.cos(angles), jnp.sin(angles)
    rows = [
        [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, 0.0],
        [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, 0.0],
        [-sy, cy * sx, cy * cx, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ]
    return jnp.stack([jnp.stack([jnp.asarray(x) for x in row]) for row in rows])


def _axis_rotation(rotation):
    squared = jnp.sum(rotation * rotation)
    still = squared < 1e-8
    angle = jnp.sqrt(jnp.where(still, 1.0, squared))
    axis = rotation / angle
    skew = jnp.cross(jnp.eye(3), axis[None, :])
    turned = jnp.cos(angle) * jnp.eye(3) + jnp.sin(angle) * skew
    turned += (1 - jnp.cos(angle)) * jnp.outer(axis, axis)
    return jnp.where(still, jnp.eye(3), turned)


def _vertices(theta, model, parents, mirrored):
    fingers, second = theta[6:].reshape(5, 4), 2 + 4 * np.arange(5)
    angles = jnp.zeros((len(parents), 3)).at[second, :2].set(fingers[:, :2])
    angles = angles.at[second + 1, 0].set(fingers[:, 2]).at[second + 2, 0].set(fingers[:, 3])
    relatives = model["base_relatives"] @ jax.vmap(_turn)(angles)
    absolutes = []
    for bone, parent in enumerate(parents):
        absolutes.append(relatives[bone] if parent < 0 else absolutes[parent] @ relatives[bone])
    transforms = jnp.stack(absolutes) @ model["inverse_base_absolutes"]
    by_bone = jax.vmap(lambda transform: model["base_positions"] @ transform[:3].T)(transforms)
    positions = jnp.einsum("vb,bvi->vi", model["weights"], by_bone)
    if mirrored:
        positions *= jnp.array([-1.0, 1.0, 1.0])
    return positions @ _axis_rotation(theta[:3]).T + theta[3:6]


def _on_triangle(u, corners):
    return u[0] * corners[0] + u[1] * corners[1] + (1 - u[0] - u[1]) * corners[2]


def ht_objective(theta, us, model, correspondences, points, parents, mirrored):
    """As `ht.objective`."""
    positions = _vertices(theta, model, parents, mirrored)
    if us.size == 0:
        return (points - positions[correspondences]).ravel()
    corners = positions[model["triangles"][correspondences]]
    return (points - jax.vmap(_on_triangle)(us, corners)).ravel()


def ht_jacobian(theta, us, model, correspondences, points, parents, mirrored):
    """As `ht.jacobian`."""
    rest = (us, model, correspondences, points, parents, mirrored)
    by_theta = jax.jacfwd(ht_objective)(theta, *rest)
    if us.size == 0:
        return by_theta
    corners = _vertices(theta, model, parents, mirrored)[model["triangles"][correspondences]]
    by_point = jax.vmap(jax.jacfwd(_on_triangle))(us, corners)
    return jnp.concatenate([-by_point.reshape(-1, 2), by_theta], axis=1)


FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("lse", "primal"): lse_primal,
    ("lse", "gradient"): jax.grad(lse_primal),
    ("llsq", "primal"): llsq_primal,
    ("llsq", "gradient"): jax.grad(llsq_primal),
    ("gmm", "objective"): gmm_objective,
    ("gmm", "jacobian"): jax.grad(gmm_objective),
    ("ode", "primal"): ode_primal,
    ("ode", "gradient"): jax.grad(lambda x, steps: ode_primal(x, steps)[-1]),
    ("kmeans", "cost"): kmeans_cost,
    ("kmeans", "dir"): kmeans_direction,
    ("lstm", "objective"): lstm_objective,
    ("lstm", "jacobian"): lstm_jacobian,
    ("ba", "objective"): ba_objective,
    ("ba", "jacobian"): ba_jacobian,
    ("ht", "objective"): ht_objective,
    ("ht", "jacobian"): ht_jacobian,
}


def compiled(module: str, name: str, arguments: tuple[Any, ...], static: tuple[int, ...]):
    """Return a function's call on given arguments, compiled, that waits for its result."""
    jitted = jax.jit(FUNCTIONS[module, name], static_argnums=static)
    placed = tuple(x if i in static else jax.tree.map(jnp.asarray, x) for i, x in enumerate(arguments))
    return functools.partial(_waiting, jitted, placed)


def _waiting(jitted: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return jax.block_until_ready(jitted(*arguments))
