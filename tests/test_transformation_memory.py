"""What transformations hold on to, and for how long."""

import gc
import weakref

import numpy as np
import pytest

import everyo as eo


def loss(x):
    return (eo.tanh(x) * x).sum()


def ladder(x):
    return eo.exp(eo.sin(x) * x)


X = np.linspace(-1.0, 1.0, 6)

CALLS = {
    "grad": lambda x: eo.grad(loss)(x),
    "value_and_grad": lambda x: eo.value_and_grad(loss)(x),
    "vjp": lambda x: eo.vjp(ladder, x)[1](x),
    "jvp": lambda x: eo.jvp(ladder, (x,), (x,)),
    "linearize": lambda x: eo.linearize(ladder, x)[1](x),
    "vmap": lambda x: eo.vmap(ladder)(x),
    "jacrev": lambda x: eo.jacrev(ladder)(x),
    "jacfwd": lambda x: eo.jacfwd(ladder)(x),
    "hessian": lambda x: eo.hessian(loss)(x),
    "hvp": lambda x: eo.hvp(loss, x, x),
    "vmap of grad": lambda x: eo.vmap(eo.grad(lambda x: ladder(x).sum()))(x),
    "vmap of a pullback": lambda x: eo.vmap(lambda x: eo.vjp(ladder, x)[1](x))(x),
    "grad of jvp": lambda x: eo.grad(lambda x: eo.jvp(loss, (x,), (x,))[1])(x),
    "grad of vmap": lambda x: eo.grad(lambda x: eo.vmap(ladder)(x).sum())(x),
    "grad of checkpoint": lambda x: eo.grad(eo.checkpoint(loss))(x),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_transformation_leaves_a_reference_cycle(call):
    x = eo.tensor(X)
    call(x)  # caches that stay
    gc.collect()
    gc.disable()
    try:
        call(x)
        assert gc.collect() == 0
    finally:
        gc.enable()


def array_below(x):
    """Return the array at the bottom of a tensor, whatever transformations it is in."""
    while not isinstance(x, np.ndarray):
        x = x.data if isinstance(x, eo.Tensor) else x.below
    return x


@pytest.mark.parametrize("wrap", [lambda f: f, eo.vmap], ids=["eager", "inside vmap"])
@pytest.mark.parametrize("transform", [eo.grad, eo.value_and_grad])
def test_what_a_gradient_needs_is_released_on_the_way(wrap, transform):
    alive = []

    def function(x):
        y = eo.exp(x)
        saved = weakref.ref(array_below(y))
        x.register_hook(lambda gradient: alive.append(saved() is not None))
        return eo.sin(y).sum()

    wrap(transform(function))(eo.tensor(np.stack([X, X])))
    assert alive == [False]
