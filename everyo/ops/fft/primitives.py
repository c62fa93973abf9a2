"""Discrete Fourier transforms.

A transform is linear and its matrix symmetric, so it is its own transpose. Half spectra (`rfft`, `irfft`)
are no square matrices: theirs are each other's transposes once the frequencies that stand for two, all but
0 and the highest one of an even length, are weighted.
"""

from __future__ import annotations

from typing import Any

from everyo.core.batching import along
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.errors import DTypeError, describe
from everyo.ops.families import linear

# The norm under which the opposite transform has the same factor.
OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _dft_vjp(g: Any, x_dtype: Any, axes: tuple[int, ...], norm: str, inverse: bool) -> Any:
    transformed = op.dft(g, axes=axes, norm=norm, inverse=inverse)
    return transformed if x_dtype.kind == "c" else op.real(transformed)


def _dft_samples() -> list[Sample]:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], str, bool]] = [
        ((3,), (0,), "backward", False), ((4,), (0,), "ortho", True), ((2, 3), (1,), "forward", False),
        ((3, 2), (0,), "forward", True), ((2, 1, 3), (0, 2), "backward", True),
        ((0, 2), (1,), "ortho", False), ((1,), (0,), "ortho", False), ((2, 3), (1, 0), "backward", False),
    ]  # fmt: skip
    return [sample(shape, axes=axes, norm=norm, inverse=i) for shape, axes, norm, i in cases]


@linear(_dft_vjp, samples=_dft_samples, batch=along("axes"))
def _dft(xp: Any, x: Any, *, axes: tuple[int, ...], norm: str, inverse: bool) -> Any:
    if len(axes) == 1:
        return (xp.fft.ifft if inverse else xp.fft.fft)(x, axis=axes[0], norm=norm)
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(x, axes=axes, norm=norm)


def _scale_inner_vjp(g: Any, axis: int, n: int, factor: float) -> Any:
    return op.scale_inner(g, axis=axis, n=n, factor=factor)


def _scale_inner_samples() -> list[Sample]:
    cases = [((3,), 0, 4), ((3,), 0, 5), ((2, 1), 1, 1), ((2, 2), 1, 2), ((2, 2), 0, 3)]
    return [sample(shape, axis=axis, n=n, factor=0.5) for shape, axis, n in cases]


@linear(_scale_inner_vjp, samples=_scale_inner_samples, batch=along("axis"))
def _scale_inner(xp: Any, x: Any, *, axis: int, n: int, factor: float) -> Any:
    """Scale the frequencies of a half spectrum of `n` points that stand for two."""
    out = xp.array(x)
    out[(slice(None),) * axis + (slice(1, (n + 1) // 2),)] *= factor
    return out


def _rfft_vjp(g: Any, x_shape: tuple[int, ...], axis: int, norm: str) -> Any:
    n = x_shape[axis]
    halves = op.conj(op.scale_inner(g, axis=axis, n=n, factor=0.5))
    return op.irfft(halves, axis=axis, n=n, norm=OPPOSITE[norm])


def _rfft_samples() -> list[Sample]:
    cases = [((3,), 0, "backward"), ((4,), 0, "ortho"), ((2, 5), 1, "forward"), ((4, 2), 0, "backward"),
             ((1,), 0, "ortho"), ((2, 2), 1, "forward"), ((0, 3), 1, "backward")]  # fmt: skip
    return [sample(shape, axis=axis, norm=norm) for shape, axis, norm in cases]


@linear(_rfft_vjp, samples=_rfft_samples, batch=along("axis"))
def _rfft(xp: Any, x: Any, *, axis: int, norm: str) -> Any:
    if x.dtype.kind == "c":
        raise DTypeError(
            "the half spectrum is that of real numbers",
            operation="rfft",
            inputs=describe(x),
            expected="real numbers",
            found=str(x.dtype),
            remedy="use eo.fft.fft, or pass x.real",
        )
    return xp.fft.rfft(x, axis=axis, norm=norm)


def _irfft_vjp(g: Any, x_dtype: Any, axis: int, n: int, norm: str) -> Any:
    spectrum = op.scale_inner(op.rfft(g, axis=axis, norm=OPPOSITE[norm]), axis=axis, n=n, factor=2.0)
    return op.conj(spectrum) if x_dtype.kind == "c" else op.real(spectrum)


def _irfft_samples() -> list[Sample]:
    cases = [((3,), 0, 4, "backward"), ((3,), 0, 5, "ortho"), ((2, 3), 1, 5, "forward"),
             ((2, 3), 0, 2, "ortho"), ((1,), 0, 1, "backward"), ((0, 2), 1, 3, "backward")]  # fmt: skip
    return [sample(shape, axis=axis, n=n, norm=norm) for shape, axis, n, norm in cases]


@linear(_irfft_vjp, samples=_irfft_samples, batch=along("axis"))
def _irfft(xp: Any, x: Any, *, axis: int, n: int, norm: str) -> Any:
    return xp.fft.irfft(x, n, axis=axis, norm=norm)
