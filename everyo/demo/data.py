"""The digits that scikit-learn bundles: 1,797 handwritten ones, 8 by 8 pixels, divided in a fixed way."""

from __future__ import annotations

from typing import NamedTuple

import everyo as eo

HELD_OUT = 0.2  # the fraction that the network never sees in training
_SPLIT_SEED = 0  # the division does not depend on the seed of a run


class Examples(NamedTuple):
    """Images with their digits.

    Attributes
    ----------
    images : Tensor, shape (n, 1, 8, 8), float32
        Ink from 0 to 1.
    labels : Tensor, shape (n,), integer
        What each image shows.
    """

    images: eo.Tensor
    labels: eo.Tensor

    def take(self, indices: eo.Tensor | slice) -> Examples:
        """Return some of the examples."""
        return Examples(self.images[indices], self.labels[indices])

    def shifted(self, generator: eo.random.Generator) -> Examples:
        """Return the examples with images moved by one pixel: half of them up or down, half left or right.

        So the network learns that a digit is the same wherever it stands.
        """
        count, _, height, width = self.images.shape
        padded = eo.pad(self.images[:, 0], ((0, 0), (1, 1), (1, 1)))
        down, right = ((generator.integers(4, size=(count, 1, 1)) + 1) // 2 for _ in range(2))
        rows = down + eo.arange(height)[:, None]
        columns = right + eo.arange(width)
        return Examples(padded[eo.arange(count)[:, None, None], rows, columns][:, None], self.labels)


def load() -> tuple[Examples, Examples]:
    """Return the examples to train on and those held out; every digit has the same share of both."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = digits.images.astype("float32")[:, None] / 16
    parts = train_test_split(
        images, digits.target, test_size=HELD_OUT, stratify=digits.target, random_state=_SPLIT_SEED
    )
    train_images, test_images, train_labels, test_labels = map(eo.tensor, parts)
    return Examples(train_images, train_labels), Examples(test_images, test_labels)
