"""Special functions of so many elements that they are computed in loops or blocks."""

import math

import numpy as np

import everyo as eo

DRAW = np.random.default_rng(5)
MANY = 70_001


def of_parts(function, *operands):
    """Return what a function makes of a few elements at a time, as one array."""
    parts = [function(*(x[i : i + 1000] for x in operands)) for i in range(0, MANY, 1000)]
    return np.concatenate(parts)


def gradients(function, *operands):
    leaves = [eo.tensor(x, requires_grad=True) for x in operands]
    eo.sum(function(*leaves)).backward()
    return [leaf.grad.numpy() for leaf in leaves]


def test_divergences_and_quotients_of_many():
    x, y = DRAW.uniform(0.1, 2, MANY), DRAW.uniform(0.1, 2, MANY)
    y[:100] = x[:100] * (1 + 1e-9)
    x[100], y[101], x[102], y[102] = 0.0, 0.0, 0.0, 0.0
    x[103], y[103] = 1e-300, 1e300
    for function in (eo.special.kl_div, eo.special.rel_entr, eo.divide):
        with np.errstate(all="ignore"):
            for k, found in enumerate(gradients(function, x, y)):
                expected = of_parts(lambda *v, f=function, k=k: gradients(f, *v)[k], x, y)
                np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_the_cardinal_sine_of_many():
    x = DRAW.normal(size=MANY)
    x[:3] = 0.0, math.inf, 1e-9
    found = eo.sinc(x.reshape(7, -1) if MANY % 7 == 0 else x).numpy().ravel()
    np.testing.assert_allclose(found, of_parts(lambda v: eo.sinc(v).numpy(), x), rtol=1e-13, atol=1e-16)
    (slope,) = gradients(eo.sinc, x)
    expected = of_parts(lambda v: gradients(eo.sinc, v)[0], x)
    np.testing.assert_allclose(slope, expected, rtol=1e-12, atol=1e-15)
