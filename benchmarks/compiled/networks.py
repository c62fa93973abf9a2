"""The networks that are trained: once as modules, which EveryO and PyTorch share, and once for JAX.

The functions for JAX take the parameters as a list in the modules' order, matrices as (in, out) and filters
as (height, width, in, out), as is usual there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

VOCABULARY, TOKENS, WIDTH, HEADS, LAYERS = 64, 128, 128, 4, 4


@dataclass(frozen=True)
class Network:
    """A network, and what it is trained on.

    Attributes
    ----------
    name, title, detail : str
        As in a row and a measurement.
    module : callable
        ``module(library, parts)`` builds it of a library's layers, and of what EveryO's lack.
    in_jax : callable
        ``in_jax(parameters, x)`` computes its output.
    data : callable
        ``data(quick)`` returns inputs and classes, as arrays of NumPy.
    tables : tuple of int
        Positions of the parameters that JAX does not take transposed.
    images : bool
        Whether the inputs are images, which JAX takes with the channels last.
    """

    name: str
    title: str
    detail: str
    module: Callable[[ModuleType, SimpleNamespace], Any]
    in_jax: Callable[[list[Any], Any], Any]
    data: Callable[[bool], tuple[np.ndarray, np.ndarray]]
    tables: tuple[int, ...] = ()
    images: bool = False


def parts_of_everyo() -> SimpleNamespace:
    """Return what EveryO's layers lack, written out."""
    import everyo as eo

    def attention(q, k, v):
        n, width = q.shape[-2:]
        scores = q @ eo.swapaxes(k, -1, -2) * width**-0.5
        later = np.triu(np.ones((n, n), bool), 1)
        return eo.softmax(eo.where(later, -float("inf"), scores), axis=-1) @ v

    return SimpleNamespace(LayerNorm=eo.nn.LayerNorm, attention=attention)


def parts_of_torch() -> SimpleNamespace:
    """Return PyTorch's own."""
    import torch

    attention = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
    return SimpleNamespace(LayerNorm=torch.nn.LayerNorm, attention=attention)


# multilayer perceptron


def perceptron(root, parts):
    """Return a 784-256-10 network."""
    nn = root.nn
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def perceptron_in_jax(parameters, x):
    """As `perceptron`."""
    import jax

    w1, b1, w2, b2 = parameters
    return jax.nn.relu(x @ w1 + b1) @ w2 + b2


def digits(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return 128 flat images and their classes."""
    rng = np.random.default_rng(1)
    return rng.standard_normal((128, 784), np.float32), rng.integers(0, 10, 128)


# convolutional network


def convolutional(root, parts):
    """Return a network for 28 x 28 images: two convolutions, each with pooling, and a linear layer."""
    nn = root.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip


def convolutional_in_jax(parameters, x):
    """As `convolutional`."""
    import jax
    import jax.numpy as jnp

    w1, b1, w2, b2, w3, b3 = parameters
    for w, b in ((w1, b1), (w2, b2)):
        x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + b)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1) @ w3 + b3


def images(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return 32 images and their classes."""
    rng = np.random.default_rng(2)
    return rng.standard_normal((32, 1, 28, 28), np.float32), rng.integers(0, 10, 32)


# transformer


def transformer(root, parts):
    """Return a causal language model with the norms before attention and perceptron."""
    nn = root.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention = parts.LayerNorm(WIDTH)
            self.project = nn.Linear(WIDTH, 3 * WIDTH)
            self.merge = nn.Linear(WIDTH, WIDTH)
            self.before_perceptron = parts.LayerNorm(WIDTH)
            self.up = nn.Linear(WIDTH, 4 * WIDTH)
            self.down = nn.Linear(4 * WIDTH, WIDTH)

        def attend(self, x):
            batch, n, _ = x.shape
            projected = self.project(x).reshape((batch, n, 3, HEADS, WIDTH // HEADS))
            q, k, v = (root.swapaxes(projected[:, :, i], 1, 2) for i in range(3))
            return self.merge(root.swapaxes(parts.attention(q, k, v), 1, 2).reshape((batch, n, WIDTH)))

        def forward(self, x):
            x = x + self.attend(self.before_attention(x))
            return x + self.down(nn.functional.gelu(self.up(self.before_perceptron(x))))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.symbols = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Embedding(TOKENS, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = parts.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, x):
            x = self.symbols(x) + self.positions.weight
            return self.head(self.norm(self.blocks(x))).reshape((-1, VOCABULARY))

    return Transformer()


def transformer_in_jax(parameters, x):
    """As `transformer`."""
    import jax
    import jax.numpy as jnp

    def normalized(x, weight, bias):
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * weight + bias

    def attend(x, w1, b1, w2, b2):
        batch, n, _ = x.shape
        projected = (x @ w1 + b1).reshape(batch, n, 3, HEADS, WIDTH // HEADS)
        q, k, v = (projected[:, :, i].swapaxes(1, 2) for i in range(3))
        scores = q @ k.swapaxes(2, 3) * q.shape[-1] ** -0.5
        allowed = jnp.tril(jnp.ones((n, n), bool))
        mixed = jax.nn.softmax(jnp.where(allowed, scores, -jnp.inf), axis=-1) @ v
        return mixed.swapaxes(1, 2).reshape(batch, n, WIDTH) @ w2 + b2

    symbols, positions, *rest = parameters
    x = symbols[x] + positions
    for start in range(0, len(rest) - 4, 12):
        norm1, bias1, w1, b1, w2, b2, norm2, bias2, w3, b3, w4, b4 = rest[start : start + 12]
        x = x + attend(normalized(x, norm1, bias1), w1, b1, w2, b2)
        x = x + jax.nn.gelu(normalized(x, norm2, bias2) @ w3 + b3, approximate=False) @ w4 + b4
    norm, bias, w, b = rest[-4:]
    return (normalized(x, norm, bias) @ w + b).reshape(-1, VOCABULARY)


def texts(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return 8 texts and what follows each of their symbols."""
    text = np.random.default_rng(3).integers(0, VOCABULARY, (8, TOKENS + 1))
    return text[:, :-1].copy(), text[:, 1:].ravel()


NETWORKS = [
    Network(
        "mlp", "MLP 784-256-10", "batch 128, ReLU", perceptron, perceptron_in_jax, digits,
    ),
    Network(
        "convnet", "convolutional network",
        "28 x 28 images, batch 32; 3x3 convolutions to 16 and 32 channels, ReLU, 2x2 max pooling",
        convolutional, convolutional_in_jax, images, images=True,
    ),
    Network(
        "transformer", "transformer, 4 layers",
        "128 wide, 4 heads, 128 tokens of 64 kinds, batch 8; causal, layer norm first, GELU",
        transformer, transformer_in_jax, texts, tables=(0, 1),
    ),
]  # fmt: skip
