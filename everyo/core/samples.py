"""Sample inputs of a primitive: small specifications that `everyo.testing` turns into arrays."""

from __future__ import annotations

from typing import Any

# Plain classes, as named tuples cost the import of the package a millisecond.


class Sample:
    """One call of a primitive.

    Attributes
    ----------
    inputs : tuple
        For each input a shape (random values from the primitive's domain), a `Values`, an `Integers`,
        or a Python scalar or None, which stands for itself.
    params : dict
        The static parameters.
    """

    __slots__ = ("inputs", "params")

    def __init__(self, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.inputs, self.params = inputs, params

    def with_params(self, **params: Any) -> Sample:
        """Return the sample with these static parameters added or replaced."""
        return Sample(self.inputs, {**self.params, **params})


class Values:
    """Explicit elements: nested lists or a number; float unless they are integers or booleans."""

    __slots__ = ("elements",)

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    def __repr__(self) -> str:
        return f"Values({self.elements})"


class Integers:
    """Random integers from 0 to `high` - 1, which carry no gradient."""

    __slots__ = ("high", "shape")

    def __init__(self, shape: tuple[int, ...], high: int) -> None:
        self.shape, self.high = shape, high

    def __repr__(self) -> str:
        return f"Integers({self.shape}, {self.high})"


class Distinct:
    """Random values that all differ by at least 0.05: no ties, and none within a difference step."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __repr__(self) -> str:
        return f"Distinct({self.shape})"


def sample(*inputs: Any, **params: Any) -> Sample:
    """Return a `Sample` of these inputs and parameters."""
    return Sample(inputs, params)
