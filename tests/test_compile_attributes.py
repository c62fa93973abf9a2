"""What compiled functions read of modules, hooks and containers is what is there at each call."""

import dataclasses
from collections import OrderedDict, deque
from types import SimpleNamespace

import numpy as np
import pytest

import everyo as eo
from everyo.core.settings import kept, same_setting
from everyo.errors import CompileError

X = eo.asarray(np.array([1.0, 2.0]))


def parameter(*values):
    return eo.nn.Parameter(np.array(values))


class Scaled(eo.nn.Module):
    """``scale * weight * x + shift``, with one thing of each kind that a module holds."""

    power = 1

    def __init__(self, scale=2.0, weight=3.0, shift=0.0):
        super().__init__()
        self.scale = scale
        self.weight = parameter(weight)
        self.inner = eo.nn.Identity()
        self.register_buffer("shift", eo.asarray(np.array([shift])))

    def forward(self, x):
        return self.inner(self.scale * self.weight * x) ** self.power + self.shift


class Twice(eo.nn.Module):
    def forward(self, x):
        return x * 2


# ---- attributes


def set_weight(model):
    model.weight = parameter(5.0)


def set_shift(model):
    model.shift = eo.asarray(np.array([100.0]))


def set_inner(model):
    model.inner = Twice()


def set_scale(model):
    model.scale = -1.0


def set_power(model):  # which only the class had
    model.power = 2


