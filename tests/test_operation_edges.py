"""Operations at the edges of what they take: wrong arguments, plain-number parameters, kinks, warnings."""

import warnings

import numpy as np
import pytest

import everyo as eo

INF, NAN = float("inf"), float("nan")

X, M = eo.ones(4), eo.ones((2, 3))
NO_INTEGER = [1.5, "a", None, 1j, {}, len]


@pytest.mark.parametrize("bad", NO_INTEGER, ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda v: eo.tril(M, k=v),
        lambda v: eo.triu(M, k=v),
        lambda v: eo.diag(X, v),
        lambda v: eo.diag(M, v),
        lambda v: eo.diagonal(M, v),
        lambda v: eo.trace(M, v),
        lambda v: eo.roll(X, v),
        lambda v: eo.roll(M, (1, v), (0, 1)),
        lambda v: eo.diff(X, n=v),
        lambda v: eo.topk(X, v),
        lambda v: eo.split(X, v),
        lambda v: eo.split(X, [1, v]),
        lambda v: eo.array_split(X, v),
        lambda v: eo.reshape(X, v),
        lambda v: eo.reshape(X, (2, v)),
        lambda v: eo.zeros((2, v)),
        lambda v: eo.eye(2, k=v),
        lambda v: eo.linspace(0, 1, v),
        lambda v: eo.sum(X, axis=(v,)),
        lambda v: eo.transpose(M, (0, v)),
        lambda v: eo.conv1d(eo.ones((1, 1, 4)), eo.ones((1, 1, 2)), stride=v),
    ],
)
def test_a_parameter_that_is_no_integer(call, bad):
    with pytest.raises(eo.DTypeError, match="integer"):
        call(bad)


@pytest.mark.parametrize("bad", ["a", None, [1.0, 2.0], {}, len, 1j], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda v: eo.dropout(X, v),
        lambda v: eo.leaky_relu(X, v),
        lambda v: eo.elu(X, v),
        lambda v: eo.softplus(X, v),
        lambda v: eo.vector_norm(X, ord=v),
    ],
)
def test_a_parameter_that_is_no_real_number(call, bad):
    with pytest.raises(eo.DTypeError):
        call(bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: eo.leaky_relu(X, p),
        lambda p: eo.elu(X, p),
        lambda p: eo.softplus(X, p),
        lambda p: eo.dropout(X, p),
        lambda p: eo.var(X, correction=p),
        lambda p: eo.pad(X, 1, constant_values=p),
        lambda p: eo.arange(p),
    ],
)
def test_a_plain_parameter_never_loses_a_gradient(call):
    with pytest.raises(eo.GraphStateError, match="plain number"):
        call(eo.tensor(1.0, requires_grad=True))
    with pytest.raises(eo.GraphStateError, match="plain number"):
        eo.jvp(call, (eo.tensor(1.0),), (eo.tensor(1.0),))
    call(eo.tensor(1.0))  # without a gradient it is as good as a number
    call(np.float32(1.0))


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: eo.split(X, 0), eo.ArgumentError),
        (lambda: eo.split(X, -2), eo.ArgumentError),
        (lambda: eo.var(X, correction="a"), eo.DTypeError),
        (lambda: eo.std(X, ddof=1j), eo.DTypeError),
        (lambda: eo.arange("a"), eo.DTypeError),
        (lambda: eo.arange(0, [2]), eo.DTypeError),
        (lambda: eo.linspace(None, 1), eo.DTypeError),
        (lambda: eo.linspace(eo.tensor(0.0), "a"), eo.DTypeError),
        (lambda: eo.concat(3), eo.DTypeError),
        (lambda: eo.stack(None), eo.DTypeError),
        (lambda: eo.hstack(1.5), eo.DTypeError),
        (lambda: eo.transpose(M, 1), eo.ShapeError),
        (lambda: eo.transpose(M, object()), eo.DTypeError),
        (lambda: eo.arange(0, NAN), eo.ArgumentError),
        (lambda: eo.arange(INF), eo.ArgumentError),
        (lambda: eo.arange(10**30, 10**30 + 2), eo.ArgumentError),
        (lambda: eo.linspace(0, 1, (2, 3)), eo.DTypeError),
        (lambda: eo.linspace(0, 1, -1), eo.ShapeError),
        (lambda: eo.linspace(0, 1j, 3, dtype=eo.float32), eo.DTypeError),
        (lambda: eo.pad(X, 1, constant_values=1j), eo.DTypeError),
        (lambda: eo.dropout(X, generator="a"), eo.DTypeError),
        (lambda: eo.random.normal(size=2, generator="a"), eo.DTypeError),
        (lambda: eo.random.uniform(eo.ones(2), eo.ones(3)), eo.ShapeError),
        (lambda: eo.einsum("i"), eo.ShapeError),
    ],
)
def test_wrong_arguments(call, kind):
    with pytest.raises(kind):
        call()


