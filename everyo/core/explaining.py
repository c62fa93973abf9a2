"""What a kernel's exception becomes: an error that names the operation, its operands and what to do."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everyo.errors import ArgumentError, DTypeError, EveryOError, IndexingError, ShapeError, describe

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive

EXPLAINED = (ValueError, TypeError, IndexError, OverflowError)  # what kernels raise for bad operands


def explain(
    primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], error: Exception
) -> EveryOError:
    """Return the structured error for a kernel's exception; that of the primitive itself if it has one."""
    own = primitive.options.get("explain")
    if own is not None and (explained := own(arrays, params, error)) is not None:
        known: EveryOError = explained
        return known
    settings = ", ".join(f"{k}={v!r}" for k, v in params.items())
    operands = describe(*arrays) + (f"; {settings}" if settings else "")
    shapes = [tuple(a.shape) for a in arrays if hasattr(a, "shape")]
    if isinstance(error, TypeError):
        return DTypeError(
            "the operands' types do not suit the operation",
            operation=primitive.name,
            inputs=operands,
            expected="dtypes that the operation is defined for",
            found=str(error),
            remedy="take a part first: eo.real(x), eo.imag(x) or eo.abs(x)"
            if any(getattr(a, "dtype", None) is not None and a.dtype.kind == "c" for a in arrays)
            else "convert first, for example x.astype(eo.float32)",
        )
    if isinstance(error, OverflowError):
        return ArgumentError(
            "a number is outside the range of the dtype that it meets",
            operation=primitive.name,
            inputs=operands,
            expected="a number that the dtype can hold",
            found=str(error),
            remedy="convert the tensor to a wider dtype first",
        )
    if isinstance(error, IndexError):
        return IndexingError(
            "the index does not fit the operand",
            operation=primitive.name,
            inputs=operands,
            expected="indices inside the axes",
            found=str(error),
            remedy="an axis of n elements has the positions -n to n - 1",
        )
    if primitive.family in ("elementwise", "discrete") and len(shapes) > 1 and _clash(shapes):
        return ShapeError(
            "the shapes do not broadcast together",
            operation=primitive.name,
            inputs=operands,
            expected="axes, counted from the last, that are equal or 1",
            found=" and ".join(map(str, shapes)),
            remedy="reshape or expand_dims one operand",
        )
    from everyo.guidance.conversions import help_on

    return ShapeError(
        "the operation cannot be done on these operands",
        operation=primitive.name,
        inputs=operands,
        expected="shapes and parameters that fit each other",
        found=str(error),
        remedy=help_on(primitive.name),
    )


def _clash(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Return whether the shapes do not broadcast together."""
    for column in itertools.zip_longest(*(reversed(s) for s in shapes), fillvalue=1):
        if len({n for n in column if n != 1}) > 1:
            return True
    return False
