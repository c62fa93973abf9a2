"""Some of the problems in PyTorch, eager, as its user would write them.

Each function takes the arguments of EveryO's function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from . import gmm, ode
from .tool import functions

Call = Callable[[], Any]


def _gradient(f: Callable[..., torch.Tensor], wanted: int) -> Callable[..., Any]:
    """Return the gradient of a scalar function by its first arguments, as a list, or alone if it is one."""

    def run(*arguments: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in arguments[:wanted]]
        found = torch.autograd.grad(f(*leaves, *arguments[wanted:]), leaves)
        return found[0] if wanted == 1 else list(found)

    return run


def lse_primal(x):
    """As `lse.primal`."""
    return torch.logsumexp(x, 0)


def llsq_primal(x, n):
    """As `llsq.primal`."""
    t = torch.linspace(-1.0, 1.0, n, dtype=x.dtype)
    value = torch.zeros_like(t)
    for coefficient in reversed(x.unbind()):
        value = value * t + coefficient
    residual = torch.sign(t) - value
    return 0.5 * (residual * residual).sum()


def gmm_objective(alpha, mu, q, l, x, m, gamma):
    """As `gmm.objective`."""
    n, d = x.shape
    k = len(alpha)
    columns, rows = torch.triu_indices(d, d, 1)
    factors = torch.diag_embed(torch.exp(q))
    factors = factors.index_put((torch.arange(k)[:, None], rows, columns), l)
    z = (x - mu[:, None]) @ factors.mT
    densities = (alpha + q.sum(1))[:, None] - 0.5 * (z * z).sum(2)
    likelihood = torch.logsumexp(densities, 0).sum() - n * torch.logsumexp(alpha, 0)
    prior = m * q.sum() - 0.5 * gamma**2 * (factors * factors).sum()
    return likelihood + prior + gmm.constant(n, d, k, m, gamma)


def ode_primal(x, steps):
    """As `ode.primal`."""
    h = ode.END / steps
    one = torch.ones(1, dtype=x.dtype)

    def slope(y):
        return x * torch.cat([one, y[:-1]])

    y = torch.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def kmeans_cost(centroids, points):
    """As `kmeans.cost`, of the centroids first."""
    squares = (points * points).sum(1, keepdim=True) + (centroids * centroids).sum(1)
    return (squares - 2 * points @ centroids.T).amin(1).sum()


def kmeans_direction(centroids, points):
    """As `kmeans.direction`, of the centroids first."""
    x = centroids.detach().requires_grad_()
    (slope,) = torch.autograd.grad(kmeans_cost(x, points), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)  # the Hessian is diagonal
    return slope.detach() / curvature


def lstm_objective(main, extra, state, sequence):
    """As `lstm.objective`."""
    depth, width = main.shape[0] // 2, sequence.shape[1]
    parameters = [[part.unbind() for part in pair.unbind()] for pair in main.reshape(depth, 2, 4, width)]
    in_weight, out_weight, out_bias = extra.unbind()
    states = [tuple(pair.unbind()) for pair in state.reshape(depth, 2, width)]
    signals = []
    for symbol in sequence[:-1].unbind():
        signal = symbol * in_weight
        for i, ((w, b), (hidden, cell)) in enumerate(zip(parameters, states, strict=True)):
            forget = torch.sigmoid(signal * w[0] + b[0])
            ingate = torch.sigmoid(hidden * w[1] + b[1])
            outgate = torch.sigmoid(signal * w[2] + b[2])
            cell = cell * forget + ingate * torch.tanh(hidden * w[3] + b[3])
            signal = outgate * torch.tanh(cell)
            states[i] = (signal, cell)
        signals.append(signal)
    predicted = torch.stack(signals) * out_weight + out_bias
    normalizer = torch.log(2 + torch.exp(predicted).sum(1, keepdim=True))
    return -(sequence[1:] * (predicted - normalizer)).mean()


def lstm_jacobian(main, extra, state, sequence):
    """As `lstm.jacobian`."""
    found = _gradient(lstm_objective, 2)(main, extra, state, sequence)
    return torch.cat([x.ravel() for x in found])


FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("lse", "primal"): lse_primal,
    ("lse", "gradient"): _gradient(lse_primal, 1),
    ("llsq", "primal"): llsq_primal,
    ("llsq", "gradient"): _gradient(llsq_primal, 1),
    ("gmm", "objective"): gmm_objective,
    ("gmm", "jacobian"): _gradient(gmm_objective, 4),
    ("ode", "primal"): ode_primal,
    ("ode", "gradient"): _gradient(lambda x, steps: ode_primal(x, steps)[-1], 1),
    ("kmeans", "cost"): kmeans_cost,
    ("kmeans", "dir"): kmeans_direction,
    ("lstm", "objective"): lstm_objective,
    ("lstm", "jacobian"): lstm_jacobian,
}


def _positional(module: str, arguments: tuple[Any, ...]) -> list[Any]:
    """Return a function's arguments in the order that is usual here: what is differentiated comes first."""
    if module == "gmm":
        parameters, *rest = arguments
        return [*(parameters[name] for name in ("alpha", "mu", "q", "l")), *rest]
    return [*arguments[::-1]] if module == "kmeans" else [*arguments]


def call(module: str, name: str, message: Any) -> Call | None:
    """Return a function's call on the input of a message; None where there is no version of it."""
    if (module, name) not in FUNCTIONS:
        return None
    arguments = _positional(module, functions(module)[name].read(message))
    given = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]
    run = FUNCTIONS[module, name]
    if "objective" in name or name in ("primal", "cost"):
        return partial(_without_grad, run, given)
    return lambda: _named(module, run(*given))


def _without_grad(run: Callable[..., Any], given: list[Any]) -> Any:
    with torch.no_grad():
        return run(*given)


def _named(module: str, found: Any) -> Any:
    """Return gradients as EveryO's function does."""
    if module == "gmm":
        return dict(zip(("alpha", "mu", "q", "l"), found, strict=True))
    return found
