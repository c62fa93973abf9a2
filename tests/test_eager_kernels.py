"""Generated loops for eager code on large arrays: what they compute, when they serve, and when NumPy does."""

import math
import subprocess
import sys
import warnings

import mpmath
import numpy as np
import pytest

import everyo as eo
from everyo.backends import accelerated
from everyo.compiler import eager, pool
from everyo.core.device import backend_for
from everyo.core.registry import op

N = accelerated.LARGE + 77  # with a rest behind the last vector
XP = backend_for("cpu")[0].xp


@pytest.fixture
def served(monkeypatch):
    """Return a list to which the name of each kernel that runs is added."""
    names = []
    computed = accelerated._computed

    def noted(key, arrays, length):
        out = computed(key, arrays, length)
        if out is not None:
            names.append(key[1])
        return out

    monkeypatch.setattr(accelerated, "_computed", noted)
    return names


@pytest.fixture
def by_numpy(monkeypatch):
    """Return a function that calls another one without generated loops."""

    def call(f, *args):
        with monkeypatch.context() as context:
            context.setattr(accelerated, "LARGE", sys.maxsize)
            return f(*args)

    return call


def draw(seed, *shape, dtype="float64", low=-3.0, high=3.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def ulps(found, exact):
    """Return the largest error in units of the last place of the exact values, which are float64."""
    exact = np.asarray(exact, np.float64)
    unit = np.spacing(np.abs(exact).astype(found.dtype)).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - exact) / unit))


def normal(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


EXACT = {
    "relu": lambda x: max(x, 0),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "gelu": lambda x: x * normal(x),
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions(name, dtype, served):
    x = draw(0, N, dtype=dtype, low=-8, high=8)
    found = getattr(eo, name)(eo.from_numpy(x)).numpy()
    assert found.dtype == dtype
    chosen = np.linspace(0, N - 1, 200).astype(int)
    with mpmath.workdps(40):
        exact = [float(EXACT[name](mpmath.mpf(float(v)))) for v in x[chosen]]
    assert ulps(found[chosen], exact) <= 3.5  # 2 of a function, and a product for silu
    if name not in ("sin", "cos") or dtype == "float64":  # there NumPy may have vectors of its own
        assert served == [name]


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "log", "tanh", "expm1", "arctan"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_in_place_of_ufuncs_agree_with_numpy(name, dtype, served):
    x = draw(1, N, dtype=dtype, low=0.1, high=9)
    found = accelerated.instead_of(getattr(np, name))(x)
    assert served == [name]
    assert ulps(found, getattr(np, name)(x.astype(np.float64))) <= 2.5


def test_loops_in_place_of_ufuncs_are_called_as_ufuncs(served):
    """Which of them are in place depends on the processor: kernels are written for ufuncs."""
    for name in ("exp", "log", "sin"):
        ufunc, x = getattr(np, name), draw(1, N, low=0.1, high=9)
        expected, function = ufunc(x), accelerated.instead_of(ufunc)
        assert function(x, out=x) is x
        np.testing.assert_array_equal(x, expected)
        assert function(0.5) == ufunc(0.5)
    assert served == []


SLOPES = {
    "relu": lambda x: x > 0,
    "sigmoid": lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2,
    "softplus": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: (1 + np.exp(-x) * (1 + x)) / (1 + np.exp(-x)) ** 2,
    "erf": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "sin": np.cos,
}


@pytest.mark.parametrize("name", SLOPES)
def test_gradients(name, served):
    """With a cotangent of its own for each element, and with one number for all, as a sum has it."""
    data, g = draw(2, N), draw(3, N)
    for weights in (g, 1.0):
        x = eo.tensor(data, requires_grad=True)
        eo.sum(getattr(eo, name)(x) * weights).backward()
        np.testing.assert_allclose(x.grad.numpy(), weights * SLOPES[name](data), 1e-13, 1e-15)
    assert len(served) >= 4


def test_gradients_of_gelu(by_numpy):
    data = draw(4, N)

    def gradient(data, approximate):
        x = eo.tensor(data, requires_grad=True)
        eo.sum(eo.gelu(x, approximate=approximate) * 2).backward()
        return x.grad.numpy()

    for approximate in ("none", "tanh"):
        wanted = by_numpy(gradient, data, approximate)
        np.testing.assert_allclose(gradient(data, approximate), wanted, 1e-12, 1e-15)
    with mpmath.workdps(40):
        exact = [float(2 * mpmath.diff(lambda t: t * normal(t), mpmath.mpf(v))) for v in data[:5]]
    np.testing.assert_allclose(gradient(data, "none")[:5], exact, 1e-13)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 2e-6), ("float64", 1e-14)])
