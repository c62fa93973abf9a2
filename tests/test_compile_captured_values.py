"""What compiled functions do to captured tensors in place, and read of them as Python values."""

import copy
import pickle

import numpy as np
import pytest

import everyo as eo
from everyo.errors import CompileError
from tests.compiling import misses

# ---- in-place statements without a value of the trace


def captured(*values):
    return eo.asarray(np.array(values, np.float32))


VALUES = {
    "number": lambda b: 7.0,
    "0-d tensor": lambda b: eo.tensor(7.0),
    "array": lambda b: np.array([7.0, 7.0], np.float32),
    "captured": lambda b: b,
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("index", [..., slice(None), [0, 1]], ids=["all", "slice", "places"])
def test_an_assignment_is_made_at_each_call(name, index):
    a, b = captured(0, 0), captured(7, 7)

    @eo.compile
    def step():
        a[index] = VALUES[name](b)

    for _ in range(3):
        step()
        assert a.tolist() == [7.0, 7.0]
        a *= 0.0
    b += 1.0
    step()
    assert a.tolist() == ([8.0, 8.0] if name == "captured" else [7.0, 7.0])
    assert misses(step) == 1


def test_a_buffer_that_is_reset_first():
    total = captured(5, 5)

    @eo.compile
    def count(x):
        total[...] = 0.0
        total.__iadd__(x)
        return total * 1

    for _ in range(3):
        assert count(eo.ones(2)).tolist() == [1.0, 1.0]
        assert total.tolist() == [1.0, 1.0]


WRITERS = {
    "setitem": lambda a, b: a.__setitem__(0, 9.0),
    "copyto": np.copyto,
    "put": lambda a, b: np.put(a, [0, 1], b),
    "out": lambda a, b: np.add(b, 0.0, out=a),
    "zeros_": lambda a, b: eo.nn.init.zeros_(a),
    "uniform_": lambda a, b: eo.nn.init.uniform_(a),
}


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_has_changed_where_tracing_fails_or_only_looks(name):
    a, b = captured(1, 2), captured(3, 4)

    def failing():
        WRITERS[name](a, b)
        raise KeyError("later")

    with pytest.raises(KeyError, match="later"):
        eo.compile(failing)()
    assert a.tolist() == [1.0, 2.0]
    eo.compile.inspect(lambda: WRITERS[name](a, b))()
    assert a.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"uniform_"}))
def test_what_writes_into_a_tensor_does_so_at_each_call(name):
    a, b, wanted = captured(1, 2), captured(3, 4), captured(1, 2)
    step = eo.compile(lambda: [WRITERS[name](a, b), ()][1])
    for _ in range(3):
        step()
        WRITERS[name](wanted, b)
        assert a.tolist() == wanted.tolist()
        a += 1.0
        wanted += 1.0
        b *= 2.0
    assert misses(step) == 1


def test_initial_values_are_drawn_at_each_call():
    w = eo.nn.Parameter(eo.zeros(3))

    @eo.compile
    def again():
        eo.nn.init.uniform_(w, 1.0, 2.0)

    eo.manual_seed(4)
    found = [again() or w.tolist() for _ in range(2)]
    eo.manual_seed(4)
    wanted = [eo.random.uniform(1.0, 2.0, size=3).tolist() for _ in range(2)]
    assert found == wanted
    assert w.is_leaf
    assert w.requires_grad


def test_an_assignment_in_the_body_of_a_scan():
    def body(a, x):
        y = a.clone()
        y[0] = 0.0
        return y + x, y

    a, xs = captured(1, 2), eo.ones((3, 2))
    last, _ = eo.compile(lambda: eo.scan(body, a, xs))()
    assert last.tolist() == [1.0, 5.0]


def test_a_body_does_not_change_captured_tensors_once():
    a = captured(1, 2)

    def body(carry, x):
        a[0] = 9.0
        return carry + a, None

    with pytest.raises(eo.errors.EveryOError, match="in place"):
        eo.compile(lambda: eo.scan(body, eo.zeros(2), None, 3))()
    assert a.tolist() == [1.0, 2.0]


MADE = {
    "of arrays": lambda: eo.sin(np.zeros(2)),
    "of two arrays": lambda: eo.add(np.zeros(2), np.zeros(2)),
    "leaf": lambda: eo.zeros(2, requires_grad=True),
}


