"""Threads: concurrent backward passes into shared leaves give the exact sum."""

from __future__ import annotations

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
