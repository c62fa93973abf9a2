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
