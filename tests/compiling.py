"""Compiled functions beside eager ones, and the comparison of their results."""

import numpy as np

import everyo as eo
from everyo.core.tensor import Tensor
from everyo.transforms.trees import flatten

ULPS = 64  # rounding errors that another order of the same sums may add up to, relative to the largest term


def arrays_of(tree):
    """Return the leaves of a pytree as arrays."""
    return [np.asarray(x.detach().data) if isinstance(x, Tensor) else np.asarray(x) for x in flatten(tree)[0]]


def largest(*arrays):
    """Return the largest finite size among elements; 0 for none."""
    floats = [parts(a) for a in arrays if a.dtype.kind in "fc"]
    sizes = [np.abs(a[np.isfinite(a)].astype(np.float64)) for a in floats]
    return max((float(s.max()) for s in sizes if s.size), default=0.0)


def parts(a):
    """Return the real and the imaginary parts of complex numbers; others as they are."""
    return np.stack([a.real, a.imag]) if a.dtype.kind == "c" else a


def agree(found, wanted, what="", ulps=ULPS, scale=None, tol=None):
    """Compare pytrees of results: structure, shapes and dtypes exactly, integers and NaN exactly.

    Floats may differ by `ulps` rounding errors (or `tol`), relative to the largest element of the result, or
    to `scale` if that is larger; so may each part of complex numbers.
    """
    assert flatten(found)[1] == flatten(wanted)[1], f"{what}: another structure"
    found, wanted = arrays_of(found), arrays_of(wanted)
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        where = f"{what}, result {i}"
        assert (f.shape, f.dtype) == (w.shape, w.dtype), (
            f"{where}: {f.dtype}{f.shape}, not {w.dtype}{w.shape}"
        )
        if w.dtype.kind in "fc":
            f, w = parts(f), parts(w)
            bound = ulps * np.finfo(w.dtype).eps if tol is None else tol
            np.testing.assert_allclose(f, w, bound, bound * max(largest(w), scale or 0.0), err_msg=where)
        else:
            np.testing.assert_array_equal(f, w, err_msg=where)


def same(f, *args, ulps=ULPS, scale=None, tol=None):
    """Compare ``eo.compile(f)(*args)`` with ``f(*args)``; return the results of the compiled function."""
    found, wanted = eo.compile(f)(*args), f(*args)
    agree(found, wanted, getattr(f, "__name__", ""), ulps, scale, tol)
    return found


def array(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


def tensor(*shape, seed=0):
    return eo.asarray(array(*shape, seed=seed))


def misses(f):
    return f.cache_info().misses


def call_during_a_call(first, outer, inner):
    """Check a function that is called, by `inner`, while it runs by `outer`; it ran before by `first`.

    Each of them is called with the compiled function, which prints meanwhile, and with its two arguments.
    """
    x, y, w = array(40, 40), array(40, 40, seed=1), array(40, 40, seed=2)
    waiting, results = [], []

    class Again:
        def __format__(self, spec):
            if waiting:
                results.append(inner(f, *map(eo.asarray, waiting.pop())))
            return ""

    @eo.compile
    def f(x, w):
        product = x @ w
        eo.debug_print("{}", Again())
        return eo.sin(product) @ w

    first(f, eo.asarray(x), eo.asarray(w))
    waiting.append((y, w))
    results.append(outer(f, eo.asarray(x), eo.asarray(w)))
    for found, matrix in zip(results, (y, x), strict=True):
        np.testing.assert_allclose(found.numpy(), np.sin(matrix @ w) @ w, 1e-11, 1e-12)
