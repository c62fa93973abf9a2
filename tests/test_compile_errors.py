"""What compiled functions refuse, print and raise, in other threads too."""

import importlib
import math
import threading

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import native
from everyo.errors import CompileError, DTypeError, EveryOError, IndexingError
from tests.compiling import agree, call_during_a_call, same, tensor

# ---- errors


def line_of(text):
    """Return the number of the line of this file that ends with a mark."""
    with open(__file__) as source:
        return next(i for i, line in enumerate(source, 1) if line.rstrip().endswith("# " + text))


def test_branching_on_a_value_names_the_line():
    def f(x):
        if x.sum() > 0:  # branch
            return x
        return -x

    with pytest.raises(CompileError) as error:
        eo.compile(f)(tensor(3))
    text = str(error.value)
    assert f"test_compile_errors.py:{line_of('branch')}" in text
    for part in ("bool", "eo.where", "eo.cond", "static_argnums"):
        assert part in text


@pytest.mark.parametrize(
    "read", [lambda x: x.item(), lambda x: float(x), lambda x: int(x), lambda x: x.tolist()]
)
def test_asking_for_a_value_names_the_remedy(read):
    with pytest.raises(CompileError, match=r"debug_print[\s\S]*test_compile_errors.py"):
        eo.compile(lambda x: x * read(x.sum()))(tensor(3))


def counted(n):
    total = 0
    for i in range(n):
        total = total + i
    return total


def halved(x):
    while not x < 1:
        x = x / 2
    return x


def checked(x):
    assert x > 0
    return x


@pytest.mark.parametrize(
    ("function", "argument", "operation", "remedy"),
    [
        (
            counted,
            3,
            "index",
            r"write eo\.fori_loop\(0, n, body, state\) in place of the loop over range\(n\)",
        ),
        (lambda n: list(range(2, n)), 3, "index", r"write eo\.fori_loop\(2, n, body, state\)"),
        (lambda n: list(range(0, n, 2)), 3, "index", r"write eo\.while_loop in place of the loop"),
        (lambda n: eo.zeros(n), 3, "index", r"mark the argument in static_argnums"),
        (lambda x: x * float(x), 3.0, "float", r"leave float\(\) out"),
        (lambda x: x * int(x), 3.0, "int", r"write x\.astype\(eo\.int64\) in place of int\(x\)"),
        (lambda x: x * x.item(), 3.0, "item", r"leave item\(\) out"),
        (lambda x: x * math.sin(x), 3.0, "float", r"write eo\.sin in place of math\.sin"),
        (lambda x: x if x > 0 else -x, 3.0, "bool", r"use eo\.where, eo\.cond with a function for each"),
        (lambda x: x * bool(x > 0), 3.0, "bool", r"leave bool\(\) out"),
        (lambda x: max(x, 1.0), 3.0, "bool", r"write eo\.maximum in place of max"),
        (halved, 3.0, "bool", r"use eo\.while_loop\(condition, body, state\)"),
        (checked, 3.0, "bool", r"leave the assertion out"),
        (lambda x: f"{x:.3f}", 3.0, "format", r"write eo\.debug_print\('\{\}', x\)"),
        (lambda x: "%.3f" % x, 3.0, "float", r"write eo\.debug_print\('\{\}', x\)"),  # noqa: UP031
    ],
)
def test_the_remedy_is_first_what_fits_the_statement(function, argument, operation, remedy):
    with pytest.raises(CompileError, match=rf"^{operation}: (.|\n)*remedy: +{remedy}") as error:
        eo.compile(function)(eo.tensor(argument))
    assert "test_compile_errors.py" in error.value.line


def test_the_remedies_run():
    loop = eo.compile(lambda n: eo.fori_loop(0, n, lambda i, total: total + i, 0))
    assert loop(eo.tensor(4)).item() == counted(4)
    assert eo.compile(counted, static_argnums=0)(4) is not None
    halving = eo.compile(lambda x: eo.while_loop(lambda x: x >= 1, lambda x: x / 2, x))
    assert halving(eo.tensor(3.0)).item() == halved(3.0)


def test_numpy_of_a_traced_value():
    with pytest.raises(CompileError):
        eo.compile(lambda x: x * x.numpy())(tensor(3))
    with pytest.raises((CompileError, TypeError)):
        eo.compile(lambda x: x * np.asarray(x))(tensor(3))


def test_what_the_function_has_written_down_has_a_value():
    def f(x):
        n = eo.tensor(3)
        if n > 2:
            x = x * n.item()
        return eo.repeat(x, 2)

    agree(eo.compile(f)(tensor(2)), f(tensor(2)))
    agree(eo.compile(lambda x: x * eo.tensor(3).item())(tensor(2)), tensor(2) * 3)


