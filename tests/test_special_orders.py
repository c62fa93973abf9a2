"""More special functions: SciPy's values, and what is refused in parameters without derivatives."""

import numpy as np
import pytest
import scipy.special

import everyo as eo
from everyo import special
from everyo.core.registry import get_primitive

RNG = np.random.default_rng(11)
POSITIVE, ANY, UNIT = (0.4, 6.0), (-3.0, 3.0), (0.05, 0.95)
# Name: where each operand comes from, and which of them have a derivative.
FUNCTIONS = {
    **{name: ([(-0.9, 4.0), POSITIVE], [1]) for name in ("jv", "jve", "yv", "iv", "ive", "kv", "kve")},
    "expn": ([(0, 5), POSITIVE], [1]),
    **{name: ([POSITIVE], [0]) for name in ("exp1", "expi", "spence", "k0", "k1", "k0e", "k1e")},
    **{name: ([ANY], [0]) for name in ("dawsn", "exprel", "cosm1")},
    **{name: ([POSITIVE, ANY], [0, 1]) for name in ("boxcox", "boxcox1p", "huber", "pseudo_huber")},
    **{name: ([UNIT, UNIT], [0, 1]) for name in ("inv_boxcox", "inv_boxcox1p")},
    "ellipkm1": ([POSITIVE], [0]),
    "ellipk": ([(-3.0, 0.95)], [0]),
    "ellipe": ([(-3.0, 0.95)], [0]),
    "gammaincinv": ([POSITIVE, UNIT], [0, 1]),
    "gammainccinv": ([POSITIVE, UNIT], [0, 1]),
    "betaincinv": ([POSITIVE, POSITIVE, UNIT], [0, 1, 2]),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def operands(name, shape=(3, 4), dtype="float64"):
    draws = (
        (RNG.integers if isinstance(low, int) else RNG.uniform)(low, high, shape)
        for low, high in FUNCTIONS[name][0]
    )
    return [np.asarray(x).astype(dtype) for x in draws]


def leaves_of(name, arrays):
    return [eo.tensor(a, requires_grad=i in FUNCTIONS[name][1]) for i, a in enumerate(arrays)]


def expected(name, arrays):
    return getattr(scipy.special, name)(*(a.astype(float) for a in arrays))


@every_function
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-13), ("float32", 2e-5), ("float16", 2e-2)])
def test_values_and_gradients_in_the_precision_of_the_operands(name, dtype, rtol):
    arrays = operands(name, dtype=dtype)
    leaves = leaves_of(name, arrays)
    found = getattr(special, name)(*leaves)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.detach().numpy(), expected(name, arrays), rtol=rtol, atol=rtol)
    eo.sum(found).backward()
    double = leaves_of(name, [a.astype(float) for a in arrays])
    eo.sum(getattr(special, name)(*double)).backward()
    for i in FUNCTIONS[name][1]:
        assert leaves[i].grad.dtype == dtype
        wide = double[i].grad.numpy()
        np.testing.assert_allclose(
            leaves[i].grad.numpy(), wide, rtol=5 * rtol, atol=rtol * np.abs(wide).max()
        )


@every_function
def test_gradients_against_differences_under_vmap_and_compiled(name):
    f, arrays = getattr(special, name), operands(name)
    tensors, argnums, step = [eo.asarray(a) for a in arrays], tuple(FUNCTIONS[name][1]), 1e-6
    gradient = eo.grad(lambda *x: eo.sum(f(*x)), argnums=argnums)
    found = gradient(*tensors)
    for i, g in zip(argnums, found, strict=True):
        ahead, behind = (
            expected(name, [a + s * step * (k == i) for k, a in enumerate(arrays)]) for s in (1, -1)
        )
        np.testing.assert_allclose(g.numpy(), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)
    mapped = eo.vmap(eo.vmap(eo.grad(f, argnums=argnums)))(*tensors)
    compiled = eo.compile(gradient)(*tensors)
    for g, one, other in zip(found, mapped, compiled, strict=True):
        np.testing.assert_allclose(one.numpy(), g.numpy(), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(other.numpy(), g.numpy(), rtol=1e-12, atol=1e-14)


@every_function
def test_a_derivative_in_a_parameter_without_one_is_refused(name):
    f, arrays = getattr(special, name), operands(name, ())
    for i in set(range(len(arrays))) - set(FUNCTIONS[name][1]):
        tensors = [eo.asarray(a) for a in arrays]

        def of_parameter(t, i=i, tensors=tensors):
            return f(*(t if k == i else x for k, x in enumerate(tensors)))

        for call in (
            lambda: eo.grad(of_parameter)(tensors[i]),  # noqa: B023
            lambda: eo.jvp(of_parameter, (tensors[i],), (eo.ones_like(tensors[i]),)),  # noqa: B023
            lambda: of_parameter(eo.tensor(arrays[i], requires_grad=True)).backward(),  # noqa: B023
        ):
            with pytest.raises(eo.UnsupportedOperationError, match="no gradient with respect to"):
                call()


@every_function
def test_operands_broadcast_and_may_be_empty(name):
    row, column = operands(name, (4,)), operands(name, (3, 1))
    leaves = leaves_of(name, [(row, column)[i % 2][i] for i in range(len(row))])
    out = getattr(special, name)(*leaves)
    assert out.shape == ((3, 4) if len(row) > 1 else (4,))
    eo.sum(out).backward()
    empty = leaves_of(name, operands(name, (0, 2)))
    eo.sum(getattr(special, name)(*empty)).backward()
    for i in FUNCTIONS[name][1]:
        assert leaves[i].grad.shape == leaves[i].shape
        assert empty[i].grad.shape == (0, 2)


@every_function
def test_ufuncs_and_numbers_reach_it(name):
    arrays = operands(name)
    found = getattr(scipy.special, name)(*map(eo.asarray, arrays))
    np.testing.assert_allclose(found.numpy(), expected(name, arrays), rtol=1e-13)
    assert bool(get_primitive(name).missing) == (len(FUNCTIONS[name][1]) < len(arrays))
    assert getattr(special, name)(*(1.5 for _ in arrays)).dtype == eo.float32
