"""How much code programs become: LLVM's time for one function grows faster than the function does."""

import re

import numpy as np
import pytest

import everyo as eo
from tests.compiling import agree

CALL = 12  # lines of the main function for a step that calls one kernel or two


def zeros(*shape):
    return eo.zeros(shape, dtype="float64")


def sums(y, n):
    for _ in range(n):
        y = y - y.sum(axis=0) * 0.01
    return y


def products(y, n):
    for _ in range(n):
        y = y @ y * 0.01
    return y


def shorter(y, n):
    for _ in range(n):
        y = y[:-1] - y.sum() * 0.01
    return y


def sorts(y, n):
    for _ in range(n):
        y = eo.sort(y * 1.1, axis=0)
    return y


def looped(y, n):
    return eo.fori_loop(0, 5, lambda _, z: sums(z, n), y)


CHAINS = [(sums, (4, 5)), (products, (30, 30)), (shorter, (300,)), (sorts, (4, 5)), (looped, (4, 5))]


def functions(text):
    """Return the count of lines of each function of a module, by name."""
    bodies = re.finditer(r"^define [^\n]*@([\w.]+)\(.*?^}", text, re.DOTALL | re.MULTILINE)
    return {body[1]: len(body[0].splitlines()) for body in bodies}


@pytest.mark.parametrize(("chain", "shape"), CHAINS, ids=[f.__name__ for f, _ in CHAINS])
def test_a_step_adds_a_call_and_not_its_kernel(chain, shape):
    short, long = (
        functions(eo.compile.inspect(lambda y, n=n: chain(y, n))(zeros(*shape)).optimized) for n in (60, 120)
    )
    assert max(long.values()) - max(short.values()) <= 60 * CALL


def test_a_long_chain_computes_what_eager_code_does():
    x = np.cos(np.arange(20.0)).reshape(4, 5)
    agree(eo.compile(lambda y: sums(y, 60))(eo.asarray(x)), sums(eo.asarray(x), 60))
    agree(eo.compile(lambda y: looped(y, 40))(eo.asarray(x)), looped(eo.asarray(x), 40))


def test_all_programs_have_one_door():
    def total(*xs):
        return sum((x.sum() for x in xs), start=0.0)

    for count in (1, 10, 100):
        found = eo.compile.inspect(total)(*[zeros(2, 1 + i % 3) for i in range(count)])
        public = {name for name in functions(found.llvm) if not re.fullmatch(r"k\d+", name)}
        assert public == {"everyo_main"}


def test_the_door_looks_at_each_of_many_arguments():
    f = eo.compile(lambda *xs: sum(i * x.sum() for i, x in enumerate(xs)))
    xs = [np.full((2, 1 + i % 3), float(i)) for i in range(20)]
    wanted = sum(i * float(x.sum()) for i, x in enumerate(xs))
    assert float(f(*map(eo.asarray, xs))) == wanted
    for place in (0, 7, 19):
        given = list(xs)
        given[place] = np.repeat(xs[place], 2, axis=1)[:, ::2]  # equal elements, other strides
        assert float(f(*map(eo.asarray, given))) == wanted
    assert f.cache_info().misses == 1
