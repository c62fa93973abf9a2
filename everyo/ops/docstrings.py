"""Sections that the docstrings of several functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_ORDER = ("Parameters", "Returns", "Raises", "Examples")


def described(**sections: str) -> Callable[[F], F]:
    """Write sections into the docstring of the decorated function, as `with_sections` does."""

    def describe(function: F) -> F:
        function.__doc__ = with_sections(function.__doc__, **sections)
        return function

    return describe


def with_sections(doc: str | None, **sections: str) -> str:
    """Return a docstring with more sections; the text of one that it has comes after what stands there.

    Parameters
    ----------
    doc : str or None
        The docstring; without one (``python -OO``) the result is empty.
    **sections : str
        For titles, such as Raises, the text, without a margin and without empty lines.

    Examples
    --------
    >>> print(with_sections("Half of it.", Raises="DTypeError\\n    If it is no number."))
    Half of it.
    <BLANKLINE>
    Raises
    ------
    DTypeError
        If it is no number.
    """
    if not doc:
        return ""
    margin = doc[len(doc.rstrip(" ")) :]  # none from Python 3.13 on
    body = doc.rstrip() + "\n\n"
    for title, text in sections.items():
        lines = margin + text.replace("\n", "\n" + margin) + "\n"
        heading = f"\n{margin}{title}\n{margin}---"
        if (place := body.find(heading)) >= 0:
            end = body.index("\n\n", place + len(heading)) + 1
        else:
            later = (body.find(f"\n{margin}{t}\n{margin}---") for t in _ORDER[_ORDER.index(title) + 1 :])
            end = min((at + 1 for at in later if at >= 0), default=len(body))
            lines = f"{margin}{title}\n{margin}{'-' * len(title)}\n{lines}\n"
        body = body[:end] + lines + body[end:]
    return body.rstrip() + "\n" + margin


SHAPE = "shape : int or sequence of int\n    The shape of the result."
LIKE = "x : tensor, array or number\n    What the result is like; of any shape and dtype."
VALUE = "fill_value : number or 0-d tensor\n    The value of all elements."
_REQUIRES_GRAD = "requires_grad : bool, default False\n    Whether operations on it are recorded."
_NO_SIZE = "ShapeError\n    If a size is negative."
_NO_VALUE = "ArgumentError\n    If the value is outside the range of an integer dtype."
_NO_DTYPE = "DTypeError\n    If something is not numeric, or an integer tensor is to require grad."
_NO_DEVICE = "DeviceError\n    If the device is unknown or unavailable."


def created(*parameters: str, dtype: str, device: str = "the CPU") -> Callable[[F], F]:
    """Write the sections of a function that makes a tensor, with the defaults of its dtype and device."""
    errors = (
        *((_NO_SIZE,) if SHAPE in parameters else ()),
        *((_NO_VALUE,) if VALUE in parameters else ()),
    )
    return described(
        Parameters="\n".join((*parameters, _placed(dtype, device), _REQUIRES_GRAD)),
        Returns="Tensor\n    Of that shape, in memory of its own.",
        Raises="\n".join((*errors, _NO_DTYPE, _NO_DEVICE)),
    )


def _placed(dtype: str, device: str) -> str:
    return (
        f"dtype : dtype-like, optional\n    The dtype of the result, by default {dtype}.\n"
        f"device : str, optional\n    Where it is, by default {device}."
    )


converted = described(
    Parameters=_placed("that of `data`; of Python floats the default float dtype", "where `data` is"),
    Raises=f"DTypeError\n    If the elements are not numeric, or would lose an imaginary part.\n"
    f"ArgumentError\n    If a number is outside the range of an integer dtype.\n{_NO_DEVICE}",
)

of_a_real_number = described(
    Parameters="x : tensor, array or number\n    Real, of any shape; integers are computed in float64.",
    Returns="Tensor\n    Of the same shape; floats keep their dtype.",
    Raises="DTypeError\n    If the elements are no real numbers.",
)
