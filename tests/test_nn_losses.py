"""Losses: values by their formulas, gradients, the tails, and what does not fit."""

import math

import numpy as np
import pytest

import everyo as eo
from everyo import nn

F = nn.functional
RNG = np.random.default_rng(0)
ROWS = eo.ones((2, 3))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def cross_entropy_by_hand(x, t, weight, ignore, reduction, smoothing):
    """The formula, one position at a time."""
    logs = np.moveaxis(np.log(softmax(x, 1)), 1, -1).reshape(-1, x.shape[1])
    w = np.ones(x.shape[1]) if weight is None else weight
    losses, shares = [], []
    for row, k in zip(logs, t.ravel()):
        if k == ignore:
            losses.append(0.0)
            shares.append(0.0)
            continue
        losses.append(-(1 - smoothing) * w[k] * row[k] - smoothing / len(w) * (w * row).sum())
        shares.append(w[k])
    if reduction == "none":
        return np.reshape(losses, t.shape)
    return sum(losses) if reduction == "sum" else sum(losses) / sum(shares)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 1])
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 2, 2)])
def test_cross_entropy_of_classes(shape, ignore, weighted, smoothing, reduction):
    x = RNG.normal(size=shape) * 3
    t = RNG.integers(0, 3, size=(shape[0], *shape[2:]))
    t.flat[:2] = [0, -100 if ignore == -100 else 1]
    weight = np.array([0.5, 1.0, 2.0]) if weighted else None

    def loss(x):
        return F.cross_entropy(
            x, t, weight, ignore_index=ignore, reduction=reduction, label_smoothing=smoothing
        )

    expected = cross_entropy_by_hand(x, t, weight, ignore, reduction, smoothing)
    np.testing.assert_allclose(loss(x).numpy(), expected, rtol=1e-12)
    assert eo.testing.gradcheck(loss, x)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_probabilities(reduction):
    x, t = RNG.normal(size=(4, 3, 2)), softmax(RNG.normal(size=(4, 3, 2)), 1)
    weight = np.array([0.5, 1.0, 2.0])
    target = 0.8 * t + 0.2 / 3
    losses = -(np.log(softmax(x, 1)) * target * weight[:, None]).sum(1)
    expected = {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]

    def loss(x, t):
        return F.cross_entropy(x, t, weight, reduction=reduction, label_smoothing=0.2)

    np.testing.assert_allclose(loss(x, t).numpy(), expected, rtol=1e-12)
    assert eo.testing.gradcheck(loss, x, t)


def test_cross_entropy_gradient_is_softmax_minus_onehot():
    x = RNG.normal(size=(6, 4))
    t = RNG.integers(0, 4, size=6)
    leaf = eo.tensor(x, requires_grad=True)
    F.cross_entropy(leaf, t).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), (softmax(x, 1) - np.eye(4)[t]) / 6, rtol=1e-12, atol=1e-16)


def test_one_example_without_a_batch():
    x = np.array([1.0, 2.0, 3.0])
    assert F.cross_entropy(x, 2).item() == pytest.approx(-math.log(softmax(x, 0)[2]))
    assert F.nll_loss(np.log(softmax(x, 0)), 0).item() == pytest.approx(-math.log(softmax(x, 0)[0]))


def test_second_derivatives_and_forward_mode():
    x, t = RNG.normal(size=(3, 4)), np.array([0, -100, 3])
    assert eo.testing.gradgradcheck(lambda x: F.cross_entropy(x, t, label_smoothing=0.1), x)
    assert eo.testing.check_jvp(lambda x: F.cross_entropy(x, t), x)
    assert eo.testing.check_jvp(lambda x: F.binary_cross_entropy_with_logits(x, (x > 0) * 1.0), x)


@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 3.0]])
@pytest.mark.parametrize(("x", "t"), [([[1.0, 2.0, 3.0]], [-100]), (np.zeros((0, 3)), np.zeros(0, int))])
def test_the_mean_over_nothing_is_nan_with_a_zero_gradient(x, t, weight):
    leaf = eo.tensor(x, dtype=eo.float64, requires_grad=True)
    loss = F.cross_entropy(leaf, t, weight)
    assert math.isnan(loss.item())
    loss.backward()
    assert leaf.grad.tolist() == np.zeros(np.shape(x)).tolist()
    assert F.cross_entropy(x, t, weight, reduction="sum").item() == 0.0


