"""Direct calls: what the code between Python and a program looks at, and what it leaves behind."""

import gc
import inspect
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import direct
from everyo.compiler.api import Compiled
from everyo.core.modes import current_mode
from everyo.core.tensor import Tensor
from everyo.errors import IndexingError
from tests.compiling import agree, array, call_during_a_call, tensor

Pair = namedtuple("Pair", "one two")


def direct_calls(f):
    return int(f._direct_hits[0])


def called(f, *args, times=3):
    """Call a function until its calls are direct; return the last result."""
    for _ in range(times):
        before, out = direct_calls(f), f(*args)
    assert direct_calls(f) == before + 1
    return out


def goes_another_way(f, *args, **kwargs):
    before, out = direct_calls(f), f(*args, **kwargs)
    assert direct_calls(f) == before
    return out


X = np.array([1.0, -2.0, 0.5, 4.0], np.float32)


def test_results_are_fresh_tensors():
    f = eo.compile(lambda x: x + 1)
    x = eo.asarray(X)
    first, second = called(f, x), f(x)
    assert type(first) is Tensor
    assert first.tolist() == second.tolist() == [2.0, -1.0, 1.5, 5.0]
    assert first.dtype is second.dtype is np.dtype(np.float32)
    assert not np.shares_memory(first.data, second.data)
    assert first.grad is None
    assert first.grad_node is None
    assert first.data.flags.owndata
    assert first.data.flags.writeable
    assert f.cache_info().hits == 3


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, bool, np.complex64])
def test_shapes_and_dtypes(shape, dtype):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    out = called(eo.compile(lambda x: x.reshape(-1)), eo.asarray(values))
    assert out.shape == (values.size,)
    assert out.dtype == dtype
    assert out.tolist() == values.reshape(-1).tolist()
    assert called(eo.compile(lambda x: x[..., None]), eo.asarray(values)).shape == (*shape, 1)


def test_constants_of_the_program():
    table = np.arange(5.0) ** 2
    f = eo.compile(lambda x, y: (x + eo.asarray(table)) * y)
    x, y = tensor(5), tensor(5, seed=1)
    agree(called(f, x, y), (x + table) * y)


def test_results_in_containers():
    f = eo.compile(lambda x: {"b": x + 1, "a": (x * 2, [x.sum(), None])})
    out = called(f, eo.asarray(X))
    assert list(out) == ["b", "a"]
    assert out["b"].tolist() == [2.0, -1.0, 1.5, 5.0]
    assert out["a"][0].tolist() == [2.0, -4.0, 1.0, 8.0]
    assert out["a"][1][0].item() == 3.5
    assert out["a"][1][1] is None
    assert called(eo.compile(lambda x: ()), eo.asarray(X)) == ()


def test_arguments_in_containers():
    def body(tree, y):
        return tree["w"][0] * y + tree["w"][1][0] - tree["b"]

    f = eo.compile(body)
    x, y = tensor(3), tensor(3, seed=1)

    def tree(one, two, three):
        return {"w": (one, [two, None]), "b": three}

    agree(called(f, tree(x, y, x * 2), y), x * y + y - x * 2)
    agree(called(f, tree(y, x, y * 3), x, times=1), y * x + x - y * 3)
    fresh = {"".join(["", key]): value for key, value in tree(x, x, y).items()}  # equal keys, others objects
    agree(called(f, fresh, y, times=1), x * y + x - y)
    agree(goes_another_way(f, {"b": y, "w": (x, [x, None])}, y), x * y + x - y)  # in another order
    for other in (
        {"w": [x, [y, None]], "b": y},
        {"w": (x, (y, None)), "b": y},
        {"w": (x, [y, x]), "b": y},
        {"w": (x, [y, None], x), "b": y},
        {"w": (x, [y]), "b": y},
        {"w": (x, [y, None]), "b": y, "c": x},
        OrderedDict({"w": (x, [y, None]), "b": y}),
        {"w": Pair(x, [y, None]), "b": y},
    ):
        f = eo.compile(body)
        called(f, tree(x, y, x), y)
        agree(goes_another_way(f, other, y), x * y + y - y)
    called(f, tree(x, y, x), y)
    for wrong in ({"w": (x, [y, None])}, {"w": (x, [y, None]), "c": x}, {0: x, "b": y}, {}):
        with pytest.raises(KeyError):
            f(wrong, y)
    agree(called(f, tree(x, y, x), y, times=1), x * y + y - x)


