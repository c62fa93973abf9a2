"""Looks at the values of tensors, where they are there to look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.device import backend_for, backend_of
from everyo.core.dtypes import as_dtype
from everyo.core.operands import array_from, tensors_in
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, innermost, is_number, staging
from everyo.errors import EveryOError


def is_known(x: Tensor) -> bool:
    """Whether a tensor holds an array: it is no value of a transformation, nor is a program traced."""
    return not x.level and staging.get() is None


def held(x: Tensor, operation: str) -> Any:
    """Return the array of a tensor, also of one that is differentiated.

    None for a batch, and in a program for what does not follow from constants alone.
    """
    if is_known(x):
        return x.data
    tracer = staging.get()
    if tracer is not None:
        return None if _in_batch(x) else tracer.constant_array(tracer.beneath(x))
    try:
        return x.concrete(operation)
    except EveryOError:
        return None


class Check:
    """A check of the arrays of values, as a call in a program."""

    def __init__(self, check: Callable[..., Any]) -> None:
        self.check = check

    def __call__(self, *arrays: Any) -> tuple[()]:
        """Raise unless the arrays are as they should be."""
        self.check(*arrays)
        return ()


def plain(value: Any, operation: str) -> Any:
    """Return a number of a compiled function as one of Python; CompileError where nobody knows it yet."""
    return value.data.concrete(operation).item() if is_number(value) else value


def look(check: Callable[..., Any], *values: Any, batches: bool = False) -> None:
    """Call a check with the arrays of values: now, or whenever the program that is traced comes there.

    It must not hold on to tensors. Of a batch nothing is asked: a branch may not take all of its examples.
    With `batches` it is, but in no program.
    """
    tracer = staging.get()
    if any(map(_in_batch, values)) and (tracer is not None or not batches):
        return
    if tracer is None:
        check(*map(innermost, values))
        return
    tracer.python(check if isinstance(check, Check) else Check(check), list(map(tracer.primal, values)))


def counted(places: Tensor, size: int) -> Tensor:
    """Return positions along an axis that count from 0.

    Where nobody knows them yet, negative ones, which would count from the end, are put outside of the axis.
    """
    if staging.get() is None or places.dtype.kind != "i":
        return places
    places = op.astype(places, dtype=as_dtype("int64"))
    return op.where(op.less(places, 0), size, places)


def _in_batch(x: Any) -> bool:
    """Whether a value is one of a batch, at any level."""
    while isinstance(x, (Tensor, Traced)):
        if isinstance(x, Traced) and x.batched:
            return True
        x = x.data if isinstance(x, Tensor) else x.below
    return False


def fixed(value: Any, operation: str) -> Any:
    """Return an argument that is no tensor, and holds none, as an array, also in a function that is traced.

    None for all others: what they hold may be unknown yet.
    """
    if next(tensors_in(value), None) is not None:
        return None
    backend, place = backend_for(None)
    return array_from(value, backend, place, operation) if backend_of(value) is None else value


def may_overflow(x: Any) -> bool:
    """Whether a value that a rule reads holds infinities, as far as it is there to look at."""
    if isinstance(x, Tensor):
        if not is_known(x):
            return True
        x = x.data
    return anywhere(op.isinf(x))


def everywhere(mask: Any) -> bool:
    """Whether a raw array of booleans is true everywhere."""
    return bool(op.all(mask, axis=None, keepdims=False))


def anywhere(mask: Any) -> bool:
    """Whether a raw array of booleans is true somewhere."""
    return bool(op.any(mask, axis=None, keepdims=False))
