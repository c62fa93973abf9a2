"""NumPy's ufuncs on tensors: `Tensor.__array_ufunc__` finds the operation of the same name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from everyo.backends.numpy_names import no_value, origin
from everyo.core.device import backend_of
from everyo.core.dtypes import as_dtype, in_double_precision
from everyo.core.operands import WEAK
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import DTypeError, UnsupportedOperationError, describe
from everyo.guidance.conversions import instead
from everyo.guidance.updates import Update, update
from everyo.ops import numpy_gufuncs as gufuncs
from everyo.ops import partial
from everyo.ops.creation import as_tensor, as_tensors
from everyo.ops.methods import fitted
from everyo.ops.signatures import misfit

# How a call may be carried out in memory; it has no meaning for tensors beyond these values.
_LAYOUT: dict[str, Any] = {"casting": "same_kind", "order": "K", "subok": True}
REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any", "logaddexp": "logsumexp",
}  # fmt: skip
_ACCUMULATIONS = {
    "add": "cumsum", "multiply": "cumprod", "logaddexp": "logcumsumexp",
    "maximum": "cumulative_max", "minimum": "cumulative_min",
}  # fmt: skip
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_PARTS = ("initial", "where")
_found: dict[Any, Callable[..., Any]] = {}
_ours: set[type] = set()  # classes of operands that were met before


def array_ufunc(self: Tensor, ufunc: Any, method: str, /, *inputs: Any, **options: Any) -> Any:
    """Return what NumPy's `ufunc` (or its `method`) makes of `inputs` of which one is a tensor.

    Raises
    ------
    UnsupportedOperationError
        If there is no such operation here, or an option that it has not.
    """
    for x in inputs:
        if x.__class__ not in _ours and _foreign(x):
            return NotImplemented
    if method == "__call__" and not options and ufunc in _found:
        return _found[ufunc](*inputs)
    out = options.pop("out", None)
    if method == "__call__" and out and out[0].__class__ in WEAK:  # np.log(x, 10)
        function = counterpart(ufunc)
        if function is not None:
            raise misfit(function, inputs, {"out": out[0]})
    with in_double_precision():
        result = _METHODS.get(method, _refused)(ufunc, method, inputs, options, out)
    return result if out is None else into(out, result, _name(ufunc, method))


def _foreign(value: Any) -> bool:
    """Whether a value of another library is to answer the call."""
    known = isinstance(value, (Tensor, list, tuple, bool, int, float, complex)) or value is None
    if not known and backend_of(value) is None:
        return True
    _ours.add(value.__class__)
    return False


def namespace() -> Any:
    """Return the package itself, whose public functions these are."""
    return sys.modules[__name__.partition(".")[0]]


def counterpart(function: Any) -> Callable[..., Any] | None:
    """Return the public function of this package that a function of NumPy or SciPy has here."""
    source = origin(function)
    if source is None:
        return None
    inner, name = source
    found = getattr(getattr(namespace(), inner, None) if inner else namespace(), name, None)
    if found is None and inner == "special":  # erf and a few others have no namespace here
        found = getattr(namespace(), name, None)
    return found if callable(found) else None


def spelled(function: Any) -> str:
    """Return what a user calls a function of NumPy or SciPy."""
    source = origin(function)
    if source is None:
        return str(function.__name__)
    prefix = {"": "np", "special": "scipy.special"}.get(source[0], f"np.{source[0]}")
    return f"{prefix}.{source[1]}"


def _name(ufunc: Any, method: str = "__call__") -> str:
    return spelled(ufunc) + ("" if method == "__call__" else f".{method}")


def unsupported(name: str, inputs: Sequence[Any], found: str, remedy: str) -> UnsupportedOperationError:
    """Return the error for what NumPy offers and tensors do not."""
    return UnsupportedOperationError(
        "this call has no counterpart that keeps the derivatives",
        operation=name,
        inputs=describe(*(x for x in inputs if hasattr(x, "shape"))),
        expected="a function of NumPy that everyo has too, with options that it knows",
        found=found,
        remedy=remedy,
    )


def _operation(ufunc: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    function = _found.get(ufunc) or counterpart(ufunc)
    if function is None:
        name = _name(ufunc)
        remedy = "compute on x.detach().numpy() where no derivative is needed, or define an eo.custom_vjp"
        raise unsupported(name, inputs, f"the ufunc {name}", remedy)
    _found[ufunc] = function
    return function


def _refuse_options(name: str, inputs: Sequence[Any], options: dict[str, Any]) -> None:
    """Raise UnsupportedOperationError for options that are left and do more than describe memory."""
    for option, value in options.items():
        if option not in _LAYOUT or value != _LAYOUT[option]:
            found = f"the option {option}={value!r}"
            raise unsupported(name, inputs, found, "leave it out, and convert the operands or result")


def _cast(name: str, inputs: Sequence[Any], dtype: Any) -> Sequence[Any]:
    """Return the operands in `dtype`, in which they are computed; comparisons compare them as they are."""
    if dtype.kind == "b":
        return inputs
    tensors = [as_tensor(x) for x in inputs]
    for given, x in zip(inputs, tensors, strict=True):
        number = isinstance(given, (bool, int, float, complex))
        require_same_kind(name, x, dtype, weak=number)
    return [x.astype(dtype, copy=False) for x in tensors]


def require_same_kind(name: str, x: Tensor, dtype: Any, weak: bool = False) -> None:
    """Raise DTypeError where NumPy refuses to cast `x` to `dtype`; of a weak number only the kind counts."""
    kinds = (_RANKS[x.dtype.kind], _RANKS[dtype.kind])
    if not (kinds[0] <= kinds[1] if weak else x.backend.xp.can_cast(x.dtype, dtype, "same_kind")):
        raise DTypeError(
            "an operand would be cast to another kind of numbers, and its derivative lost",
            operation=name,
            inputs=describe(x),
            expected="dtype= one of the same kind as the operands, or a wider kind",
            found=f"dtype={dtype}",
            remedy=f"leave dtype= out and convert the result, or cast first: x.astype({str(dtype)!r})",
        )


def _call(ufunc: Any, method: str, inputs: Sequence[Any], options: dict[str, Any], out: Any) -> Any:
    function, name = _operation(ufunc, inputs), _name(ufunc)
    dtype, where = options.pop("dtype", None), options.pop("where", True)
    along = {key: options.pop(key) for key in gufuncs.OPTIONS if key in options}
    _refuse_options(name, inputs, options)
    if dtype is not None:
        inputs = _cast(name, inputs, as_dtype(dtype))
    result = gufuncs.along(ufunc, name, function, inputs, along) if along else function(*inputs)
    results = result if isinstance(result, tuple) else (result,)
    if dtype is not None and any(x.dtype != as_dtype(dtype) for x in results):
        raise unsupported(name, inputs, f"dtype={dtype}", "convert the result: y.astype(...)")
    if where is True:
        return result
    if not isinstance(out, tuple) or len(out) != 1:
        remedy = "write np.where(condition, f(x), y), or give out= what stands elsewhere"
        raise unsupported(name, inputs, "where= without out=, which leaves elements undefined", remedy)
    return namespace().where(where, result, out[0])


def reduced(name: str, x: Any, options: dict[str, Any]) -> Any:
    """Return the reduction of a ufunc called `name`, with NumPy's ``initial`` and ``where``."""
    options = {key: value for key, value in options.items() if value is not no_value}
    dtype, axis, keepdims = options.pop("dtype", None), options.pop("axis", 0), options.pop("keepdims", False)
    _refuse_options(f"np.{name}.reduce", [x], {k: v for k, v in options.items() if k not in _PARTS})
    result = partial.reduced(REDUCTIONS[name], x, axis, keepdims, dtype=dtype, **options)
    return result if dtype is None else result.astype(dtype, copy=False)


