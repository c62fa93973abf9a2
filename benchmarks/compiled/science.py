"""Programs of scientific computing: each is one function, for all libraries, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """A function to be differentiated, and its arguments.

    Attributes
    ----------
    name, title, detail : str
        As in a row and a measurement.
    f : callable
        ``f(xp, *arguments)`` returns a scalar, or with `has_aux` a scalar and something beside it.
    arguments : callable
        ``arguments(quick)`` returns them, as arrays of NumPy; smaller ones for a smoke run.
    wrt : tuple of int
        Positions of the arguments that gradients are asked for.
    has_aux : bool
        Whether `f` returns a pair.
    tolerance : float
        Largest difference between libraries, relative to the largest entry of a result.
    """

    name: str
    title: str
    detail: str
    f: Callable[..., Any]
    arguments: Callable[[bool], list[Any]]
    wrt: tuple[int, ...]
    has_aux: bool = False
    tolerance: float = 1e-8


# Black-Scholes


def call_prices(xp, spot, strike, maturity, rate, volatility):
    """Return the sum of the prices of call options, and the prices."""

    def normal_cdf(x):
        return 0.5 * xp.erfc(-x / math.sqrt(2))

    deviation = volatility * xp.sqrt(maturity)
    upper = (xp.log(spot / strike) + (rate + 0.5 * volatility**2) * maturity) / deviation
    price = spot * normal_cdf(upper) - strike * xp.exp(-rate * maturity) * normal_cdf(upper - deviation)
    return xp.sum(price), price


def options(quick: bool) -> list[np.ndarray]:
    """Return spot, strike, maturity, rate and volatility of each option."""
    rng = np.random.default_rng(1)
    limits = ((50, 150), (50, 150), (0.1, 2), (0.0, 0.1), (0.1, 0.6))
    return [rng.uniform(low, high, 1000 if quick else 1_000_000) for low, high in limits]


# gravity


def energy_after_step(xp, positions, velocities, masses):
    """Return the total energy of n bodies after one leapfrog step."""
    dt, softening = 0.01, 1e-3

    def distances(x):
        between = x[None, :, :] - x[:, None, :]
        return between, xp.sum(between * between, axis=2) + softening**2

    def acceleration(x):
        between, squared = distances(x)
        return xp.sum(masses[None, :, None] * between * (squared**-1.5)[:, :, None], axis=1)

    half = velocities + 0.5 * dt * acceleration(positions)
    x = positions + dt * half
    v = half + 0.5 * dt * acceleration(x)
    kinetic = 0.5 * xp.sum(masses * xp.sum(v * v, axis=1))
    pairs = masses[:, None] * masses[None, :] / xp.sqrt(distances(x)[1])
    return kinetic - 0.5 * (xp.sum(pairs) - xp.sum(masses * masses) / softening)


def bodies(quick: bool) -> list[np.ndarray]:
    """Return positions, velocities and masses of 12 bodies."""
    rng = np.random.default_rng(2)
    return [rng.standard_normal((12, 3)), rng.standard_normal((12, 3)), rng.uniform(0.5, 1.5, 12)]


# Gaussian process


def marginal_likelihood(xp, hyperparameters, x, y):
    """Return the negative log marginal likelihood of a Gaussian process with a squared exponential kernel."""
    scale, amplitude, noise = xp.exp(hyperparameters)
    n = x.shape[0]
    norms = xp.sum(x * x, axis=1)
    squares = norms[:, None] + norms[None, :] - 2 * x @ x.T
    covariance = amplitude * xp.exp(-0.5 * squares / scale) + noise * xp.eye(n)
    factor = xp.cholesky(covariance)
    whitened = xp.solve_lower(factor, y[:, None])
    log_determinant = 2 * xp.sum(xp.log(xp.diagonal(factor)))
    return 0.5 * (xp.sum(whitened * whitened) + log_determinant + n * math.log(2 * math.pi))


def regression(quick: bool) -> list[np.ndarray]:
    """Return hyperparameters and n points with noisy values."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((100 if quick else 500, 3))
    y = np.sin(x.sum(axis=1)) + 0.1 * rng.standard_normal(len(x))
    return [np.array([0.3, 0.1, -3.0]), x, y]


# Kalman filter


def innovations_likelihood(xp, parameters, motion, drag, observe, observations):
    """Return the negative log likelihood of positions that were observed with noise.

    The state, a position and a velocity in the plane, moves by ``motion - drag * damping`` in each step.
    """
    process, measurement, damping = xp.exp(parameters)
    transition = motion - damping * drag
    process_noise, measurement_noise = process * xp.eye(4), measurement * xp.eye(2)

    def step(state, observation):
        mean, covariance = state
        mean = transition @ mean
        covariance = transition @ covariance @ transition.T + process_noise
        residual = observation - observe @ mean
        spread = observe @ covariance @ observe.T + measurement_noise
        inverse, determinant = inverse_2x2(xp, spread)
        gain = covariance @ observe.T @ inverse
        loss = 0.5 * (residual @ inverse @ residual + xp.log(determinant)) + math.log(2 * math.pi)
        return (mean + gain @ residual, covariance - gain @ observe @ covariance), loss

    start = (xp.zeros(4), xp.eye(4))
    return xp.sum(xp.scan(step, start, observations)[1])


def inverse_2x2(xp, a):
    """Return the inverse of a matrix (2, 2), and its determinant."""
    determinant = a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    adjugate = xp.stack([xp.stack([a[1, 1], -a[0, 1]]), xp.stack([-a[1, 0], a[0, 0]])])
    return adjugate / determinant, determinant