@pytest.mark.parametrize("name", ["add", "arctan2", "hypot", "logical_xor", "where", "maximum", "clip"])
def test_none_is_no_operand(name):
    count = {"where": 3, "clip": 1}.get(name, 2)
    for at in range(count):
        operands = [X] * count
        operands[at] = None
        with pytest.raises(eo.DTypeError):
            getattr(eo, name)(*operands)
    with pytest.raises(eo.DTypeError):
        getattr(eo, name)(*[None] * count)


@pytest.mark.parametrize("f", [eo.relu, eo.sigmoid, eo.erf, eo.matrix_transpose, eo.angle, eo.elu, eo.silu])
def test_none_is_no_operand_of_one(f):
    with pytest.raises(eo.DTypeError):
        f(None)


def test_shapes_and_axes_may_be_arrays():
    assert eo.reshape(M, np.array([3, -1])).shape == (3, 2)
    assert M.reshape(eo.tensor([6])).shape == (6,)
    assert eo.zeros(np.array([2, 0])).shape == (2, 0)
    assert eo.transpose(M, np.array([1, 0])).shape == (3, 2)
    assert eo.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: eo.dropout(x, 0.5, training=False),
        lambda x: eo.dropout(x, 0.0),
        lambda x: eo.einsum("ij->ij", x),
        lambda x: eo.diff(x, n=0),
        lambda x: eo.pad(x, 0, "edge"),
        eo.atleast_1d,
        eo.atleast_2d,
        eo.clip,
        eo.positive,
        eo.clone,
        lambda x: x.reshape(2, 3),
        lambda x: x[...],
    ],
)
def test_a_result_is_a_tensor_of_its_own(f):
    for changed, kept in ((0, 1), (1, 0)):
        x = eo.tensor(np.arange(6.0).reshape(2, 3))
        pair = (x, f(x))
        pair[changed][0] = -7.0
        statement = pair[changed]
        statement += 1.0
        np.testing.assert_array_equal(pair[kept].numpy(), np.arange(6.0).reshape(2, 3))
    x = eo.ones((2, 3), requires_grad=True)
    (f(x) * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 3), 3.0))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_softsign_keeps_its_digits_far_out(dtype):
    points = np.array([-INF, -3e4, -1e3, -1.0, 0.0, 1e-4, 2.0, 1e4, INF], dtype)
    x = eo.tensor(points, requires_grad=True)
    y = eo.softsign(x)
    y.backward(eo.ones_like(y))
    size = 1 + np.abs(points.astype("float64"))
    tol = {"rtol": 4 * np.finfo(dtype).eps, "atol": np.finfo(dtype).smallest_subnormal}
    with np.errstate(invalid="ignore"):
        value = np.where(np.isinf(points), np.sign(points), points / size)
    np.testing.assert_allclose(y.detach().numpy(), value, **tol)
    np.testing.assert_allclose(x.grad.numpy(), 1 / size**2, **tol)
    _, tangent = eo.jvp(eo.softsign, (x.detach(),), (eo.ones_like(x),))
    np.testing.assert_array_equal(tangent.numpy(), x.grad.numpy())
    assert np.isnan(eo.softsign(eo.tensor(NAN)).item())


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda: eo.mean(eo.zeros((0, 2), dtype="complex64"), axis=0), [NAN, NAN]),
        (lambda: eo.var(eo.zeros(0, dtype="complex128")), NAN),
        (lambda: eo.mean(eo.zeros(0)), NAN),
        (lambda: eo.logaddexp(eo.tensor([NAN, 0.0]), eo.tensor([1.0, NAN])), [NAN, NAN]),
        (lambda: eo.logaddexp2(eo.tensor(NAN), -INF), NAN),
        (lambda: eo.logsumexp(eo.tensor([NAN, INF])), NAN),
        (lambda: eo.softmax(eo.tensor([NAN, INF])), [NAN, NAN]),
        (lambda: eo.softsign(eo.tensor([INF, -INF, NAN])), [1.0, -1.0, NAN]),
        (lambda: eo.sigmoid(eo.tensor([-1e4, INF, NAN])), [0.0, 1.0, NAN]),
        (lambda: eo.hypot(eo.tensor([INF, NAN]), eo.tensor([NAN, 1.0])), [INF, NAN]),
    ],
)
def test_no_warning_escapes(f, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = f()
    np.testing.assert_array_equal(np.real(found.numpy()), expected)


def test_linspace_between_tensors_of_any_dtype():
    whole, real = eo.tensor(0), eo.tensor(2.0, requires_grad=True)
    for points in (eo.linspace(whole, eo.tensor(2), 5), eo.linspace(whole, 2.0, 5)):
        assert points.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert eo.linspace(whole, eo.tensor(4), 3, dtype=eo.int64).tolist() == [0, 2, 4]
    points = eo.linspace(whole, real, 5)
    points.sum().backward()
    assert real.grad.item() == 2.5
    half = eo.linspace(eo.tensor(0.0, dtype=eo.float16), eo.tensor(1.0, dtype=eo.float64), 3)
    assert half.dtype == eo.float64
    assert eo.linspace(real, 3, 3, dtype=eo.float64).dtype == eo.float64
