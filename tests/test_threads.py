"""Threads: concurrent backward passes into shared leaves give the exact sum."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import everyo as eo


def test_eight_threads_accumulate_exactly():
    shared = eo.tensor(np.zeros(16), requires_grad=True)
    barrier = threading.Barrier(8)

    def work(k):
        barrier.wait()
        for _ in range(200):
            eo.sum(shared * float(k + 1)).backward()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    np.testing.assert_array_equal(shared.grad.numpy(), np.full(16, 200.0 * 36))


def test_one_graph_walked_by_eight_threads():
    x = eo.tensor(np.arange(4.0), requires_grad=True)
    y = eo.sum(eo.exp(x) * x)
    expected = np.exp(np.arange(4.0)) * (1 + np.arange(4.0))
    barrier = threading.Barrier(8)

    def work(_):
        barrier.wait()
        return [eo.autograd.grad(y, x, retain_graph=True)[0].numpy() for _ in range(50)]

    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(work, range(8)):
            for gradient in results:
                np.testing.assert_allclose(gradient, expected, rtol=1e-15)


def test_an_exception_in_one_thread_leaves_the_others_exact():
    shared = eo.tensor([1.0], dtype=eo.float64, requires_grad=True)

    def work(k):
        for _ in range(100):
            y = shared * 2.0
            if k == 0:
                y.register_hook(lambda g: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    (y * 1.0).backward()
            else:
                (y * 1.0).backward()
        return eo.is_grad_enabled()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert shared.grad.item() == 600.0


# ---- transformations in one thread of values of those in another

F64 = {"dtype": eo.float64}
OUTER = {
    "jvp": lambda f, x: eo.jvp(f, (x,), (eo.ones_like(x),))[1],
    "vmap": lambda f, x: eo.vmap(f)(eo.stack([x, x]))[1],
    "grad of vmap": lambda f, x: eo.grad(lambda x: eo.vmap(f)(eo.stack([x, x]))[1])(x),
    "jvp of grad": lambda f, x: eo.jvp(eo.grad(f), (x,), (eo.ones_like(x),))[1],
    "hessian": lambda f, x: eo.hessian(f)(x),
}
INNER = {  # of a function of y, at y = 3
    "grad": lambda f: eo.grad(f)(eo.tensor(3.0, **F64)),
    "vjp": lambda f: eo.vjp(f, eo.tensor(3.0, **F64))[1](eo.tensor(1.0, **F64))[0],
    "jvp": lambda f: eo.jvp(f, (eo.tensor(3.0, **F64),), (eo.tensor(1.0, **F64),))[1],
    "jacfwd": lambda f: eo.jacfwd(f)(eo.tensor(3.0, **F64)),
    "vmap": lambda f: eo.vmap(f)(eo.tensor([3.0], **F64))[0],
    "vmap of grad": lambda f: eo.vmap(eo.grad(f))(eo.tensor([3.0], **F64))[0],
    "grad of grad": lambda f: eo.grad(eo.grad(f))(eo.tensor(3.0, **F64)),
    "aux": lambda f: eo.grad(lambda y: (y, f(y)), has_aux=True)(eo.tensor(3.0, **F64))[1],
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_a_transformation_of_what_another_thread_transforms(outer, inner):
    x = eo.tensor(2.0, **F64)

    def here(x):
        return INNER[inner](lambda y: y * y * x * x)

    with ThreadPoolExecutor(1) as pool:
        expected = OUTER[outer](here, x).item()
        assert expected != 0
        with pytest.raises(eo.GraphStateError, match="another thread") as error:
            OUTER[outer](lambda x: pool.submit(here, x).result(), x)
        assert "copy_context" in error.value.remedy

        def known(x):
            return pool.submit(contextvars.copy_context().run, here, x).result()

        assert OUTER[outer](known, x).item() == expected

        def plain(x):
            return pool.submit(lambda: x * x * x * 3).result()  # without a transformation of its own

        assert OUTER[outer](plain, x).item() == OUTER[outer](lambda x: x * x * x * 3, x).item()


def test_gradients_of_what_the_eager_tape_of_another_thread_records():
    with ThreadPoolExecutor(1) as pool:

        def f(x):
            return pool.submit(lambda: eo.grad(lambda y: y * y * x * x)(3.0)).result()  # 6 x**2

        assert eo.grad(f)(2.0).item() == 24.0
        assert eo.grad(eo.grad(f))(2.0).item() == 12.0


@pytest.mark.parametrize("inner", INNER)
def test_a_result_that_has_outlived_its_transformation_is_refused(inner):
    kept = []
    eo.vmap(lambda x: (kept.append(x), x)[1])(eo.ones(3))
    with pytest.raises(eo.GraphStateError, match="outlived"):
        INNER[inner](lambda y: kept[0])


@pytest.mark.parametrize("switch", [eo.no_grad, eo.inference_mode, lambda: eo.set_grad_enabled(False)])
@pytest.mark.parametrize("outer", OUTER)
def test_a_block_in_another_thread_is_constant_to_the_transformations_around(outer, switch):
    rule = eo.custom_vjp(lambda x: x**3)
    rule.defvjp(lambda x: (x**3, x), lambda x, g: (3 * x * x * g,))
    x = eo.tensor(2.0, **F64)

    def cubes(x):
        with switch():
            return x**3, rule(x), eo.checkpoint(lambda x: x**3)(x)

    def slope(x):
        with switch(), eo.enable_grad():
            return x**3

    with ThreadPoolExecutor(1) as pool:
        for i in range(3):
            here = OUTER[outer](lambda x, i=i: x * x * cubes(x)[i], x)
            there = OUTER[outer](lambda x, i=i: x * x * pool.submit(cubes, x).result()[i], x)
            wanted = {"vmap": 32.0, "hessian": 16.0, "jvp of grad": 16.0}.get(outer, 32.0)
            assert (here.item(), there.item()) == (wanted, wanted)
        there = OUTER[outer](lambda x: x * x * pool.submit(slope, x).result(), x)
        lifted = switch is not eo.inference_mode
        assert there.item() == OUTER[outer](lambda x: x**5 if lifted else x * x * cubes(x)[0], x).item()