def test_an_ignored_position_does_not_spoil_the_others():
    x = eo.tensor([[-math.inf, 0.0], [-math.inf, 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, eo.tensor([1, -100]))
    loss.backward()
    assert loss.item() == 0.0
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_extreme_logits():
    x = eo.tensor([[1000.0, 0.0], [1000.0, 0.0]], requires_grad=True)
    losses = F.cross_entropy(x, eo.tensor([0, 1]), reduction="none")
    assert losses.tolist() == [0.0, 1000.0]
    losses.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [1.0, -1.0]]
    small = F.cross_entropy(np.array([[20.0, 0.0]]), eo.tensor([0])).item()
    assert small == pytest.approx(math.log1p(math.exp(-20.0)), rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("default", ["float32", "float64"])
def test_losses_keep_the_dtype_of_their_input(dtype, default):
    eo.set_default_dtype(default)
    try:
        x = eo.ones((2, 3), dtype=dtype)
        weight = eo.ones(3, dtype="float64")
        results = [
            F.cross_entropy(x, [0, 1]),
            F.cross_entropy(x, [0, -100], weight, label_smoothing=0.1),
            F.cross_entropy(x, eo.ones((2, 3), dtype=dtype) / 3),
            F.nll_loss(x, [0, -100]),
            F.mse_loss(x, np.zeros((2, 3), "int64")),
            F.l1_loss(x, np.zeros((2, 3), "bool")),
            F.huber_loss(x, x),
            F.binary_cross_entropy_with_logits(x, np.ones((2, 3), "int64")),
        ]
        assert {str(loss.dtype) for loss in results} == {dtype}
    finally:
        eo.set_default_dtype("float32")


def test_integer_targets_of_every_width():
    for dtype in (np.int8, np.uint8, np.int32, np.int64):
        assert F.cross_entropy(eo.zeros((2, 4)), np.array([1, 3], dtype)).item() == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (
            eo.IndexingError,
            r"target 3 at \(1,\)",
            lambda: F.cross_entropy(ROWS, [0, 3]),
        ),
        (eo.IndexingError, "target -1", lambda: F.cross_entropy(ROWS, [0, -1])),
        (eo.IndexingError, "target -100", lambda: F.nll_loss(eo.ones((1, 3)), [-100], ignore_index=0)),
        (eo.IndexingError, "target 5", lambda: F.cross_entropy(eo.ones(3), 5)),
        (eo.ShapeError, "targets do not fit", lambda: F.cross_entropy(ROWS, [0, 1, 2])),
        (eo.ShapeError, "targets do not fit", lambda: F.cross_entropy(ROWS, [[0], [1]])),
        (eo.ShapeError, "one weight for each class", lambda: F.cross_entropy(ROWS, [0, 1], [1.0])),
        (eo.ShapeError, "no classes", lambda: F.cross_entropy(eo.ones(()), 0)),
        (eo.ShapeError, "no classes", lambda: F.cross_entropy(eo.ones((2, 0)), [0, 0])),
        (eo.DTypeError, "logits are real", lambda: F.cross_entropy(ROWS.astype(eo.int64), [0, 1])),
        (eo.DTypeError, "classes are integers", lambda: F.cross_entropy(ROWS, [0.0, 1.0])),
        (eo.DTypeError, "classes are integers", lambda: F.nll_loss(ROWS, ROWS)),
        (eo.ArgumentError, "reduction", lambda: F.cross_entropy(eo.ones((1, 3)), [0], reduction="average")),
        (eo.ArgumentError, "reduction", lambda: nn.MSELoss("batchmean")),
        (
            eo.ArgumentError,
            "label_smoothing",
            lambda: F.cross_entropy(ROWS, [0, 1], label_smoothing=2),
        ),
        (eo.ShapeError, "different shapes", lambda: F.mse_loss(eo.ones((3, 1)), eo.ones(3))),
        (eo.ShapeError, "different shapes", lambda: F.binary_cross_entropy_with_logits(eo.ones(3), 1.0)),
        (eo.ArgumentError, "delta", lambda: F.huber_loss(eo.ones(3), eo.ones(3), delta=0)),
    ],
)
def test_what_does_not_fit(error, message, call):
    with pytest.raises(error, match=message):
        call()


# ---- binary cross-entropy


