"""The network: two convolutions, a pooling and two linear layers."""

from __future__ import annotations

import everyo as eo
from everyo import nn


class DigitReader(nn.Module):
    """Reads an 8 by 8 image: returns a logit for each of the ten digits.

    Parameters
    ----------
    channels : int, default 16
        Channels of the first convolution; the second has twice as many.
    hidden : int, default 64
        Units of the hidden linear layer.
    dropout : float, default 0.25
        How much of what enters a linear layer is dropped in training.
    generator : eo.random.Generator, optional
        Draws the initial values and what is dropped.
    """

    def __init__(
        self,
        channels: int = 16,
        hidden: int = 64,
        dropout: float = 0.25,
        generator: eo.random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, kernel_size=3, padding=1, generator=generator),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, kernel_size=3, padding=1, generator=generator),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(dropout, generator=generator),
            nn.Linear(2 * channels * 4 * 4, hidden, generator=generator),
            nn.ReLU(),
            nn.Dropout(dropout, generator=generator),
            nn.Linear(hidden, 10, generator=generator),
        )

    def forward(self, images: eo.Tensor) -> eo.Tensor:
        """Return the logits, shape ``(batch, 10)``, of `images`, shape ``(batch, 1, 8, 8)``."""
        return self.classifier(self.features(images))
