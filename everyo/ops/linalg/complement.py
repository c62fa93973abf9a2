"""An orthonormal basis of what is orthogonal to given vectors: what completes Q, U and V."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor
from everyo.ops.families import primitive
from everyo.ops.linalg.common import adjoint, decomposed, float_of, made, matrixwise, row
from everyo.ops.linalg.phases import steadied, turned, with_phase
from everyo.ops.reductions import conjugate


def _dual(q: Any) -> Any:
    """Return the vectors whose products with those of `q` are the identity."""
    return q @ op.inv(adjoint(q) @ q, strict=False)


def _complement_vjp(g: Any, q: Any, out: Any) -> Any:
    h = conjugate(g)
    x = adjoint(out) @ h
    if x.dtype.kind == "c":
        h = steadied(h, out, op.imag(op.diagonal(x)))
        x = adjoint(out) @ h
    values = op.real(op.zeros_like(op.diagonal(x)))  # all equal: the basis may turn as a whole
    unknown = op.over_gaps(x, None, values, op.frozen(out), skew=True)
    return conjugate(out @ (unknown @ (adjoint(out) @ q) - adjoint(h) @ _dual(q)))


def _complement_jvp(t: Any, q: Any, out: Any) -> Any:
    change = -(_dual(q) @ (adjoint(t) @ out))
    if out.shape[-1] > 1:
        return change * math.nan  # how the basis turns is not determined
    return change + out * row(turned(change, out)) * 1j if out.dtype.kind == "c" else change


def _specs(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    *lead, m, k = examples[0].shape
    return [((*lead, m, m - k), float_of(examples[0].dtype))]


@primitive(
    _complement_vjp,
    _complement_jvp,
    samples=lambda: [
        sample(made(3, 2, diagonal=1.0)),
        sample(made(2, 2, 1, diagonal=1.0)),
        sample(made(2, 2, diagonal=1.0)),
    ],
    batch=matrixwise,
    specs=_specs,
)
def _complement(xp: Any, q: Any) -> Any:
    """Return a basis of what is orthogonal to the columns; a complex vector's largest element is positive."""
    full = decomposed("qr", xp, q, lambda q: xp.linalg.qr(q, mode="complete")[0])
    out = full[..., q.shape[-1] :]
    return with_phase(xp, out)[0] if out.dtype.kind == "c" else out


def complemented(q: Tensor) -> Tensor:
    """Return orthonormal vectors with as many more that the matrix is square."""
    return op.concat(q, apply(_complement, (q,)), axis=len(q.shape) - 1)
