"""What can be compiled, and what becomes of it: methods, static arguments, copies and pickles."""

import copy
import dataclasses
import gc
import pickle
import weakref

import numpy as np
import pytest

import everyo as eo

X = eo.asarray(np.array([1.0, 2.0]))


@eo.compile
def double(x):
    return x * 2


def triple(x):
    return x * 3


compiled_triple = eo.compile(triple)


class Scale:
    """Equal to all others of its kind, whatever its factor."""

    def __init__(self, factor):
        self.factor = eo.asarray(np.float64(factor))

    def __eq__(self, other):
        return isinstance(other, Scale)

    def __hash__(self):
        return 1

    @eo.compile
    def apply(self, x):
        return x * self.factor


@dataclasses.dataclass
class Shift:
    """Has no hash."""

    by: float

    @eo.compile
    def apply(self, x):
        return x + self.by


class Slotted:
    """Takes no weak reference."""

    __slots__ = ("by",)

    def __init__(self, by):
        self.by = by

    @eo.compile
    def apply(self, x):
        return x - self.by


def test_methods_of_equal_instances_are_two():
    a, b = Scale(2), Scale(3)
    assert a.apply(X).tolist() == [2.0, 4.0]
    assert b.apply(X).tolist() == [3.0, 6.0]


def test_methods_of_instances_without_hash_or_references():
    assert Shift(2.0).apply(X).tolist() == [3.0, 4.0]
    assert Slotted(1.0).apply(X).tolist() == [0.0, 1.0]
    kept = Slotted(1.0)
    kept.apply(X)
    kept.apply(X)
    assert kept.apply.cache_info() == (1, 1, 1)


def test_a_compiled_method_does_not_keep_its_instance():
    scale = Scale(2)
    scale.apply(X)
    reference = weakref.ref(scale)
    del scale
    gc.collect()
    assert reference() is None


def test_copies_compile_their_own():
    double(X)
    assert copy.deepcopy(double) is double  # a function of a module, like all others
    g = eo.compile(lambda x: x * 5)
    g(X)
    for made in (copy.copy(g), copy.deepcopy(g)):
        assert made(X).tolist() == [5.0, 10.0]
        assert made.cache_info().misses == 1


def test_pickles():
    double(X)
    assert pickle.loads(pickle.dumps(double)) is double
    compiled_triple(X)
    assert pickle.loads(pickle.dumps(compiled_triple))(X).tolist() == [3.0, 6.0]
    scale = Scale(2)
    scale.apply(X)
    assert pickle.loads(pickle.dumps(scale.apply))(X).tolist() == [2.0, 4.0]


def test_a_copied_module_has_a_compiled_method_of_its_own():
    layer = eo.nn.Linear(2, 1, bias=False, dtype="float64")
    layer.fast = eo.compile(layer)
    layer.fast(X)
    twin = copy.deepcopy(layer)
    with eo.no_grad():
        twin.weight.__imul__(2)
    np.testing.assert_array_equal(twin.fast(X).detach().numpy(), 2 * layer.fast(X).detach().numpy())


# ---- static arguments


def scaled(x, n, kind="a"):
    return x * n + (1 if kind == "a" else 2)


def test_static_arguments_count_from_the_end_too():
    f = eo.compile(scaled, static_argnums=-1)
    assert f(X, 2, "a").tolist() == [3.0, 5.0]
    assert f(X, 3, "b").tolist() == [5.0, 8.0]
    assert f.cache_info().misses == 2


def test_static_arguments_may_be_named():
    f = eo.compile(scaled, static_argnums=(1, 2))
    assert f(X, n=2, kind="b").tolist() == [4.0, 6.0]
    assert f(X, 2, kind="a").tolist() == [3.0, 5.0]
    assert f(X, n=2, kind="b").tolist() == [4.0, 6.0]
    assert f.cache_info() == (1, 2, 2)


def test_static_arguments_of_methods_may_be_named():
    class Layer:
        @eo.compile(static_argnums=2)
        def apply(self, x, kind):
            return x + len(kind)

    layer = Layer()
    assert layer.apply(X, "ab").tolist() == [3.0, 4.0]
    assert layer.apply(X, kind="abc").tolist() == [4.0, 5.0]


@pytest.mark.parametrize("positions", ["x", 1.5, (0, "n")])
def test_positions_of_static_arguments_are_integers(positions):
    with pytest.raises(eo.ArgumentError, match="positions of static arguments"):
        eo.compile(scaled, static_argnums=positions)


# ---- arrays


def test_arrays_that_were_pickled():
    """Their dtype is an object of its own, equal to the usual one."""
    array = pickle.loads(pickle.dumps(np.arange(6.0).reshape(2, 3)))
    f, captured = eo.compile(lambda x: x * 2), eo.asarray(array)
    g = eo.compile(lambda x: x + captured)
    for x in (eo.asarray(array), X[0], eo.asarray(array.T), eo.asarray(array.astype(">f8"))):
        np.testing.assert_array_equal(f(x).numpy(), 2 * x.numpy())
    np.testing.assert_array_equal(g(eo.asarray(1.0)).numpy(), array + 1)
    np.testing.assert_array_equal(f(eo.asarray(np.arange(6.0).reshape(2, 3))).numpy(), 2 * array)
