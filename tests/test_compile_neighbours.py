"""What reads neighbours: cheap functions are computed again by each reader, and stages share a loop."""

import numpy as np
import pytest

import everyo as eo
from everyo.compiler.again import LONG
from everyo.compiler.codegen import segments

X = np.random.default_rng(0).uniform(0.5, 1.5, 2 * LONG + 3)
GRID = np.random.default_rng(1).uniform(0.5, 1.5, (LONG + 5, 3))


def before(xp, y):
    return xp.concatenate([xp.ones_like(y[:1]), y[:-1]])


def behind(xp, y):
    return xp.concatenate([y[2:], xp.zeros_like(y[:2])])


def stages(xp, x):
    """A chain of three stages, each of which reads the element before."""
    y = x
    for k in range(3):
        y = x + 0.5 * before(xp, y * x - k)
    return y


def both_ways(xp, x):
    y = x * 2 - 1
    return before(xp, y + x) - behind(xp, y * x) + before(xp, behind(xp, x - y))


def inside(xp, x):
    """A difference inside, and the ends as they were."""
    flux = x * x + x
    return xp.concatenate([x[:1], x[1:-1] + 0.1 * (flux[2:] - flux[:-2]), x[-1:]])


def padded(xp, x):
    y = x * 3 - 1
    return (
        x
        + xp.pad(y[1:], ((0, 1),) + ((0, 0),) * (x.ndim - 1))
        - xp.pad(y[:-2], ((2, 0),) + ((0, 0),) * (x.ndim - 1))
    )


def chosen(xp, x):
    y = xp.where(x > 1, x * 2, -x)
    return before(xp, xp.maximum(y, 0.1)) * y


def with_a_scalar(xp, x):
    step = x[3] * 0.5  # of which each element takes the same
    return before(xp, x + step * x) - before(xp, (x - step) * step)


PROGRAMS = [stages, both_ways, inside, padded, chosen, with_a_scalar]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("x", [X, GRID, X[: LONG + 1]], ids=["long", "rows", "just long enough"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_values(f, x, threads):
    found = eo.compile(lambda x: f(eo, x), threads=threads)(eo.asarray(x)).numpy()
    np.testing.assert_allclose(found, f(np, x), rtol=4e-15, atol=1e-15)


@pytest.mark.parametrize("f", PROGRAMS)
def test_slopes(f):
    """Against the derivative in one direction, by differences in double precision."""
    x, v = X[: LONG + 40], np.cos(np.arange(LONG + 40.0))
    w = np.sin(1 + np.arange(f(np, x).size))
    slope = eo.compile(eo.grad(lambda x: (f(eo, x) * w).sum()))(eo.asarray(x)).numpy()
    step = 1e-6
    difference = ((f(np, x + step * v) - f(np, x - step * v)) * w).sum() / (2 * step)
    np.testing.assert_allclose(slope @ v, difference, rtol=1e-6, atol=1e-6)


def loops(f, *args):
    """Return how many loops a function becomes, its graph, and how it was compiled."""
    found = eo.compile.inspect(f)(*map(eo.asarray, args))
    return found.kernels.count("loop over"), found.graphs["neighbours computed again"], found


def test_stages_are_one_loop():
    count, graph, found = loops(lambda x: stages(eo, x), X)
    assert count == 1
    assert found.kernels.count("stored") == 1
    assert "again" in graph
    assert "gather" not in found.optimized  # of what is read no element is looked up


def test_steps_of_a_loop_are_one_loop():
    def steps(x):
        return eo.scan(lambda y, _: (stages(eo, y), None), x, length=4)[0]

    count, graph, _ = loops(steps, X)
    assert count == 1
    assert "again" in graph
    y = X
    for _ in range(4):
        y = stages(np, y)
    np.testing.assert_allclose(eo.compile(steps)(eo.asarray(X)).numpy(), y, rtol=4e-15, atol=1e-13)


def sum_of_products(x, count):
    return sum((x - k) * x for k in range(count))


STORED = {
    "too dear": lambda x: before(eo, eo.exp(x)) * 2,
    "kept": lambda x: (before(eo, x * 2) * 3, x * 2),
    "too short": lambda x: before(eo, x[: LONG - 1] * 2) * 2,
    "too much": lambda x: before(eo, sum_of_products(x, 13)) * 2,
    "too much for two": lambda x: [before(eo, y) * behind(eo, y) for y in [sum_of_products(x, 5)]],
    "of a sum, for which it would have to wait": lambda x: before(eo, x * eo.sum(x)) * 2,
    "at no fixed distance": lambda x: before(eo, (x * 2)[::-1]) * 2,
    "where it lies": lambda x: eo.concatenate([x * 2, x * 3]),
}


@pytest.mark.parametrize("case", STORED)
def test_what_is_not_computed_again(case):
    assert "again" not in loops(STORED[case], X)[1]


def test_what_is_little_is_computed_again_by_two():
    def f(x):
        y = sum_of_products(x, 3)
        return before(eo, y) * behind(eo, y)

    assert loops(f, X)[0] == 1


def test_short_segments_become_one():
    joined = segments._joined([(0, 1), (1, 2), (2, 40), (40, 41), (41, 300), (300, 316), (316, 320)])
    assert joined == [(0, 2), (2, 40), (40, 41), (41, 300), (300, 320)]