def test_keys_of_other_kinds():
    class Key(str):
        """Equal to another string, as only its own method knows."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return other == "y"

    f = eo.compile(lambda tree: sum(tree.values()) * 2)
    x = eo.asarray(X)
    assert called(f, {"x": x}).tolist() == (X * 2).tolist()
    assert goes_another_way(f, {Key("x"): x}).tolist() == (X * 2).tolist()
    g = eo.compile(lambda tree: tree[1] * 2)
    for _ in range(4):
        assert goes_another_way(g, {1: x}).tolist() == (X * 2).tolist()


def test_a_tensor_that_occurs_twice():
    f = eo.compile(lambda pair, z: pair[0] - 2 * pair[1] + z)
    x, y = tensor(3), tensor(3, seed=1)
    agree(called(f, (x, x), x), x - 2 * x + x)
    agree(called(f, (x, y), y, times=1), x - 2 * y + y)


def test_static_arguments_that_are_gone():
    f = eo.compile(lambda x, s: x * len(s), static_argnums=1)
    x = eo.tensor([1.0])
    for _ in range(3):
        for n in (10, 10, 10, 11, 12, 11):  # each text is a new one, where one before may have been
            assert f(x, "a" * n).item() == n


def test_very_many_arguments():
    f = eo.compile(lambda x, *others: x * 2)
    called(f, eo.asarray(X))
    with pytest.raises(eo.errors.ArgumentError, match="neither a tensor nor a number"):
        f(*["text"] * 1_500_000)  # more than a thread's stack has room for


def test_static_arguments():
    f = eo.compile(lambda x, n, name: x * n if name == "times" else x + n, static_argnums=(1, 2))
    x = eo.asarray(X)
    assert called(f, x, 2, "times").tolist() == (X * 2).tolist()
    assert goes_another_way(f, x, 3, "times").tolist() == (X * 3).tolist()
    assert called(f, x, 3, "times").tolist() == (X * 3).tolist()
    assert goes_another_way(f, x, 3, "plus").tolist() == (X + 3).tolist()
    assert called(f, x, 1, "plus").tolist() == (X + 1).tolist()
    assert goes_another_way(f, x, True, "plus").tolist() == (X + 1).tolist()
    assert f.cache_info().misses == 5


def test_other_arguments_go_another_way():
    f = eo.compile(lambda x: x * 2)
    x = eo.asarray(X)
    called(f, x)
    assert goes_another_way(f, x=x).tolist() == (X * 2).tolist()
    called(f, x)
    assert goes_another_way(f, X).tolist() == (X * 2).tolist()
    assert goes_another_way(f, 3).item() == 6
    for other in (X[:3], X.astype(np.float64), X.reshape(2, 2), np.stack([X, X])[:, 1:3]):
        called(f, x)
        assert goes_another_way(f, eo.asarray(other)).tolist() == (other * 2).tolist()
    strided = eo.asarray(X)
    strided.data = np.repeat(X, 2)[::2]
    called(f, x)
    assert goes_another_way(f, strided).tolist() == (X * 2).tolist()
    g = eo.compile(lambda x, by=1: x * by)
    called(g, x)
    assert goes_another_way(g, x, by=3).tolist() == (X * 3).tolist()
    for wrong in ((), (x, x)):
        with pytest.raises(TypeError, match="positional argument"):
            f(*wrong)
    assert called(f, x, times=1).tolist() == (X * 2).tolist()


def test_a_class_derived_from_tensor_goes_another_way():
    class Mine(Tensor):
        __slots__ = ()

    f = eo.compile(lambda x: x * 2)
    called(f, eo.asarray(X))
    mine = Mine()
    mine.data, mine.grad, mine.grad_node = X, None, None
    assert goes_another_way(f, mine).tolist() == (X * 2).tolist()


def test_gradients_are_recorded_as_ever():
    f = eo.compile(lambda x: (x * x).sum())
    x = eo.asarray(X)
    called(f, x)
    with_grad = eo.tensor(X, requires_grad=True)
    goes_another_way(f, with_grad).backward()
    assert with_grad.grad.tolist() == (2 * X).tolist()
    assert not called(f, x).requires_grad


def test_inside_transformations():
    f = eo.compile(lambda x: eo.sin(x) * x)
    x = eo.asarray(X)
    called(f, x)
    expected = np.cos(X) * X + np.sin(X)
    np.testing.assert_allclose(eo.grad(lambda x: f(x).sum())(x).numpy(), expected, 1e-6)
    np.testing.assert_allclose(eo.vmap(f)(eo.asarray(np.stack([X, -X]))).numpy(), np.sin([X, X]) * X, 1e-6)
    np.testing.assert_allclose(eo.compile(lambda x: f(x) + 1)(x).numpy(), np.sin(X) * X + 1, 1e-6)


def test_while_another_function_is_traced():
    """It becomes part of that one, which reads captured tensors anew at each call."""
    f = eo.compile(lambda x: x * 3)
    captured, x = eo.asarray(X.copy()), eo.asarray(X)
    called(f, captured)
    g = eo.compile(lambda x: f(captured) + x)
    assert g(x).tolist() == (X * 3 + X).tolist()
    captured += 1
    assert g(x).tolist() == ((X + 1) * 3 + X).tolist()


def test_what_is_set_around_the_call():
    f = eo.compile(lambda x: x * (2.0 if eo.is_grad_enabled() else 3.0) + eo.ones(4))
    x = eo.asarray(X)
    assert called(f, x).tolist() == (X * 2 + 1).tolist()
    with eo.no_grad():
        assert goes_another_way(f, x).tolist() == (X * 3 + 1).tolist()
        assert called(f, x).tolist() == (X * 3 + 1).tolist()
    assert goes_another_way(f, x).tolist() == (X * 2 + 1).tolist()
    called(f, x)
    before = eo.get_default_dtype()
    eo.set_default_dtype(eo.float64)
    try:
        assert goes_another_way(f, x).dtype == np.float64
        assert called(f, x).dtype == np.float64
    finally:
        eo.set_default_dtype(before)
    assert goes_another_way(f, x).dtype == np.float32


def test_the_default_dtype_of_this_thread_alone():
    from everyo.core.dtypes import in_double_precision

    f = eo.compile(lambda x: x + eo.ones(4))
    x = eo.asarray(X)
    called(f, x)
    with in_double_precision():
        assert goes_another_way(f, x).dtype == np.float64
        other = []
        thread = threading.Thread(target=lambda: other.append(called(f, x).dtype))
        thread.start()
        thread.join()
    assert other == [np.float32]


# ---- what is held


def counts(*objects):
    gc.collect()
    return [sys.getrefcount(x) for x in objects]


def test_nothing_is_held_or_let_go_too_often():
    keys = ["".join(["key", str(i)]) for i in range(2)]
    x, y, container = eo.asarray(X), eo.asarray(X), [None]
    tree = {keys[0]: x, keys[1]: (y, container)}
    f = eo.compile(lambda tree: (tree["key0"] + tree["key1"][0], tree["key0"].sum()))
    called(f, tree)
    door = f.direct
    mode = current_mode()
    watched = (mode, x, y, x.data, y.data, tree, container, *keys, Tensor, X.dtype, door, *door[:4], f)
    around = (None, True, eo.float32, dict, tuple)
    before, before_around = counts(*watched), counts(*around)
    results = [f(tree) for _ in range(1000)]
    held = counts(*watched)
    differences = {i: b - a for i, (a, b) in enumerate(zip(before, held, strict=True)) if a != b}
    counted = {10: 2000} if sys.getrefcount(X.dtype) < 2**28 else {}  # a dtype that never goes is not counted
    assert differences == {9: 2000, **counted}  # the class of the results, and their dtype
    del results
    after = counts(*watched)
    assert after == before
    for _ in range(1000):
        f({keys[0]: x, keys[1]: (y, [y])})
        f(tree)
    for a, b in zip(before_around, counts(*around), strict=True):
        assert abs(a - b) < 100


def test_arguments_do_not_outlive_their_call():
    f = eo.compile(lambda tree: tree["x"] + 1)
    x = eo.asarray(X.copy())
    called(f, {"x": x})
    gone, array_gone = weakref.ref(x), weakref.ref(x.data)
    del x
    assert gone() is None
    assert array_gone() is None


def test_a_compiled_function_goes_at_once():
    f = eo.compile(lambda x: x + 1)
    called(f, eo.asarray(X))
    gone, program = weakref.ref(f), weakref.ref(f.direct[1])
    gc.disable()
    try:
        del f
        assert gone() is None
    finally:
        gc.enable()
    gc.collect()
    assert program() is None


def test_calls_that_fail_hold_nothing():
    f = eo.compile(lambda x, i: eo.take(x, i, axis=0) * 2)
    x, i, wrong = eo.asarray(X), eo.asarray(np.array([0, 3])), eo.asarray(np.array([0, 4]))
    called(f, x, i)
    before = counts(x.data, i.data, wrong.data, f.direct, Tensor, X.dtype)
    for _ in range(100):
        with pytest.raises(IndexingError):
            f(x, wrong)
    after = counts(x.data, i.data, wrong.data, f.direct, Tensor, X.dtype)
    assert after == before
    assert called(f, x, i, times=1).tolist() == [2.0, 8.0]


def test_what_a_callback_raises():
    class Told:
        def __format__(self, spec):
            if told:
                raise RuntimeError(told.pop())
            return ""

    told = []

    def body(x):
        eo.debug_print("{}", Told())
        return x + 1

    f = eo.compile(body)
    x = eo.asarray(X)
    called(f, x)
    told.append("this")
    before = counts(x.data, Tensor)
    with pytest.raises(RuntimeError, match="this"):
        f(x)
    after = counts(x.data, Tensor)
    assert after == before
    assert called(f, x, times=1).tolist() == (X + 1).tolist()


def test_a_call_during_a_direct_call_goes_another_way():
    call_during_a_call(called, lambda f, x, w: called(f, x, w, times=1), goes_another_way)


def test_a_longer_program_lets_other_threads_run():
    place = direct.FIELDS.index("locked")

    def locked(function, x):
        f = eo.compile(function)
        called(f, x)
        return f.direct[0][place]

    assert locked(eo.exp, eo.asarray(X)) == 1
    assert locked(eo.exp, eo.ones(100_000)) == 0
    assert locked(lambda x: eo.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x), eo.asarray(X)) == 0
    assert locked(eo.sort, eo.asarray(X)) == 0
    assert program_runs_beside_others()


def program_runs_beside_others():
    """Whether another thread runs Python code while a program that takes long does not end."""
    f = eo.compile(lambda x: eo.while_loop(lambda y: y.sum() < 4e8, lambda y: y + 1, x))
    x, ends, seen = eo.zeros(4, dtype=eo.float64), [], []
    f(x + 1e8 - 2), f(x + 1e8 - 2), f(x + 1e8 - 2)
    done = threading.Event()

    def watch():
        while not done.wait(0.001):
            seen.append(len(ends))

    thread = threading.Thread(target=watch)
    thread.start()
    f(x + 8e7)
    ends.append(True)
    done.set()
    thread.join()
    return seen.count(0) > 1


def test_several_threads():
    f = eo.compile(lambda x: eo.exp(x) @ eo.sin(x))
    xs = [array(60, 60, seed=i) for i in range(4)]
    called(f, eo.asarray(xs[0]))
    wrong = []

    def work(x):
        given, expected = eo.asarray(x), np.exp(x) @ np.sin(x)
        for _ in range(200):
            wrong.extend([x] * (not np.allclose(f(given).data, expected, 1e-10, 1e-12)))

    threads = [threading.Thread(target=work, args=(x,)) for x in xs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- where there is no direct way


def test_calls_while_the_interpreter_ends():
    code = """
