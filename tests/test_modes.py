"""Grad modes: blocks, decorators, generators, coroutines, threads, exceptions."""

from __future__ import annotations

import asyncio
import threading

import pytest

import everyo as eo


@pytest.fixture
def x():
    return eo.tensor([2.0], requires_grad=True)


def recorded(x):
    return (x * 3).requires_grad


def test_blocks_nest_and_restore(x):
    with eo.no_grad():
        assert not recorded(x)
        with eo.enable_grad():
            assert recorded(x)
            with eo.set_grad_enabled(False):
                assert not recorded(x)
            assert recorded(x)
        assert not recorded(x)
    assert recorded(x)


@pytest.mark.parametrize("switch", [eo.no_grad, eo.inference_mode, lambda: eo.set_grad_enabled(False)])
def test_exceptions_restore_the_mode(x, switch):
    with pytest.raises(RuntimeError, match="inside"), switch():
        raise RuntimeError("inside")
    assert recorded(x)


def test_inference_mode_cannot_be_lifted_inside(x):
    with eo.inference_mode(), eo.enable_grad(), eo.set_grad_enabled(True):
        y = x * 3
        assert not y.requires_grad
        assert eo.is_inference_mode_enabled()
        with pytest.raises(eo.GraphStateError, match="inference_mode"):
            y.requires_grad_()
    with eo.inference_mode(False):
        assert recorded(x)
    assert not eo.is_inference_mode_enabled()


@pytest.mark.parametrize("switch", [eo.inference_mode, eo.set_grad_enabled])
def test_the_mode_can_be_given_by_name(x, switch):
    with switch(mode=switch is eo.inference_mode):
        assert not recorded(x)
    with switch(mode=switch is not eo.inference_mode):
        assert recorded(x)


@pytest.mark.parametrize("make", [
    lambda: eo.no_grad(), lambda: eo.inference_mode(), lambda: eo.inference_mode,
    lambda: eo.set_grad_enabled(False),
])  # fmt: skip
def test_decorators(x, make):
    @make()
    def inside(value):
        """Say whether it is recorded."""
        return recorded(value)

    assert not inside(x)
    assert recorded(x)
    assert inside.__name__ == "inside"
    assert inside.__doc__ == "Say whether it is recorded."


def test_set_grad_enabled_holds_when_called(x):
    eo.set_grad_enabled(False)
    try:
        assert not recorded(x)
    finally:
        eo.set_grad_enabled(True)
    assert recorded(x)


def test_recursive_decorated_function(x):
    @eo.no_grad()
    def depth(n):
        assert not recorded(x)
        return 0 if n == 0 else 1 + depth(n - 1)

    assert depth(5) == 5
    assert recorded(x)


def test_decorated_generator_switches_at_each_suspension(x):
    closed = []

    @eo.no_grad()
    def steps():
        try:
            received = yield recorded(x)
            while True:
                try:
                    received = yield (received, recorded(x))
                except KeyError:
                    received = "caught"
        finally:
            closed.append(recorded(x))

    generator = steps()
    assert next(generator) is False
    assert recorded(x)
    assert generator.send("sent") == ("sent", False)
    assert recorded(x)
    assert generator.throw(KeyError()) == ("caught", False)
    assert recorded(x)
    generator.close()
    assert closed == [False]
    assert recorded(x)


def test_decorated_generator_returns_its_value(x):
    @eo.no_grad()
    def steps():
        yield 1
        return recorded(x)

    def outer():
        return (yield from steps())

    generator = outer()
    next(generator)
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value is False


def test_enabled_generator_inside_a_no_grad_caller(x):
    @eo.enable_grad()
    def steps():
        yield recorded(x)
        yield recorded(x)

    with eo.no_grad():
        generator = steps()
        for inside in generator:
            assert inside
            assert not recorded(x)


def test_asyncio_tasks_do_not_see_each_other(x):
    seen = {}

    async def silent():
        with eo.no_grad():
            await asyncio.sleep(0)
            seen["silent"] = recorded(x)
            await asyncio.sleep(0)

    async def loud():
        await asyncio.sleep(0)
        seen["loud"] = recorded(x)

    @eo.no_grad()
    async def decorated():
        await asyncio.sleep(0)
        return recorded(x)

    async def main():
        results = await asyncio.gather(silent(), loud(), decorated())
        seen["decorated"] = results[2]
        seen["after"] = recorded(x)

    asyncio.run(main())
    assert seen == {"silent": False, "loud": True, "decorated": False, "after": True}


def test_decorated_coroutine_restores_on_exceptions(x):
    @eo.no_grad()
    async def failing():
        await asyncio.sleep(0)
        raise ValueError("inside")

    async def main():
        with pytest.raises(ValueError, match="inside"):
            await failing()
        return recorded(x)

    assert asyncio.run(main())


def test_modes_are_per_thread(x):
    seen = []
    with eo.no_grad():
        thread = threading.Thread(target=lambda: seen.append(recorded(x)))
        thread.start()
        thread.join()
        assert not recorded(x)
    assert seen == [True]


def test_one_switch_entered_by_several_threads(x):
    switch = eo.no_grad()
    barrier = threading.Barrier(4)
    seen = []

    def work():
        barrier.wait()
        for _ in range(200):
            with switch:
                seen.append(recorded(x))
            seen.append(not recorded(x))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1600
    assert not any(seen)


def test_one_switch_entered_twice_in_a_thread(x):
    switch = eo.no_grad()
    with switch:
        with switch:
            assert not recorded(x)
        assert not recorded(x)
    assert recorded(x)


def test_no_node_is_built_without_need(x):
    assert (eo.ones(2) * 2).grad_node is None
    with eo.no_grad():
        assert (x * 2).grad_node is None
    with eo.inference_mode():
        assert (x * 2).grad_node is None
    assert (x > 1).grad_node is None