def test_an_operation_that_is_wrong_says_so_as_it_does_eagerly():
    def f(x, y):
        return x @ y

    with pytest.raises(EveryOError) as eager:
        f(tensor(2, 3), tensor(2, 3))
    with pytest.raises(type(eager.value)) as compiled:
        eo.compile(f)(tensor(2, 3), tensor(2, 3))
    assert str(compiled.value).splitlines()[0] == str(eager.value).splitlines()[0]


def test_a_number_that_does_not_fit_the_dtype():
    x = eo.asarray(np.array([1, 2], np.uint8))
    for f in (lambda x: x + 300, lambda x: x * -1):
        with pytest.raises((ArithmeticError, EveryOError)) as eager:
            f(x)
        with pytest.raises(type(eager.value)):
            eo.compile(f)(x)
    same(lambda x: eo.clip(x, -1, 300), x)


def test_an_index_outside_of_the_axis():
    x, inside, outside = tensor(4), eo.asarray(np.array([0, -4])), eo.asarray(np.array([0, 4]))
    f = eo.compile(lambda x, i: x[i])
    agree(f(x, inside), x[inside])
    with pytest.raises(IndexingError):
        f(x, outside)
    agree(f(x, inside), x[inside])


def test_the_message_names_the_axis_that_is_left():
    x, y = tensor(4), tensor(7)
    f = eo.compile(lambda x, y, i, j: x[i] + y[j])
    inside, outside = eo.asarray(np.array([3])), eo.asarray(np.array([7]))
    agree(f(x, y, inside, inside), x[inside] + y[inside])
    for places, length in (((outside, inside), 4), ((inside, outside), 7)):
        with pytest.raises(IndexingError, match=f"an index is outside of an axis of {length}"):
            f(x, y, *places)


