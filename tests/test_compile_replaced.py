"""States that are replaced where they lie: when that is done, and that nobody notices."""

import operator
import signal
import threading

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import program, states
from everyo.errors import ArgumentError, IndexingError
from tests.compiling import agree, array

N = 10_000  # elements from which on it is done: see everyo.compiler.states


def state(*shape, seed=0):
    """Return a tensor that alone holds its array."""
    made = eo.zeros(shape or N, dtype=eo.float64)
    made += array(*(shape or (N,)), seed=seed)
    return made


def kernels(f, *args):
    return eo.compile.inspect(f)(*args).kernels


def over(f, *args):
    """Return how many results of the compiled function are written over what was there."""
    return kernels(f, *args).count(", stored over ")


def test_a_state_stays_where_it_is():
    c = state()
    start, place = np.array(c.numpy()), id(c.data)

    @eo.compile
    def step(x):
        c.__imul__(0.5)
        c.__iadd__(x)
        return c.sum()

    wanted = start
    for _ in range(3):
        found = step(1.0)
        wanted = 0.5 * wanted + 1
        np.testing.assert_allclose(c.numpy(), wanted, 1e-12)
        np.testing.assert_allclose(found.item(), wanted.sum(), 1e-12)
        assert id(c.data) == place
    assert over(step, 1.0) == 1


def test_a_state_of_short_rows_is_changed_once():
    """Vectors do not fit into its rows; where they overlap nothing must be read after it is written."""
    c, count = state(250, 20), state(250)
    wanted = 0.5 * c.numpy()

    def step():
        c.__imul__(0.5)
        count.__iadd__(1)

    assert over(step) == 1
    assert "nest 0, loop over 20" in kernels(step)
    eo.compile(step)()
    np.testing.assert_array_equal(c.numpy(), wanted)


def test_a_program_with_constants_replaces_its_state():
    a, line = state(), array(N, seed=7)
    step = eo.compile(lambda: a.__iadd__(line) * 1)
    wanted, place = np.array(a.numpy()), id(a.data)
    for _ in range(3):
        step()
        wanted += line
        np.testing.assert_array_equal(a.numpy(), wanted)
    assert id(a.data) == place


def test_a_state_that_is_a_view():
    whole = array(2 * N)
    a = eo.zeros(N, dtype=eo.float64)
    a.data = whole[:N]
    before = np.array(whole)
    step = eo.compile(lambda: a.__iadd__(1) * 1)
    step()
    np.testing.assert_array_equal(whole, before)
    np.testing.assert_array_equal(a.numpy(), before[:N] + 1)


def test_the_state_of_an_optimizer_stays_where_it_is():
    w = eo.nn.Parameter(state())
    optimizer = eo.optim.Adam([w])

    @eo.compile
    def step():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        return loss

    step()
    kept = optimizer.state[w]
    places = {name: id(kept[name]) for name in ("exp_avg", "exp_avg_sq")}
    step()
    assert {name: id(kept[name]) for name in places} == places


def test_small_states_are_copied():
    c = state(100)
    assert over(lambda: c.__iadd__(1) * 1) == 0


HELD = {
    "an array": lambda c: c.numpy(),
    "a view": lambda c: c.numpy()[3:],
    "a tensor": lambda c: c.detach(),
    "a list": lambda c: [c.data],
    "a buffer": lambda c: memoryview(c.data),
}


@pytest.mark.parametrize("held", HELD)
def test_what_others_hold_keeps_its_value(held):
    c = state()
    step = eo.compile(lambda: c.__iadd__(1) * 1)
    step()
    before = np.array(c.numpy())
    holder = HELD[held](c)
    step()
    seen = holder[0] if isinstance(holder, list) else holder
    seen = seen.numpy() if isinstance(seen, eo.Tensor) else np.asarray(seen)
    np.testing.assert_array_equal(seen, before[-len(seen) :])
    np.testing.assert_array_equal(c.numpy(), before + 1)


def test_a_graph_of_eager_code_keeps_its_value():
    w = eo.nn.Parameter(state())
    optimizer = eo.optim.SGD([w], lr=1.0)

    @eo.compile
    def step():
        optimizer.zero_grad()
        loss = (w * 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step()
    before = np.array(w.detach().numpy())
    square = (w * w).sum()
    step()
    w.grad = None
    square.backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2 * before)
    np.testing.assert_array_equal(w.detach().numpy(), before - 2)