import os, everyo as eo
x = eo.ones(3)
f = eo.compile(lambda x: x + 1)
class Last:
    def __init__(self):
        self.held = f, x
    def __del__(self, write=os.write):
        f, x = self.held
        write(1, f(x).data.tobytes())
for _ in range(3):
    f(x)
eo.last = Last()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, np.full(3, 2, np.float32).tobytes())


def test_functions_keep_their_signatures():
    def plus(x, *, by=1):
        """Add."""
        return x + by

    f = eo.compile(plus)
    called(f, eo.asarray(X))
    assert inspect.signature(f) == inspect.signature(plus)
    assert f.__doc__ == "Add."


@pytest.mark.parametrize("missing", ["slot", "function", "numpy", "lock"])
def test_calls_stay_in_python_where_something_is_elsewhere(monkeypatch, missing):
    class Other(Compiled):
        __slots__ = ()

    if missing == "slot":
        monkeypatch.setattr(direct, "_slot", lambda kind, name: raises())
    elif missing == "function":
        monkeypatch.setattr(direct, "FUNCTIONS", ("PyNobody_HasThis",))
    elif missing == "numpy":
        monkeypatch.setattr(direct, "ABI", ())
    else:
        monkeypatch.setattr(direct, "counts_holders", lambda: False)

    def raises():
        raise direct._Unknown("here")

    f = Other(lambda x: x + 1, (), None)
    x = eo.asarray(X)
    assert [f(x).tolist() for _ in range(3)] == [(X + 1).tolist()] * 3
    assert f.direct is None
    assert "__call__" not in vars(Other)
    assert f.cache_info() == (2, 1, 1)


def test_a_slot_is_found_by_looking():
    class Two:
        __slots__ = ("one", "two")

    assert {direct._slot(Two, "one"), direct._slot(Two, "two")} == {
        object.__basicsize__,
        object.__basicsize__ + direct.WORD,
    }

    class Kept:
        __slots__ = ("_one",)

        @property
        def one(self):
            return self._one

        @one.setter
        def one(self, value):
            self._one = [value]

    with pytest.raises(direct._Unknown):
        direct._slot(Kept, "one")