def test_gradients_of_gelu_at_both_ends_and_next_to_zero(dtype, rtol, served):
    tiny = float(np.finfo(dtype).smallest_subnormal)
    points = [0.0, -0.0, tiny, -tiny, 1e-30, -1e-30, 1e-19, -1e-12, 1.0, -1.0, 9.0, -9.0, -12.5, -60.0, 1e30]
    data = np.resize(np.array(points, dtype), N)
    x = eo.tensor(data, requires_grad=True)
    eo.gelu(x).backward(np.full(N, 3, dtype))
    with mpmath.workdps(40):
        each = [mpmath.mpf(float(v)) for v in data[: len(points)]]
        exact = [float(3 * (normal(t) + t * mpmath.npdf(t))) for t in each]
    np.testing.assert_allclose(x.grad.numpy(), np.resize(exact, N), rtol)
    assert len(served) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("low", "high"), [(-3000.0, -1.0), (1.0, 3000.0), (-2000.0, 2000.0), (-0.0, 0.0)])
def test_the_largest_of_a_row_is_found_among_all_signs(low, high, dtype, served):
    data = draw(7, 64, 1001, dtype=dtype, low=low, high=high)
    wide = data.astype(np.float64)
    top = wide.max(-1)
    exact = top + np.log(np.exp(wide - top[:, None]).sum(-1))
    np.testing.assert_allclose(eo.logsumexp(data, axis=-1).numpy(), exact, 4 * np.finfo(dtype).eps)
    assert served == ["logsumexp"], "from a smaller one the exponentials overflow"