def test_two_states_with_one_array():
    a = state()
    b = eo.zeros(N, dtype=eo.float64)
    b.data = a.data
    step = eo.compile(lambda: a.__iadd__(b) * 1)
    before = np.array(b.numpy())
    step()
    np.testing.assert_array_equal(b.numpy(), before)
    np.testing.assert_array_equal(a.numpy(), 2 * before)


def test_an_argument_that_is_the_array_of_a_state():
    a = state()
    step = eo.compile(lambda x: a.__iadd__(x) * 1)
    before = np.array(a.numpy())
    x = a.detach()
    step(x)
    np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_array_equal(a.numpy(), 2 * before)


def exchanged(a, b):
    old = a * 1
    a[...] = b * 2
    b[...] = old * 3
    return a.sum()


def turned(a, b):
    a[...] = a + a[::-1]
    return b.sum()


def read_later(a, b):
    old = a * 1
    a[...] = a + 1
    return (old[::-1] * b).sum() + eo.sin(old[: N // 2]).sum()


def read_after(a, b):
    old = a * 1
    a[...] = a + 1
    return old * a.sum()


def sorted_later(a, b):
    a[...] = a + 1
    return eo.sort(b + a)


def shifted(a, b):
    old = a * 1
    a[1:] = old[:-1] + b[1:]
    return a * 2


def shifted_dearly(a, b):
    old = a * 1
    a[1:] = eo.exp(-old[:-1]) + b[1:]
    return a * 2


def computed_again(a, b):
    old = a * 2
    total = old.sum()
    a[...] = a + total
    return old[::-1] * total + b


def of_a_sum(a, b):
    a[...] = a - a.mean()
    return b.sum()


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (exchanged, 2),
        (turned, 0),
        (read_later, 0),
        (read_after, 0),
        (sorted_later, 0),
        (shifted, 0),  # the sums are computed where they are written
        (shifted_dearly, 1),
        (computed_again, 0),
        (of_a_sum, 1),
    ],
)
def test_who_reads_the_old_state(f, count):
    a, b = state(), state(seed=1)
    assert over(lambda: f(a, b)) == count
    step = eo.compile(lambda: f(a, b))
    x, y = (eo.asarray(np.array(s.numpy())) for s in (a, b))
    for _ in range(3):
        agree([step(), a, b], [f(x, y), x, y], f.__name__, ulps=1000)


