"""Tensors from outside that a function gives each other's places: an error, and nothing has changed."""

import collections
import functools
import types

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError

X = eo.asarray(np.ones(2))


def pair():
    return eo.asarray(np.ones(2)), eo.asarray(np.full(2, 2.0))


def attributes_of_an_object():
    a, b = pair()
    thing = types.SimpleNamespace(old=a, new=b, calls=0)

    def f(x):
        thing.calls += 1
        thing.old, thing.new = thing.new, thing.old
        thing.new[...] = thing.old + x
        return thing.new * 1

    return f, lambda: [thing.old, thing.new], "'old'"


def another_name_for_one():
    a, b = pair()
    thing = types.SimpleNamespace(best=a, now=b)

    def f(x):
        thing.now[...] = thing.now + x
        thing.best = thing.now
        return x

    return f, lambda: [thing.best, thing.now], "'best'"


def items_of_a_list():
    kept = [*pair()]

    def f(x):
        kept[0], kept[1] = kept[1], kept[0]
        return kept[0] + x

    return f, lambda: kept, "item 0 of a list"


def items_of_a_deque():
    kept = collections.deque(pair())

    def f(x):
        kept.rotate()
        return kept[0] + x

    return f, lambda: list(kept), "item 0 of a deque"


def items_of_a_dict():
    kept = dict(zip("ab", pair(), strict=True))

    def f(x):
        a, b = kept.pop("a"), kept.pop("b")
        kept["b"], kept["a"] = a, b
        return kept["a"] + x

    return f, lambda: [kept["a"], kept["b"]], "'a'"


def variables():
    a, b = pair()

    def f(x):
        nonlocal a, b
        a, b = b, a
        return a + x

    return f, lambda: [a, b], "a variable that a function keeps"


first, second = pair()


def global_variables():
    def f(x):
        global first, second
        first, second = second, first
        return first + x

    return f, lambda: [first, second], "'first'|'second'"


class Halves:
    __slots__ = ("left", "right")


def slots():
    thing = Halves()
    thing.left, thing.right = pair()

    def f(x):
        thing.left, thing.right = thing.right, thing.left
        return thing.left + x

    return f, lambda: [thing.left, thing.right], "'left'"


def attributes_of_a_class():
    class Kept:
        a, b = pair()

    def f(x):
        Kept.a, Kept.b = Kept.b, Kept.a
        return Kept.a + x

    return f, lambda: [Kept.a, Kept.b], "'a'"


def whole_states():
    a, b = pair()
    thing = types.SimpleNamespace(now={"x": a}, before={"x": b})

    def f(x):
        thing.now, thing.before = thing.before, thing.now
        return thing.now["x"] + x

    return f, lambda: [thing.now["x"], thing.before["x"]], "'now'"


def a_tuple():
    thing = types.SimpleNamespace(both=pair())

    def f(x):
        thing.both = thing.both[::-1]
        return thing.both[0] + x

    return f, lambda: [*thing.both], "'both'"


def parameters():
    model = eo.nn.Module()
    model.a, model.b = map(eo.nn.Parameter, pair())

    def f(x):
        model.a, model.b = model.b, model.a
        return (model.a + x).detach()

    return f, lambda: [model.a, model.b], "'a'"


def buffers():
    model = eo.nn.Module()
    for name, x in zip("ab", pair(), strict=True):
        model.register_buffer(name, x)

    def f(x):
        model.a, model.b = model.b, model.a
        return model.a + x

    return f, lambda: [model.a, model.b], "'a'"


TRADES = [
    attributes_of_an_object, another_name_for_one, items_of_a_list, items_of_a_deque, items_of_a_dict,
    variables, global_variables, slots, attributes_of_a_class, whole_states, a_tuple, parameters, buffers,
]  # fmt: skip


@pytest.mark.parametrize("make", TRADES)
def test_tensors_that_trade_places_are_an_error(make):
    f, there, where = make()
    before, values = list(there()), [x.tolist() for x in there()]
    for _ in range(2):
        with pytest.raises(CompileError, match="a place that holds a tensor another one") as error:
            eo.compile(f)(X)
        assert error.match(where)
        assert all(a is b for a, b in zip(there(), before, strict=True))
        assert [x.tolist() for x in there()] == values
    f(X)
    assert not all(a is b for a, b in zip(there(), before, strict=True))


def test_a_trade_before_an_error_is_taken_back():
    f, there, _ = items_of_a_list()
    before = list(there())

    def fails(x):
        f(x)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        eo.compile(fails)(X)
    assert all(a is b for a, b in zip(there(), before, strict=True))


def test_tensors_that_come_back_to_their_places():
    a, b = pair()
    thing = types.SimpleNamespace(x=a, y=b, both=(a, b), seen={1}, kept=[a])

    def f(x):
        thing.x, thing.y = thing.y, thing.x
        result = thing.x + x
        thing.x, thing.y = thing.y, thing.x
        thing.both = (thing.x, thing.y)  # the same ones
        thing.seen = {1, 2}
        thing.kept.append(b)
        return result

    g = eo.compile(f)
    assert [g(X).tolist() for _ in range(2)] == [[3.0, 3.0]] * 2
    assert thing.x is a


def test_what_has_no_place_of_its_own_trades_none():
    for _ in range(20):  # the order of a set of two is that of their addresses
        a, b = pair()
        kept = {a}
        find = functools.lru_cache(maxsize=1)({0: a, 1: b}.get)
        find(0)

        def f(x, kept=kept, find=find, b=b):
            kept.add(b)
            return find(1) + x

        assert eo.compile(f)(X).tolist() == [3.0, 3.0]


def test_a_tensor_from_outside_on_a_module_is_gone_when_the_call_ends():
    """Where it is put there before it is read, also where it is read then."""
    model = eo.nn.Module()
    model.a, model.b = pair()
    a = model.a

    def f(x):
        model.a = model.b
        model.c = model.b
        return model.a + model.c + x

    g = eo.compile(f)
    for _ in range(2):
        assert g(X).tolist() == [5.0, 5.0]
        assert model.a is a
        assert not hasattr(model, "c")
    assert g.cache_info().misses == 1
    model.b = X
    assert g(X).tolist() == [3.0, 3.0]