@pytest.mark.parametrize("name", MADE)
def test_what_the_function_makes_is_new_at_each_call(name):
    @eo.compile
    def f(x):
        y = MADE[name]()
        with eo.no_grad():
            y += x
            y[0] = 3.0
        return y.detach() * 1

    for _ in range(3):
        assert f(eo.ones(2)).tolist() == [3.0, 1.0]


# ---- gradients that become zeros


@pytest.mark.parametrize("owner", ["optimizer", "module"])
def test_gradients_become_zeros(owner):
    layer = eo.nn.Linear(2, 1, bias=False)
    optimizer = eo.optim.SGD(layer.parameters(), lr=0.0)
    clear = (optimizer if owner == "optimizer" else layer).zero_grad
    layer.weight.grad = eo.ones((1, 2))

    @eo.compile
    def step(x):
        layer(x).sum().backward()
        total = layer.weight.grad * 1
        clear(set_to_none=False)
        return total

    for wanted in ([3.0, 4.0], [2.0, 3.0], [2.0, 3.0]):
        assert step(eo.tensor([[2.0, 3.0]])).tolist() == [wanted]
        assert layer.weight.grad.tolist() == [[0.0, 0.0]]
        assert layer.weight.grad.dtype == eo.float32


# ---- captured tensors as Python values

READS = {
    "item": lambda n, x: x * n.item(),
    "float": lambda n, x: x * float(n),
    "int": lambda n, x: x * int(n),
    "bool": lambda n, x: x * 2 if n else x * 3,
    "tolist": lambda n, x: x * n.tolist(),
    "numpy": lambda n, x: x * n.numpy(),
    "asarray": lambda n, x: x * np.asarray(n),
    "format": lambda n, x: x * float(f"{n:.1f}"),
    "dlpack": lambda n, x: x * np.from_dlpack(n),
    "copy": lambda n, x: x * copy.copy(n),
    "deepcopy": lambda n, x: x * copy.deepcopy(n),
    "detach": lambda n, x: x * n.detach(),
}


@pytest.mark.parametrize("name", READS)
def test_a_captured_number_is_read_at_each_call(name):
    n, x = captured(0.0)[0], captured(1, 2)
    f = eo.compile(lambda x: READS[name](n, x))
    for value in (0.0, 5.0, 5.0, 0.0):
        n[...] = value
        assert f(x).tolist() == READS[name](n, x).tolist()
    assert misses(f) == (1 if name in ("copy", "deepcopy", "detach") else 2)