def track(quick: bool) -> list[np.ndarray]:
    """Return parameters, the matrices of the motion, and the observed positions of 1,000 steps."""
    rng = np.random.default_rng(4)
    dt, steps = 0.1, 50 if quick else 1000
    motion = np.eye(4) + dt * np.eye(4, k=2)
    drag = dt * np.diag([0.0, 0.0, 1.0, 1.0])
    speed = np.cumsum(0.1 * rng.standard_normal((steps, 2)), axis=0)
    positions = np.cumsum(dt * speed, axis=0) + 0.3 * rng.standard_normal((steps, 2))
    return [np.array([-4.0, -2.0, -1.0]), motion, drag, np.eye(4)[:2], positions]


# neural ODE


def trajectory_loss(xp, parameters, start, targets):
    """Return the mean squared distance from given trajectories of those that a network drives (RK4)."""
    h = 0.05

    def slope(y):
        return xp.tanh(y @ parameters["w1"] + parameters["b1"]) @ parameters["w2"] + parameters["b2"]

    def step(y, target):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, xp.mean((y - target) ** 2)

    return xp.mean(xp.scan(step, start, targets)[1])


def trajectories(quick: bool) -> list[Any]:
    """Return a 2-50-2 network's parameters, and start and course of 20 spirals."""
    rng = np.random.default_rng(5)
    parameters = {
        "w1": 0.5 * rng.standard_normal((2, 50)),
        "b1": np.zeros(50),
        "w2": 0.2 * rng.standard_normal((50, 2)),
        "b2": np.zeros(2),
    }
    start = rng.standard_normal((20, 2))
    time = 0.05 * np.arange(1, 11 if quick else 101)[:, None]
    turned = start[:, 0] * np.cos(time) - start[:, 1] * np.sin(time), start[:, 0] * np.sin(time)
    return [parameters, start, np.exp(-0.1 * time)[:, :, None] * np.stack(turned, axis=2)]


# LSTM


def lstm_loss(xp, layers, readout, sequence, target):
    """Return the mean squared error of a two-layer LSTM's last output."""
    batch, width = sequence.shape[1], readout.shape[0]

    def cell(layer, state, signal):
        hidden, memory = state
        gates = signal @ layer["w"] + hidden @ layer["u"] + layer["b"]
        ingate, forget, outgate = (xp.sigmoid(gates[:, i * width : (i + 1) * width]) for i in range(3))
        memory = forget * memory + ingate * xp.tanh(gates[:, 3 * width :])
        return outgate * xp.tanh(memory), memory

    def step(states, signal):
        following = []
        for layer, state in zip(layers, states, strict=True):
            state = cell(layer, state, signal)
            signal = state[0]
            following.append(state)
        return following, None

    zeros = xp.zeros((batch, width))
    states = xp.scan(step, [(zeros, zeros) for _ in layers], sequence)[0]
    return xp.mean((states[-1][0] @ readout - target) ** 2)


def sequences(quick: bool) -> list[Any]:
    """Return two layers of 128 cells, a readout, 64 steps of a batch of 32, and targets."""
    rng = np.random.default_rng(6)
    width, inputs, batch, steps = 128, 64, 32, 4 if quick else 64

    def weights(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape) / math.sqrt(width)

    layers = [
        {"w": weights(n, 4 * width), "u": weights(width, 4 * width), "b": weights(4 * width)}
        for n in (inputs, width)
    ]
    sequence, target = rng.standard_normal((steps, batch, inputs)), rng.standard_normal((batch, 1))
    return [layers, weights(width, 1), sequence, target]


# logistic regression


def logistic_loss(xp, parameters, x, labels):
    """Return the mean negative log likelihood of labels 0 and 1, with a penalty on the weights."""
    z = x @ parameters["weights"] + parameters["bias"]
    return xp.mean(xp.softplus(z) - labels * z) + 0.01 * xp.sum(parameters["weights"] ** 2)


def labelled(quick: bool) -> list[Any]:
    """Return parameters, and points with their labels."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1000 if quick else 100_000, 50))
    weights = 0.3 * rng.standard_normal(50)
    labels = (x @ weights + rng.standard_normal(len(x)) > 0).astype(np.float64)
    return [{"weights": np.zeros(50), "bias": np.zeros(())}, x, labels]


PROGRAMS = [
    Program(
        "black-scholes", "Black-Scholes, 1e6 options", "price and five first-order Greeks of each option",
        call_prices, options, (0, 1, 2, 3, 4), has_aux=True,
    ),
    Program(
        "gravity", "gravity, 12 bodies", "energy after a leapfrog step; by positions, velocities and masses",
        energy_after_step, bodies, (0, 1, 2),
    ),
    Program(
        "gaussian-process", "Gaussian process, n = 500",
        "marginal likelihood by 3 hyperparameters; EveryO has its Cholesky factor in array code",
        marginal_likelihood, regression, (0,),
    ),
    Program(
        "kalman", "Kalman filter, 1,000 steps", "4 states, 2 observations; likelihood by 3 parameters",
        innovations_likelihood, track, (0,),
    ),
    Program(
        "neural-ode", "neural ODE, 100 steps of RK4", "2-50-2 network, tanh, batch 20; by its weights",
        trajectory_loss, trajectories, (0,),
    ),
    Program(
        "lstm", "LSTM, 2 layers, 64 steps", "batch 32, 64 inputs, 128 cells; by all weights",
        lstm_loss, sequences, (0, 1),
    ),
    Program(
        "logistic", "logistic regression, 1e5 x 50", "mean loss with a penalty; by weights and bias",
        logistic_loss, labelled, (0,),
    ),
]  # fmt: skip
