"""Sample inputs of a primitive: small specifications that `everyo.testing` turns into arrays."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sample(NamedTuple):
    """One call of a primitive.

    Attributes
    ----------
    inputs : tuple
        For each input a shape (random values from the primitive's domain), a `Values`, an `Integers`,
        or a Python scalar or None, which stands for itself.
    params : dict
        The static parameters.
    """

    inputs: tuple[Any, ...]
    params: dict[str, Any]


class Values(NamedTuple):
    """Explicit elements: nested lists or a number; float unless they are integers or booleans."""

    elements: Any


class Integers(NamedTuple):
    """Random integers from 0 to `high` - 1, which carry no gradient."""

    shape: tuple[int, ...]
    high: int


class Distinct(NamedTuple):
    """Random values that all differ by at least 0.05: no ties, and none within a difference step."""

    shape: tuple[int, ...]


def sample(*inputs: Any, **params: Any) -> Sample:
    """Return a `Sample` of these inputs and parameters."""
    return Sample(inputs, params)