def test_binary_cross_entropy_keeps_its_digits_in_both_tails():
    x = np.array([-700.0, -40.0, 0.0, 40.0, 700.0])
    leaf = eo.tensor(x, requires_grad=True)
    for t, sign in ((0.0, 1.0), (1.0, -1.0)):
        losses = F.binary_cross_entropy_with_logits(leaf, eo.full(5, t, dtype=eo.float64), reduction="none")
        expected = [math.log1p(math.exp(sign * v)) if sign * v < 40 else sign * v for v in x]
        np.testing.assert_allclose(losses.detach().numpy(), expected, rtol=1e-14)
        leaf.zero_grad()
        losses.sum().backward()
        slopes = [1 / (1 + math.exp(-sign * v)) * sign for v in x]
        np.testing.assert_allclose(leaf.grad.numpy(), slopes, rtol=1e-12)


def test_binary_cross_entropy_weights():
    x, t = RNG.normal(size=(4, 3)), RNG.uniform(size=(4, 3))
    weight, positive = RNG.uniform(size=(4, 1)), np.array([1.0, 2.0, 0.5])
    s = 1 / (1 + np.exp(-x))
    expected = (-weight * (positive * t * np.log(s) + (1 - t) * np.log(1 - s))).mean()
    module = nn.BCEWithLogitsLoss(eo.tensor(weight), pos_weight=eo.tensor(positive))
    np.testing.assert_allclose(module(x, t).numpy(), expected, rtol=1e-12)
    assert eo.testing.gradcheck(module, x, t)


# ---- regression


def test_regression_losses():
    x, t = np.array([0.0, 1.0, 3.0, -4.0]), np.array([0.5, 1.0, 1.0, 1.0])
    d = x - t
    rows = [
        (F.mse_loss, nn.MSELoss(), d * d),
        (F.l1_loss, nn.L1Loss(), np.abs(d)),
        (F.huber_loss, nn.HuberLoss(), np.where(np.abs(d) <= 1, d * d / 2, np.abs(d) - 0.5)),
    ]
    for function, module, errors in rows:
        np.testing.assert_allclose(function(x, t, reduction="none").numpy(), errors)
        np.testing.assert_allclose(function(x, t, reduction="sum").numpy(), errors.sum())
        np.testing.assert_allclose(module(x, t).numpy(), errors.mean())
        moved = x + np.array([0.1, 0.2, 0.0, 0.0])
        assert eo.testing.gradcheck(function, moved, t)
    assert F.huber_loss(3.0, 0.0, delta=2.0).item() == 4.0


def test_an_integer_target_serves_regression_in_both_modes():
    a, target = eo.tensor([2.0, 4.0], dtype=eo.float64), eo.tensor([1, 2])
    tangent = eo.tensor([1.0, 0.0], dtype=eo.float64)
    value, slope = eo.jvp(lambda a: F.mse_loss(a, target), (a,), (tangent,))
    assert (value.item(), slope.item()) == (2.5, 1.0)


def test_loss_modules_pass_their_options_on():
    x, t = eo.tensor([[1.0, 2.0], [0.0, 3.0]]), eo.tensor([0, 1])
    weight = eo.tensor([1.0, 3.0])
    module = nn.CrossEntropyLoss(weight, ignore_index=1, reduction="sum", label_smoothing=0.1)
    assert module(x, t).item() == F.cross_entropy(x, t, weight, 1, "sum", 0.1).item()
    assert list(module.state_dict()) == ["weight"]
    logs = eo.log_softmax(x, axis=1)
    assert nn.NLLLoss(weight)(logs, t).item() == pytest.approx(nn.CrossEntropyLoss(weight)(x, t).item())
    assert repr(nn.MSELoss()) == "MSELoss(reduction='mean')"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_integers_are_computed_as_floats(dtype):
    """As differences, their squares and -x would not fit their dtype."""
    limits = np.iinfo(dtype)
    low, high = eo.asarray(np.array([limits.min], dtype)), eo.asarray(np.array([limits.max], dtype))
    span = int(limits.max) - int(limits.min)
    assert F.mse_loss(low, high).item() == float(span**2)
    assert F.l1_loss(low, high, "sum").item() == float(span)
    assert F.huber_loss(low, high, reduction="none").tolist() == [span - 0.5]
    assert F.mse_loss(low, eo.asarray(np.array([10**6]))).item() == float((10**6 - int(limits.min)) ** 2)
    ones = eo.ones(1)
    assert F.binary_cross_entropy_with_logits(low, ones).item() == max(math.log(2), -float(limits.min))
