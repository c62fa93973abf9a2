"""Values that are equal to Python but mean something else are told apart by what is kept for them."""

import dataclasses
import datetime
import math
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

import everyo as eo
from everyo.core.keys import typed
from everyo.core.settings import kept, same_setting

INTEGERS = eo.ones(2, dtype="int32")


class Named(NamedTuple):
    value: Any


@dataclasses.dataclass(frozen=True)
class Record:
    value: Any
    note: Any = dataclasses.field(default=None, compare=False)


class Scaled:
    """A container of the user's with a static part."""

    def __init__(self, x, factor):
        self.x, self.factor = x, factor

    def tree_flatten(self):
        return (self.x,), self.factor

    @classmethod
    def tree_unflatten(cls, factor, children):
        return cls(*children, factor)


EQUAL = [  # to Python
    (0.0, -0.0),
    (1, 1.0, True),
    (1.0, 1 + 0j, complex(1, -0.0)),
    (np.float64(0.0), np.float64(-0.0), 0.0),
    (np.float32(1), np.float64(1), np.int64(1)),
    (complex(0.0, 0.0), complex(-0.0, 0.0), complex(0.0, -0.0)),
    (Decimal("1"), Decimal("1.0"), 1),
    ((1, (2, 0.0)), (1, (2, -0.0)), (1.0, (2, 0.0))),
    (Named(1), Named(1.0), Named(True), (1,)),
    (Record(0.0), Record(-0.0), Record(0)),
    (Record(Named((1,))), Record(Named((1.0,)))),
    (frozenset({1}), frozenset({1.0})),
    (slice(1, 2), slice(1.0, 2)),
    (range(0, 3, 2), range(0, 4, 2)),
    (
        datetime.datetime(2000, 1, 1, 12, tzinfo=datetime.UTC),
        datetime.datetime(2000, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    ),
]  # fmt: skip


@pytest.mark.parametrize("values", EQUAL, ids=repr)
def test_equal_values_of_other_meaning_have_other_keys(values):
    assert len({typed(x) for x in values}) == len(values)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.float64("nan"),
        lambda: complex(1, -0.0),
        lambda: Decimal("1.50"),
        lambda: (1, Named(2.0), frozenset({1, 2.5})),
        lambda: Record((1, "a"), note=object()),
        lambda: np.dtype("float32"),
        lambda: "text",
    ],
)
def test_values_that_mean_the_same_have_one_key(make):
    assert typed(make()) == typed(make())
    assert hash(typed(make())) == hash(typed(make()))


def test_static_arguments():
    calls = {
        "sign": (lambda x, k: eo.copysign(x * 1.0, k), (np.float64(0.0), np.float64(-0.0)), (1.0, -1.0)),
        "imag": (lambda x, k: eo.copysign(x * 1.0, k.imag), (complex(1, 0.0), complex(1, -0.0)), (1.0, -1.0)),
        "named": (lambda x, k: eo.copysign(x * 1.0, k.value), (Named(0.0), Named(-0.0)), (1.0, -1.0)),
        "record": (lambda x, k: eo.copysign(x * 1.0, k.value), (Record(0.0), Record(-0.0)), (1.0, -1.0)),
        "digits": (lambda x, k: x * len(str(k)), (Decimal("1"), Decimal("1.0")), (1, 3)),
    }
    for name, (f, values, wanted) in calls.items():
        compiled = eo.compile(f, static_argnums=1)
        for _ in range(2):
            assert [compiled(INTEGERS, v)[0].item() for v in values] == list(wanted), name
        assert compiled.cache_info().misses == len(values)
    total = eo.compile(lambda x, k: x * sum(k), static_argnums=1)
    assert [total(INTEGERS, frozenset({n})).dtype for n in (1, 1.0)] == [eo.int32, eo.float64]


def test_the_keys_of_dicts_are_part_of_the_structure():
    compiled = eo.compile(lambda d: sum(v * k for k, v in d.items()))
    for _ in range(3):
        for key, dtype in ((1, eo.int32), (1.0, eo.float64), (True, eo.int32)):
            assert compiled({key: INTEGERS}).dtype == dtype
    assert compiled.cache_info().misses == 3
    nested = eo.compile(lambda d: d["x"] * next(iter(d["empty"])))
    for _ in range(3):
        for key, dtype in ((1, eo.int32), (1.0, eo.float64)):
            assert nested({"x": INTEGERS, "empty": {key: None}}).dtype == dtype


def test_static_parts_of_containers():
    compiled = eo.compile(lambda s: s.x * s.factor)
    for _ in range(2):
        assert [compiled(Scaled(INTEGERS, n)).dtype for n in (1, 1.0)] == [eo.int32, eo.float64]
        assert [math.copysign(1, compiled(Scaled(INTEGERS, z))[0].item()) for z in (0.0, -0.0)] == [1, -1]
    assert compiled.cache_info().misses == 4
    moved = eo.compile(lambda s: Scaled(s.x * 2.0, s.factor))(Scaled(INTEGERS, 3))
    assert (type(moved), moved.x.tolist(), moved.factor) == (Scaled, [2.0, 2.0], 3)


@pytest.mark.parametrize(
    "settings",
    [({1}, {1.0}), ({1: "a"}, {1.0: "a"}), ([0.0], [-0.0]), (frozenset({(0.0,)}), frozenset({(-0.0,)}))],
    ids=repr,
)
def test_settings_are_told_apart(settings):
    first, second = map(kept, settings)
    assert same_setting(first, kept(settings[0]))
    assert not same_setting(first, second)


@pytest.mark.parametrize("order", [(3.0, 3 + 0j), (3 + 0j, 3.0), (True, 1 + 0j, 1.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_complex_number_is_complex_whatever_was_there_before(order, dtype):
    x = eo.ones(2, dtype=dtype)
    for number in order:
        wanted = x.numpy() * number
        found = x * number
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
