"""Settings of the wrong kind or out of range are EveryO's errors, which name the function."""

import numpy as np
import pytest

import everyo as eo

X = eo.tensor(np.arange(9.0).reshape(3, 3))
V = eo.tensor([1.0, 2.0, 3.0])
F, init, fft, linalg = eo.nn.functional, eo.nn.init, eo.fft, eo.linalg
WRONG = {
    "piecewise without conditions": (lambda: eo.piecewise(X, [], []), eo.ShapeError, "piecewise"),
    "piecewise default alone": (lambda: eo.piecewise(X, [], [1.0]), eo.ShapeError, "piecewise"),
    "piecewise funclist": (lambda: eo.piecewise(X, [X > 1], 3), eo.DTypeError, "piecewise"),
    "trim_zeros": (lambda: eo.trim_zeros(V, 3), eo.ArgumentError, "trim_zeros"),
    "trim_zeros None": (lambda: eo.trim_zeros(V, None), eo.ArgumentError, "trim_zeros"),
    "real_if_close": (lambda: eo.real_if_close(V, tol="a"), eo.DTypeError, "real_if_close"),
    "real_if_close complex": (lambda: eo.real_if_close(V * 1j, tol="a"), eo.DTypeError, "real_if_close"),
    "rot90": (lambda: eo.rot90(X, axes=3), eo.DTypeError, "rot90"),
    "histogram2d bins": (lambda: eo.histogram2d(V, V, bins=1.5), eo.DTypeError, "histogram2d"),
    "histogram2d pair": (lambda: eo.histogram2d(V, V, bins=[1.5, 2]), eo.DTypeError, "histogram2d"),
    "histogram2d class": (lambda: eo.histogram2d(V, V, bins=np.float32), eo.DTypeError, None),
    "histogram2d range": (lambda: eo.histogram2d(V, V, range=3), eo.DTypeError, "histogram2d"),
    "histogramdd range": (lambda: eo.histogramdd(X, range=3), eo.DTypeError, "histogramdd"),
    "histogramdd nothing": (lambda: eo.histogramdd([]), eo.ShapeError, "histogramdd"),
    "bincount": (lambda: eo.bincount("a"), eo.DTypeError, "bincount"),
    "choose": (lambda: eo.choose([0], 3), eo.DTypeError, "choose"),
    "column_stack": (lambda: eo.column_stack(3), eo.DTypeError, "column_stack"),
    "dstack": (lambda: eo.dstack(eo.tensor(1.0)), eo.DTypeError, "dstack"),
    "lexsort": (lambda: eo.lexsort(3), eo.DTypeError, "lexsort"),
    "multi_dot": (lambda: linalg.multi_dot(3), eo.DTypeError, "multi_dot"),
    "select": (lambda: eo.select(3, [X]), eo.DTypeError, "select"),
    "select choices": (lambda: eo.select([X > 1], 3), eo.DTypeError, "select"),
    "ravel_multi_index": (lambda: eo.ravel_multi_index(3, (2,)), eo.DTypeError, "ravel_multi_index"),
    "indices": (lambda: eo.indices((2,), dtype=3), eo.DTypeError, None),
    "partition": (lambda: eo.partition(V, []), eo.ArgumentError, "partition"),
    "quantile": (lambda: eo.quantile(V, "a"), eo.DTypeError, "quantile"),
    "percentile": (lambda: eo.percentile(V, [None]), eo.DTypeError, "percentile"),
    "trapezoid": (lambda: eo.trapezoid(V, x=3), eo.ShapeError, "trapezoid"),
    "trapezoid axes": (lambda: eo.trapezoid(V, x=X), eo.ShapeError, "trapezoid"),
    "cond": (lambda: linalg.cond(X, p=[]), eo.ArgumentError, "cond"),
    "matrix_norm": (lambda: linalg.matrix_norm(X, ord=[1]), eo.ArgumentError, "matrix_norm"),
    "pinv": (lambda: linalg.pinv(X, rtol=1j), eo.DTypeError, "pinv"),
    "lu_solve": (lambda: linalg.lu_solve(3, V), eo.DTypeError, "lu_solve"),
    "lu_solve one": (lambda: linalg.lu_solve((X,), V), eo.ShapeError, "lu_solve"),
    "tensorsolve": (lambda: linalg.tensorsolve(X, V, axes=1), eo.DTypeError, "tensorsolve"),
    "fftfreq": (lambda: fft.fftfreq(4, d=0), eo.ArgumentError, "fftfreq"),
    "rfftfreq": (lambda: fft.rfftfreq(4, d=0), eo.ArgumentError, "rfftfreq"),
    "fftn s": (lambda: fft.fftn(X, s=3), eo.DTypeError, "fftn"),
    "irfft2 axes": (lambda: fft.irfft2(X, axes=1), eo.DTypeError, "irfft2"),
    "choice": (lambda: eo.random.choice(3, p=1.0), eo.ArgumentError, "choice"),
    "integers": (lambda: eo.random.integers(1j), eo.DTypeError, "integers"),
    "constant_": (lambda: init.constant_(eo.zeros(2), "a"), eo.DTypeError, "constant_"),
    "constant_ complex": (lambda: init.constant_(eo.zeros(2), 1j), eo.DTypeError, "constant_"),
    "constant_ list": (lambda: init.constant_(eo.zeros(2), []), eo.DTypeError, "constant_"),
    "zeros_ of none": (lambda: init.zeros_(3), eo.DTypeError, "constant_"),
    "uniform_ of none": (lambda: init.uniform_("a"), eo.DTypeError, "uniform_"),
    "normal_ of none": (lambda: init.normal_(3), eo.DTypeError, "normal_"),
    "xavier_uniform_": (lambda: init.xavier_uniform_(X, gain="a"), eo.DTypeError, "xavier_uniform_"),
    "xavier_normal_": (lambda: init.xavier_normal_(X, gain="a"), eo.DTypeError, "xavier_normal_"),
    "kaiming_uniform_": (lambda: init.kaiming_uniform_(X, a="a"), eo.DTypeError, "nn.init"),
    "kaiming nonlinearity": (
        lambda: init.kaiming_normal_(X, nonlinearity=[1]), eo.ArgumentError, "nn.init"
    ),
    "LayerNorm": (lambda: eo.nn.LayerNorm(3, eps="a"), eo.DTypeError, "LayerNorm"),
    "HuberLoss 0": (lambda: eo.nn.HuberLoss(delta=0), eo.ArgumentError, "HuberLoss"),
    "HuberLoss text": (lambda: eo.nn.HuberLoss(delta="a"), eo.DTypeError, "HuberLoss"),
    "huber_loss": (lambda: F.huber_loss(V, V, delta="a"), eo.DTypeError, "huber_loss"),
    "CrossEntropyLoss": (
        lambda: eo.nn.CrossEntropyLoss(label_smoothing=2), eo.ArgumentError, "CrossEntropyLoss"
    ),
    "CrossEntropyLoss index": (
        lambda: eo.nn.CrossEntropyLoss(ignore_index="a"), eo.DTypeError, "CrossEntropyLoss"
    ),
    "NLLLoss": (lambda: eo.nn.NLLLoss(ignore_index=1.5), eo.DTypeError, "NLLLoss"),
    "cross_entropy": (
        lambda: F.cross_entropy(X, [0, 1, 2], label_smoothing="a"), eo.DTypeError, "cross_entropy"
    ),
    "class as operand": (lambda: eo.add(V, np.float32), eo.DTypeError, "add"),
    "class as first": (lambda: eo.add(np.float32, V), eo.DTypeError, "add"),
    "class alone": (lambda: eo.exp(np.float32), eo.DTypeError, "exp"),
    "tensor class": (lambda: eo.multiply(V, eo.Tensor), eo.DTypeError, "multiply"),
    "class under vmap": (lambda: eo.vmap(lambda v: eo.add(v, np.float32))(V), eo.DTypeError, "add"),
    "class compiled": (lambda: eo.compile(lambda v: eo.add(v, np.float32))(V), eo.DTypeError, "add"),
    "class as position": (lambda: eo.delete(V, np.float32), eo.DTypeError, "delete"),
    "class as shape": (lambda: eo.reshape(V, np.float32), eo.DTypeError, "reshape"),
    "class as width": (lambda: eo.pad(V, np.float32), eo.ShapeError, "pad"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_error(name):
    call, kind, operation = WRONG[name]
    with pytest.raises(kind) as error:
        call()
    assert operation is None or error.value.operation == operation
    assert error.value.expected
    assert error.value.found


def test_a_buffer_that_is_no_tensor_leaves_the_module_as_it_was():
    module = eo.nn.Module()
    with pytest.raises(eo.DTypeError) as error:
        module.register_buffer("mean", 3)
    assert error.value.operation == "register_buffer"
    module.mean = 3
    module.register_buffer("scale", eo.ones(2))
    with pytest.raises(eo.DTypeError):
        module.register_buffer("scale", 3, persistent=False)
    assert list(module.state_dict()) == ["scale"]


def test_a_vector_of_edges_serves_both_axes():
    edges = eo.tensor([0.0, 1.5, 3.0, 4.0])
    for bins in (edges, [0.0, 1.5, 3.0, 4.0], edges.numpy()):
        counts, xs, ys = eo.histogram2d(V, V, bins=bins)
        assert counts.shape == (3, 3)
        assert xs.tolist() == ys.tolist() == [0.0, 1.5, 3.0, 4.0]
    assert eo.histogram2d(V, V, bins=eo.tensor(2))[0].shape == (2, 2)


BOOLEAN_INTEGERS = {
    "sum": lambda x: x.sum(True),
    "mean": lambda x: x.mean(False),
    "axes": lambda x: eo.sum(x, axis=(True, False)),
    "cumsum": lambda x: np.cumsum(x, axis=True),
    "sort": lambda x: eo.sort(x, axis=True),
    "expand_dims": lambda x: eo.expand_dims(x, True),
    "reshape": lambda x: x.reshape(True, 6),
    "zeros": lambda x: eo.zeros((True, 2)),
    "broadcast_to": lambda x: eo.broadcast_to(x, (True, 2, 3)),
    "diagonal": lambda x: eo.diagonal(x, 0, False, True),
    "concat": lambda x: eo.concat([x, x], axis=True),
    "stack": lambda x: eo.stack([x, x], axis=True),
    "draws": lambda x: eo.random.normal(size=(True, 2)),
}


@pytest.mark.parametrize("name", BOOLEAN_INTEGERS)
def test_true_is_no_axis_and_no_size(name):
    with pytest.raises(eo.DTypeError):
        BOOLEAN_INTEGERS[name](eo.asarray(np.arange(6.0).reshape(2, 3)))


def test_true_is_the_first_diagonal():
    """``k=not whole`` is a habit, which NumPy takes too."""
    x = eo.asarray(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(eo.triu(x, k=True).numpy(), np.triu(x.numpy(), k=True))
    np.testing.assert_array_equal(eo.diagonal(x, True).numpy(), np.diagonal(x.numpy(), True))


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_ways_to_sort(name):
    x = eo.tensor([3.0, 1.0])
    for kind in ("quicksort", "heapsort", "mergesort", "stable", "quick", None):
        np.testing.assert_array_equal(getattr(np, name)(x, kind=kind), getattr(np, name)(x.numpy()))
    for kind in ("bogus", 3):
        with pytest.raises(eo.ArgumentError, match="no such way to sort"):
            getattr(np, name)(x, kind=kind)


M, I, PAIR = eo.tensor(np.eye(3)), eo.tensor([0, 1, 2]), np.array([1, 2])
HUGE = 10**30
OPTIONS = {
    "allclose": lambda v: eo.allclose(V, V, equal_nan=v),
    "array_equal": lambda v: eo.array_equal(V, V, equal_nan=v),
    "asarray": lambda v: eo.asarray(V, copy=v),
    "choose": lambda v: eo.choose([0, 0, 0], [V, V], mode=v),
    "cond": lambda v: linalg.cond(M, p=v),
    "conv1d": lambda v: eo.conv1d(X[None], X[None, :, :2], padding=v),
    "convolve": lambda v: eo.convolve(V, V, mode=v),
    "correlate": lambda v: eo.correlate(V, V, mode=v),
    "eigh": lambda v: linalg.eigh(M, UPLO=v),
    "fft": lambda v: fft.fft(V, norm=v),
    "gelu": lambda v: eo.gelu(V, approximate=v),
    "gradient": lambda v: eo.gradient(V, edge_order=v),
    "indices": lambda v: eo.indices((2, 2), sparse=v),
    "isin": lambda v: eo.isin(V, V, kind=v),
    "matrix_norm": lambda v: linalg.matrix_norm(M, ord=v),
    "meshgrid": lambda v: eo.meshgrid(V, V, indexing=v),
    "norm": lambda v: linalg.norm(M, ord=v),
    "pad": lambda v: eo.pad(V, 1, mode="reflect", reflect_type=v),
    "polyfit": lambda v: eo.polyfit(eo.arange(5.0), eo.arange(5.0), 1, cov=v),
    "qr": lambda v: linalg.qr(M, mode=v),
    "ravel_multi_index": lambda v: eo.ravel_multi_index(([0], [1]), (2, 2), order=v),
    "reduce_window": lambda v: eo.reduce_window(V, "max", 2, padding=v),
    "reshape": lambda v: eo.reshape(V, (3, 1), copy=v),
    "round": lambda v: eo.round(V, v),
    "searchsorted": lambda v: eo.searchsorted(V, V, side=v),
    "take": lambda v: eo.take(V, [0], mode=v),
    "uniform": lambda v: eo.random.uniform(size=2, requires_grad=v),
    "unravel_index": lambda v: eo.unravel_index(I, (3, 3), order=v),
    "vector_norm": lambda v: eo.vector_norm(V, ord=v),
    "MSELoss": lambda v: eo.nn.MSELoss(reduction=v),
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("value", [PAIR, PAIR[:, None], eo.asarray(PAIR)], ids=["vector", "matrix", "tensor"])
def test_an_array_is_no_option(name, value):
    with pytest.raises(eo.EveryOError) as error:
        OPTIONS[name](value)
    assert error.value.operation
    assert error.value.expected
    assert error.value.found


SIZES = {
    "uniform": lambda: eo.random.uniform(size=HUGE),
    "choice": lambda: eo.random.choice(3, size=HUGE),
    "diag_indices": lambda: eo.diag_indices(HUGE),
    "diag_indices of many axes": lambda: eo.diag_indices(2, HUGE),
    "eye": lambda: eo.eye(HUGE),
    "fftfreq": lambda: fft.fftfreq(HUGE),
    "full": lambda: eo.full(HUGE, 1.0),
    "geomspace": lambda: eo.geomspace(1, 2, HUGE),
    "indices": lambda: eo.indices((HUGE, 2)),
    "linspace": lambda: eo.linspace(0, 1, HUGE),
    "logspace": lambda: eo.logspace(0, 1, HUGE),
    "multigammaln": lambda: eo.special.multigammaln(V, HUGE),
    "normal": lambda: eo.random.normal(size=HUGE),
    "ones": lambda: eo.ones((1 << 40, 1 << 40)),
    "permutation": lambda: eo.random.permutation(HUGE),
    "rfftfreq": lambda: fft.rfftfreq(HUGE),
    "round": lambda: eo.round(V, HUGE),
    "segment_max": lambda: eo.segment_max(V, I, num_segments=HUGE),
    "array_split": lambda: eo.array_split(V, HUGE),
    "tri": lambda: eo.tri(HUGE),
    "tril_indices": lambda: eo.tril_indices(HUGE),
    "zeros": lambda: eo.zeros(HUGE),
    "isclose": lambda: eo.isclose(V, V, rtol=10**400),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_beyond_all_memory(name):
    with pytest.raises((eo.ArgumentError, eo.ShapeError)) as error:
        SIZES[name]()
    assert error.value.operation == name.split()[0]
    assert error.value.expected
    assert error.value.found
    assert error.value.remedy


def test_large_integers_that_mean_something():
    assert eo.linspace(0, HUGE, 3, dtype=eo.float64).tolist() == [0.0, 5e29, 1e30]
    assert eo.diff(V, n=10**12).shape == (0,)
    assert eo.polyder(V, 10**12).shape == (0,)
    assert eo.linalg.matrix_power(M, HUGE).tolist() == M.tolist()
    assert eo.rot90(X, HUGE).tolist() == X.tolist()
    assert eo.isclose(V, V, atol=HUGE).all()


@pytest.mark.parametrize(
    "name",
    ["sum", "mean", "max", "sort", "concat", "stack", "reshape", "take", "softmax", "cumsum", "cov", "ldexp"],
)
@pytest.mark.parametrize("value", [None, "text", {}])
def test_what_is_no_operand_is_told_by_the_function_that_was_called(name, value):
    function = getattr(eo, name)
    arguments = {"reshape": (value, (1,)), "take": (value, [0]), "ldexp": (V, value), "concat": ([value],)}
    with pytest.raises(eo.DTypeError) as error:
        function(*arguments.get(name, ([value],) if name == "stack" else (value,)))
    assert error.value.operation == name


@pytest.mark.parametrize(
    "transform", [lambda f: f, eo.compile, eo.vmap], ids=["eager", "compiled", "batched"]
)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: eo.percentile(x, 300),
        lambda x: eo.quantile(x, np.array([0.5, -1.0])),
        lambda x: eo.nanquantile(x, [0.5, 1.5]),
        lambda x: eo.histogram2d(x, x, bins=[np.array([3.0, 2.0]), 3])[0],
        lambda x: eo.histogramdd([x], bins=[[3.0, 2.0]])[0],
        lambda x: eo.histogram(x, bins=[3.0, 2.0])[0],
    ],
)
def test_settings_out_of_range_are_refused_wherever_they_are_known(f, transform):
    with pytest.raises(eo.ArgumentError):
        transform(f)(X if transform is eo.vmap else V)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")  # NumPy's own of nanvar
@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_variances_of_a_complex_dtype_are_complex(name):
    """As NumPy's, which are real of complex numbers alone."""
    for x in (np.arange(4.0), np.arange(4.0) + 1j):
        for dtype in (None, "complex128", "complex64"):
            found = getattr(eo, name)(eo.asarray(x), dtype=dtype).numpy()
            expected = getattr(np, name)(x, dtype=dtype)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6)