@pytest.mark.parametrize("shape", [(64, 1000), (1, N), (4, 3, N // 12)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_family(shape, dtype, served, by_numpy):
    data, g = draw(5, *shape, dtype=dtype), draw(6, *shape, dtype=dtype)
    unit = np.finfo(dtype).eps
    wide = data.astype(np.float64)
    below = wide - wide.max(-1, keepdims=True)
    total = np.exp(below).sum(-1, keepdims=True)
    exact = {"softmax": np.exp(below) / total, "log_softmax": below - np.log(total)}
    for name, wanted in exact.items():
        x = eo.tensor(data, requires_grad=True)
        y = getattr(eo, name)(x, axis=-1)
        np.testing.assert_allclose(y.detach().numpy(), wanted, 16 * unit)
        y.backward(eo.from_numpy(g))
        share = np.sum(g * exact["softmax"] if name == "softmax" else g, -1, keepdims=True, dtype=np.float64)
        slope = exact["softmax"] * (g - share) if name == "softmax" else g - exact["softmax"] * share
        np.testing.assert_allclose(x.grad.numpy(), slope, 64 * unit, 64 * unit * np.abs(slope).max())
    top = wide.max(-1)
    found = eo.logsumexp(eo.from_numpy(data), axis=-1).numpy()
    np.testing.assert_allclose(found, top + np.log(total[..., 0]), 4 * unit)
    kept = eo.logsumexp(eo.from_numpy(data), axis=-1, keepdims=True)
    assert kept.shape == (*shape[:-1], 1)
    assert served[:4] == ["softmax", "softmax slope", "log_softmax", "log_softmax slope"]


@pytest.mark.parametrize("shape", [(64, 1000), (1, N), (4, 3, N // 12)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layer_norm(shape, dtype, served):
    data, g = draw(5, *shape, dtype=dtype) + 3, draw(6, *shape, dtype=dtype)
    unit, n = np.finfo(dtype).eps, shape[-1]
    d = data.astype(np.float64) - data.mean(-1, dtype=np.float64, keepdims=True)
    scale = 1 / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)
    x = eo.tensor(data, requires_grad=True)
    y = eo.layer_norm(x, n)
    np.testing.assert_allclose(y.detach().numpy(), d * scale, 8 * unit, 8 * unit)
    y.backward(eo.from_numpy(g))
    share = (g * d).mean(-1, keepdims=True) * scale**2
    slope = scale * (g - g.mean(-1, dtype=np.float64, keepdims=True) - d * share)
    np.testing.assert_allclose(x.grad.numpy(), slope, 64 * unit, 8 * unit * np.abs(slope).max())
    assert served == [("standardize", 1e-5), ("standardize slope", 1e-5)]


def test_rows_over_everything_and_other_axes(served):
    data = draw(7, 200, 300)
    everything = eo.softmax(eo.from_numpy(data), axis=None).numpy()
    np.testing.assert_allclose(everything, np.exp(data) / np.exp(data).sum(), 1e-13)
    assert eo.logsumexp(eo.from_numpy(data)).shape == ()
    columns = eo.softmax(eo.from_numpy(data), axis=0).numpy()
    np.testing.assert_allclose(columns, np.exp(data) / np.exp(data).sum(0), 1e-13)
    assert [name for name in served if name != "exp"] == ["softmax", "logsumexp"]  # exp: without AVX-512


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums(dtype, served):
    data = draw(8, 90, 700, dtype=dtype)
    for x in (data, data.ravel()[:-5]):
        exact = math.fsum(x.ravel().tolist())
        assert abs(float(eo.sum(eo.from_numpy(x)).numpy()) - exact) <= 4 * np.spacing(np.abs(x).sum())
    rows = [math.fsum(row) for row in data.tolist()]
    found = eo.sum(eo.from_numpy(data), axis=1)
    np.testing.assert_allclose(found.numpy(), rows, 0, np.finfo(dtype).eps * np.abs(data).sum(1).max())
    assert found.dtype == data.dtype
    assert eo.sum(eo.from_numpy(data), keepdims=True).shape == (1, 1)
    assert eo.sum(eo.from_numpy(data), axis=(1,), keepdims=True).shape == (90, 1)
    np.testing.assert_allclose(eo.mean(eo.from_numpy(data)).numpy(), data.mean(dtype=np.float64), 1e-4)
    assert served == ["sum"] * 6
    eo.sum(eo.from_numpy(data), axis=0)
    assert served == ["sum"] * 6


# ---- where NumPy stays


def test_small_and_strided_and_other_arrays_stay_with_numpy(served):
    large = draw(9, N)
    others = [
        large[: accelerated.LARGE - 1],
        draw(9, 2 * N)[::2],
        large.astype(np.float16),
        large.astype(np.complex128),
        large.astype(np.int64),
    ]
    for x in others:
        np.testing.assert_array_equal(eo.sin(eo.from_numpy(x)).numpy(), np.sin(x))
    eo.sigmoid(eo.from_numpy(others[0]))
    eo.softmax(eo.from_numpy(np.ascontiguousarray(large[:-7]).reshape(-1, 2).T), axis=-1)
    eo.where(eo.from_numpy(large[::-1]) > 0, 1.0, 2.0)
    assert served == []


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    "name", ["sigmoid", "silu", "gelu", "softplus", "relu", "erf", "softmax", "log_softmax"]
)
def test_special_values_are_numpys(name, value, by_numpy):
    x = draw(10, 40, 1000)
    x[3, 5] = value
    with np.errstate(all="ignore"):
        found, wanted = (call(getattr(eo, name), eo.from_numpy(x)) for call in (lambda f, x: f(x), by_numpy))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-13, 1e-15)


def test_warnings_are_numpys():
    x = draw(11, N)
    x[7] = math.inf
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sin"):
        found = eo.sin(eo.from_numpy(x)).numpy()
    assert np.isnan(found[7])
    assert np.isfinite(found).sum() == N - 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eo.softmax(eo.from_numpy(draw(12, 50, 1000) * 1e4))  # most of it underflows to 0


def test_a_mask_of_minus_infinities(served):
    x = draw(13, 64, 1000)
    x[:, 500:] = -math.inf
    found = eo.softmax(eo.from_numpy(x)).numpy()
    np.testing.assert_allclose(
        found[:, :500], np.exp(x[:, :500]) / np.exp(x[:, :500]).sum(1, keepdims=True), 1e-13
    )
    assert not found[:, 500:].any()
    assert served == ["softmax"]


def test_anomalies_are_found_in_large_arrays():
    x = eo.tensor(np.zeros(N), requires_grad=True)
    with eo.detect_anomaly(), pytest.raises(eo.errors.NonFiniteGradientError, match="sqrt"):
        eo.sum(eo.sin(eo.sqrt(x))).backward()


def test_higher_derivatives():
    data, v = draw(14, N), draw(15, N)
    x, t = eo.from_numpy(data), eo.from_numpy(v)
    second = eo.jvp(eo.grad(lambda x: eo.sum(eo.sigmoid(x))), (x,), (t,))[1].numpy()
    s = 1 / (1 + np.exp(-data))
    np.testing.assert_allclose(second, v * s * (1 - s) * (1 - 2 * s), 1e-11, 1e-14)
    mapped = eo.vmap(eo.softmax)(eo.reshape(x[: N - N % 128], (-1, 128))).numpy()
    np.testing.assert_allclose(mapped.sum(1), 1, 1e-14)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(threads, monkeypatch):
    x = draw(16, 700, 500)
    results = []
    for number in (1, threads):
        monkeypatch.setattr(pool, "count", lambda number=number: number)
        t = eo.from_numpy(x)
        results.append([f(t).numpy() for f in (eo.gelu, eo.softmax, eo.sum, lambda t: eo.sum(t, axis=1))])
    assert x.size >= eager.SHARED
    for one, several in zip(*results):
        np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize("missing", ["switch", "package"])
def test_without_kernels(missing):
    """Switched off, or without the packages, eager code computes by NumPy and imports no compiler."""
    hide = "import sys; sys.modules['llvmlite'] = None;" if missing == "package" else ""
    code = f"""{hide}
import sys, numpy as np, everyo as eo
x = eo.tensor(np.linspace(-2, 2, {N}), requires_grad=True)
y = eo.sum(eo.gelu(eo.sin(x)) * eo.softmax(x))
y.backward()
p = eo.tensor(np.ones({N}), requires_grad=True)
p.grad = eo.ones({N}, dtype=eo.float64)
eo.optim.Adam([p]).step()
from everyo.backends import accelerated
assert not accelerated._kernels
assert {missing == "package"} or "everyo.compiler" not in sys.modules
assert abs(float(x.grad.numpy().sum())) < 1e3
"""
    environment = {"EVERYO_EAGER_KERNELS": "0"} if missing == "switch" else {}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**__import__("os").environ, **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_importing_and_small_arrays_load_no_compiler():
    code = "import sys, everyo as eo; eo.gelu(eo.ones(100)); assert 'everyo.compiler' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---- optimizers

OPTIMIZERS = {
    "adam": lambda ps: eo.optim.Adam(ps, lr=0.1),
    "amsgrad": lambda ps: eo.optim.Adam(ps, lr=0.1, weight_decay=0.1, amsgrad=True, maximize=True),
    "adamw": lambda ps: eo.optim.AdamW(ps, lr=0.05, betas=[0.8, 0.9], eps=1e-5),
    "sgd": lambda ps: eo.optim.SGD(ps, lr=0.1, weight_decay=0.01),
    "momentum": lambda ps: eo.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.2),
    "nesterov": lambda ps: eo.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
}


def steps(make, dtype="float64"):
    """Return a parameter and the optimizer's arrays after five steps with rates that change."""
    p = eo.tensor(draw(17, 300, 200, dtype=dtype), requires_grad=True)
    optimizer = make([p])
    for i in range(5):
        optimizer.param_groups[0]["lr"] *= 0.9
        p.grad = eo.from_numpy(draw(18 + i, 300, 200, dtype=dtype))
        optimizer.step()
    state = optimizer.state[p]
    return [p.detach().numpy(), *(v for v in state.values() if isinstance(v, np.ndarray))], state["step"]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimizers(name, dtype, by_numpy, monkeypatch):
    monkeypatch.setattr(accelerated, "_kernels", {})
    found, count = steps(OPTIMIZERS[name], dtype)
    assert [k[0] for k in accelerated._kernels] == ["update"], "one loop serves all rates and steps"
    wanted, _ = by_numpy(steps, OPTIMIZERS[name], dtype)
    assert count == 5
    unit = np.finfo(dtype).eps
    for f, w in zip(found, wanted, strict=True):
        assert f.dtype == dtype
        np.testing.assert_allclose(f, w, 32 * unit, 32 * unit)


def test_an_update_leaves_arrays_that_others_hold():
    p = eo.tensor(draw(20, N), requires_grad=True)
    held, before = p.detach(), p.detach().numpy().copy()
    p.grad = eo.from_numpy(draw(21, N))
    eo.optim.SGD([p], lr=0.5).step()
    np.testing.assert_array_equal(held.numpy(), before)
    np.testing.assert_allclose(p.detach().numpy(), before - 0.5 * p.grad.numpy(), 1e-15, 1e-16)


def test_update_rules_of_users_are_called():
    class Doubling(eo.optim.Adam):
        def update(self, value, gradient, state, group):
            return value * 2

    p = eo.tensor(draw(22, N), requires_grad=True)
    wanted = 2 * p.detach().numpy()
    p.grad = eo.ones(N, dtype=eo.float64)
    Doubling([p]).step()
    np.testing.assert_array_equal(p.detach().numpy(), wanted)


def test_where_positive(served):
    g, x = draw(23, N), draw(24, N)
    found = op.where_positive.forward(XP, g, x)
    np.testing.assert_array_equal(found, np.where(x > 0, g, x))
    assert served == ["where_positive"]
