"""The errors EveryO raises: every message says what failed, on what, and what to do.

Each class also derives from the built-in exception that fits, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
from types import FrameType
from typing import Self

from numpy.linalg import LinAlgError as _NumpyLinAlgError

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
QUOTED = 200  # characters of a source line that a message shows
GENERATED = "<everyo>"  # the file name of code that the package writes itself
_BETWEEN = frozenset(
    ("concurrent", "contextlib", "copy", "copyreg", "fractions", "functools", "matplotlib", "mpl_toolkits")
    + ("numpy", "optree", "pandas", "pickle", "scipy", "seaborn", "statistics", "threading")
)


class EveryOError(Exception):
    """Base of all errors that EveryO raises.

    Parameters
    ----------
    message : str
        What went wrong, in one sentence.
    operation : str, optional
        The operation that failed; it opens the message.
    inputs : str, optional
        Dtypes and shapes of the operands, as `describe` writes them.
    expected, found, remedy : str, optional
        What the operation needed, what it was given and how to mend it.
    line : str, optional
        The user's source line; found from the call stack when not given.
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        inputs: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
        line: str | None = None,
    ) -> None:
        self.message = message
        self.operation = operation
        self.inputs = inputs
        self.expected = expected
        self.found = found
        self.remedy = remedy
        self.line = user_line() if line is None else line
        text = f"{operation}: {message}" if operation else message
        rows = (
            ("inputs", inputs),
            ("expected", expected),
            ("found", found),
            ("remedy", remedy),
            ("at", self.line),
        )
        for label, value in rows:
            if value:
                text += f"\n  {label + ':':<10}{value}"
        super().__init__(text)

    def renamed(self, operation: str, **changes: str | None) -> Self:
        """Return this error as one of another operation: the function that the user called.

        `changes` replace other parts, for example ``inputs=``.
        """
        parts = {name: getattr(self, name) for name in ("inputs", "expected", "found", "remedy", "line")}
        return type(self)(self.message, operation=operation, **{**parts, **changes})

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args[0], self.__dict__))


def _rebuild(kind: type[EveryOError], text: str, state: dict[str, object]) -> EveryOError:
    error = kind.__new__(kind, text)
    error.args = (text,)
    error.__dict__.update(state)
    return error


class ShapeError(EveryOError, ValueError):
    """Shapes that do not fit each other or the operation."""


class DTypeError(EveryOError, TypeError):
    """A dtype that the operation cannot take."""


class IndexingError(EveryOError, IndexError):
    """An index outside the axis, or of a kind that cannot index."""


class ArgumentError(EveryOError, ValueError):
    """An argument outside its range, or one that contradicts another."""


class SignatureError(ArgumentError, TypeError):
    """A call that does not fit a function's signature: an unknown argument, too many, or too few."""


class LinAlgError(EveryOError, _NumpyLinAlgError):
    """A matrix that the operation is not defined for: singular, not positive definite, not finite."""


class DeviceError(EveryOError, RuntimeError):
    """A device that is unknown or unavailable, or operands on different devices."""


class UnsupportedOperationError(EveryOError, NotImplementedError):
    """An operation, or one of its derivative rules, that does not exist."""


class GraphStateError(EveryOError, RuntimeError):
    """A graph that was freed, was never recorded, or forbids the change asked for."""


class NonFiniteGradientError(EveryOError, ArithmeticError):
    """A NaN or an infinity in a backward pass, raised under ``detect_anomaly()``."""


class ConvergenceError(EveryOError, ArithmeticError):
    """An iteration that did not reach its tolerance."""


class CompileError(EveryOError, RuntimeError):
    """A function that the compiler cannot translate."""


class SerializationError(EveryOError, ValueError):
    """A file or an object that cannot be stored or restored."""


def install(extra: str) -> str:
    """Return the remedy for packages that are missing: how an extra is installed where this code runs."""
    return f"{sys.executable or 'python'} -m pip install -e '.[{extra}]' in EveryO's folder"


def user_line() -> str:
    """Return ``file:line in function: source`` of the innermost frame that is the user's, or nothing."""
    frame = user_frame()
    if frame is None:
        return ""
    place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    source = _quoted(user_source(frame), user_expression(frame))
    return f"{place}: {source}" if source else place


def _quoted(source: str, running: str) -> str:
    """Return a line as messages quote it: of a long one the part around what is running."""
    if len(source) <= QUOTED:
        return source
    begin = max(min(source.find(running) - QUOTED // 3, len(source) - QUOTED), 0)
    end = begin + QUOTED
    return "..." * (begin > 0) + source[begin:end] + "..." * (end < len(source))


def user_frame() -> FrameType | None:
    """Return the innermost frame that is the user's.

    Not the user's is what stands between two calls, or below all of them: this package and those it calls.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return frame


def entered(otherwise: str) -> str:
    """Return the name of the public function of this package that the user called, as far as it is known."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        code, known = frame.f_code, frame.f_globals.get("__all__", ())
        wrapped = frame.f_locals.get("function") if code.co_name == "call" else None
        name = getattr(wrapped, "__name__", code.co_name)
        if wrapped is not None or name in known or code.co_qualname == f"Generator.{name}":
            otherwise = name
        frame = frame.f_back
    return otherwise


def user_source(frame: FrameType) -> str:
    """Return the line of a frame as it is written, or an empty string."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).strip()


def user_expression(frame: FrameType, after: bool = False) -> str:
    """Return the part of a frame's line that is running, or an empty string where it is not known.

    With `after` it is what follows that part on the line.
    """
    place = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if place is None or place[0] is None or place[0] != place[1] or place[0] != frame.f_lineno:
        return ""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    part = slice(place[3], None) if after else slice(place[2], place[3])
    return line.encode()[part].decode(errors="replace")  # the file may have changed


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs code of the user's, not of this package or of those it calls."""
    name = frame.f_code.co_filename
    if name.startswith(_PACKAGE) or name == GENERATED:
        return False
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _BETWEEN


def describe(*values: object) -> str:
    """Return dtype and shape of each value, as error messages show them.

    Examples
    --------
    >>> import numpy as np
    >>> describe(np.zeros((2, 3)), 1.5)
    'float64 (2, 3), float'
    """
    return ", ".join(
        f"{v.dtype} {tuple(v.shape)}"
        if hasattr(v, "shape") and hasattr(v, "dtype") and not isinstance(v, type)
        else type(v).__name__
        for v in values
    )