TALL, AHEAD = np.ones((3, 1)), np.array([[0, 7]])
NO_ORDER = np.array([1.0, 3.0, 2.0])
# Kernels that a program calls, with operands that they refuse by their values.
REFUSED = {
    "take_along_axis": (lambda x, i: np.take_along_axis(x, i, axis=0), (TALL, AHEAD)),
    "unravel_index": (lambda i: np.unravel_index(i, (2, 2))[0], (AHEAD[0],)),
    "ravel_multi_index": (lambda i: np.ravel_multi_index((i, i), (2, 2)), (AHEAD[0],)),
    "digitize": (np.digitize, (np.ones(2), NO_ORDER)),
    "histogram": (lambda x, b: np.histogram(x, b)[0], (np.ones(3), NO_ORDER)),
    "histogram of NaN": (lambda x: np.histogram(x)[0], (np.array([0.0, np.nan]),)),
    "NaN among edges": (lambda x, b: np.histogram(x, b)[0], (np.ones(3), np.array([0.0, np.nan, 2.0]))),
    "weighted histogram": (lambda x, b: np.histogram(x, b, weights=x)[0], (np.ones(3), NO_ORDER)),
    "complex": (lambda x, i: np.take_along_axis(x * 1j, i, axis=0), (TALL, AHEAD)),
    "gradient": (lambda x, i: eo.grad(lambda x: np.take_along_axis(x, i, 0).sum())(x), (TALL, AHEAD)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_kernel_refuses_is_told_as_it_is_eagerly(name):
    f, arrays = REFUSED[name]
    operands = [eo.asarray(a) for a in arrays]
    with pytest.raises(EveryOError) as eager:
        f(*operands)
    compiled = eo.compile(f)
    for _ in range(2):
        with pytest.raises(type(eager.value)) as raised:
            compiled(*operands)
        assert raised.value.message == eager.value.message
        assert raised.value.operation in (eager.value.operation, "scatter_add")  # the gradient of a reading
        assert raised.value.remedy == eager.value.remedy
        assert "test_compile_errors.py" in raised.value.line
        assert "test_compile_errors.py" in str(raised.value)


def test_a_value_that_outlives_its_trace_is_refused():
    kept = [1.0]
    with pytest.raises(CompileError, match="a computed tensor in item 1 of a list"):
        eo.compile(lambda x: kept.append(x * 2) or x)(tensor(2))
    assert kept == [1.0]


def test_without_the_extra(monkeypatch):
    real = importlib.import_module

    def missing(name, *args):
        if name.split(".")[0] == "llvmlite":
            raise ImportError("No module named 'llvmlite'")
        return real(name, *args)

    monkeypatch.setattr(native.importlib, "import_module", missing)
    with pytest.raises(CompileError) as error:
        eo.compile(lambda x: x)(tensor(2))
    assert "pip install -e '.[compile]' in EveryO's folder" in str(error.value)


# ---- printing


def test_without_scipy(monkeypatch):
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match="No module named 'scipy'"):
        native.require()


def test_a_call_during_a_call_has_memory_of_its_own():
    """As calls in several threads have: what the outer one keeps for later is still there."""

    def call(f, x, w):
        return f(x=x, w=w)  # arguments with names take the way through Python

    call_during_a_call(call, call, call)


def test_debug_print_shows_values_at_each_call(capsys):
    @eo.compile
    def f(x):
        eo.debug_print("x is {}", x)
        return x * 2

    f(eo.asarray([1.0, 2.0]))
    f(eo.asarray([3.0, 4.0]))
    assert capsys.readouterr().out == "x is [1. 2.]\nx is [3. 4.]\n"
    eo.grad(lambda x: f(x).sum())(eo.asarray([5.0, 6.0]))
    assert "x is [5. 6.]" in capsys.readouterr().out


def test_debug_print_shows_each_value_in_its_place(capsys):
    f = eo.compile(lambda x, y: eo.debug_print("{} {} {}", x, "word", y) or x)
    f(eo.asarray([1.0]), eo.asarray([2.0, 3.0]))
    assert capsys.readouterr().out == "[1.] word [2. 3.]\n"


def test_debug_print_shows_values_once_where_a_compiled_function_is_differentiated(capsys):
    @eo.compile
    def f(x):
        eo.debug_print("x is {}", x)
        return (x * x * eo.random.uniform(0.5, 0.5)).sum()

    x = eo.tensor([1.0, 2.0], requires_grad=True)
    calls = [
        lambda: eo.grad(f)(eo.asarray([1.0, 2.0])),
        lambda: eo.value_and_grad(f)(eo.asarray([1.0, 2.0])),
        lambda: eo.jvp(f, (eo.asarray([1.0, 2.0]),), (eo.ones(2),)),
        lambda: f(x).backward(),
        lambda: eo.compile(eo.grad(f))(eo.asarray([1.0, 2.0])),
        lambda: eo.hvp(f, eo.asarray([1.0, 2.0]), eo.ones(2)),
    ]
    for call in calls * 2:
        call()
        assert capsys.readouterr().out == "x is [1. 2.]\n"


def test_debug_print_in_a_loop_shows_each_step_once_where_it_is_differentiated(capsys):
    def step(h, number):
        eo.debug_print("step {}", number)
        return h * h, None

    f = eo.compile(lambda x: eo.cond(x > 0, lambda x: eo.scan(step, x, eo.arange(3))[0], lambda x: x, x))
    for _ in range(2):
        assert eo.grad(f)(eo.asarray(2.0)).item() == 8 * 2.0**7
        assert capsys.readouterr().out.split() == ["step", "0", "step", "1", "step", "2"]


def test_debug_print_keeps_its_order(capsys):
    @eo.compile
    def f(x):
        eo.debug_print("first {}", x)
        y = eo.sin(x)
        eo.debug_print("second {}", y * 0)
        eo.debug_print("third")
        return y

    f(eo.asarray([0.0]))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "third" not in line] == ["first [0.]", "second [0.]"]


# ---- threads


def run_in_threads(work, count=8):
    failures, barrier = [], threading.Barrier(count)

    def run(i):
        barrier.wait()
        try:
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_threads_call_one_compiled_function():
    w = tensor(20, 20, seed=5)
    f = eo.compile(lambda x: eo.softmax(eo.sort(eo.tanh(x @ w) @ w, axis=0), axis=1).cumsum(axis=0))

    def work(i):
        x = tensor(30, 20, seed=i)
        wanted = f.f(x)
        for _ in range(30):
            agree(f(x), wanted, f"thread {i}")

    run_in_threads(work)


def test_an_exception_in_one_thread_stays_there():
    x = tensor(4)
    f = eo.compile(lambda x, i: x[i] * 2)

    def work(i):
        position = eo.asarray(np.array([i]))
        for _ in range(20):
            if i < 4:
                assert f(x, position).tolist() == [x[i].item() * 2]
            else:
                with pytest.raises(IndexingError):
                    f(x, position)

    run_in_threads(work)


