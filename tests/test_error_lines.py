"""The line that an error names is the user's, whoever calls whom in between."""

import contextlib
import functools
import threading

import numpy as np
import pytest
from scipy import optimize

import everyo as eo

X = eo.tensor([0.3, 0.7], dtype=eo.float64)


def line_of(kind, call):
    with pytest.raises(kind) as error:
        call()
    return error.value.line


def in_numpy(x):
    f = eo.custom_vjp(lambda x: eo.sin(x))
    f.defvjp(lambda x: (eo.sin(x), x), lambda x, g: (eo.tensor(g.numpy() * np.cos(x.numpy())),))
    return f(x)


def jvp_in_numpy(x):
    f = eo.custom_jvp(lambda x: eo.sin(x))
    f.defjvp(lambda p, d: (f(p[0]), eo.tensor(d[0].numpy())))
    return f(x)


def singular(x, p):
    return x**2 * 0 + p


def solved(p):
    return eo.implicit.custom_root(singular)(lambda x, p: x)(eo.zeros(2, dtype=eo.float64), p).sum()


@functools.wraps(eo.sin)
def through_functools(x):
    return functools.reduce(lambda a, b: a @ b, [x, x, x, eo.ones((5, 5))])


@contextlib.contextmanager
def manager():
    eo.ones(2) + eo.ones(3)
    yield


def total(f):
    return lambda x: f(x).sum()


CASES = {
    "a vjp rule in NumPy": (eo.UnsupportedOperationError, lambda: eo.hessian(total(in_numpy))(X)),
    "a vjp rule in NumPy, forward": (eo.UnsupportedOperationError, lambda: eo.jvp(in_numpy, (X,), (X,))),
    "a jvp rule in NumPy": (eo.UnsupportedOperationError, lambda: eo.grad(total(jvp_in_numpy))(X)),
    "convergence": (eo.ConvergenceError, lambda: eo.grad(solved)(X)),
    "convergence in forward mode": (eo.ConvergenceError, lambda: eo.jvp(solved, (X,), (X,))),
    "functools": (eo.ShapeError, lambda: through_functools(X)),
    "contextlib": (eo.ShapeError, lambda: manager().__enter__()),
    "pytree": (eo.ShapeError, lambda: eo.tree_map(lambda a: a @ eo.ones(3), {"a": [X]})),
    "backward": (eo.ConvergenceError, lambda: solved(X.clone().requires_grad_()).backward()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_in_this_file(name):
    line = line_of(*CASES[name])
    assert line.startswith(__file__), line


def test_of_a_kept_pullback_it_is_the_call():
    _, pullback = eo.vjp(solved, X)
    line = line_of(eo.ConvergenceError, lambda: pullback(1.0))
    assert "pullback(1.0)" in line
    y = solved(X.clone().requires_grad_())
    assert "y.backward()" in line_of(eo.ConvergenceError, lambda: y.backward())


def test_of_a_kept_batched_pullback():
    pullback = eo.vmap(eo.vjp(solved, X)[1])
    assert "pullback(eo.ones" in line_of(eo.ConvergenceError, lambda: pullback(eo.ones(3, dtype=eo.float64)))


def test_under_scipy_it_is_the_objective_or_the_call():
    def objective(x):
        return (x @ eo.ones(3, dtype=eo.float64)).sum()

    line = line_of(eo.ShapeError, lambda: eo.scipy_compat.minimize(objective, X))
    assert "x @ eo.ones(3" in line
    line = line_of(eo.ShapeError, lambda: eo.scipy_compat.minimize(lambda x: x * 2, X, method="BFGS"))
    assert "eo.scipy_compat.minimize(" in line
    f = eo.scipy_compat.minimize_fun(lambda x: x * 2, X)
    line = line_of(eo.ShapeError, lambda: optimize.minimize(f, f.x0, jac=f.grad))
    assert "optimize.minimize(" in line
    r = eo.scipy_compat.residuals_fun(lambda x: x * 1j, X)
    assert "optimize.least_squares(" in line_of(
        eo.DTypeError, lambda: optimize.least_squares(r, r.x0, jac=r.jac)
    )


def test_the_line_that_detect_anomaly_names():
    with eo.detect_anomaly():
        (y,) = map(eo.sqrt, [eo.zeros(2, requires_grad=True)])
        line = line_of(eo.NonFiniteGradientError, lambda: y.sum().backward())
    assert "map(eo.sqrt, " in line  # the forward call


def test_code_of_the_user_without_a_file_counts():
    names = {"eo": eo}
    with pytest.raises(eo.ShapeError) as error:
        exec("def f():\n    eo.ones(2) + eo.ones(3)\nf()", names)
    assert error.value.line == "<string>:2 in f"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_there_is_none_where_there_is_no_user(monkeypatch):
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda failed: caught.append(failed.exc_value))
    thread = threading.Thread(target=eo.ones, args=("no",))  # between the thread and EveryO is nobody
    thread.start()
    thread.join()
    assert caught[0].line == ""
    assert "at:" not in str(caught[0])


NUMBERS = ", ".join(map(str, range(3000)))
LONG_LINES = {
    "call behind": f"table = [{NUMBERS}]; eo.ones(3).sum(axis=table[4])\n",
    "call before": f"eo.ones(3).sum(axis=4); table = [{NUMBERS}]\n",
    "call between": f"table = [{NUMBERS}]; eo.ones(3).sum(axis=4); table = [{NUMBERS}]\n",
}


@pytest.mark.parametrize("name", LONG_LINES)
def test_of_a_long_line_the_part_that_runs_is_quoted(name, tmp_path):
    place = tmp_path / "generated.py"
    place.write_text(LONG_LINES[name], encoding="utf-8")
    code = compile(place.read_text(), str(place), "exec")
    with pytest.raises(eo.IndexingError) as error:
        exec(code, {"eo": eo})
    source = error.value.line.partition("<module>: ")[2]
    assert "eo.ones(3).sum(axis=" in source
    assert len(source) <= 206
    assert source.startswith("...") is (name != "call before")
    assert source.endswith("...") is (name != "call behind")
    assert len(str(error.value)) < 1000


def test_a_long_index_is_not_quoted_in_the_remedy(tmp_path):
    place = tmp_path / "generated.py"
    zeros = "0 * eo.argmax(x) + " * 300
    place.write_text(f"def f(x):\n    return TABLE[{zeros}0] * x\n", encoding="utf-8")
    names = {"eo": eo, "TABLE": np.ones(3)}
    exec(compile(place.read_text(), str(place), "exec"), names)
    with pytest.raises(eo.CompileError, match=r"write eo\.asarray\(TABLE\)\[\.\.\.\] in place of") as error:
        eo.compile(names["f"])(eo.ones(3))
    assert len(str(error.value)) < 1000


def test_a_gradient_that_is_not_finite_names_the_function_that_was_called():
    x = eo.ones((2, 2), requires_grad=True)
    with eo.detect_anomaly(), pytest.raises(eo.NonFiniteGradientError) as error:
        eo.linalg.cond(x).backward()
    assert error.value.operation == "cond"
