"""Safetensors: a file of named arrays that holds no code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from everyo.core.tensor import Tensor
from everyo.core.traced import refuse_traced
from everyo.errors import DTypeError, SerializationError, install
from everyo.io.atomic import replacing
from everyo.ops.creation import asarray, tensor
from everyo.ops.signatures import explained

_RESERVED = "__metadata__"  # the format's own key


@explained
def save_safetensors(
    tensors: Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors to a safetensors file, atomically.

    Parameters
    ----------
    tensors : mapping from str to tensor or array
        For example ``model.state_dict()``. Tensors that require grad are stored without their graph.
    path : path-like
        The file; an existing one is replaced once the new one is complete.
    metadata : mapping from str to str, optional
        Text kept in the file's header.

    Raises
    ------
    SerializationError
        If the format cannot hold a name or a dtype, or the safetensors package is missing.
    DTypeError
        If what is given is no dict of tensors, or has text or other dicts in it.
    CompileError
        Inside a compiled function, where it would be written once, not at each call.

    Examples
    --------
    >>> import everyo as eo, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> eo.io.save_safetensors({"w": eo.ones(2)}, path)
    >>> eo.io.load_safetensors(path)
    {'w': tensor([1., 1.], dtype=float32, shape=(2,))}
    """
    package = _package()
    refuse_traced("save_safetensors", "a file that is written", "save what the compiled function returns")
    if not isinstance(tensors, Mapping) or not all(isinstance(k, str) and k != _RESERVED for k in tensors):
        raise DTypeError(
            "tensors are saved under names",
            operation="save_safetensors",
            expected=f"a dict from str to tensor, none called {_RESERVED!r}",
            found=str(list(tensors)) if isinstance(tensors, Mapping) else type(tensors).__name__,
            remedy="pass model.state_dict(), or a dict of your own",
        )
    arrays = {}
    for name, value in tensors.items():
        if value is None or isinstance(value, (str, bytes, Mapping)):
            raise DTypeError(
                "a file of tensors holds tensors alone",
                operation="save_safetensors",
                expected=f"a tensor, an array or numbers under {name!r}",
                found=type(value).__name__,
                remedy="give nested dicts names like 'model.weight', and text as metadata=; the state of an "
                "optimizer can be pickled",
            )
        held = asarray(value)
        array = held.backend.to_numpy(held.concrete("save_safetensors"))
        # The writer reads memory in C order whatever the strides say.
        arrays[name] = array if array.flags.c_contiguous else array.copy(order="C")
    try:
        content = package.numpy.save(arrays, None if metadata is None else dict(metadata))
    except (package.SafetensorError, TypeError, ValueError) as error:
        raise SerializationError(
            "the tensors cannot be stored in this format",
            operation="save_safetensors",
            expected="text as metadata, real dtypes or complex64",
            found=str(error),
            remedy="convert the tensors with astype, and metadata with str",
        ) from error
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@explained
def load_safetensors(path: str | os.PathLike[str], device: str | None = None) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, as new leaves without gradients.

    Parameters
    ----------
    path : path-like
        The file.
    device : str, optional
        Where the tensors go.

    Returns
    -------
    dict from str to Tensor
        In the order of the file; a module takes it with ``load_state_dict``.

    Raises
    ------
    SerializationError
        If the file is corrupt or truncated, or the safetensors package is missing.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import everyo as eo, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> eo.io.save_safetensors({"w": eo.ones(2)}, path)
    >>> eo.io.load_safetensors(path)["w"].tolist()
    [1.0, 1.0]
    """
    package = _package()
    try:
        arrays = package.numpy.load_file(path)
    except (package.SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SerializationError(
            "the file is damaged, or it is no safetensors file, or it has a dtype that NumPy lacks",
            operation="load_safetensors",
            expected="a file that save_safetensors wrote",
            found=f"{os.fspath(path)}: {error}",
            remedy="save it again; a file that was cut off cannot be restored",
        ) from error
    return {name: tensor(array, device=device) for name, array in arrays.items()}


def _package() -> ModuleType:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise SerializationError(
            "the safetensors package is not installed",
            operation="everyo.io",
            expected="safetensors",
            found=str(error),
            remedy=install("train"),
        ) from error
    return safetensors
