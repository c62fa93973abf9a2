"""Threads in compiled programs: split loops, the same bits on any number of threads, forks and exits."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import pool
from everyo.compiler.native import Code
from everyo.errors import ArgumentError, IndexingError

N = 400_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
ROWS = RNG.normal(size=(2000, 300))
CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
RUN = ctypes.CFUNCTYPE(None, ctypes.c_int64, CHUNK, ctypes.c_void_p, ctypes.c_int64)


def program(f):
    """Return what a compiled function has compiled last."""
    return list(f._entries.values())[-1][0].program


def chunks(f):
    """Return the numbers of chunks of a compiled function's kernels."""
    return [cut.chunks for body in program(f).module.bodies for cut in body.splits.values()]


def softmax(x):
    x = np.exp(x - x.max(1, keepdims=True))
    return x / x.sum(1, keepdims=True)


CASES = {
    "elementwise": (lambda x: eo.tanh(x) * x, lambda x: np.tanh(x) * x, X),
    "sum": (lambda x: eo.exp(x).sum(), lambda x: np.exp(x).sum(), X),
    "float32": (lambda x: eo.exp(x).sum(), lambda x: np.exp(x).sum(), np.tile(X, 4).astype(np.float32)),
    "mean": (lambda x: eo.sin(x).mean(), lambda x: np.sin(x).mean(), X),
    "max": (lambda x: eo.exp(x).max(), lambda x: np.exp(x).max(), X),
    "min with a NaN": (lambda x: eo.exp(x).min(), lambda x: np.exp(x).min(), np.r_[X, np.nan, X]),
    "product of integers": (lambda x: (2 * x + 1).prod(), lambda x: (2 * x + 1).prod(), np.arange(5 * N)),
    "products of rows": (lambda x: eo.exp(x).prod(axis=1), lambda x: np.exp(x).prod(axis=1), ROWS),
    "any": (lambda x: (eo.exp(x) > 80.0).any(), lambda x: (np.exp(x) > 80.0).any(), X),
    "all": (lambda x: (eo.exp(x) >= 0.0).all(), lambda x: (np.exp(x) >= 0.0).all(), X),
    "columns": (lambda x: eo.exp(x).sum(axis=0), lambda x: np.exp(x).sum(axis=0), ROWS),
    "rows": (lambda x: eo.exp(x).sum(axis=1), lambda x: np.exp(x).sum(axis=1), ROWS),
    "maxima of columns": (lambda x: eo.exp(x).max(axis=0), lambda x: np.exp(x).max(axis=0), ROWS),
    "softmax": (lambda x: eo.softmax(x, axis=1), softmax, ROWS),
    "argmax": (lambda x: eo.exp(x).argmax(axis=1), lambda x: np.exp(x).argmax(axis=1), ROWS),
    "products of a batch": (
        lambda x: eo.tanh(x.reshape(40, 50, 300) @ x.reshape(40, 300, 50)),
        lambda x: np.tanh(x.reshape(40, 50, 300) @ x.reshape(40, 300, 50)),
        ROWS,
    ),
    "parts that are joined": (
        lambda x: eo.exp(eo.concatenate([x[1:] * x[:-1], x[:1] + 1.0, eo.flip(x)])),
        lambda x: np.exp(np.concatenate([x[1:] * x[:-1], x[:1] + 1.0, np.flip(x)])),
        X,
    ),
    "integers": (
        lambda x: (x * x * x).sum(),
        lambda x: (x * x * x).sum(),
        RNG.integers(-(2**62), 2**62, 5 * N),  # wraps around, as in NumPy
    ),
    "gradient": (
        eo.grad(lambda x: (eo.sin(x) * eo.exp(x)).sum()),
        lambda x: np.exp(x) * (np.sin(x) + np.cos(x)),
        X,
    ),
    "several reductions": (
        lambda x: (eo.exp(x).sum(), eo.exp(x).max(), eo.exp(x) * 2),
        lambda x: (np.exp(x).sum(), np.exp(x).max(), np.exp(x) * 2),
        X,
    ),
}


