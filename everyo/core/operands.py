"""Operands that are no tensors: Python numbers, and lists that become arrays or, of tensors, a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from everyo.core import device
from everyo.core.dtypes import default_for, refuse_complex
from everyo.core.readable import not_an_array
from everyo.core.tensor import Tensor
from everyo.core.traced import is_number
from everyo.errors import ArgumentError, DTypeError, describe

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive

WEAK = frozenset({int, float, complex, bool})  # Python scalars take the dtype of what they meet
WEAK_KINDS = {"i": 0, "u": 0, "f": 0.0, "c": 0j}  # a number for each kind of data that is weak in lists

_stacking: list[Callable[[Any], Tensor]] = []


def tensors_in(data: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested lists."""
    if isinstance(data, Tensor):
        yield data
    elif isinstance(data, (list, tuple)) and not set(map(type, data)) <= WEAK:
        for item in data:
            yield from tensors_in(item)


def stack_lists_by(function: Callable[[Any], Tensor]) -> None:
    """Let `function` make nested lists that contain tensors one tensor; it consists of operations."""
    _stacking[:] = [function]


def stacked(inputs: Sequence[Any]) -> list[Any]:
    """Return operands with a tensor in place of nested lists that contain tensors: their graph stays."""
    return [
        _stacking[0](x) if isinstance(x, (list, tuple)) and next(tensors_in(x), None) is not None else x
        for x in inputs
    ]


def coerce(primitive: Primitive, values: Sequence[Any]) -> list[Any]:
    """Return operands as arrays: lists are converted, and scalars too where no array gives them a dtype.

    Lists of Python numbers are as weak as the numbers where operands promote.
    """
    anchors = [v for v in values if device.backend_of(v) is not None]
    backend = device.common_backend(anchors, primitive.name)
    place = backend.device_of(anchors[0]) if anchors else backend.devices[0]
    for i, value in enumerate(values):
        if isinstance(value, Tensor):
            raise not_an_array(value, primitive.name)
        if value is None and i not in primitive.options.get("optional", ()):
            array_from(value, backend, place, primitive.name)  # raises
    met = [v.dtype for v in anchors] if primitive.broadcasts else []
    if primitive.broadcasts and not anchors:
        made = (array_from(v, backend, place, primitive.name) for v in values if v is not None)
        met = [strongest(made).dtype]
    coerced = []
    for value in values:
        value = numeric(value, primitive.name)
        if value is None or (type(value) in WEAK and anchors) or device.backend_of(value) is backend:
            coerced.append(value)
        else:
            coerced.append(array_from(value, backend, place, primitive.name, met=met))
    return coerced


