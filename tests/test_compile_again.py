"""What several loops read: kept in memory, or computed again by each where that costs no more."""

import numpy as np
import pytest

import everyo as eo

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.5, 1.5, (2, 40, 40))
LONG = RNG.normal(size=3000)


def softmax(xp, x):
    """Differences from the largest element, read by two loops."""
    d = x - xp.max(x)
    return d * xp.sum(d * d)


def chain(xp, x, count):
    for k in range(count):
        x = x * (k + 2.5) if k % 2 else x + k + 1.5
    return x


AGAIN = {
    "a sum before": (lambda xp, x: (lambda y: y - xp.sum(y * y))(2 * x + 1), [LONG]),
    "differences": (softmax, [LONG]),
    "pairs": (lambda xp, x: (lambda d: d * xp.sum(d * d))(x[:, None] - x), [LONG[:70]]),
    "of what is read anyway": (
        lambda xp, x, y: (lambda p: (p - xp.sum(xp.sin(p))) * x - y)(x * y), [X, Y],
    ),
    "a choice": (
        lambda xp, x: (lambda y: y * xp.sum(y))(xp.where(xp.logical_or(xp.isnan(x), x < 0), 0, x)), [LONG],
    ),
}  # fmt: skip

STORED = {
    "turned": (lambda xp, x: (lambda y: y + 1 - xp.sum(xp.sin(y)))(x.T * 2), [X]),
    "too much": (lambda xp, x: (lambda y: y - xp.sum(y * y))(chain(xp, x, 9)), [LONG]),
    "of two arrays": (lambda xp, x, y: (lambda p: p * xp.sum(xp.sin(p)))(x * y), [X, Y]),
    "of more than it is": (lambda xp, x: (lambda y: xp.where(y, xp.sum(xp.sin(y * 1.5)), 1))(x < 0), [LONG]),
    "too dear": (lambda xp, x: (lambda y: y - xp.sum(y * y))(xp.exp(x)), [LONG]),
}


def stored(f, args):
    """Return how many arrays are written to memory."""
    kernels = eo.compile.inspect(lambda *a: f(eo, *a))(*map(eo.asarray, args)).kernels
    return sum("stored" in line and "sum" not in line and "max" not in line for line in kernels.splitlines())


@pytest.mark.parametrize("case", AGAIN)
def test_what_other_loops_compute_again(case):
    f, args = AGAIN[case]
    found = eo.compile(lambda *a: f(eo, *a))(*map(eo.asarray, args)).numpy()
    np.testing.assert_allclose(found, f(np, *args), rtol=1e-12, atol=1e-11)
    assert stored(f, args) == 1  # the result


@pytest.mark.parametrize("case", STORED)
def test_what_is_stored(case):
    f, args = STORED[case]
    found = eo.compile(lambda *a: f(eo, *a))(*map(eo.asarray, args)).numpy()
    np.testing.assert_allclose(found, f(np, *args), rtol=1e-12, atol=1e-11)
    assert stored(f, args) == 2


def test_a_factor_of_products_in_turn_is_kept():
    """A sum of the factor is read by another loop, which computes it from the factor in memory."""
    a, b = RNG.normal(size=(2, 5, 30, 30))

    def f(xp, a, b):
        factor = a * 2
        return xp.matmul(factor, b) + 1, (factor + 1) * xp.sum(xp.sin(factor + 1))

    found = eo.compile(lambda a, b: f(eo, a, b))(eo.asarray(a), eo.asarray(b))
    for x, y in zip(found, f(np, a, b)):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-12, atol=1e-11)
