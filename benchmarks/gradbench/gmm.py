"""The log posterior of a Gaussian mixture with a Wishart prior on its precision matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import everyo as eo

from .function import Function, float64, number, numbers


def precision_factor(q: eo.Tensor, l: eo.Tensor) -> eo.Tensor:
    """Return the lower triangular Q (d, d), whose precision matrix is Q'Q.

    Parameters
    ----------
    q : Tensor of shape (d,)
        Logarithms of the diagonal.
    l : Tensor of shape (d (d - 1) / 2,)
        What is below the diagonal, column by column.
    """
    columns, rows = np.triu_indices(q.size, 1)
    factor = eo.diag(eo.exp(q))
    factor[rows, columns] = l
    return factor


def log_density(x: eo.Tensor, alpha: eo.Tensor, mu: eo.Tensor, q: eo.Tensor, factor: eo.Tensor) -> eo.Tensor:
    """Return one component's part in the density of each point x (n, d), up to constants, of shape (n,)."""
    z = (x - mu) @ factor.T
    return alpha + eo.sum(q) - 0.5 * eo.sum(z * z, axis=1)


def objective(parameters: dict[str, eo.Tensor], x: eo.Tensor, m: int, gamma: float) -> eo.Tensor:
    """Return the log posterior.

    Parameters
    ----------
    parameters : dict of Tensor
        alpha (k,), mu (k, d), q (k, d) and l (k, d (d - 1) / 2).
    x : Tensor of shape (n, d)
        The points.
    m : int
        Additional degrees of freedom of the prior.
    gamma : float
        Precision of the prior.
    """
    alpha, mu, q, l = (parameters[name] for name in ("alpha", "mu", "q", "l"))
    n, d = x.shape
    factors = eo.vmap(precision_factor)(q, l)
    densities = eo.vmap(log_density, in_axes=(None, 0, 0, 0, 0))(x, alpha, mu, q, factors)
    likelihood = eo.sum(eo.logsumexp(densities, axis=0)) - n * eo.logsumexp(alpha)
    prior = m * eo.sum(q) - 0.5 * gamma**2 * eo.sum(factors * factors)
    return likelihood + prior + constant(n, d, alpha.size, m, gamma)


def constant(n: int, d: int, k: int, m: int, gamma: float) -> float:
    """Return the part of the log posterior that does not depend on the parameters."""
    freedom = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(
        math.lgamma(0.5 * (freedom - j)) for j in range(d)
    )
    prior = freedom * d * (math.log(gamma) - 0.5 * math.log(2)) - log_gamma
    return k * prior - 0.5 * n * d * math.log(2 * math.pi)


jacobian = eo.grad(objective)


def _read(message: dict[str, Any]) -> tuple:
    parameters = {name: float64(message[name]) for name in ("alpha", "mu", "q", "l")}
    return parameters, float64(message["x"]), int(message["m"]), float(message["gamma"])


def _write(gradients: dict[str, eo.Tensor]) -> dict[str, Any]:
    return {name: numbers(x) for name, x in gradients.items()}


FUNCTIONS = {
    "objective": Function(objective, _read, number, static=(2, 3)),
    "jacobian": Function(jacobian, _read, _write, static=(2, 3)),
}
