"""Computed tensors that a function puts where they outlive the call: an error, and nothing has changed."""

import collections
import functools
import gc
import types
import weakref

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError

X = eo.asarray(np.ones(2))
best = eo.asarray(np.full(2, 10.0))


def in_global():
    def f(x):
        global best
        best = eo.minimum(best, x)
        return best

    return f, lambda: best


def in_nonlocal():
    n = eo.asarray(np.full(2, 10.0))

    def f(x):
        nonlocal n
        n = n + x
        return n * 1

    return f, lambda: n


def in_attribute():
    thing = types.SimpleNamespace(mean=eo.asarray(np.full(2, 10.0)))

    def f(x):
        thing.mean = 0.5 * thing.mean + x
        return x * 2

    return f, lambda: thing.mean


class Trainer:
    def __init__(self):
        self.parts = {"mean": eo.asarray(np.full(2, 10.0))}

    def step(self, x, scale=1.0):
        self.parts["mean"] = self.parts["mean"] + x * scale
        return x * 2


def in_method():
    trainer = Trainer()
    return trainer.step, lambda: trainer.parts["mean"]


def in_partial():
    trainer = Trainer()
    return functools.partial(trainer.step, scale=2.0), lambda: trainer.parts["mean"]


def in_list():
    kept = [0, eo.asarray(np.full(2, 10.0))]

    def f(x):
        kept[1] = kept[1] + x
        kept.append(x + 1)
        kept.append(x + 2)
        return x * 2

    return f, lambda: kept[-1]


class Holder:
    total = eo.asarray(np.full(2, 10.0))

    def __call__(self, x):
        stored["x"] = x * 2  # a variable that a method names
        return x

    @classmethod
    def add(cls, x):
        cls.total = cls.total + x
        return x


class Slotted:
    __slots__ = ("total",)


class Keeper(eo.nn.Module):
    def forward(self, x):
        stored["x"] = x * 2
        return x


stored = {}
START = eo.asarray(np.full(2, 10.0))


def in_variable_of_a_method():
    stored["x"] = eo.asarray(np.full(2, 10.0))
    return lambda x: Holder()(x), lambda: stored["x"]


def in_variable_of_a_module():
    stored["x"] = eo.asarray(np.full(2, 10.0))
    return Keeper(), lambda: stored["x"]


def in_class():
    return Holder.add, lambda: Holder.total


def in_slot():
    thing = Slotted()
    thing.total = eo.asarray(np.full(2, 10.0))

    def f(x):
        thing.total = thing.total + x
        return x

    return f, lambda: thing.total


def in_attribute_of_a_function():
    def f(x):
        f.total = f.total + x
        return x

    f.total = eo.asarray(np.full(2, 10.0))
    return f, lambda: f.total


def in_defaults():
    def f(x, *, kept=[START]):  # noqa: B006
        kept[0] = kept[0] + x
        return x

    return f, lambda: f.__kwdefaults__["kept"][0]


def in_another_module():
    module = types.ModuleType("helpers")
    module.total = eo.asarray(np.full(2, 10.0))
    exec("def update(x):\n    global total\n    total = total + x", vars(module))
    space = {"helpers": module, "__name__": "user"}
    exec("def f(x):\n    helpers.update(x)\n    return x", space)
    return space["f"], lambda: module.total


def in_the_body_of_a_loop():
    kept = [eo.asarray(np.full(2, 10.0))]

    def body(c, x):
        kept[0] = c
        return c + x, c

    return lambda x: eo.scan(body, x[0], x)[0], lambda: kept[0]


def in_a_gradient():
    kept = {"x": eo.asarray(np.full(2, 10.0))}

    def loss(x):
        kept["x"] = x * 2
        return (x * x).sum()

    return eo.grad(loss), lambda: kept["x"]


PLACES = [
    in_global, in_nonlocal, in_attribute, in_method, in_partial, in_list, in_variable_of_a_method, in_class,
    in_slot, in_variable_of_a_module, in_attribute_of_a_function, in_defaults, in_another_module,
    in_the_body_of_a_loop, in_a_gradient,
]  # fmt: skip


ALONE, IN_A_BODY = (
    "keeps a computed tensor where the program cannot write",
    "a place outside of it another tensor",
)


@pytest.mark.parametrize("make", PLACES)
def test_what_outlives_the_call_is_an_error(make):
    f, there = make()
    before = there()
    with pytest.raises(CompileError, match=IN_A_BODY if make is in_the_body_of_a_loop else ALONE):
        eo.compile(f)(X)
    assert there() is before
    assert before.tolist() == [10.0, 10.0]
    assert f(X).tolist()  # eager code goes on
    assert there() is not before


def changed_list(x, kept):
    kept.pop(0)
    kept.insert(1, x * 2)


def emptied_list(x, kept):
    kept.clear()
    kept.append((x * 2, 1))


def closure(x, kept):
    kept.append(lambda: x * 2)


def emptied_dict(x, kept):
    kept["c"] = kept.pop("a") * x


def grown_deque(x, kept):
    kept.append(x * 2)


