"""Implicit differentiation in compiled functions, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import everyo as eo


def newton(init, a):
    return eo.while_loop(lambda y: (abs(y * y - a) > 1e-12).any(), lambda y: (y + a / y) / 2, init)


ROOT = eo.implicit.custom_root(lambda y, a: y * y - a)(newton)
FIXED = eo.implicit.custom_fixed_point(lambda y, a: (y + a / y) / 2)(newton)
TREE = eo.implicit.custom_root(lambda y, a: {"r": y["r"] ** 2 - a})(lambda init, a: {"r": eo.sqrt(a)})
SOLVERS = {  # of y**2 == x, or of y * sqrt(x) == x
    "root": lambda x: ROOT(eo.ones_like(x), x),
    "fixed point": lambda x: FIXED(eo.ones_like(x), x),
    "root in a dict": lambda x: TREE(None, x)["r"],
    "linear": lambda x: eo.implicit.custom_linear_solve(
        lambda v: v * eo.sqrt(x), x, lambda product, b: eo.implicit.solve_gmres(product, b)
    ),
    "conjugate gradients": lambda x: eo.implicit.solve_cg(lambda v: v * eo.sqrt(x), x),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solutions_and_their_derivatives(name):
    solve = SOLVERS[name]
    x = eo.asarray(np.array([2.0, 3.0]))

    def total(x):
        return (solve(x) ** 3).sum()

    root = np.sqrt([2.0, 3.0])
    slope, second = 1.5 * root, np.diag(0.75 / root)
    compiled = eo.compile(total)
    batch = eo.stack([x, 4 * x])
    for found, expected in (
        (eo.compile(solve)(x), root),
        (eo.compile(eo.grad(total))(x), slope),
        (eo.grad(compiled)(x), slope),
        (eo.hessian(compiled)(x), second),
        (eo.jvp(compiled, (x,), (x,))[1], slope @ x.numpy()),
        (eo.vmap(eo.compile(solve))(batch), np.stack([root, 2 * root])),
        (eo.compile(eo.vmap(solve))(batch), np.stack([root, 2 * root])),
    ):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7, atol=1e-9)
    assert eo.compile(lambda x: solve(x.sum()))(x).shape == ()
