"""Functions of SciPy and scikit-learn on tensors, against themselves on NumPy arrays; run by a test.

SciPy reads SCIPY_ARRAY_API when it is imported, so this runs in a process of its own. It prints, for each
function, how far the value and the derivative along a direction are from NumPy's and from central
differences.
"""

from __future__ import annotations

import json

import numpy as np

import everyo as eo

STEP = 1e-5


def programs():
    """Return the functions; their libraries are imported here, since pytest imports this module too."""
    import sklearn
    from scipy import cluster, fft, integrate, optimize, signal, special, stats
    from sklearn import metrics, preprocessing

    sklearn.set_config(array_api_dispatch=True)
    return {
        "special.logsumexp": lambda x: special.logsumexp(x, axis=1),
        "special.softmax": lambda x: special.softmax(x, axis=1),
        "special.xlogy": lambda x: special.xlogy(x * x, x * x + 1),
        "stats.zscore": lambda x: stats.zscore(x, axis=0),
        "stats.skew": lambda x: stats.skew(x, axis=0),
        "stats.gmean": lambda x: stats.gmean(x * x, axis=0),
        "stats.entropy": lambda x: stats.entropy(x * x, axis=0),
        "stats.pearsonr": lambda x: stats.pearsonr(x[:, 0], x[:, 1]).statistic,
        "stats.ttest_ind": lambda x: stats.ttest_ind(x, 2 * x + 1, axis=0).statistic,
        "cluster.vq.whiten": lambda x: cluster.vq.whiten(x),
        "signal.hilbert": lambda x: signal.hilbert(x[:, 0]).imag,
        "signal.fftconvolve": lambda x: signal.fftconvolve(x[:, 0], x[:, 1]),
        "fft.rfft": lambda x: fft.rfft(x, axis=0).real,
        "integrate.cumulative_trapezoid": lambda x: integrate.cumulative_trapezoid(x * x, axis=0),
        "optimize.rosen": lambda x: optimize.rosen(x[:, 0]),
        "metrics.pairwise.rbf_kernel": lambda x: metrics.pairwise.rbf_kernel(x),
        "metrics.pairwise.cosine_similarity": lambda x: metrics.pairwise.cosine_similarity(x),
        "preprocessing.MinMaxScaler": lambda x: preprocessing.MinMaxScaler().fit_transform(x),
        "preprocessing.Normalizer": lambda x: preprocessing.Normalizer().fit_transform(x),
    }


def errors(program, a, direction):
    """Return the errors of value and derivative, relative to at least 1."""
    x = eo.asarray(a.copy()).requires_grad_()
    value, expected = program(x), program(a)
    assert isinstance(value, eo.Tensor)
    assert value.requires_grad
    weights = np.cos(np.arange(value.size)).reshape(value.shape)
    (value * weights).sum().backward()
    ahead, behind = program(a + STEP * direction), program(a - STEP * direction)
    slope = np.sum((ahead - behind) * weights) / (2 * STEP)
    found = np.sum(x.grad.numpy() * direction)
    return [
        float(np.max(np.abs(value.detach().numpy() - expected) / np.maximum(1, np.abs(expected)))),
        float(abs(found - slope) / max(1, abs(slope))),
    ]


def main():
    random = np.random.default_rng(7)
    a, direction = random.uniform(0.5, 2.0, (6, 3)), random.standard_normal((6, 3))
    print(json.dumps({name: errors(program, a, direction) for name, program in programs().items()}))


if __name__ == "__main__":
    main()