COUNTS = {
    "slice": lambda n, x: x[:n],
    "range": lambda n, x: sum(x[i] for i in range(n)),
    "roll": lambda n, x: eo.roll(x, n),
    "axis": lambda n, x: x.reshape((1, 2, 1, 3)).sum(axis=n),
    "arange": lambda n, x: eo.arange(n) + x.sum(),
    "eye": lambda n, x: eo.eye(n) * x[0],
    "repeat": lambda n, x: eo.repeat(x, n),
    "split": lambda n, x: eo.split(x, n)[0],
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_captured_count_is_read_at_each_call(name):
    n, x = eo.tensor(1), captured(1, 2, 3, 4, 5, 6)
    f = eo.compile(lambda x: COUNTS[name](n, x))
    for count in (1, 2, 3, 1):
        n[...] = count
        assert f(x).tolist() == COUNTS[name](n, x).tolist()


def test_a_count_that_the_function_changes_itself():
    count = eo.tensor(0)

    @eo.compile
    def step(x):
        value = x * count.item()
        count.__iadd__(1)
        return value

    assert [step(eo.tensor(1.0)).item() for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    assert misses(step) == 4


def test_a_count_that_changes_at_each_call_is_warned_of():
    count = eo.tensor(0)
    f = eo.compile(lambda x: x * count.item())
    for n in range(1, 9):
        count += 1
        assert f(eo.tensor(1.0)).item() == n
    count += 1
    with pytest.warns(UserWarning, match="compiled 9 times: what it reads outside keeps changing"):
        f(eo.tensor(1.0))


def test_a_count_that_has_changed_is_no_number():
    count = eo.tensor(0)

    @eo.compile
    def step(x):
        count.__iadd__(1)
        return x * count.item()

    with pytest.raises(CompileError, match="exists only when the compiled program runs"):
        step(eo.tensor(1.0))
    assert count.item() == 0


def test_not_a_number_and_zeros_are_told_apart():
    n = captured(np.nan)[0]
    f = eo.compile(lambda x: x * (1.0 if np.signbit(n.item()) else 2.0))
    for value, wanted in ((np.nan, 2.0), (np.nan, 2.0), (0.0, 2.0), (-0.0, 1.0)):
        n[...] = value
        assert f(eo.tensor(1.0)).item() == wanted
    assert misses(f) == 3


def test_a_gradient_that_is_read_as_a_number():
    w = eo.asarray(np.array([2.0])).requires_grad_()
    f = eo.compile(lambda x: x * w.grad.item())
    for slope in (1.0, 3.0, 3.0):
        w.grad = eo.asarray(np.array([slope]))
        assert f(eo.tensor(2.0)).item() == 2.0 * slope
    assert misses(f) == 2


def test_a_number_inside_a_transformation_of_the_function():
    n = eo.asarray(np.array(2.0))
    f = eo.compile(lambda x: eo.grad(lambda x: x * x * float(n))(x))
    assert f(eo.asarray(3.0)).item() == 12.0
    n += 1.0
    assert f(eo.asarray(3.0)).item() == 18.0


def test_a_number_in_the_body_of_a_loop():
    n = eo.asarray(np.array(2.0))
    f = eo.compile(lambda x: eo.fori_loop(0, 3, lambda i, y: y * n.item(), x))
    for factor in (2.0, 3.0):
        n[...] = factor
        assert f(eo.tensor(1.0)).item() == factor**3


def test_a_number_that_a_transformation_around_differentiates():
    def outer(x):
        n = x * 2
        f = eo.compile(lambda y: y * n.item())
        return sum(f(eo.asarray(1.0)) for n[...] in (2.0, 5.0, 5.0))

    value, slope = eo.jvp(outer, (eo.asarray(1.0),), (eo.asarray(1.0),))
    assert (value.item(), slope.item()) == (12.0, 0.0)


def test_a_constant_around_a_body_has_a_value():
    def f(x):
        sizes = eo.arange(100)
        return eo.fori_loop(0, 2, lambda i, y: y + float(sizes.numpy().sum()), x)

    assert eo.compile(f)(eo.asarray(np.array(1.0))).item() == 9901.0


def test_several_results_of_arrays():
    def f(x):
        parts, wholes = eo.modf(np.array([1.5, 2.25]))
        wholes += x  # anew at each call
        return parts * 1, wholes

    compiled = eo.compile(f)
    for _ in range(2):
        parts, wholes = compiled(eo.asarray(np.array(2.0)))
        assert parts.tolist() == [0.5, 0.25]
        assert wholes.tolist() == [3.0, 4.0]


def test_a_derivative_with_respect_to_a_captured_number():
    n = eo.asarray(np.array(2.0))
    f = eo.compile(lambda x: x * eo.grad(lambda w: w * w.item())(n))
    for value in (2.0, 3.0):
        n[...] = value
        assert f(eo.asarray(1.0)).item() == value


def test_constants_of_the_function_have_values():
    f = eo.compile(lambda x: x * float(eo.arange(1000).numpy().sum()) * eo.sin(np.zeros(1000)).numpy().size)
    assert f(eo.asarray(np.array(1.0))).item() == 499500.0 * 1000


@pytest.mark.parametrize("name", ["tolist", "numpy", "__array__", "__dlpack__"])
def test_many_elements_are_no_python_values(name):
    a = eo.zeros(65)
    with pytest.raises(CompileError, match="elements of a tensor from outside") as error:
        eo.compile(lambda x: getattr(a, name)() and x)(eo.ones(2))
    assert "65 elements" in str(error.value)
    assert "a NumPy array is a constant" in str(error.value)


@pytest.mark.parametrize("show", [str, repr])
def test_a_captured_tensor_is_not_shown_once(show):
    a = captured(1)
    with pytest.raises(CompileError, match="debug_print"):
        eo.compile(lambda x: show(a) and x)(eo.ones(2))


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickle.dumps}


@pytest.mark.parametrize("name", COPIES)
def test_a_leaf_is_copied_outside(name):
    w = eo.nn.Parameter(eo.ones(2))
    with pytest.raises(CompileError, match="outside"):
        eo.compile(lambda x: x * COPIES[name](w))(eo.ones(2))


@pytest.mark.parametrize("name", ["copy", "deepcopy"])
def test_a_copy_is_apart_from_what_was_copied(name):
    a = captured(1, 2)

    @eo.compile
    def f(x):
        b = COPIES[name](a)
        b += x
        return b * 1

    for _ in range(2):
        assert f(eo.ones(2)).tolist() == [2.0, 3.0]
        assert a.tolist() == [1.0, 2.0]


# ---- states that are not tensors

GENERATOR = eo.random.Generator(1)
POSITION = GENERATOR.get_state()
SEEDS = {
    "manual_seed": lambda: eo.manual_seed(0),
    "seed of a generator": lambda: GENERATOR.manual_seed(0),
    "Generator": lambda: eo.random.Generator(0),
    "get_state": GENERATOR.get_state,
    "set_state": lambda: GENERATOR.set_state(POSITION),
}


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_set_outside(name):
    eo.manual_seed(3)
    before = str(eo.random.default_generator().get_state()), str(GENERATOR.get_state())

    @eo.compile
    def f():
        SEEDS[name]()
        return eo.random.normal(size=2)

    with pytest.raises(CompileError, match="make and seed generators outside"):
        f()
    assert (str(eo.random.default_generator().get_state()), str(GENERATOR.get_state())) == before


def test_a_state_dict_is_loaded_at_each_call():
    layer, other = eo.nn.Linear(2, 1), eo.nn.Linear(2, 1)

    @eo.compile
    def load(scale):
        layer.load_state_dict({"weight": scale * eo.ones((1, 2)), "bias": np.array([4.0])})

    for scale in (2.0, 3.0):
        load(eo.tensor(scale))
        assert layer.weight.tolist() == [[scale, scale]]
        assert layer.bias.tolist() == [4.0]
        assert layer.weight.dtype == eo.float32
        assert layer.weight.is_leaf
        assert layer.weight.requires_grad
    follow = eo.compile(lambda: layer.load_state_dict(other.state_dict()) and None)
    for value in (5.0, 6.0):
        with eo.no_grad():
            other.weight[...] = value
        follow()
        assert layer.weight.tolist() == other.weight.tolist() == [[value, value]]
        assert layer.bias.tolist() == other.bias.tolist()


def test_a_state_dict_that_does_not_fit_changes_nothing():
    layer = eo.nn.Linear(2, 1)
    before = layer.weight.tolist()
    wrong = {"weight": eo.ones((1, 2)), "bias": eo.ones(3)}
    with pytest.raises(eo.errors.SerializationError, match="shape of bias"):
        eo.compile(lambda: layer.load_state_dict(wrong))()
    assert layer.weight.tolist() == before


LAYER = eo.nn.Linear(2, 1)
OPTIMIZER = eo.optim.SGD([eo.nn.Parameter(eo.ones(2))], lr=0.1)
STATE = OPTIMIZER.state_dict()
OUTSIDE = {
    "to": lambda: LAYER.to(eo.float64),
    "optimizer.state_dict": OPTIMIZER.state_dict,
    "optimizer.load_state_dict": lambda: OPTIMIZER.load_state_dict(STATE),
    "requires_grad_": lambda: LAYER.requires_grad_(False),
    "set_default_dtype": lambda: eo.set_default_dtype("float64"),
}


def test_a_leaf_of_the_function_may_stop_requiring_grad():
    def f(x):
        w = eo.ones(2, requires_grad=True).requires_grad_()
        (w * x).sum().backward()
        return w.grad * w.requires_grad_(False)

    assert eo.compile(f)(eo.asarray([2.0, 3.0])).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_no_operation_on_tensors_is_done_outside(name):
    with pytest.raises(CompileError, match="once, while the function is traced"):
        eo.compile(lambda: OUTSIDE[name]() and None)()
    assert LAYER.weight.dtype == eo.get_default_dtype() == eo.float32
    assert LAYER.weight.requires_grad
    assert OPTIMIZER.state == {}
