"""Standardizing: what layer norm does to a row of features."""

from __future__ import annotations

from typing import Any

from everyo.backends.accelerated import LARGE, along_rows
from everyo.core.batching import along
from everyo.core.dispatch import apply
from everyo.core.dtypes import float16, float32
from everyo.core.registry import op
from everyo.core.samples import Sample, Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import ShapeError, describe
from everyo.ops.axes import as_integers
from everyo.ops.creation import as_tensor, real_number
from everyo.ops.families import primitive
from everyo.ops.reductions import inexact
from everyo.ops.signatures import explained
from everyo.ops.statistics import off_mean

__all__ = ["layer_norm"]

Axes = tuple[int, ...]


def _standardize_rule(g: Any, x: Any, out: Any, axis: Axes, eps: float) -> Any:
    if (found := along_rows(("standardize slope", eps), axis, g, out, x)) is not None:
        return found
    scale = op.rsqrt(op.var(x, axis=axis, keepdims=True, correction=0) + eps)
    rest = g - op.mean(g, axis=axis, keepdims=True)
    return scale * (rest - out * op.mean(g * out, axis=axis, keepdims=True))


def _samples() -> list[Sample]:
    far = Values([[1e4, 1e4 + 1, 1e4 - 1], [3.0, 3.0, 3.0]])
    return [
        sample((3,), axis=(0,), eps=1e-2),
        sample((2, 3), axis=(1,), eps=1e-3),
        sample((3, 2), axis=(0,), eps=0.0),
        sample((2, 2, 3), axis=(1, 2), eps=1e-2),
        sample((2, 1), axis=(1,), eps=1.0),
        sample((0, 2), axis=(1,), eps=1e-2),
        sample((2, 0), axis=(1,), eps=1e-2),
        sample(far, axis=(1,), eps=0.5),
    ]


# With s = 1 / sqrt(var + eps) the Jacobian is s (I - 11'/n - out out'/n): symmetric, so one rule serves both.
@primitive(_standardize_rule, _standardize_rule, samples=_samples, batch=along("axis"))
def _standardize(xp: Any, x: Any, *, axis: Axes, eps: float) -> Any:
    if x.size >= LARGE and (found := along_rows(("standardize", eps), axis, x)) is not None:
        return found
    if x.dtype.kind == "c":
        raise TypeError("complex numbers are not standardized")
    d = off_mean(x, axis)
    d /= xp.sqrt(op.mean(d * d, axis=axis, keepdims=True) + eps)
    return d


@explained
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Standardize over the last axes, then scale and shift each feature.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias`` with the mean and the biased variance over the last
    axes; float16 is computed in float32. Where a variance overflows, beyond 1e19 in float32 and 1e154 in
    float64, the result is 0. Without `weight`, for ``s = 1 / sqrt(var + eps)``,
    ``dx = s * (g - mean(g) - y * mean(g * y))`` (Ba, Kiros and Hinton, "Layer Normalization",
    arXiv:1607.06450).

    Parameters
    ----------
    input : Tensor, shape (..., *normalized_shape)
        Real; integers are computed in float64.
    normalized_shape : int or sequence of int
        The shape of an example's features, the last axes of `input`.
    weight, bias : Tensor, shape normalized_shape, optional
        Of each feature.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ShapeError
        If the last axes of `input`, or `weight` or `bias`, have another shape.
    DTypeError
        If `input` is complex.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[1.0, 2.0, 3.0], [0.0, 10.0, 20.0]])
    >>> print(eo.round(eo.nn.functional.layer_norm(x, 3), 2))
    [[-1.22  0.    1.22]
     [-1.22  0.    1.22]]
    """
    x = inexact(input)
    shape = as_integers(normalized_shape, "normalized_shape", "layer_norm")
    parts = [as_tensor(part) for part in (weight, bias) if part is not None]
    if not shape or x.shape[-len(shape) :] != shape or any(part.shape != shape for part in parts):
        raise ShapeError(
            "the input, the weight or the bias does not fit normalized_shape",
            operation="layer_norm",
            inputs=describe(x, *parts),
            expected=f"input (..., {', '.join(map(str, shape))}), weight and bias {shape}",
            found=" and ".join(str(t.shape) for t in (x, *parts)),
            remedy="pass the shape of the last axes, for example x.shape[-1]",
        )
    axes, eps = tuple(range(x.ndim - len(shape), x.ndim)), real_number(eps, "layer_norm", "eps")
    exact = op.astype(x, dtype=float32) if x.dtype == float16 else x  # whose squares would overflow
    y = op.astype(apply(op.standardize, (exact,), {"axis": axes, "eps": eps}), dtype=x.dtype)
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias
