"""Layers: values, gradients, arguments."""

import numpy as np
import pytest

import everyo as eo
from everyo import nn

F = nn.functional

LAYERS = {
    "Linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "Linear, no bias": (lambda: nn.Linear(3, 2, bias=False), (3,)),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 2, stride=2, padding=1), (2, 2, 5)),
    "Conv2d": (lambda: nn.Conv2d(2, 4, (2, 3), padding=1, dilation=(1, 2), groups=2), (2, 2, 5, 6)),
    "Conv2d, no batch": (lambda: nn.Conv2d(1, 2, 3, bias=False), (1, 4, 4)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, stride=1), (1, 2, 4, 5)),
    "AvgPool2d": (lambda: nn.AvgPool2d((2, 3)), (1, 2, 4, 6)),
    "ReLU": (nn.ReLU, (5,)),
    "Sigmoid": (nn.Sigmoid, (5,)),
    "Tanh": (nn.Tanh, (5,)),
    "GELU": (nn.GELU, (5,)),
    "GELU, tanh": (lambda: nn.GELU("tanh"), (5,)),
    "SiLU": (nn.SiLU, (5,)),
    "Softplus": (lambda: nn.Softplus(2.0), (5,)),
    "LayerNorm": (lambda: nn.LayerNorm(3), (2, 3)),
    "LayerNorm, two axes": (lambda: nn.LayerNorm((2, 3), eps=0.1, bias=False), (2, 2, 3)),
    "Flatten": (nn.Flatten, (2, 3, 2)),
    "Dropout": (lambda: nn.Dropout(0.5).eval(), (5,)),
    "Identity": (nn.Identity, (5,)),
    "Sequential": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), (2, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_input_and_parameters(name):
    make, shape = LAYERS[name]
    eo.manual_seed(1)
    layer = make().to(eo.float64)
    names = [n for n, _ in layer.named_parameters()]
    x = eo.random.normal(size=shape, dtype=eo.float64)

    def call(x, *values):
        return nn.functional_call(layer, dict(zip(names, values, strict=True)), x)

    assert eo.testing.gradcheck(call, x, *layer.parameters())


def standardized(x, axes, eps):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)


def test_layer_norm_of_numbers_whose_squares_overflow():
    x = np.array([[100, 200, 300, 600]], np.float16)
    exact = x.astype(float)
    expected = (exact - exact.mean()) / exact.std()
    found = F.layer_norm(eo.asarray(x), 4)
    assert found.dtype == eo.float16
    np.testing.assert_allclose(found.numpy(), expected, 1e-3, 1e-3)
    slope = eo.grad(lambda x: (F.layer_norm(x, 4) * eo.asarray(np.float16([[1, 0, 0, 0]]))).sum())(
        eo.asarray(x)
    )
    y = expected[0]
    wanted = (np.eye(4)[0] - 1 / 4 - y * y[0] / 4) / exact.std()
    np.testing.assert_allclose(slope.numpy()[0], wanted, 2e-3, 2e-6)


def test_layer_norm():
    x = np.array([[[1.0, 2.0, 6.0], [0.0, -1.0, 4.0]]])
    weight, bias = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[0.5, 0.0, 0.0], [0.0, 0.0, -1.0]])
    np.testing.assert_allclose(F.layer_norm(x, 3).numpy(), standardized(x, 2, 1e-5), 1e-14)
    both = F.layer_norm(x, (2, 3), weight, bias, eps=0.5)
    np.testing.assert_allclose(both.numpy(), standardized(x, (1, 2), 0.5) * weight + bias, 1e-14)
    np.testing.assert_array_equal(F.layer_norm(np.full((2, 3), 7), 3).numpy(), np.zeros((2, 3)))
    with np.errstate(invalid="ignore"):
        assert np.isnan(F.layer_norm(np.array([1.0, np.inf]), 2).numpy()).all()
    assert F.layer_norm(np.zeros((0, 3)), 3).shape == (0, 3)


def test_layer_norm_far_from_zero():
    """The mean is a million times the spread, and its rounding error must not show."""
    x = np.arange(1000.0, dtype="float32") + 2.0**23
    found = F.layer_norm(x, 1000).numpy()
    np.testing.assert_allclose(found, standardized(x.astype(float), 0, 1e-5), 1e-6, 1e-6)


def test_layer_norm_refuses_what_does_not_fit():
    x = eo.ones((2, 3))
    for shape, more in (
        (2, {}),
        ((), {}),
        ((2, 2, 3), {}),
        (3, {"weight": eo.ones(1)}),
        (3, {"bias": eo.ones(2)}),
    ):
        with pytest.raises(eo.ShapeError, match=r"layer_norm: .*normalized_shape"):
            F.layer_norm(x, shape, **more)
    with pytest.raises(eo.DTypeError, match=r"eo\.real"):
        F.layer_norm(eo.tensor([1j, 2.0]), 2)
    with pytest.raises(eo.DTypeError, match="normalized_shape"):
        nn.LayerNorm(2.5)


def test_the_parameters_of_layer_norm():
    layer = nn.LayerNorm((2, 3), dtype=eo.float64)
    assert [(n, p.tolist(), p.dtype) for n, p in layer.named_parameters()] == [
        ("weight", [[1.0] * 3] * 2, eo.float64),
        ("bias", [[0.0] * 3] * 2, eo.float64),
    ]
    assert str(layer) == "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True)"
    assert [n for n, _ in nn.LayerNorm(3, bias=False).named_parameters()] == ["weight"]
    assert [*nn.LayerNorm(3, elementwise_affine=False).parameters()] == []
    nn.init.constant_(layer.weight, 2.0)
    layer.reset_parameters()
    assert layer.weight.tolist() == [[1.0] * 3] * 2


def test_linear():
    layer = nn.Linear(2, 3)
    x = np.array([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), x @ w.T + b, rtol=1e-6)
    with pytest.raises(eo.ShapeError, match="linear"):
        layer(eo.ones((2, 3)))
    with pytest.raises(eo.ShapeError, match="linear"):
        F.linear(eo.ones(2), eo.ones(2))
    for wrong in ((3,), (1,), (4, 1), ()):  # each would broadcast against one of the products
        with pytest.raises(eo.ShapeError, match="linear: the bias does not fit"):
            F.linear(eo.ones((4, 3)), eo.ones((2 if wrong == (1,) else 1, 3)), eo.ones(wrong))


def test_convolution_arguments():
    assert nn.Conv2d(4, 6, 3, stride=(2, 1), padding="valid", groups=2)(eo.ones((1, 4, 7, 7))).shape == (
        1,
        6,
        3,
        5,
    )
    assert nn.Conv2d(1, 1, 3, padding="same")(eo.ones((1, 1, 7, 7))).shape == (1, 1, 7, 7)
    with pytest.raises(eo.ArgumentError, match="groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(eo.ArgumentError, match="kernel_size"):
        nn.Conv2d(1, 1, (3, 3, 3))
    with pytest.raises(eo.ArgumentError, match="kernel_size"):
        nn.Conv2d(1, 1, 0)
    with pytest.raises(eo.DTypeError, match="kernel_size"):
        nn.Conv2d(1, 1, 2.5)
    assert nn.Conv2d(1, 1, np.int64(3)).kernel_size == (3, 3)
    with pytest.raises(eo.ShapeError, match="conv2d"):
        nn.Conv2d(2, 1, 3)(eo.ones((1, 1, 5, 5)))


def test_pooling_values():
    x = eo.reshape(eo.arange(16.0), (1, 1, 4, 4))
    assert nn.MaxPool2d(2)(x).tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]
    assert nn.AvgPool2d(2)(x).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]


def test_dropout():
    layer = nn.Dropout(0.25, generator=eo.random.Generator(0))
    x = eo.ones(10000, requires_grad=True)
    y = layer(x)
    kept = y.detach().numpy() != 0
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y.detach().numpy()[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy() != 0, kept)
    layer.eval()
    assert layer(x).tolist() == x.tolist()
    eo.manual_seed(4)
    first = nn.Dropout()(x).tolist()
    eo.manual_seed(4)
    assert nn.Dropout()(x).tolist() == first
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(eo.ArgumentError, match="probability"):
            nn.Dropout(p)


def test_embedding():
    table = nn.Embedding(4, 2)
    y = table(eo.tensor([[1, 1], [3, 0]]))
    assert y.shape == (2, 2, 2)
    y.sum().backward()
    assert table.weight.grad.tolist() == [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(eo.IndexingError):
        table(eo.tensor([4]))


def test_flatten():
    x = eo.ones((2, 3, 4, 5))
    assert F.flatten(x).shape == (120,)
    assert F.flatten(x, 1, 2).shape == (2, 12, 5)
    assert F.flatten(x, -2).shape == (2, 3, 20)
    assert F.flatten(eo.tensor(1.0)).shape == (1,)
    assert nn.Flatten()(eo.ones((0, 3, 4))).shape == (0, 12)
    with pytest.raises(eo.ShapeError, match="flatten"):
        F.flatten(x, 2, 1)
    with pytest.raises(eo.IndexingError):
        F.flatten(x, 7)