def test_a_python_exception_in_one_thread_stays_there():
    class Picky:
        def __format__(self, spec):
            raise ValueError(str(threading.get_ident()))

    picky = Picky()

    @eo.compile
    def f(x):
        eo.debug_print("{}{}", picky, x)
        return x

    def work(i):
        for _ in range(20):
            with pytest.raises(ValueError, match=str(threading.get_ident())):
                f(eo.asarray([1.0 * i]))

    run_in_threads(work)


@pytest.mark.parametrize("what", [3, eo.ones(2), "f", [abs]], ids=["int", "tensor", "str", "list"])
@pytest.mark.parametrize("compiler", [eo.compile, eo.jit, eo.compile(threads=1)])
def test_only_functions_compile(compiler, what):
    with pytest.raises(eo.ArgumentError, match="must be a function") as error:
        compiler(what)
    assert type(what).__name__ in error.value.found


ARRAYS = {
    "masked": np.ma.array([1.0, 2.0], mask=[False, True]),
    "objects": np.array([1.0, None]),
    "texts": np.array(["a", "b"]),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "records": np.zeros(2, [("a", np.float32)]),
    "text": np.str_("a"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_eager_code_refuses_are_refused(name):
    array = ARRAYS[name]
    for call in (
        lambda: eo.asarray(array),
        lambda: eo.compile(lambda x: x)(array),
        lambda: eo.compile(lambda x: x["a"] * 2)({"a": array}),
    ):
        with pytest.raises(DTypeError):
            call()
    assert eo.compile(lambda x: x * 2)(np.ones(2).view(np.recarray)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: eo.ones(x.sum()), "ones: a shape consists of integers"),
        (lambda x: eo.roll(x, x.sum()), "roll: shift must be an integer"),
        (lambda x: eo.sum(x, axis=x[0]), "sum: an axis must be an integer"),
    ],
)
def test_an_error_tells_of_a_computed_tensor_without_printing_it(f, message):
    with pytest.raises(DTypeError, match=message) as caught:
        eo.compile(f)(eo.ones(3))
    assert "tensor(..., dtype=float32, shape=())" in str(caught.value)
    with pytest.raises(CompileError, match="print"):
        eo.compile(lambda x: print(x))(eo.ones(3))


def test_debug_print_in_a_loop_prints_once_where_derivatives_compute_its_values_again(capsys):
    def f(q):
        def body(i, c):
            eo.debug_print("{}", c)
            return c * c

        return eo.fori_loop(0, 2, body, q)

    for g in (eo.grad(f), eo.hessian(f), lambda q: eo.jvp(f, (q,), (q,))[1]):
        eo.compile(g)(eo.asarray(0.5))
        assert capsys.readouterr().out == "0.5\n0.25\n"


def test_a_parameter_that_is_made_inside():
    x = eo.ones(3)

    def made(x):
        return (eo.nn.Parameter([1.0, 2.0, 3.0]) * x).sum()

    def module(x):
        return eo.nn.Linear(3, 2)(x).sum()

    for f in (made, module):
        with pytest.raises(eo.GraphStateError, match=r"^Parameter: (.|\n)*remedy: +make it, or its module"):
            eo.compile(f)(x)
    with pytest.raises(eo.GraphStateError, match=r"^Parameter: "):
        eo.jvp(lambda x: eo.nn.Parameter(x) * 2, (x,), (x,))
    p = eo.nn.Parameter([1.0, 2.0, 3.0])
    eo.compile(lambda x: (p * x).sum())(x).backward()
    assert p.grad.tolist() == [1.0, 1.0, 1.0]
    fixed = eo.compile(eo.grad(lambda x: (eo.asarray(x) * x).sum()))
    assert fixed(x).tolist() == [2.0, 2.0, 2.0]


def test_methods_of_numbers_that_only_a_program_knows():
    whole = eo.compile(lambda x, a: eo.where(a.is_integer(), x * a, -x))
    for a in (2.0, 2.5, -3.0, float("inf"), float("nan")):
        assert whole(eo.ones(1), a).tolist() == ([eo.ones(1).item() * a] if a.is_integer() else [-1.0]), a
    with pytest.raises(eo.CompileError, match=r"eo\.where, eo\.cond"):
        eo.compile(lambda x, a: x if a.is_integer() else -x)(eo.ones(2), 2.0)
    for call in (lambda x, a: x * a.bit_length(), lambda x, a: a.hex()):
        with pytest.raises(AttributeError, match="in EveryO: mark the argument in static_argnums"):
            eo.compile(call)(eo.ones(2), 2)
    assert eo.compile(lambda x, a: x * a.bit_length(), static_argnums=1)(eo.ones(1), 4).tolist() == [3.0]
