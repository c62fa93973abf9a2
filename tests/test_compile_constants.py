"""What compiled functions make of constants alone: it is computed while they are traced, and can be read."""

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError


def captured(*values):
    return eo.asarray(np.array(values, np.float32))


MASKED = {
    "computed mask": lambda x: eo.outer(x, x)[~eo.eye(2, dtype=eo.bool)].sum(),
    "compared ranges": lambda x: eo.outer(x, x)[eo.arange(2)[:, None] < eo.arange(2)].sum(),
    "element": lambda x: x * float(eo.asarray([1.5, 2.0])[0]),
    "written element": lambda x: x * int(written()[1]),
    "range": lambda x: sum(x[int(i)] for i in eo.arange(2)),
    "condition": lambda x: x * 2 if eo.arange(3).sum() > 2 else x,
    "spacing": lambda x: (x * eo.fft.fftfreq(2, d=(g := eo.linspace(-5, 5, 2))[1] - g[0])).sum(),
    "places": lambda x: x[eo.nonzero(eo.tensor([0, 3]) * 2)[0]],
    "unique": lambda x: x[eo.unique(eo.tensor([1, 1, 0]) + 0)],
}


def written():
    n = eo.zeros(2, dtype=eo.int64)
    n[1] = 3
    return n


@pytest.mark.parametrize("name", MASKED)
def test_what_is_computed_of_constants_alone_can_be_read(name):
    f, x = MASKED[name], captured(1.5, -2.0)
    np.testing.assert_array_equal(eo.compile(f)(x).numpy(), f(x).numpy())
    g = lambda x: f(x).sum()  # noqa: E731
    np.testing.assert_array_equal(eo.compile(eo.grad(g))(x).numpy(), eo.grad(g)(x).numpy())


def test_what_is_drawn_or_depends_on_arguments_cannot_be_read():
    for f in (lambda x: x * float(eo.random.normal() * 1.0), lambda x: x * float((x[0] + eo.ones(2))[0])):
        with pytest.raises(CompileError, match="only when the compiled program runs"):
            eo.compile(f)(captured(1.0, 2.0))


def test_the_path_of_an_einsum_asks_for_shapes_alone():
    def f(x):
        return np.einsum("i,i", x, x, optimize=np.einsum_path("i,i", x, x)[0])

    x = captured(1.0, 2.0)
    assert eo.compile(f)(x).item() == 5.0
    assert eo.compile(eo.grad(f))(x).tolist() == [2.0, 4.0]
    assert eo.vmap(f)(eo.ones((3, 2))).tolist() == [2.0] * 3


def test_loops_and_rules_of_the_users_own_are_not_run_while_traced():
    @eo.custom_vjp
    def doubled(x):
        return x * 2

    doubled.defvjp(lambda x: (x * 2, None), lambda residuals, g: (g * 2,))
    for f in (
        lambda x: x * float(eo.scan(lambda c, v: (c + v, c), eo.zeros(()), eo.ones(3))[0]),
        lambda x: x * float(doubled(eo.ones(()))),
    ):
        with pytest.raises(CompileError, match="only when the compiled program runs"):
            eo.compile(f)(captured(1.0, 2.0))


def test_a_constant_that_a_loop_changes_is_not_read_in_it():
    def f(x):
        c = eo.zeros(2)

        def body(i, s):
            c[0] = c[0] + 1
            return s * float(c[0])

        return eo.fori_loop(0, 3, body, x)

    with pytest.raises(CompileError, match="only when the compiled program runs"):
        eo.compile(f)(captured(1.0))
