"""Derivatives of the pseudoinverse, of all singular values or of those that are kept.

With B the pseudoinverse of A, ``dB = -B dA B + B B.mH dA.mH (1 - A B) + (1 - B A) dA.mH B.mH B`` where the
rank stays (G. Golub and V. Pereyra, The differentiation of pseudo-inverses and nonlinear least squares
problems, 1973).

Where singular values are cut off that are not zero, B is the pseudoinverse of the part A1 that is kept, whose
rank does stay. With ``A = A1 + A2``, vectors u, v and values s, the index i for kept values, j for others and
``e = u.mH dA v``, first-order perturbation of ``A A.mH`` and ``A.mH A`` gives the change of A1: e, but zero
between two that are cut off, and ``u[j].mH dA1 v[i] = e[j, i] + c[j, i]`` with

    ``c[j, i] = (s[j]**2 e[j, i] + s[i] s[j] conj(e[i, j])) / (s[i]**2 - s[j]**2)``,

the same with all transposed for ``[i, j]``. In the formula this adds ``M.mH`` to dB, where M has the elements
``c / s[i]**2``. M is written by `_resolvent`, which divides by the differences of squares, and so are the
derivatives of that: no kept value is compared with another kept one, equal ones are like any others.
"""

from __future__ import annotations

from typing import Any

from everyo.core.dispatch import apply
from everyo.core.registry import op
from everyo.core.samples import Sample, sample
from everyo.ops.data_types import finfo
from everyo.ops.families import primitive
from everyo.ops.linalg.common import (
    adjoint,
    decomposed,
    inexact_array,
    joined,
    made,
    real_of,
)
from everyo.ops.linalg.degeneracy import EQUAL, batched
from everyo.ops.reductions import conjugate
from everyo.ops.units import unit_of


def chain(a: Any, b: Any, c: Any) -> Any:
    """Return the product of three matrices, of which none on the way is larger than has to be."""
    (m, k), (n, p) = a.shape[-2:], c.shape[-2:]
    return (a @ b) @ c if m * n * (k + p) <= k * p * (m + n) else a @ (b @ c)


def cuts(x: Any, rtol: Any) -> bool:
    """Whether this tolerance may cut off singular values that are not zero to rounding."""
    if isinstance(rtol, tuple):
        return any(cuts(x, r) for r in rtol)
    k = max(x.shape[-2:])
    return rtol is not None and rtol > EQUAL * k * finfo(real_of(x.dtype)).eps


def cut_share(x: Any, p: Any, t: Any, rtol: Any) -> Any:
    """Return M for the change `t` of matrices with the pseudoinverses `p`; it is its own adjoint."""
    xh, ph, th = adjoint(x), adjoint(p), adjoint(t)
    left = chain(x, chain(xh, t, p) + th, ph)  # of whose A the division keeps A2 alone
    right = chain(xh, chain(x, th, ph) + t, p)
    return _resolved(x, left, rtol) + adjoint(_resolved(xh, right, rtol))


def _resolved(x: Any, w: Any, rtol: Any) -> Any:
    return apply(_resolvent, (x, w), {"rtol": rtol})


def pinv_vjp(g: Any, x: Any, out: Any, rtol: Any) -> Any:
    """Return the cotangent of matrices for that of their pseudoinverses."""
    unit = unit_of(x)
    x, p, h = x / unit, out * unit, conjugate(g) / unit
    ph, hh = adjoint(p), adjoint(h)
    first, second = chain(hh, p, ph), chain(ph, p, hh)
    outside = first - chain(x, p, first) + second - chain(second, p, x)
    change = outside - chain(ph, h, ph)
    if cuts(x, rtol):
        change = change + cut_share(x, p, hh, rtol)
    return conjugate(change) / unit


def pinv_jvp(t: Any, x: Any, out: Any, rtol: Any) -> Any:
    """Return the change of pseudoinverses for that of their matrices."""
    unit = unit_of(x)
    x, p, t = x / unit, out * unit, t / unit
    th, ph = adjoint(t), adjoint(p)
    first, second = chain(p, ph, th), chain(th, ph, p)
    change = first - chain(first, x, p) + second - chain(p, x, second) - chain(p, t, p)
    if cuts(x, rtol):
        change = change + adjoint(cut_share(x, p, t, rtol))
    return change / unit


