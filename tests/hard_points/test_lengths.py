"""Second derivatives of `hypot` where one side is much longer, and at the ends of the range."""

import mpmath as mp
import numpy as np
import pytest

import everyo as eo

ORDERS = {
    "reverse over reverse": lambda f: eo.jacrev(eo.grad(f)),
    "forward over reverse": lambda f: eo.jacfwd(eo.grad(f)),
    "forward over forward": lambda f: eo.jacfwd(eo.jacfwd(f)),
    "reverse over forward": lambda f: eo.jacrev(eo.jacfwd(f)),
    "compiled": lambda f: eo.compile(eo.hessian(f)),
}
SIDES = [
    (1e5, 3.0),
    (1e8, -3.0),
    (3.0, 1e8),
    (-3.0, 4.0),
    (1e-5, 1e3),
    (1e120, 1e118),
    (1e-160, 1e-162),
    (2.0, 2.0),
]


def length(sides):
    return eo.hypot(sides[0], sides[1])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sides", SIDES)
def test_the_bend_of_a_length_has_all_digits(sides, order):
    with mp.workdps(50):
        x, y = map(mp.mpf, sides)
        cube = mp.sqrt(x * x + y * y) ** 3
        exact = np.array(
            [[float(y * y / cube), float(-x * y / cube)], [float(-x * y / cube), float(x * x / cube)]]
        )
    found = ORDERS[order](length)(eo.tensor(sides, dtype=eo.float64))
    np.testing.assert_allclose(found.numpy(), exact, rtol=2e-15, atol=0)


@np.errstate(over="ignore", invalid="ignore")
@pytest.mark.parametrize("order", ORDERS)
def test_the_bend_of_a_length_beyond_the_range(order):
    """The length of (60000, 60000) is infinite in float16, its derivatives are not."""
    found = ORDERS[order](length)(eo.tensor([6e4, 6e4], dtype=eo.float16))
    exact = 2**-1.5 / 6e4
    np.testing.assert_allclose(found.numpy(), [[exact, -exact], [-exact, exact]], atol=2e-7)


@np.errstate(over="ignore", invalid="ignore")
@pytest.mark.parametrize("order", ORDERS)
def test_a_length_beside_one_beyond_the_range(order):
    found = ORDERS[order](lambda v: eo.sum(eo.hypot(v[:2], v[2:])))(
        eo.tensor([6e4, 3.0, 6e4, 4.0], dtype="float16")
    )
    assert found[0, 0].item() == pytest.approx(2**-1.5 / 6e4, abs=2e-7)
    exact = [[16 / 125, -12 / 125], [-12 / 125, 9 / 125]]
    np.testing.assert_allclose(found.numpy()[1::2, 1::2], exact, rtol=2e-3)


@np.errstate(all="ignore")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sides", [(0.0, 0.0), (1.0, np.inf), (np.inf, 1.0), (-np.inf, np.inf)])
def test_a_length_does_not_bend_at_the_origin_nor_at_infinity(sides, order):
    found = ORDERS[order](length)(eo.tensor(sides, dtype=eo.float64))
    assert not found.numpy().any()