def arrays(result):
    return [x.numpy() for x in result] if isinstance(result, tuple) else [result.numpy()]


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads_gives_the_same_bits(name):
    f, reference, x = CASES[name]
    wanted = reference(x)
    found = {}
    for threads in (1, 2, 3, 7):
        compiled = eo.compile(f, threads=threads)
        found[threads] = arrays(compiled(eo.asarray(x)))
        assert max(chunks(compiled)) > 1
        for one, other in zip(found[1], found[threads], strict=True):
            assert one.tobytes() == other.tobytes()
    for result, right in zip(found[1], wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(result, right, 1e-5 if x.dtype == np.float32 else 1e-11, 1e-13)


def test_the_program_does_not_depend_on_the_number_of_threads(monkeypatch):
    texts = set()
    for threads in ("1", "8"):
        monkeypatch.setenv(pool.VARIABLE, threads)
        compiled = eo.compile(lambda x: eo.exp(x).sum())
        compiled(eo.asarray(X))
        texts.add(program(compiled).module.text)
    assert len(texts) == 1


def test_small_work_is_not_split():
    compiled = eo.compile(lambda x: eo.exp(x).sum())
    compiled(eo.asarray(X[:5000]))
    assert not program(compiled).module.parallel
    compiled(eo.asarray(X))
    assert program(compiled).module.parallel


def test_a_product_of_floats_is_not_split_as_its_factors_have_an_order():
    compiled = eo.compile(lambda x: eo.exp(x * 1e-6).prod())
    found = compiled(eo.asarray(X)).numpy()
    assert not program(compiled).module.parallel
    np.testing.assert_allclose(found, np.exp(X * 1e-6).prod(), 1e-11)


def test_the_number_of_chunks_grows_with_the_cost():
    counts = []
    for f in (lambda x: x + 1, eo.exp, lambda x: eo.tanh(eo.sin(eo.exp(x)) ** 1.5)):
        compiled = eo.compile(f)
        compiled(eo.asarray(np.abs(X) + 1))
        counts.append(max(chunks(compiled), default=1))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] <= 64


def test_a_large_result_of_a_reduction_is_not_kept_in_many_copies():
    wide = np.ones((4, 300_000))
    compiled = eo.compile(lambda x: (x + 1).sum(axis=0))
    np.testing.assert_array_equal(compiled(eo.asarray(wide)).numpy(), np.full(300_000, 8.0))
    assert program(compiled).module.arena < wide.nbytes


def test_loops_with_large_bodies():
    def f(x):
        return eo.scan(lambda c, a: (eo.cos(c) * a, c.sum()), x, eo.asarray([0.5, 2.0, 1.0]))

    compiled = eo.compile(f, threads=2)
    state, sums = compiled(eo.asarray(X))
    c, wanted = X, []
    for a in (0.5, 2.0, 1.0):
        wanted.append(c.sum())
        c = np.cos(c) * a
    np.testing.assert_allclose(state.numpy(), c, 1e-12)
    np.testing.assert_allclose(sums.numpy(), wanted, 1e-10)
    assert max(chunks(compiled)) > 1


# ---- the pool


def native():
    return RUN(pool.runner())


def test_each_chunk_runs_once_on_no_more_threads_than_asked_for():
    for threads in (1, 2, 4, 9):
        seen = []

        def chunk(context, i, seen=seen):
            seen.append((i, threading.get_native_id()))
            time.sleep(0.0005)

        native()(threads, CHUNK(chunk), None, 60)
        assert sorted(i for i, _ in seen) == list(range(60))
        used = {thread for _, thread in seen}
        assert len(used) == 1 if threads == 1 else 2 <= len(used) <= threads


def test_no_chunks_and_more_threads_than_chunks():
    seen = []
    chunk = CHUNK(lambda context, i: seen.append(i))
    native()(4, chunk, None, 0)
    assert seen == []
    native()(300, chunk, None, 3)
    assert sorted(seen) == [0, 1, 2]


def test_without_threads_of_posix():
    code, seen = Code(pool.ALONE), []
    RUN(code.address("everyo_run"))(4, CHUNK(lambda context, i: seen.append(i)), None, 5)
    assert seen == [0, 1, 2, 3, 4]


def test_work_inside_work_stays_on_its_thread():
    seen = []

    def outer(context, i):
        here = threading.get_native_id()
        native()(4, CHUNK(lambda context, j: seen.append((i, j, threading.get_native_id() == here))), None, 5)

    native()(3, CHUNK(outer), None, 4)
    assert sorted(seen) == [(i, j, True) for i in range(4) for j in range(5)]