CHANGES = {
    set_weight: [10.0, 20.0],
    set_shift: [106.0, 112.0],
    set_inner: [12.0, 24.0],
    set_scale: [-3.0, -6.0],
    set_power: [36.0, 144.0],
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("called", ["module", "forward", "loop"])
def test_what_a_module_holds_is_read_at_each_call(change, called):
    model = Scaled()
    f = {
        "module": lambda x: model(x),
        "forward": lambda x: model.forward(x),
        "loop": lambda x: eo.fori_loop(0, 1, lambda i, y: model(y), x),
    }[called]
    compiled = eo.compile(f)
    for _ in range(2):
        assert compiled(X).tolist() == [6.0, 12.0]
    change(model)
    for _ in range(2):
        assert compiled(X).tolist() == CHANGES[change]
    assert compiled.cache_info() == (2, 2, 2)


def test_an_attribute_that_is_set_to_the_same_again_is_the_same_program():
    model = Scaled(scale=1e300)
    f = eo.compile(lambda x: model(x))
    f(X)
    model.scale = float("1e300")
    f(X)
    assert f.cache_info().misses == 1


def test_a_zero_of_another_sign_is_another_number():
    model = Scaled(scale=0.0)
    f = eo.compile(lambda x: 1 / model(x))
    assert f(X).tolist() == [np.inf, np.inf]
    model.scale, model.shift = -0.0, eo.asarray(np.array([-0.0]))
    assert f(X).tolist() == [-np.inf, -np.inf]


def test_a_bias_that_goes_and_comes():
    layer = eo.nn.Linear(2, 1)
    with eo.no_grad():
        layer.weight[...], layer.bias[...] = 1.0, 10.0
    f, bias, x = eo.compile(layer), layer.bias, eo.ones((1, 2))
    for held, value in ((bias, 12.0), (None, 2.0), (bias, 12.0)):
        layer.bias = held
        assert f(x).item() == value
    assert f.cache_info().misses == 2


def test_parameters_that_join_a_module_are_found():
    model = eo.nn.Module()
    model.first = parameter(1.0)
    f = eo.compile(lambda: sum((p.sum() for p in model.parameters()), eo.asarray(np.array(0.0))))
    assert f().item() == 1.0
    model.second = parameter(10.0)
    assert f().item() == 11.0
    del model.first
    assert f().item() == 10.0


def test_a_parameter_that_is_replaced_is_found():
    model = Scaled()
    f = eo.compile(lambda: sum((p.sum() for p in model.parameters()), eo.asarray(np.array(0.0))))
    assert f().item() == 3.0
    set_weight(model)
    assert f().item() == 5.0


def test_a_call_with_other_parameters_is_one_program():
    model = Scaled()
    f = eo.compile(lambda w, x: eo.nn.functional_call(model, {"weight": w}, x))
    assert [f(eo.asarray(np.array([w])), X).tolist() for w in (1.0, 2.0)] == [[2.0, 4.0], [4.0, 8.0]]
    assert f.cache_info().misses == 1
    set_scale(model)
    assert f(eo.asarray(np.array([1.0])), X).tolist() == [-1.0, -2.0]


def test_the_method_of_a_module_reads_its_attributes():
    class Model(Scaled):
        forward = eo.compile(Scaled.forward)

    first, second = Model(2.0), Model(7.0)
    assert (first(X).tolist(), second(X).tolist()) == ([6.0, 12.0], [21.0, 42.0])
    set_weight(first)
    y = first(X)
    assert y.tolist() == [10.0, 20.0]
    y.sum().backward()
    assert first.weight.grad.tolist() == [6.0]


def test_a_value_that_is_left_on_a_module_is_refused_where_it_would_be_read():
    class Sum(eo.nn.Module):
        def __init__(self):
            super().__init__()
            self.total = eo.zeros(2)

        def forward(self, x):
            self.total = self.total + x
            return self.total

    model = Sum()
    before = model.total
    with pytest.raises(CompileError, match="a computed tensor in the variable, attribute or item 'total'"):
        eo.compile(model)(X)
    assert model.total is before
    assert model(X).tolist() == X.tolist()


def test_what_a_function_puts_on_a_module_before_it_reads_it_is_its_own():
    class Keeps(eo.nn.Module):
        def forward(self, x):
            self.last = x * 2
            return self.last + 1

    model = Keeps()
    f = eo.compile(model)
    f(X)
    assert not hasattr(model, "last")  # no value of the program stays
    for _ in range(2):
        assert f(X).tolist() == [3.0, 5.0]
        model.last = None
    assert f.cache_info().misses == 1


def test_modules_are_watched_while_a_function_is_traced_only():
    def fails(x):
        assert "__getattribute__" in vars(eo.nn.Module)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        eo.compile(fails)(X)
    assert "__getattribute__" not in vars(eo.nn.Module)


# ---- hooks


def test_modules_are_watched_behind_the_trace_of_a_body():
    watched = []

    def f(x):
        x = eo.fori_loop(0, 3, lambda _, y: 2 * y, x)
        watched.append("__getattribute__" in vars(eo.nn.Module))
        return x

    assert eo.compile(f)(eo.ones(())).item() == 8.0
    assert watched == [True]


def test_hooks_of_a_parameter_come_and_go():
    w = parameter(1.0, 1.0)

    @eo.compile
    def step():
        w.grad = None
        (w * 3).sum().backward()
        return w.grad

    assert step().tolist() == [3.0, 3.0]
    handle = w.register_hook(lambda g: g * 2)
    assert step().tolist() == [6.0, 6.0]
    with w.register_hook(lambda g: g + 1):
        assert step().tolist() == [7.0, 7.0]
    assert step().tolist() == [6.0, 6.0]
    handle.remove()
    assert step().tolist() == [3.0, 3.0]
    assert step.cache_info().misses == 3


def test_a_hook_takes_the_place_of_another():
    w = parameter(1.0)
    step = eo.compile(lambda: eo.autograd.grad((w * 3).sum(), [w])[0])
    handle = w.register_hook(lambda g: g * 2)
    assert step().tolist() == [6.0]
    handle.remove()
    w.register_hook(lambda g: g * 5)
    assert step().tolist() == [15.0]


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_of_a_module_come_and_go(kind):
    layer = Twice()
    f = eo.compile(lambda x: layer(x))
    assert f(X).tolist() == [2.0, 4.0]
    last = (lambda args: args[0]) if "pre" in kind else (lambda output: output)
    handle = getattr(layer, kind)(lambda *given: last(given[-1]) * 10)
    assert f(X).tolist() == [20.0, 40.0]
    handle.remove()
    assert f(X).tolist() == [2.0, 4.0]


def test_a_hook_of_a_module_that_is_an_argument_goes_and_is_replaced():
    layer, f = Twice(), eo.compile(lambda model, x: model(x))
    handle = layer.register_forward_hook(lambda module, args, output: output * 10)
    assert f(layer, X).tolist() == [20.0, 40.0]
    handle.remove()
    assert f(layer, X).tolist() == [2.0, 4.0]
    layer.register_forward_hook(lambda module, args, output: output + 1)
    assert f(layer, X).tolist() == [3.0, 5.0]


# ---- settings that change in place


@dataclasses.dataclass
class Options:
    factor: float = 1.0


@dataclasses.dataclass(slots=True)
class Packed:
    factor: float = 1.0


class Settings(eo.nn.Module):
    """Computes ``x * k``, where the number k is found in a setting."""

    def __init__(self, held, find):
        super().__init__()
        self.held, self.find = held, find

    def forward(self, x):
        return x * self.find(self.held)


def cyclic():
    held = [1.0]
    held.append(held)
    return held


def to_five(held):
    held[0] = 5.0


SETTINGS = {
    "list": (lambda: [1.0], lambda h: h[0], to_five),
    "nested": (lambda: ([[1.0]],), lambda h: h[0][0][0], lambda h: to_five(h[0][0])),
    "dict": (lambda: {"k": 1.0}, lambda h: h["k"], lambda h: h.update(k=5.0)),
    "named": (lambda: OrderedDict(k=1.0), lambda h: h["k"], lambda h: h.update(k=5.0)),
    "deque": (lambda: deque([1.0]), lambda h: h[0], to_five),
    "set": (lambda: {1}, sum, lambda h: h.add(4)),
    "bytes": (lambda: bytearray([1]), lambda h: h[0], lambda h: h.__setitem__(0, 5)),
    "array": (lambda: np.ones(1), lambda h: h[0], to_five),
    "objects": (lambda: np.array([1.0], object), lambda h: h[0], to_five),
    "dataclass": (Options, lambda h: h.factor, lambda h: setattr(h, "factor", 5.0)),
    "slots": (Packed, lambda h: h.factor, lambda h: setattr(h, "factor", 5.0)),
    "namespace": (lambda: SimpleNamespace(a=1.0), lambda h: h.a, lambda h: setattr(h, "a", 5.0)),
    "cyclic": (cyclic, lambda h: h[1][0], to_five),
}


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("given", [True, False], ids=["argument", "captured"])
def test_a_setting_that_changes_in_place_is_another_program(kind, given):
    make, find, change = SETTINGS[kind]
    model = Settings(make(), find)
    compiled = eo.compile(lambda model, x: model(x)) if given else eo.compile(lambda x: model(x))

    def f(x):
        return compiled(model, x) if given else compiled(x)

    for _ in range(2):
        assert f(X).tolist() == [1.0, 2.0]
    change(model.held)
    for _ in range(2):
        assert f(X).tolist() == [5.0, 10.0]
    assert compiled.cache_info() == (2, 2, 2)
    model.held = make()
    assert f(X).tolist() == [1.0, 2.0]
    assert compiled.cache_info() == (3, 2, 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0.0], [-0.0]),
        ([1], [1.0]),
        ([1], [True]),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(1), np.zeros(1, np.int64)),
        (np.array([0.0]), np.array([-0.0])),
        ([1.0, 2.0], [1.0]),
        ({1}, frozenset({1})),
        (Options(), Packed()),
    ],
    ids=repr,
)
def test_settings_that_differ_are_told_apart(before, after):
    before, after = kept(before), kept(after)
    assert same_setting(before, before)
    assert not same_setting(before, after)
    assert not same_setting(after, before)


