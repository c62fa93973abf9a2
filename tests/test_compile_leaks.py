"""Computed tensors that a function puts where they outlive the call: an error, and nothing has changed."""

import functools
import types

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError

X = eo.asarray(np.ones(2))
best = eo.asarray(np.full(2, 10.0))


def in_global():
    def f(x):
        global best
        best = eo.minimum(best, x)
        return best

    return f, lambda: best


def in_nonlocal():
    n = eo.asarray(np.full(2, 10.0))

    def f(x):
        nonlocal n
        n = n + x
        return n * 1

    return f, lambda: n


def in_attribute():
    thing = types.SimpleNamespace(mean=eo.asarray(np.full(2, 10.0)))

    def f(x):
        thing.mean = 0.5 * thing.mean + x
        return x * 2

    return f, lambda: thing.mean


class Trainer:
    def __init__(self):
        self.parts = {"mean": eo.asarray(np.full(2, 10.0))}

    def step(self, x, scale=1.0):
        self.parts["mean"] = self.parts["mean"] + x * scale
        return x * 2


def in_method():
    trainer = Trainer()
    return trainer.step, lambda: trainer.parts["mean"]


def in_partial():
    trainer = Trainer()
    return functools.partial(trainer.step, scale=2.0), lambda: trainer.parts["mean"]


def in_list():
    kept = [0, eo.asarray(np.full(2, 10.0))]

    def f(x):
        kept[1] = kept[1] + x
        kept.append(x + 1)
        kept.append(x + 2)
        return x * 2

    return f, lambda: kept[-1]


def in_a_gradient():
    kept = {"x": eo.asarray(np.full(2, 10.0))}

    def loss(x):
        kept["x"] = x * 2
        return (x * x).sum()

    return eo.grad(loss), lambda: kept["x"]


@pytest.mark.parametrize(
    "make", [in_global, in_nonlocal, in_attribute, in_method, in_partial, in_list, in_a_gradient]
)
def test_what_outlives_the_call_is_an_error(make):
    f, there = make()
    before = there()
    with pytest.raises(CompileError, match="keeps a computed tensor where the program cannot write"):
        eo.compile(f)(X)
    assert there() is before
    assert before.tolist() == [10.0, 10.0]
    assert f(X).tolist()  # eager code goes on
    assert there() is not before


def test_what_was_put_before_an_error_is_taken_back():
    kept = {}

    def f(x):
        kept["x"] = x + 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        eo.compile(f)(X)
    assert kept == {}


def test_compiled_methods():
    class Counter:
        def __init__(self):
            self.total = eo.asarray(np.zeros(2))

        @eo.compile
        def rebinds(self, x):
            self.total = self.total + x
            return x * 2

        @eo.compile
        def writes(self, x):
            self.total[...] = self.total + x
            return x * 2

    counter = Counter()
    with pytest.raises(CompileError, match="'total'"):
        counter.rebinds(X)
    for n in (1.0, 2.0):
        counter.writes(X)
        assert counter.total.tolist() == [n, n]


def test_what_stays_inside_is_no_leak():
    def f(x):
        parts, total = [], {}
        for i in range(3):
            parts.append(x * i)
            total["sum"] = sum(parts)

        def add(y):
            nonlocal total
            total = {"sum": total["sum"] + y}

        add(x)
        return total["sum"]

    assert eo.compile(f)(X).tolist() == [4.0, 4.0]