def without_lists(primitive: Primitive, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the operands of a transformation with Python data as arrays, as weak as `coerce` makes them."""
    for x in inputs:
        if not (x.__class__ is Tensor or x.__class__ in WEAK or hasattr(x, "dtype")):
            break
    else:
        return inputs
    optional = primitive.options.get("optional", ())
    foreign = [
        i
        for i, x in enumerate(inputs)
        if not (x.__class__ in WEAK or hasattr(x, "dtype") or (x is None and i in optional))
    ]
    anchor = next(x for x in inputs if isinstance(x, Tensor))
    met = (
        [x.dtype for x in inputs if hasattr(x, "dtype") and not is_number(x)] if primitive.broadcasts else []
    )
    if primitive.broadcasts and not met:  # numbers of a compiled function, and lists, alone
        made = (array_from(inputs[i], anchor.backend, anchor.device, primitive.name) for i in foreign)
        kinds = [x.dtype.kind for x in (*made, *(x for x in inputs if hasattr(x, "dtype")))]
        met = [d for d in [default_for(max(kinds, key="biufc".index))] if d is not None]
    arrays = list(inputs)
    for i in foreign:
        arrays[i] = array_from(inputs[i], anchor.backend, anchor.device, primitive.name, met=met)
    return arrays


def array_from(
    value: Any,
    backend: device.Backend,
    place: str,
    operation: str,
    dtype: Any = None,
    met: Sequence[Any] = (),
) -> Any:
    """Return Python data as an array of `dtype`, or of the default of its kind.

    Beside arrays, whose dtypes it has `met`, it is weak: as a number would, it takes theirs. Scalars and
    arrays of a library, in lists too, keep their own.

    Raises
    ------
    DTypeError
        If it is not numeric data of one shape, or has imaginary parts that `dtype` would drop.
    ArgumentError
        If a value is outside the range of an integer `dtype`.
    """
    try:
        array = backend.asarray(value, None, place)
    except RuntimeError as error:  # PyTorch's, of a tensor that requires grad
        raise ArgumentError(
            "an array of another library cannot be read",
            operation=operation,
            expected="an array that its library converts to NumPy's",
            found=f"{type(value).__name__}: {error}",
            remedy="detach and resolve it there first, as x.detach().resolve_conj() in PyTorch",
        ) from error
    except (TypeError, ValueError) as error:
        raise DTypeError(
            "an operand is not numeric data of one shape",
            operation=operation,
            expected="a tensor, an array, a number or nested lists of numbers",
            found=f"{type(value).__name__}: {error}",
            remedy="give all rows one length, by padding, or keep them as separate tensors in a list"
            if "inhomogeneous" in str(error)
            else "pass numbers: text is read with float(s); None and dicts are no operands",
        ) from None
    kind = array.dtype.kind
    if dtype is None and is_typed(value):
        dtype = array.dtype
    if dtype is None:  # a given dtype must not pass through the default one, which could round
        weak = met and kind in WEAK_KINDS
        dtype = backend.xp.result_type(*met, WEAK_KINDS[kind]) if weak else default_for(kind)
    if dtype is None:
        return array
    refuse_complex(array.dtype, dtype, operation)
    if dtype.kind in "iu" and array.size:
        # Integers on both sides of 2**63 are floats to NumPy, unless it is told.
        whole = _integers(value) if kind == "f" else None
        low, high = (array.min().item(), array.max().item()) if whole is None else (min(whole), max(whole))
        require_range(low, high, dtype, backend, operation)
        return backend.asarray(array if whole is None else value, dtype, place)
    return backend.asarray(array, dtype, place)


def _integers(value: Any) -> list[int] | None:
    """Return the integers in nested lists; None if there is anything else."""
    if not isinstance(value, (list, tuple)):
        return [value] if isinstance(value, int) else None
    found = [_integers(item) for item in value]
    return None if None in found else [i for part in found for i in part or ()]


def numeric(value: Any, operation: str) -> Any:
    """Return an operand as it is, an array in the machine's byte order.

    DTypeError is raised for an array of Python objects, of text or of records, and for a class.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is not None and isinstance(value, type):
        raise DTypeError(
            "a class is no operand",
            operation=operation,
            expected="a tensor, an array, a number or nested lists of numbers",
            found=f"the class {value.__name__}",
            remedy="convert elements to a dtype with x.astype(dtype)",
        )
    if dtype is not None and dtype.kind not in "biufc":
        raise DTypeError(
            "the elements of an operand are not numeric",
            operation=operation,
            inputs=describe(value),
            expected="booleans, integers, floats or complex numbers",
            found=f"an array of dtype {dtype}",
            remedy="convert it: a.astype(float), or eo.asarray(a.tolist()) if it holds tensors",
        )
    return value if dtype is None or dtype.isnative else value.astype(dtype.newbyteorder("="))


def is_typed(value: Any) -> bool:
    """Whether a value is, or a list holds, an array or scalar of a library, whose dtype counts."""
    if isinstance(value, (list, tuple)):
        return not set(map(type, value)) <= WEAK and any(map(is_typed, value))
    if isinstance(value, Tensor):
        return not is_number(value)
    if value.__class__ in WEAK:
        return False
    return any(hasattr(value, name) for name in ("dtype", "__array__", "typecode"))


def strongest(arrays: Iterable[Any]) -> Any:
    """Return an array (or tensor) of the highest kind, which decides the dtype where all are Python data."""
    return max(arrays, key=lambda array: "biufc".index(array.dtype.kind))


def require_range(low: Any, high: Any, dtype: Any, backend: device.Backend, operation: str) -> None:
    """Raise ArgumentError for numbers that `dtype`, an integer one, cannot hold."""
    limits = backend.xp.iinfo(dtype)
    # A conversion truncates, and a NaN is in no range.
    if not (limits.min - 1 < low and high < limits.max + 1):
        raise ArgumentError(
            "a number is outside the range of the dtype",
            operation=operation,
            expected=f"{limits.min} to {limits.max} for {dtype}",
            found=f"{low} to {high}" if low != high else str(low),
            remedy="use a wider dtype",
        )