# ---- the division by differences of squares

# With Z the result, P = A B, Q = B A, M = A A.mH and N = A.mH A, it solves Z N - M Z = (1 - P) W Q. Both
# sides differentiated give dZ = G(dW - dP W + W dQ + dM Z - Z dN) - dP Z + Z dQ, where G is this operation.


def _resolvent_vjp(g: Any, needs: Any, x: Any, w: Any, out: Any, rtol: Any) -> tuple[Any, Any]:
    h = conjugate(g)
    y = _resolved(x, h, rtol)
    if not needs[0]:
        return None, conjugate(y)
    p = op.pinv(x, rtol=rtol)
    xh, ph, wh, yh, zh = (adjoint(a) for a in (x, p, w, y, out))
    projectors = chain(ph, wh, y) + chain(ph, zh, h) - chain(y, wh, ph)  # zh @ ph is 0
    squares = chain(y, zh, x) + chain(out, yh, x) - chain(x, zh, y) - chain(x, yh, out)
    by_inverse = chain(wh, y, xh) + chain(zh, h, xh) - chain(xh, y, wh) - chain(xh, h, zh)
    moved = conjugate(pinv_vjp(conjugate(by_inverse), x, p, rtol))
    return conjugate(projectors + squares + moved), conjugate(y)


def _resolvent_along_x(t: Any, x: Any, w: Any, out: Any, rtol: Any) -> Any:
    p = op.pinv(x, rtol=rtol)
    dp = pinv_jvp(t, x, p, rtol)
    xh, th = adjoint(x), adjoint(t)

    def after(y: Any) -> Any:
        """``dP y - y dQ``."""
        return chain(t, p, y) + chain(x, dp, y) - chain(y, dp, x) - chain(y, p, t)

    squares = chain(t, xh, out) + chain(x, th, out) - chain(out, th, x) - chain(out, xh, t)
    return _resolved(x, squares - after(w), rtol) - after(out)


def _resolvent_samples() -> list[Sample]:
    return [
        sample(made(3, 3, diagonal=2.0), (3, 3), rtol=0.6),
        sample(made(4, 2), (4, 2), rtol=0.7),
        sample(made(2, 2, 3), (2, 2, 3), rtol=0.6),
        sample(made(3, 3, diagonal=1.0), (3, 3), rtol=1e-9),
        sample((0, 2), (0, 2), rtol=0.1),
    ]


@primitive(
    _resolvent_vjp,
    (_resolvent_along_x, lambda t, x, rtol: _resolved(x, t, rtol)),
    samples=_resolvent_samples,
    batch=batched,
    linear_in=(1,),
    specs=lambda examples, params: [(tuple(examples[0].shape), joined(*(e.dtype for e in examples)))],
)
def _resolvent(xp: Any, x: Any, w: Any, *, rtol: Any) -> Any:
    """Return ``w[j, i] / (s[i]**2 - s[j]**2)`` in the basis of the singular vectors, 0 for all else.

    The index i goes through the kept singular values, j through the others and the zeros beyond them.
    """
    x, w = inexact_array(xp, x), inexact_array(xp, w)
    u, s, vh = decomposed("pinv", xp, x, lambda x: xp.linalg.svd(x, full_matrices=False))
    limit = xp.asarray(rtol)[..., None] * xp.amax(s, axis=-1, keepdims=True, initial=0.0)
    kept = s > limit
    pairs = ~kept[..., :, None] & kept[..., None, :]
    over = (s[..., None, :] - s[..., :, None]) * (s[..., None, :] + s[..., :, None])
    wv = w @ xp.conj(xp.matrix_transpose(vh))
    inner = xp.conj(xp.matrix_transpose(u)) @ wv
    out = u @ xp.where(pairs, inner / xp.where(pairs, over, 1), 0)
    if u.shape[-2] > u.shape[-1]:
        squares = xp.where(kept, s * s, 1)[..., None, :]
        out = out + xp.where(kept[..., None, :], (wv - u @ inner) / squares, 0)
    return xp.asarray(out @ vh, dtype=(x[..., :0] * w[..., :0]).dtype)