def grown_set(x, kept):
    kept.add(x * 2)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (changed_list, [X, X + 1, 3]),
        (emptied_list, [X, 2]),
        (closure, []),
        (emptied_dict, {"b": X, "a": X}),
        (grown_deque, collections.deque([X])),
        (grown_set, {X}),
    ],
)
def test_a_container_is_as_it_was(change, kept):
    before = list(kept.items() if isinstance(kept, dict) else kept)

    def f(x):
        change(x, kept)
        return x

    with pytest.raises(CompileError, match="keeps a computed tensor"):
        eo.compile(f)(X)
    after = list(kept.items() if isinstance(kept, dict) else kept)
    assert len(after) == len(before)
    assert str(after) == str(before)


def test_a_cache_that_was_filled():
    @functools.cache
    def table(n):
        return eo.arange(n) * 2.0

    with pytest.raises(CompileError, match="keeps a computed tensor"):
        eo.compile(lambda x: x + table(2))(X)
    assert table(2).tolist() == [0.0, 2.0]
    assert eo.compile(lambda x: x + table(2))(X).tolist() == [1.0, 3.0]


def test_where_it_cannot_be_put_back_it_is_an_error_still():
    kept = np.zeros(1, object)

    def f(x):
        kept[0] = x * 2
        return x

    for _ in range(2):
        with pytest.raises(CompileError, match="keeps a computed tensor"):
            eo.compile(f)(X)


def test_an_ordered_dict_keeps_its_order():
    kept = collections.OrderedDict(a=1, b=2)
    kept.move_to_end("a")

    def f(x):
        kept["c"] = x * 2
        return x

    with pytest.raises(CompileError, match="'c'"):
        eo.compile(f)(X)
    assert list(kept.items()) == [("b", 2), ("a", 1)]


def test_long_containers_come_back_too():
    kept = [0.0] * 1500

    def f(x):
        kept.append(x * 2)
        return x

    with pytest.raises(CompileError, match="item 1500 of a list"):
        eo.compile(f)(X)
    assert kept == [0.0] * 1500


def refuses(*_):
    raise RuntimeError("working outside of context")


class Proxy(list):
    __class__ = property(refuses)
    __iter__ = __len__ = __eq__ = __hash__ = __getattribute__ = refuses


class Meta(type):
    __getattribute__ = refuses


proxies = [Proxy(), Meta("Odd", (), {}), type("Odd", (), {"__module__": property(refuses)})]


def test_objects_of_others_are_not_asked_anything():
    def f(x):
        return x if proxies is None else x * 2

    assert eo.compile(f)(X).tolist() == [2.0, 2.0]


def test_references_to_what_is_gone():
    thing = Holder()
    kept = [weakref.proxy(thing), weakref.ref(thing)]
    del thing

    def f(x):
        return x * len(kept)

    assert eo.compile(f)(X).tolist() == [2.0, 2.0]


def test_a_cycle_is_no_leak():
    def f(x):
        def power(n):
            return x if n == 1 else x * power(n - 1)  # a function that leads to itself, and to `x`

        return power(3)

    assert eo.compile(f)(X + 1).tolist() == [8.0, 8.0]


def test_nothing_leads_to_values_of_a_trace_but_what_the_function_keeps(monkeypatch):
    """So that no search for values that only lead to themselves delays a first call."""
    monkeypatch.setattr(gc, "collect", lambda: pytest.fail("values are still there"))
    net = eo.nn.Linear(2, 2)
    optimizer = eo.optim.Adam(net.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    def loop(x):
        return eo.fori_loop(0, 2, lambda i, c: c + net(x)[i], x[0])

    def branch(x):
        return eo.cond(x.sum() > 0, lambda: x * 2, lambda: x * 3).sum()

    for f in (
        step,
        loop,
        branch,
        eo.hessian(lambda x: (x**3).sum()),
        eo.vmap(eo.grad(lambda x: (x * x).sum())),
    ):
        eo.compile(f)(eo.asarray(np.ones((2, 2), np.float32)))


def test_what_was_put_before_an_error_is_taken_back():
    kept = {}

    def f(x):
        kept["x"] = x + 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        eo.compile(f)(X)
    assert kept == {}


def test_compiled_methods():
    class Counter:
        def __init__(self):
            self.total = eo.asarray(np.zeros(2))

        @eo.compile
        def rebinds(self, x):
            self.total = self.total + x
            return x * 2

        @eo.compile
        def writes(self, x):
            self.total[...] = self.total + x
            return x * 2

    counter = Counter()
    with pytest.raises(CompileError, match="'total'"):
        counter.rebinds(X)
    for n in (1.0, 2.0):
        counter.writes(X)
        assert counter.total.tolist() == [n, n]


def test_what_stays_inside_is_no_leak():
    def f(x):
        parts, total = [], {}
        for i in range(3):
            parts.append(x * i)
            total["sum"] = sum(parts)

        def add(y):
            nonlocal total
            total = {"sum": total["sum"] + y}

        add(x)
        return total["sum"]

    assert eo.compile(f)(X).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("slots", [("total",), ("first", "total"), {"total": "its doc"}])
def test_the_slot_of_a_value_is_named(slots):
    thing = type("Sub", (type("Own", (), {"__slots__": slots}),), {"__slots__": ()})()

    def f(x):
        thing.total = x * 2
        return x

    with pytest.raises(CompileError, match="'total'"):
        eo.compile(f)(X)