@pytest.mark.parametrize("rows", [20, 300])
def test_rows_that_are_normalized(rows):
    a, b = state(rows, N // rows), state(rows, N // rows, seed=1)

    def f(a, b):
        a[...] = a - eo.mean(a, axis=1, keepdims=True)
        b[...] = b + eo.softmax(b, axis=1)
        return (a * a).sum()

    step = eo.compile(lambda: f(a, b))
    x, y = (eo.asarray(np.array(s.numpy())) for s in (a, b))
    for _ in range(3):
        agree([step(), a, b], [f(x, y), x, y], ulps=1000)


@pytest.mark.parametrize("fails", ["an index", "a function"])
def test_a_failure_leaves_the_old_state(fails):
    a, broken = state(), []

    class Shown:
        def __format__(self, spec):
            if broken:
                raise ValueError("enough")
            return ""

    @eo.compile
    def step(i, table):
        found = table[i]
        if fails == "a function":
            eo.debug_print("{}", Shown())
        a.__iadd__(1)
        return found

    table = eo.asarray(np.array([1.0, 2.0]))
    step(eo.asarray(1), table)
    before, place = np.array(a.numpy()), id(a.data)
    broken += [1] if fails == "a function" else []
    with pytest.raises(ValueError if broken else IndexingError):
        step(eo.asarray(0 if broken else 7), table)
    np.testing.assert_array_equal(a.numpy(), before)
    broken.clear()
    assert step(eo.asarray(0), table).item() == 1
    np.testing.assert_array_equal(a.numpy(), before + 1)
    assert id(a.data) == place


def test_a_failure_after_an_update_in_the_text_of_the_function():
    a = state()

    @eo.compile
    def step(x):
        a.__iadd__(x)
        return eo.linalg.cholesky(eo.ones((2, 2)) - 2 * a.sum() * eo.eye(2))

    before = np.array(a.numpy())
    with pytest.raises(Exception, match="definite"):
        step(1.0)
    np.testing.assert_array_equal(a.numpy(), before)


class Interrupted(BaseException):
    pass


def interrupt(*_):
    raise Interrupted


@pytest.fixture
def alarm():
    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def adam():
    """Return a compiled step of an optimizer of two parameters, one large, and what it has made."""
    parameters = [eo.tensor(array(n, seed=n), requires_grad=True) for n in (N, 3)]
    optimizer = eo.optim.Adam(parameters, lr=0.1)

    @eo.compile
    def step():
        optimizer.zero_grad()
        sum((p * p).sum() for p in parameters).backward()
        optimizer.step()

    return step, lambda: [*map(eo.Tensor.tolist, parameters), str(optimizer.state_dict())]


@pytest.mark.parametrize("slow", [0, 1, 3, 99], ids=["first", "second", "third", "last"])
def test_a_signal_finds_all_states_new_or_none(slow, alarm, monkeypatch):
    def interrupted(calls):
        calls = list(calls)
        calls.insert(min(slow, len(calls)), (operator.countOf, range(3_000_000), -1))  # takes 100 ms, finds 0
        alarm()
        return states.carry_out(calls)

    (step, made), (other, wanted) = adam(), adam()
    step()
    other()
    other()
    monkeypatch.setattr(program, "carry_out", interrupted)
    with pytest.raises(Interrupted):
        step()
    assert made() == wanted()


def test_a_read_only_argument_is_refused_before_anything_changes():
    c = state()

    @eo.compile
    def step(x):
        c.__iadd__(1.0)
        x += 1.0

    x = np.zeros(N)
    step(x)
    x.flags.writeable = False
    before = c.numpy().copy()
    with pytest.raises(ArgumentError, match="read-only"):
        step(x)
    np.testing.assert_array_equal(c.numpy(), before)
    np.testing.assert_array_equal(x, np.ones(N))


def test_threads_see_whole_states():
    a = eo.zeros(200_000, dtype=eo.float64)
    step = eo.compile(lambda: a.__iadd__(1) * 1, threads=2)
    step()
    torn, done = [], threading.Event()

    def look():
        while not done.is_set():
            seen = a.numpy()
            if seen[0] != seen[-1] or seen.min() != seen.max():
                torn.append(seen)

    def work():
        for _ in range(40):
            found = step().numpy()
            if found.min() != found.max():
                torn.append(found)

    readers = [threading.Thread(target=look) for _ in range(2)]
    workers = [threading.Thread(target=work) for _ in range(4)]
    for thread in [*readers, *workers]:
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not torn
    assert a.numpy().min() == a.numpy().max() <= 161


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_optimizers_replace_what_they_keep(optimizer):
    x, labels = eo.asarray(array(20, 80)), eo.asarray(np.arange(20) % 7)

    def run(compiled):
        eo.manual_seed(0)
        model = eo.nn.Sequential(eo.nn.Linear(80, 120), eo.nn.ReLU(), eo.nn.Linear(120, 7)).to(eo.float64)
        made = getattr(eo.optim, optimizer)(model.parameters(), lr=0.01)

        def step(x, labels):
            made.zero_grad()
            loss = eo.nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            made.step()
            return loss

        text = kernels(step, x, labels) if compiled else ""
        step = eo.compile(step) if compiled else step
        losses = [step(x, labels) for _ in range(4)]
        return losses, [p.detach() for p in model.parameters()], text.count(", stored over ")

    found, wanted = run(True), run(False)
    agree(found[:2], wanted[:2], ulps=1e5)
    assert found[2] == {"SGD": 1}.get(optimizer, 3)


def test_a_step_under_a_tape_leaves_what_the_tape_keeps():
    a, w = state(), eo.asarray(np.full(N, 2.0)).requires_grad_()

    @eo.compile
    def f(w):
        out = (a * w).sum()
        with eo.no_grad():
            a.__iadd__(1)
        return out

    before = np.array(a.numpy())
    f(w).backward()
    np.testing.assert_array_equal(w.grad.numpy(), before)
    np.testing.assert_array_equal(a.numpy(), before + 1)