def _reduce(ufunc: Any, method: str, inputs: Sequence[Any], options: dict[str, Any], out: Any) -> Any:
    if origin(ufunc) is None or ufunc.__name__ not in REDUCTIONS:
        _refused(ufunc, method, inputs, options, out)
    return reduced(ufunc.__name__, inputs[0], options)


def _accumulate(ufunc: Any, method: str, inputs: Sequence[Any], options: dict[str, Any], out: Any) -> Any:
    if origin(ufunc) is None or ufunc.__name__ not in _ACCUMULATIONS:
        _refused(ufunc, method, inputs, options, out)
    function = getattr(namespace(), _ACCUMULATIONS[ufunc.__name__])
    axis, dtype = options.pop("axis", 0), options.pop("dtype", None)
    _refuse_options(_name(ufunc, method), inputs, options)
    x = as_tensor(inputs[0])
    return function(x if dtype is None else x.astype(dtype, copy=False), axis=axis)


def _outer(ufunc: Any, method: str, inputs: Sequence[Any], options: dict[str, Any], out: Any) -> Any:
    first, second = as_tensors(inputs, _name(ufunc, method))
    apart = first.reshape(first.shape + (1,) * second.ndim)
    return _call(ufunc, method, (apart, second), options, out)


def _refused(ufunc: Any, method: str, inputs: Sequence[Any], options: dict[str, Any], out: Any) -> Any:
    remedies = {
        "at": "use eo.index_add, which keeps the derivatives",
        "reduceat": "use eo.segment_sum, or slices and a reduction",
    }
    name = _name(ufunc, method)
    raise unsupported(name, inputs, name, remedies.get(method, "write it with np.add or another reduction"))


_METHODS = {"__call__": _call, "reduce": _reduce, "accumulate": _accumulate, "outer": _outer}


def into(out: Any, result: Any, name: str) -> Any:
    """Return `out`, a tensor or a tuple of tensors, with the value and the graph of `result`.

    An array takes the elements of a result that has no graph.
    """
    targets = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    for target, value in zip(targets, results):
        if target is None:
            continue
        value = as_tensor(value)
        if isinstance(target, Tensor):
            target.assign(fitted(value, target))
        else:
            statement = update()
            differentiated = value.level or staging.get() is not None or value.requires_grad
            if differentiated or (statement is not None and statement.of_tensor):
                raise _no_place(name, target, value, statement)
            target[...] = fitted(value, as_tensor(target)).numpy()
    final = tuple(value if target is None else target for target, value in zip(targets, results))
    return final if isinstance(result, tuple) else final[0]


def _no_place(name: str, target: Any, value: Tensor, statement: Update | None) -> UnsupportedOperationError:
    """Return the error for an array that is to take a value with a derivative, or that is a tensor's own."""
    part = ""
    if getattr(target, "base", None) is not None:
        part = "; if a is part of another array, make that one a tensor and add to it as in b[i] += t"
    if statement is None:
        remedy = instead("leave out=, and in a statement like a += t write a = a + t" + part)
        return unsupported(name, [target], "out= an array, which has no place for derivatives", remedy)
    own = statement.of_tensor
    return UnsupportedOperationError(
        "the array of a tensor is updated past it" if own else "an array has no place for derivatives",
        operation=statement.sign,
        inputs=describe(target, value),
        expected="the tensor itself on the left" if own else "a tensor on the left, or an array on the right",
        found="x.data, which graphs share" if own else "an array on the left of a tensor with a derivative",
        remedy=statement.remedy if own else instead(statement.remedy + part),
    )
