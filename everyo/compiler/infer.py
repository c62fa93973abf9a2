"""Shapes and dtypes of results, without computing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everyo.core.device import backend_of
from everyo.core.primitive import Primitive
from everyo.errors import CompileError, describe

Spec = tuple[tuple[int, ...], Any]


def infer(primitive: Primitive, examples: Sequence[Any], params: dict[str, Any]) -> list[Spec]:
    """Return shape and dtype of each result of a primitive on operands like `examples`.

    Elementwise operations are asked on one element; others on the stand-ins themselves, which hold one
    zero each, so that the kernel alone says what it makes.
    """
    if primitive.options.get("shaped_by_values"):
        raise CompileError(
            "the shape of the result depends on values",
            operation=primitive.name,
            inputs=describe(*examples),
            expected="shapes that follow from shapes",
            found="a count of elements that is known only when the program runs",
            remedy="use eo.where with a mask, or compute this outside of the compiled function",
        )
    if "specs" in primitive.options:
        return primitive.options["specs"](examples, params)
    xp = _namespace(examples)
    with np.errstate(all="ignore"):
        if primitive.family in ("elementwise", "discrete") and _is_pointwise(primitive):
            shape = np.broadcast_shapes(*[e.shape for e in examples if hasattr(e, "shape")])
            small = [np.ones((1,) * e.ndim, e.dtype) if hasattr(e, "shape") else e for e in examples]
            return [(shape, np.asarray(primitive.forward(xp, *small, **params)).dtype)]
        if primitive.name == "matmul" and _contracts(*examples):
            return [_matmul(*examples)]
        out = primitive.forward(xp, *examples, **{**primitive.defaults, **params})
    results = out if isinstance(out, tuple) else (out,)
    return [(np.shape(r), np.asarray(r).dtype) for r in results]


def _is_pointwise(primitive: Primitive) -> bool:
    return getattr(primitive.batch, "__name__", "") == "pointwise"


def _namespace(examples: Sequence[Any]) -> Any:
    for example in examples:
        backend = backend_of(example)
        if backend is not None:
            return backend.xp
    found = backend_of(np.zeros(()))
    assert found is not None
    return found.xp


def _contracts(a: Any, b: Any) -> bool:
    """Whether the contracted axes are there and fit; if not, the kernel says what is wrong."""
    return bool(a.ndim and b.ndim and a.shape[-1] == b.shape[max(b.ndim - 2, 0)])


def _matmul(a: Any, b: Any) -> Spec:
    """The product of stand-ins would cost as much as the real one."""
    if a.shape[-1]:
        a, b = a[..., :1], b[..., :1, :] if b.ndim > 1 else b[:1]
    out = np.matmul(a, b)
    return np.shape(out), np.asarray(out).dtype