def test_eight_callers_at_once():
    compiled = eo.compile(lambda x: (eo.exp(x).sum(), eo.exp(x) + 1), threads=3)
    inputs = [X + i for i in range(8)]
    wanted = [arrays(compiled(eo.asarray(x))) for x in inputs]
    for x, (total, each) in zip(inputs, wanted, strict=True):
        np.testing.assert_allclose(total, np.exp(x).sum(), 1e-12)
        np.testing.assert_allclose(each, np.exp(x) + 1, 1e-15)
    barrier = threading.Barrier(8)

    def work(i):
        x = eo.asarray(inputs[i])
        barrier.wait()
        for _ in range(15):
            for found, right in zip(arrays(compiled(x)), wanted[i], strict=True):
                np.testing.assert_array_equal(found, right)

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(work, range(8)))


def test_an_exception_leaves_the_pool_usable():
    @eo.compile(threads=2)
    def prints(x):
        eo.debug_print("{:d}", eo.exp(x).sum())  # the format is for integers only
        return eo.tanh(x)

    @eo.compile(threads=2)
    def reads(x, i):
        return eo.tanh(x + eo.exp(x).max()), eo.exp(x)[i]

    zeros = eo.asarray(np.zeros(N))
    with pytest.raises(ValueError, match="format"):
        prints(zeros)
    with pytest.raises(IndexingError):
        reads(zeros, eo.asarray(N))
    each, one = reads(zeros, eo.asarray(N - 1))
    np.testing.assert_allclose(each.numpy(), np.full(N, np.tanh(1.0)), 1e-15)
    assert one.item() == 1.0


# ---- how many


def test_the_number_of_threads(monkeypatch):
    monkeypatch.delenv(pool.VARIABLE, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert pool.count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert pool.count() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert pool.count() == 1
    monkeypatch.setenv(pool.VARIABLE, "5")
    assert pool.count() == 5


@pytest.mark.parametrize("threads", [0, -1, 1.5, "many", "", None])
def test_wrong_numbers(monkeypatch, threads):
    if threads is not None:
        with pytest.raises(ArgumentError) as error:
            eo.compile(lambda x: x, threads=threads)
        assert repr(threads) in str(error.value)
    monkeypatch.setenv(pool.VARIABLE, "none")
    with pytest.raises(ArgumentError, match=pool.VARIABLE):
        eo.compile(lambda x: x + 2)(eo.asarray(1.0))


def test_derivatives_have_as_many_threads():
    compiled = eo.compile(lambda x: eo.exp(x).sum(), threads=3)
    asked = []
    real = pool.count
    pool.count = lambda: asked.append(1) or real()
    try:
        gradient = eo.grad(compiled)(eo.asarray(X))
    finally:
        pool.count = real
    np.testing.assert_allclose(gradient.numpy(), np.exp(X), 1e-14)
    assert not asked


# ---- processes


def run_python(code):
    environment = {**os.environ, pool.VARIABLE: "3"}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


START = """
import os, sys, threading, time
import numpy as np, everyo as eo
x = np.linspace(0.0, 1.0, 300_000)
f = eo.compile(lambda x: eo.exp(x).sum())
def check():
    np.testing.assert_allclose(f(eo.asarray(x)).item(), np.exp(x).sum(), 1e-12)
check()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_threads_of_its_own():
    code = """
def tasks():
    return len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else None
def child():
    before = tasks()
    check()
    assert before is None or tasks() == before + 2, (before, tasks())
for _ in range(3):
    process = os.fork()
    if not process:
        code = 1
        try:
            child()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(process, 0)[1] == 0
    check()
print("done")
"""
    assert run_python(START + code) == "done\n"


def test_a_child_that_was_forked_past_python_finds_no_threads():
    code = """
import ctypes
fork = getattr(ctypes.CDLL(None), "fork", None)
process = fork() if fork else 0
if process:
    assert os.waitpid(process, 0)[1] == 0
    check()
    print("done")
else:
    check()
    if not fork:
        print("done")
    sys.stdout.flush()
    os._exit(0)
"""
    assert run_python(START + code) == "done\n"


def test_the_process_ends_while_programs_run():
    code = """
def work():
    while True:
        check()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("done")
"""
    assert run_python(START + code) == "done\n"


def test_threads_of_the_pool_take_no_signals():
    code = """
import signal
def blocks(task):
    with open(f"/proc/self/task/{task}/status") as status:
        mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
    return all(mask >> (number - 1) & 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM))
if os.path.exists("/proc/self/task"):
    blocking = [blocks(task) for task in os.listdir("/proc/self/task")]
    assert blocking.count(True) == 2, blocking
    assert not blocks(os.getpid())
print("done")
"""
    assert run_python(START + code) == "done\n"
