"""Embedding: a vector for each index."""

from __future__ import annotations

from typing import Any

from everyo.nn import functional as F
from everyo.nn import init
from everyo.nn.module import Module
from everyo.nn.parameter import Parameter
from everyo.ops.creation import zeros


class Embedding(Module):
    """Looks vectors up in a table that is trained.

    Parameters
    ----------
    num_embeddings : int
        Rows of the table; indices are 0 to ``num_embeddings - 1``.
    embedding_dim : int
        Length of each vector.
    device, dtype : optional
        Of the table.
    generator : eo.random.Generator, optional
        Draws the initial values from the standard normal distribution.

    Attributes
    ----------
    weight : Parameter
        The table, shape ``(num_embeddings, embedding_dim)``.

    Raises
    ------
    ShapeError
        If a size is negative.
    DTypeError
        If a size is no integer, or the dtype no float.
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nn.Embedding(10, 3)(eo.tensor([[1, 2], [4, 4]])).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        device: str | None = None,
        dtype: Any = None,
        *,
        generator: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter(zeros((num_embeddings, embedding_dim), device=device, dtype=dtype))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Any = None) -> None:
        """Draw the initial values anew."""
        init.normal_(self.weight, generator=generator)

    def forward(self, input: Any) -> Any:
        """Return the vectors of the integer tensor `input`, shape ``(*input.shape, embedding_dim)``."""
        return F.embedding(input, self.weight)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
