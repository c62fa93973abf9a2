"""State dicts and moves: giving the tensors of a module new arrays, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from everyo.core.device import backend_for
from everyo.core.dtypes import DIFFERENTIABLE, as_dtype
from everyo.core.modes import no_grad
from everyo.core.registry import op
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import refuse_traced, staging
from everyo.errors import DTypeError, SerializationError
from everyo.ops.creation import asarray

_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}  # a conversion to a lower rank would lose information


class IncompatibleKeys(NamedTuple):
    """What `Module.load_state_dict` returns: names without a value, and values without a target."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_state(
    targets: Mapping[str, Tensor], values: Mapping[str, Any], strict: bool, owner: str
) -> IncompatibleKeys:
    """Copy `values` into `targets`; if they do not fit, SerializationError and nothing has changed."""
    if not isinstance(values, Mapping):
        raise DTypeError(
            "a state dict maps names to tensors",
            operation=f"{owner}.load_state_dict",
            expected="a dict",
            found=type(values).__name__,
            remedy="pass what state_dict() or load_safetensors(...) returned",
        )
    missing = [name for name in targets if name not in values]
    unexpected = [name for name in values if name not in targets]
    faults = []
    if strict:
        faults += [f"missing: {name}" for name in missing]
        faults += [f"unexpected: {name}" for name in unexpected]
    arrays = {}
    for name in targets:
        if name not in values:
            continue
        target = targets[name]
        try:
            value = asarray(values[name]).detach()
        except DTypeError:
            faults.append(f"value of {name}: {type(values[name]).__name__}, not an array of numbers")
            continue
        if value.shape != target.shape:
            faults.append(f"shape of {name}: {value.shape}, but the module has {target.shape}")
        elif _RANK[value.dtype.kind] > _RANK[target.dtype.kind]:
            faults.append(f"dtype of {name}: {value.dtype}, but the module has {target.dtype}")
        elif staging.get() is not None:  # the program loads it, at each call
            arrays[name] = op.astype(value, dtype=target.dtype)
        else:
            arrays[name] = converted(value, target.device, target.dtype, copy=True)
    if faults:
        raise SerializationError(
            "the state dict does not fit the module",
            operation=f"{owner}.load_state_dict",
            expected="the names, shapes and kinds of dtype of its parameters and buffers",
            found="\n            ".join(faults),
            remedy="build the module as it was when the state was saved"
            + ("; strict=False loads the names that match" if missing or unexpected else ""),
        )
    for name, array in arrays.items():
        if isinstance(array, Tensor):
            with no_grad():
                targets[name].assign(array)
        else:
            targets[name].data = array
    return IncompatibleKeys(missing, unexpected)


def converted(tensor: Tensor, device: str | None, dtype: Any, copy: bool | None = None) -> Any:
    """Return the raw array of `tensor` on a device in a dtype; None keeps either."""
    backend, place = backend_for(tensor.device if device is None else device)
    array = tensor.data if backend is tensor.backend else tensor.backend.to_numpy(tensor.data)
    return backend.asarray(array, dtype, place, copy)


def destination(where: tuple[Any, ...], device: str | None, dtype: Any) -> tuple[str | None, Any]:
    """Return the device and the dtype that the arguments of `Module.to` name; None for either not named."""
    for value in where:
        try:
            dtype = as_dtype(value)
        except DTypeError:
            if not isinstance(value, str):
                raise
            device = value
    if device is not None:
        backend_for(device)  # raises DeviceError for one that is unknown
    if dtype is not None and (dtype := as_dtype(dtype)).kind not in DIFFERENTIABLE:
        raise DTypeError(
            "parameters can only become floating-point or complex",
            operation="to",
            expected="a float or complex dtype",
            found=str(dtype),
            remedy="convert what the model returns instead",
        )
    return device, dtype


def move(tensors: Sequence[Tensor], device: str | None, dtype: Any) -> None:
    """Convert parameters, buffers and their gradients where they stand; integers keep their dtype."""
    refuse_traced("to", "parameters that change their dtype or device", "convert them outside")
    if dtype is not None and dtype.kind == "f" and any(t.dtype.kind == "c" for t in tensors):
        raise DTypeError(
            "a complex parameter or buffer would lose its imaginary part",
            operation="to",
            expected="a complex dtype",
            found=str(dtype),
            remedy="use eo.complex64 or eo.complex128",
        )
    for tensor in tensors:
        wanted = dtype if tensor.dtype.kind in DIFFERENTIABLE else None
        tensor.data = converted(tensor, device, wanted)
        if tensor.grad is not None:
            tensor.grad = wrap(converted(tensor.grad, device, wanted))
