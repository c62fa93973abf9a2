"""Training: the check of the gradients, one epoch, and the measurement on examples held out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import everyo as eo
from everyo import nn, optim
from everyo.demo.data import Examples
from everyo.demo.model import DigitReader

F = nn.functional


_SMOOTH = 0  # this seed puts the small network where no ReLU and no maximum is at a kink


class Config(NamedTuple):
    """What determines the numbers of a run."""

    epochs: int = 30
    seed: int = 0
    batch_size: int = 32
    learning_rate: float = 3e-3
    channels: int = 16
    hidden: int = 64
    dropout: float = 0.25


class Measured(NamedTuple):
    """What the network makes of some examples."""

    loss: float
    accuracy: float
    probabilities: eo.Tensor


def check_gradients(examples: Examples) -> int:
    """Compare the gradients of a small copy of the network with differences, in float64.

    Returns
    -------
    int
        How many parameters were checked, all of them.

    Raises
    ------
    everyo.testing.GradientCheckError
        If a gradient is wrong.
    """
    small = DigitReader(channels=2, hidden=4, generator=eo.random.Generator(_SMOOTH)).to(eo.float64).eval()
    images, labels = examples.images.astype(eo.float64), examples.labels
    names, values = zip(*small.named_parameters(), strict=True)

    def loss(*values: eo.Tensor) -> eo.Tensor:
        logits = nn.functional_call(small, dict(zip(names, values, strict=True)), images)
        return F.cross_entropy(logits, labels)

    eo.testing.gradcheck(loss, *values)
    return sum(value.size for value in values)


def train_epoch(
    model: nn.Module,
    optimizer: optim.Optimizer,
    examples: Examples,
    batch_size: int,
    generator: eo.random.Generator,
    after_batch: Callable[[float, float], None],
) -> tuple[float, float]:
    """Go once through the examples in a random order; return mean loss and accuracy on the way.

    `after_batch` is called with the loss and the accuracy so far.
    """
    model.train()
    order = generator.permutation(len(examples.labels))
    loss_sum, right, seen = 0.0, 0, 0
    for start in range(0, len(examples.labels), batch_size):
        batch = examples.take(order[start : start + batch_size]).shifted(generator)
        logits = model(batch.images)
        loss = F.cross_entropy(logits, batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(batch.labels)
        loss_sum += float(loss.detach()) * len(batch.labels)
        right += _count_right(logits.detach(), batch.labels)
        after_batch(loss_sum / seen, right / seen)
    return loss_sum / seen, right / seen


def measure(model: nn.Module, examples: Examples) -> Measured:
    """Return loss, accuracy and probabilities on `examples`, without training."""
    model.eval()
    with eo.no_grad():
        logits = model(examples.images)
        loss = float(F.cross_entropy(logits, examples.labels))
    right = _count_right(logits, examples.labels)
    return Measured(loss, right / len(examples.labels), eo.softmax(logits, axis=1))


def _count_right(logits: eo.Tensor, labels: eo.Tensor) -> int:
    return int((eo.argmax(logits, axis=1) == labels).sum())


def cosine(start: float, progress: float) -> float:
    """Return the learning rate after a fraction `progress` of the training: from `start` down to 0."""
    return start * 0.5 * (1 + math.cos(math.pi * progress))
