"""A Python loop instead of `vmap`, and the comparison with it."""

import numpy as np

import everyo as eo


def parts(x):
    return x if isinstance(x, (tuple, list)) else [x]


def looped(function, size, batches):
    """Return the stacked results of `function` on each example, as arrays; a list for several."""
    rows = [parts(function(*(eo.asarray(b[i]) for b in batches))) for i in range(size)]
    return [np.stack([np.asarray(r.detach()) for r in column]) for column in zip(*rows, strict=True)]


def close(found, wanted, what, tol=1e-10):
    for f, w in zip(parts(found), wanted, strict=True):
        f = np.asarray(f.detach())
        assert f.shape == w.shape, f"{what}: shape {f.shape} instead of {w.shape}"
        assert f.dtype == w.dtype, f"{what}: {f.dtype} instead of {w.dtype}"
        np.testing.assert_allclose(f, w, rtol=tol, atol=tol, err_msg=str(what))