@pytest.mark.parametrize(
    "make", [*(row[0] for row in SETTINGS.values()), lambda: [float("nan")], lambda: np.float32(2)]
)
def test_settings_that_mean_the_same(make):
    assert same_setting(kept(make()), kept(make()))


def test_a_setting_moves_from_one_module_to_another():
    class Pair(eo.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = eo.nn.Module(), eo.nn.Module()

        def forward(self, x):
            return x * getattr(self.first, "factor", 1.0) - getattr(self.second, "factor", 1.0)

    model, f = Pair(), eo.compile(lambda model, x: model(x))
    model.first.factor = 3.0
    assert f(model, X).tolist() == [2.0, 5.0]
    del model.first.factor
    model.second.factor = 3.0
    assert f(model, X).tolist() == [-2.0, -1.0]


# ---- classes


def test_a_method_that_an_instance_gets():
    model = Twice()
    f = eo.compile(lambda x: model(x))
    assert f(X).tolist() == [2.0, 4.0]
    model.forward = lambda x: x * 7
    assert f(X).tolist() == [7.0, 14.0]
    del model.forward
    assert f(X).tolist() == [2.0, 4.0]
    assert f.cache_info().misses == 2


def test_a_module_of_another_class():
    class Thrice(Twice):
        def forward(self, x):
            return x * 3

    model = Twice()
    f = eo.compile(lambda x: model(x))
    assert f(X).tolist() == [2.0, 4.0]
    model.__class__ = Thrice
    assert f(X).tolist() == [3.0, 6.0]


def test_what_a_class_holds_is_read_at_each_call():
    class Base(eo.nn.Module):
        factor = 2.0

        @classmethod
        def number(cls):
            return cls.factor

        def forward(self, x):
            return x * self.factor * self.number()

    class Derived(Base):
        pass

    model = Derived()
    f = eo.compile(lambda x: model(x))
    for _ in range(2):
        assert f(X).tolist() == [4.0, 8.0]
    assert f.cache_info().misses == 1
    Base.factor = 3.0
    assert f(X).tolist() == [9.0, 18.0]
    Derived.factor = 1.0
    assert f(X).tolist() == [1.0, 2.0]
    Derived.forward = lambda self, x: x * 5
    assert f(X).tolist() == [5.0, 10.0]


def test_a_list_of_a_class_that_changes_in_place():
    class Model(eo.nn.Module):
        factors = [2.0]  # noqa: RUF012

        def forward(self, x):
            return x * self.factors[0]

    model = Model()
    f = eo.compile(lambda x: model(x))
    for _ in range(2):
        assert f(X).tolist() == [2.0, 4.0]
    assert f.cache_info().misses == 1
    Model.factors[0] = 3.0
    assert f(X).tolist() == [3.0, 6.0]


def test_slots_of_a_module_are_read_at_each_call():
    class Slots:
        __slots__ = ("factor",)

    class Model(eo.nn.Module, Slots):
        def forward(self, x):
            return x * getattr(self, "factor", 1.0)

    model = Model()
    f = eo.compile(lambda x: model(x))
    assert f(X).tolist() == [1.0, 2.0]
    for _ in range(2):
        model.factor = 2.0
        assert f(X).tolist() == [2.0, 4.0]
    assert f.cache_info().misses == 2


# ---- arguments


def test_the_items_of_a_dict_come_in_the_order_of_the_caller():
    f = eo.compile(lambda d: eo.stack(list(d.values())))
    a, b = eo.asarray(1.0), eo.asarray(2.0)
    for _ in range(2):
        assert f({"x": a, "y": b}).tolist() == [1.0, 2.0]
        assert f({"y": b, "x": a}).tolist() == [2.0, 1.0]
        assert f({"y": a, "x": b}).tolist() == [1.0, 2.0]
    g = eo.compile(lambda **named: eo.stack(list(named.values())))
    assert (g(x=a, y=b).tolist(), g(y=b, x=a).tolist()) == ([1.0, 2.0], [2.0, 1.0])
    doubled = eo.compile(lambda d: {k: v * 2 for k, v in d.items()})
    assert [list(doubled(d)) for d in ({"x": a, "y": b}, {"y": b, "x": a})] == [["x", "y"], ["y", "x"]]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_module_that_is_an_argument_is_the_one_that_is_given(change):
    model, f = Scaled(), eo.compile(lambda model, x: model(x))
    assert f(model, X).tolist() == [6.0, 12.0]
    change(model)
    for _ in range(2):
        assert f(model, X).tolist() == CHANGES[change]
    assert f(Scaled(scale=4.0), X).tolist() == [12.0, 24.0]


def test_the_mode_of_a_module_that_is_an_argument():
    model, f, x = eo.nn.Dropout(0.5), eo.compile(lambda model, x: model(x)), eo.ones(64)
    for training in (True, False, True, False):
        dropped = (f(model.train(training), x) == 0).sum().item()
        assert 0 < dropped < 64 if training else dropped == 0
    assert f.cache_info().misses == 2


def test_a_buffer_of_an_argument_that_is_written_has_changed():
    class Mean(eo.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", eo.zeros(2, dtype=eo.float64))

        def forward(self, x):
            self.mean[...] = self.mean * 0.5 + x
            return self.mean * 2

    model, f = Mean(), eo.compile(lambda model, x: (model(x), model))
    for wanted in ([1.0, 2.0], [1.5, 3.0]):
        y, returned = f(model, X)
        assert y.tolist() == [2 * w for w in wanted]
        assert (model.mean.tolist(), returned.mean.tolist()) == (wanted, wanted)
    assert f.cache_info().misses == 1


def test_models_of_one_kind_are_one_program():
    f = eo.compile(eo.grad(lambda model, x: model(x).sum()))
    for weight in (1.0, 2.0):
        gradient = f(Scaled(weight=weight, shift=weight), X)
        assert (gradient.weight.tolist(), gradient.scale) == ([6.0], 2.0)
        assert gradient.shift.tolist() == [weight]
    assert f.cache_info().misses == 1
