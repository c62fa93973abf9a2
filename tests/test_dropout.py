"""Dropout: what is kept, how it is scaled, and that a seed fixes it."""

import numpy as np
import pytest

import everyo as eo


def test_kept_elements_are_scaled_and_the_others_are_zero():
    eo.manual_seed(0)
    x = eo.full((200, 100), 3.0, requires_grad=True)
    y = eo.dropout(x, 0.25)
    values = y.detach().numpy()
    assert set(np.unique(values)) == {0.0, 4.0}
    assert abs(np.mean(values == 0) - 0.25) < 0.01
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), values / 3.0, rtol=1e-6)


def test_the_seed_fixes_what_is_dropped():
    def draw(seed):
        eo.manual_seed(seed)
        return eo.dropout(eo.ones(100), 0.5).tolist()

    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_a_generator_of_its_own_leaves_the_default_one_alone():
    eo.manual_seed(1)
    expected = eo.dropout(eo.ones(50), 0.5).tolist()
    eo.manual_seed(1)
    own = eo.random.Generator(5)
    first = eo.dropout(eo.ones(50), 0.5, generator=own).tolist()
    assert eo.dropout(eo.ones(50), 0.5).tolist() == expected
    assert eo.dropout(eo.ones(50), 0.5, generator=eo.random.Generator(5)).tolist() == first


def test_nothing_happens_outside_training_or_at_probability_zero():
    x = eo.tensor([1.0, 2.0], requires_grad=True)
    for y in (eo.dropout(x, 0.9, training=False), eo.dropout(x, 0.0)):
        assert y.tolist() == [1.0, 2.0]
        (g,) = eo.autograd.grad(y.sum(), x)
        assert g.tolist() == [1.0, 1.0]


def test_probability_one_drops_everything_infinities_too():
    x = eo.tensor([1.0, float("inf"), float("nan")], requires_grad=True)
    y = eo.dropout(x, 1.0)
    assert y.tolist() == [0.0, 0.0, 0.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [eo.float16, eo.float32, eo.float64, eo.complex64])
def test_the_dtype_stays(dtype):
    assert eo.dropout(eo.ones(10, dtype=dtype), 0.5).dtype == dtype


def test_the_second_derivative_uses_the_same_mask():
    eo.manual_seed(3)
    x = eo.tensor(np.arange(1.0, 9.0), requires_grad=True)
    y = eo.dropout(x * x, 0.5)
    (g,) = eo.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = eo.autograd.grad(g.sum(), x)
    np.testing.assert_array_equal(h.numpy(), np.where(y.detach().numpy() == 0, 0.0, 4.0))


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_p_must_be_a_probability(p):
    with pytest.raises(eo.ArgumentError, match="dropout"):
        eo.dropout(eo.ones(2), p)


def test_integers_cannot_be_scaled():
    with pytest.raises(eo.DTypeError, match="dropout"):
        eo.dropout(eo.tensor([1, 2]), 0.5)
