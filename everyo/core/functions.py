"""Functions that are made of functions, and how pickles and copies find them or make them again."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any


class Transformed(functools.partial[Any]):
    """What a transformation makes of a function: a function like it, pickled as what it was made of.

    A function that stands where its name says, as a decorated one does, is pickled by that name; of others
    the transformation is applied anew. It is a `functools.partial` without arguments since these are called
    by C code, and since `inspect` looks for generators and coroutines behind them.
    """

    __slots__ = ("maker", "options", "origin")

    maker: Callable[..., Any]
    options: dict[str, Any]
    origin: Any
    __name__: str
    __qualname__: str

    def __new__(cls, call: Any, function: Any, maker: Callable[..., Any], /, **options: Any) -> Transformed:
        """Return `call` as what ``maker(function, **options)`` returns; `function` None is none."""
        self = super().__new__(cls, call)
        self.maker, self.origin, self.options = maker, function, options
        self.__name__, self.__qualname__ = call.__name__, call.__qualname__  # where a callable has none
        if function is not None:
            functools.update_wrapper(self, function)
        call.__module__ = self.__module__  # the compiler looks at what functions of users hold
        return self

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of an instance."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        """Return how to find the function again, or to make it anew."""
        maker = functools.partial(self.maker, **self.options) if self.options else self.maker
        return name_of(self) or (maker, () if self.origin is None else (self.origin,))

    def __copy__(self) -> Transformed:
        """Return the function itself, as for all functions."""
        return self

    def __deepcopy__(self, memo: Any) -> Transformed:
        """Return the function itself."""
        return self

    def __repr__(self) -> str:
        return f"<{self.maker.__name__} of {self.origin or self.__name__!r}>"


def name_of(function: Any) -> str | None:
    """Return the qualified name of a function if it leads to it: what pickle stores of it, from `__reduce__`.

    Not where cloudpickle asks for a function of the script, which its other processes do not have.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or (module == "__main__" and _by_value()):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is function else None


def _by_value() -> bool:
    """Whether `__reduce__`, two frames further up, was called by cloudpickle."""
    return "cloudpickle" in sys._getframe(3).f_globals.get("__name__", "")
