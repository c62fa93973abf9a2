"""`linspace`, `logspace` and `geomspace`: digits, ends, range, derivatives."""

import numpy as np
import pytest

import everyo as eo
from everyo.testing import gradcheck, gradgradcheck
from tests.compiling import agree

ENDS = [
    (1e-20, 1e20), (1e20, 1e-20), (-1e-5, -3e4), (0.1, 1.0), (1e-308, 1.7e308), (1j, -1.0), (-1.0, 1j),
    (1.0, -1 + 0j), (-1 + 0j, 1.0), (2 + 1j, -3 - 4j), (np.array([1.0, -3.0]), np.array([[5.0, -2.0]])),
]  # fmt: skip


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("num", [0, 1, 2, 5])
@pytest.mark.parametrize("endpoint", [True, False])
def test_geomspace_is_numpy_s(ends, num, endpoint):
    wanted = np.geomspace(*ends, num, endpoint=endpoint)
    found = eo.geomspace(*ends, num, endpoint=endpoint, dtype=wanted.dtype)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-13)
    if num:
        np.testing.assert_array_equal(found[0].numpy(), np.broadcast_to(ends[0], wanted.shape[1:]))
    if num > 1 and endpoint:
        np.testing.assert_array_equal(found[-1].numpy(), np.broadcast_to(ends[1], wanted.shape[1:]))


def test_numbers_keep_the_digits_of_the_dtype_that_is_asked_for():
    assert eo.geomspace(0.1, 1, 3, dtype="float64").tolist() == np.geomspace(0.1, 1, 3).tolist()
    assert eo.geomspace([0.1], 1, 3, dtype="float64")[0].item() == 0.1
    assert eo.geomspace(eo.ones(()), 0.1, 3, dtype="float64")[-1].item() == 0.1
    assert eo.geomspace(1e-50, 1.0, 3, dtype="float64").tolist() == [1e-50, 1e-25, 1.0]
    assert eo.logspace(0, 0.1, 2, dtype="float64").tolist() == np.logspace(0, 0.1, 2).tolist()
    assert eo.logspace(0, 0.1, 2, base=0.3, dtype="float64").tolist() == [1.0, 0.3**0.1]
    assert eo.logspace(-300, 300, 3, dtype="float64").tolist() == [1e-300, 1.0, 1e300]
    for ends in ((0.1, 1), ([0.1, 0.2], 1.0), (0.1, [0.2, 0.3]), (0.1, 1j)):
        dtype = complex if 1j in ends else float
        found = eo.linspace(*ends, 3, dtype=np.dtype(dtype)).numpy()
        np.testing.assert_array_equal(found, np.linspace(*ends, 3))
    assert eo.linspace(eo.zeros(()), 0.1, 3, dtype="float64")[-1].item() == 0.1
    points, step = eo.linspace(0.1, 1, 3, dtype="float64", retstep=True)
    assert (points[0].item(), step.item()) == (0.1, 0.45)
    assert eo.linspace(0.7, eo.tensor(4.0), 3, dtype=int).tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("dtype", "first", "last"),
    [
        ("float64", 1e-150, 1e150), ("float64", 1e-200, 1e-190), ("float64", 1e200, 1e190),
        ("float64", -1e200, -1e-100), ("float32", 1e-30, 1e30), ("float32", 1e-38, 1e-37),
        ("float16", 1e-3, 6e4), ("float16", -1e-3, -6e4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a second derivative overflows
def test_geomspace_and_its_derivatives_over_the_whole_range(dtype, first, last, compiled):
    x = eo.asarray(np.array([first, last], dtype))

    def f(x):
        return eo.geomspace(x[0], x[1], 5)

    along = eo.compile if compiled else lambda f: f
    s, t = (np.longdouble(v) for v in x.tolist())
    w = np.linspace(0, 1, 5).astype(np.longdouble)
    y = s * (t / s) ** w
    slopes = np.stack([(1 - w) * y / s, w * y / t], -1)
    mixed = w * (1 - w) * y / s / t
    curved = np.stack([-w * (1 - w) * y / s / s, mixed, mixed, -w * (1 - w) * y / t / t], -1).astype(dtype)
    rtol, tiny = max(1e-11, 2 * np.finfo(dtype).eps), np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(along(f)(x).numpy(), y.astype(dtype), rtol)
    np.testing.assert_allclose(along(eo.jacrev(f))(x).numpy(), slopes.astype(dtype), rtol, tiny)
    np.testing.assert_allclose(along(eo.jacfwd(f))(x).numpy(), slopes.astype(dtype), rtol, tiny)
    held = np.isfinite(curved)
    for hessian in (eo.jacfwd(eo.jacrev(f)), eo.jacrev(eo.jacrev(f))):
        found = along(hessian)(x).numpy().reshape(5, 4)
        np.testing.assert_allclose(found[held], curved[held], rtol, np.finfo(dtype).tiny)


def test_logspace_is_as_wide_as_its_dtype():
    x = eo.asarray(np.array([-4.0, 4.75], np.float16))
    with np.errstate(over="ignore"):
        wanted = (10.0 ** np.linspace(-4, 4.75, 5)).astype(np.float16)
    for f in (eo.logspace, eo.compile(eo.logspace, static_argnums=2)):
        np.testing.assert_array_equal(f(x[0], x[1], 5).numpy(), wanted)
    assert gradcheck(
        lambda a, b, c: eo.logspace(a, b, 4, base=c), *eo.tensor([0.2, 1.3, 3.0], dtype="float64")
    )


def test_progressions_of_batches_and_of_complex_ends():
    a, b = np.array([1.0, -3.0, 1e-200]), np.array([4.0, -0.5, 1e200])
    wanted = np.geomspace(a, b, 4, axis=1)
    np.testing.assert_allclose(eo.vmap(lambda a, b: eo.geomspace(a, b, 4))(a, b).numpy(), wanted, 1e-13)
    np.testing.assert_allclose(eo.geomspace(a, b, 4, axis=1).numpy(), wanted, 1e-13)
    ends = [eo.tensor(v, dtype="complex128", requires_grad=True) for v in (2 + 1j, -3 - 4j)]
    for endpoint in (True, False):
        assert gradcheck(lambda a, b, e=endpoint: eo.geomspace(a, b, 4, endpoint=e), *ends)
        assert gradgradcheck(lambda a, b, e=endpoint: eo.geomspace(a, b, 4, endpoint=e), *ends)


@pytest.mark.parametrize("dtype", [None, "float64", "complex128", "int64"])
@pytest.mark.parametrize("function", [eo.linspace, eo.geomspace, eo.logspace])
def test_compiled_progressions_have_the_digits_of_eager_ones(function, dtype):
    def f(a, b):
        return function(a, b, 5, dtype=dtype), function(a, 2.1, 3, dtype=dtype)

    agree(eo.compile(f)(0.3, 17), f(0.3, 17), ulps=2)
