"""Random numbers in compiled functions: those of eager code, also where a derivative runs a body again."""

import numpy as np
import pytest

import everyo as eo
from everyo.errors import UnsupportedOperationError
from tests.compiling import agree


def plain(x):
    return eo.dropout(x, 0.5) * eo.random.normal(size=8)


def in_scan(x):
    def step(c, t):
        return eo.dropout(c * t, 0.5) + 0.1 * eo.random.uniform(size=2).sum(), c

    return eo.scan(step, x, eo.ones(3))[0]


def in_reversed_scan(x):
    def step(c, t):
        return 0.5 * c * eo.random.normal(size=8) + eo.random.uniform(size=8), c

    return eo.scan(step, x, eo.ones(3), reverse=True)[0]


def in_nested_loops(x):
    def step(c, t):
        c = eo.fori_loop(0, 2, lambda i, c: eo.dropout(c, 0.5) + c, c)
        return eo.dropout(c * t, 0.5), c

    return eo.scan(step, x, eo.ones(3))[0]


def in_cond(x):
    return eo.cond(x.sum() > 0, lambda x: eo.dropout(x, 0.5), lambda x: x * eo.random.normal(size=8), x)


def in_the_other_branch(x):
    return eo.cond(x.sum() < 0, lambda x: eo.dropout(x, 0.5), lambda x: x * eo.random.normal(size=8), x)


def in_checkpoint(x):
    return eo.checkpoint(lambda x: eo.sin(eo.dropout(x, 0.5)))(x)


def in_vmap(x):
    return eo.vmap(lambda x: eo.dropout(x, 0.5), randomness="different")(eo.reshape(x, (2, 4)))


def in_while_loop(x):
    return eo.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, eo.dropout(s[1], 0.3)), (0, x))[1]


def in_cond_in_scan(x):
    def step(c, t):
        return eo.cond(t > 0.5, lambda x: eo.dropout(x, 0.5), lambda x: x, c), c

    return eo.scan(step, x, eo.ones(2))[0]


def in_while_loop_in_scan(x):
    def step(c, t):
        return t * eo.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, eo.dropout(s[1], 0.3)), (0, c))[
            1
        ], c

    return eo.scan(step, x, eo.ones(2))[0]


def by_noise_of_a_while_loop(x):
    """The loop that draws is not differentiated, but the derivative of the scan runs it again."""

    def step(c, t):
        start = (0, eo.zeros(8, dtype=eo.float64))
        noise = eo.while_loop(
            lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + eo.random.normal(size=8)), start
        )
        return c * t * noise[1], c

    return eo.scan(step, x, eo.ones(2))[0]


FUNCTIONS = [
    plain,
    in_scan,
    in_reversed_scan,
    in_nested_loops,
    in_cond,
    in_the_other_branch,
    in_checkpoint,
    in_vmap,
]
UNKNOWN_COUNTS = [in_while_loop, in_cond_in_scan, in_while_loop_in_scan, by_noise_of_a_while_loop]


def pulled(f):
    def function(x):
        out, back = eo.vjp(f, x)
        return out, back(eo.cos(out.detach()))

    return function


TRANSFORMS = {
    "value": lambda f: f,
    "vjp": pulled,
    "jvp": lambda f: lambda x: eo.jvp(f, (x,), (eo.cos(x),)),
    "second": lambda f: eo.value_and_grad(lambda x: (eo.grad(lambda x: (f(x) ** 3).sum())(x) * x).sum()),
}


def draws(f, x):
    eo.manual_seed(3)
    return [f(x) for _ in range(3)]


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("outside", [True, False], ids=["compiled inside", "compiled outside"])
def test_they_are_the_eager_ones(f, name, outside):
    transform, x = TRANSFORMS[name], eo.asarray(np.linspace(0.5, 1.5, 8))
    found = draws(eo.compile(transform(f)) if not outside else transform(eo.compile(f)), x)
    agree(found, draws(transform(f), x), ulps=256)
    assert any(np.abs(a[0].numpy() - b[0].numpy()).max() > 0 for a, b in zip(pairs(found), pairs(found)[1:]))


def pairs(results):
    return [r if isinstance(r, tuple) else (r,) for r in results]


@pytest.mark.parametrize("f", UNKNOWN_COUNTS, ids=lambda f: f.__name__)
def test_a_loop_whose_draws_cannot_be_known_before(f):
    x = eo.asarray(np.linspace(0.5, 1.5, 8))
    agree(draws(eo.compile(f), x), draws(f, x))
    for name in ("vjp", "jvp"):
        for g in (eo.compile(TRANSFORMS[name](f)), TRANSFORMS[name](eo.compile(f))):
            with pytest.raises(UnsupportedOperationError, match="draws random numbers"):
                g(x)


def test_backward_after_other_draws():
    x = eo.ones(64, requires_grad=True)
    f = eo.compile(lambda x: eo.dropout(x, 0.5))
    eo.manual_seed(0)
    first, second = f(x), f(x)
    assert first.detach().tolist() != second.detach().tolist()
    first.sum().backward()
    assert x.grad.tolist() == first.detach().tolist()
    x.grad = None
    second.sum().backward()
    assert x.grad.tolist() == second.detach().tolist()
