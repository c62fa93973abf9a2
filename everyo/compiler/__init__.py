"""The compiler: `everyo.compile` turns a function of tensors into machine code."""

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from everyo.compiler.api import compile as _compile
from everyo.compiler.inspection import Inspection
from everyo.compiler.inspection import inspect as _inspect
from everyo.compiler.printing import debug_print as debug_print

P = ParamSpec("P")
Result = TypeVar("Result", covariant=True)


class Inspectable(Protocol, Generic[P, Result]):
    """A compiler that also shows what it does."""

    inspect: Callable[..., Callable[..., Inspection]]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Compile a function."""


def _inspectable(f: Callable[P, Result]) -> Inspectable[P, Result]:
    made = cast("Inspectable[P, Result]", f)
    made.inspect = _inspect
    return made


compile = _inspectable(_compile)
jit = compile
