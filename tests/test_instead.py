"""Conversions by Python, NumPy and SciPy in transformations: the error names what to write, and it works."""

import io
import math
import re
import subprocess
import sys
import traceback
from math import cos

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats
from scipy.special import log_softmax

import everyo as eo

X = eo.tensor([1.0, 2.0, 3.0])
COLUMN = np.array([0.5, 1.0, 2.0], np.float32)
CONTEXTS = {
    "grad": lambda f: eo.grad(lambda x: eo.sum(f(x)))(X),
    "jvp": lambda f: eo.jvp(f, (X,), (X,)),
    "vmap": lambda f: eo.vmap(f)(eo.stack([X, X])),
    "compile": lambda f: eo.compile(f)(X),
    "nested": lambda f: eo.jvp(lambda x: eo.grad(lambda y: eo.sum(f(y)))(x), (X,), (X,)),
    "compiled gradient": lambda f: eo.compile(eo.grad(lambda x: eo.sum(f(x))))(X),
}


def stored(x):
    y = np.zeros(2)
    y[0] = x[0] ** 2
    return y.sum()


def added(x):
    total = np.zeros(2)
    total[0] += x[0]
    return total.sum()


def read(x):
    return COLUMN[eo.argmax(x)] * x


def read_from_a_tensor(x):
    return eo.asarray(COLUMN)[eo.argmax(x)] * x


def stored_row(x):
    rows = np.zeros((2, 3))
    rows[0] = x
    return rows.sum()


def stored_in_a_tensor(x):
    y = eo.zeros(2)
    y[0] = x[0] ** 2
    return y.sum()


def added_to_a_tensor(x):
    total = eo.asarray(np.zeros(2, np.float32))
    total[0] += x[0]
    return total.sum()


def stored_row_in_a_tensor(x):
    rows = eo.zeros((2, 3))
    rows[0] = x
    return rows.sum()


# What is written, the remedy, and what is right.
CONVERSIONS = {
    "asarray": (
        lambda x: np.asarray(x).sum(),
        r"write eo\.asarray in place of np\.asarray",
        lambda x: eo.asarray(x).sum(),
    ),
    "array": (
        lambda x: np.array([x[0], x[1]]).sum(),
        r"eo\.asarray or eo\.stack in place of np\.array",
        lambda x: eo.stack([x[0], x[1]]).sum() + 0 * eo.asarray([x[0], x[1]]).sum(),
    ),
    "full": (
        lambda x: np.full(3, x[0]).sum(),
        r"eo\.full in place of np\.full",
        lambda x: eo.full(3, x[0]).sum(),
    ),
    "full_like": (
        lambda x: np.full_like(np.ones(3, np.float32), x[0]).sum(),
        r"eo\.full_like in place of",
        lambda x: eo.full_like(np.ones(3, np.float32), x[0]).sum(),
    ),
    "float64": (
        lambda x: np.float64(x[0]) * 2,
        r"x\.astype\(eo\.float64\) in place of np\.float64",
        lambda x: x[0].astype(eo.float64) * 2,
    ),
    "fromiter": (
        lambda x: np.fromiter((x[i] for i in range(3)), np.float32).sum(),
        r"eo\.stack in place of np\.fromiter",
        lambda x: eo.stack([x[i] for i in range(3)]).sum(),
    ),
    "sin": (lambda x: math.sin(x[0]), r"eo\.sin in place of math\.sin", lambda x: eo.sin(x[0])),
    "cos": (lambda x: cos(x[0]), r"eo\.cos in place of cos", lambda x: eo.cos(x[0])),
    "pow": (
        lambda x: math.pow(x[0], 2),
        r"eo\.power\(x\[0\], 2\) in place of math\.pow",
        lambda x: eo.power(x[0], 2),
    ),
    "lgamma": (
        lambda x: math.lgamma(x[0]),
        r"eo\.special\.gammaln\(x\[0\]\) in place of math\.lgamma",
        lambda x: eo.special.gammaln(x[0]),
    ),
    "logsumexp": (
        lambda x: scipy.special.logsumexp(x),
        r"eo\.logsumexp in place of scipy\.special\.logsumexp",
        lambda x: eo.logsumexp(x),
    ),
    "log_softmax": (
        lambda x: log_softmax(x),
        r"eo\.log_softmax\(x, axis=None\) in place of log_softmax",
        lambda x: eo.log_softmax(x, axis=None),
    ),
    "dot": (lambda x: COLUMN.dot(x), r"write COLUMN @ x in place of COLUMN\.dot\(x\)", lambda x: COLUMN @ x),
    "r_": (
        lambda x: np.r_[1.0, x],
        r"eo\.concat\(\[\.\.\.\]\) in place of np\.r_\[",
        lambda x: eo.concat([[1.0], x]),
    ),
    "c_": (
        lambda x: np.c_[x, x].sum(),
        r"eo\.column_stack\(\[\.\.\.\]\) in place of np\.c_\[",
        lambda x: eo.column_stack([x, x]).sum(),
    ),
    "cho_solve": (
        lambda x: scipy.linalg.cho_solve((np.eye(3), True), x),
        r"eo\.linalg\.cholesky_solve\(x, np\.eye\(3\), upper=False\) in place of",
        lambda x: eo.linalg.cholesky_solve(x[:, None], np.eye(3, dtype="f4"))[:, 0],
    ),
    "the second call": (
        lambda x: np.sin(x[0]) + scipy.special.expit(np.float32(1)) * math.exp(x[0]),
        r"write eo\.exp in place of math\.exp",
        lambda x: np.sin(x[0]) + scipy.special.expit(np.float32(1)) * eo.exp(x[0]),
    ),
    "expm": (
        lambda x: scipy.linalg.expm(eo.outer(x, x) / 9).sum(),
        r"eo\.linalg\.matrix_exp\(eo\.outer\(x, x\) / 9\) in place of",
        lambda x: eo.linalg.matrix_exp(eo.outer(x, x) / 9).sum(),
    ),
    "stored": (
        stored,
        r"make y a tensor, with eo\.zeros\(n, dtype=eo\.float64\) in place of np\.zeros",
        stored_in_a_tensor,
    ),
    "added": (added, r"make total a tensor(.|\n)*eo\.asarray\(total\)", added_to_a_tensor),
    "stored row": (stored_row, "make rows a tensor", stored_row_in_a_tensor),
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_remedy_is_named_and_works(name, context):
    wrong, remedy, right = CONVERSIONS[name]
    with pytest.raises(eo.EveryOError, match=remedy) as caught:
        CONTEXTS[context](wrong)
    assert "test_instead.py" in caught.value.line
    CONTEXTS[context](right)


@pytest.mark.parametrize("name", sorted(set(CONVERSIONS) - {"float64"}))
def test_what_is_right_has_the_value_of_what_was_written(name):
    wrong, _, right = CONVERSIONS[name]
    with eo.no_grad():
        np.testing.assert_allclose(np.asarray(right(X)), np.asarray(wrong(X.numpy())), rtol=1e-6)


def test_the_traceback_ends_with_the_line_and_the_remedy():
    try:
        eo.grad(stored)(X)
    except eo.GraphStateError:
        lines = traceback.format_exc().splitlines()
    assert "y[0] = x[0] ** 2" in lines[-1]
    assert lines[-2].startswith("  remedy:   make y a tensor")
    assert not any("setting an array element" in line for line in lines)
    assert any(line.strip() == "y[0] = x[0] ** 2" for line in lines)


def test_an_error_of_the_users_own_stays():
    def f(x):
        try:
            math.sin(x)
        except eo.GraphStateError as error:
            raise ValueError("not this way") from error

    with pytest.raises(ValueError, match="not this way") as caught:
        eo.grad(f)(1.0)
    assert type(caught.value) is ValueError
    assert isinstance(caught.value.__cause__, eo.GraphStateError)


@pytest.mark.parametrize("context", ["vmap", "compile", "compiled gradient"])
def test_an_array_that_is_read_where_a_tensor_says(context):
    remedy = r"write eo\.asarray\(COLUMN\)\[eo\.argmax\(x\)\] in place of COLUMN\[eo\.argmax\(x\)\]"
    with pytest.raises(eo.EveryOError, match=remedy):
        CONTEXTS[context](read)
    CONTEXTS[context](read_from_a_tensor)


def stores_in_a_loop(x):
    r = np.zeros(3)
    for i in range(3): r[i] = x[i]  # fmt: skip  # noqa: E701
    return r


def stores_in_a_branch(x):
    r = np.zeros(3)
    if r.size: r[:] = x  # fmt: skip  # noqa: E701
    return r


def stores_after_a_call(x):
    r = np.zeros(3); r[:2] = math.sin(0.5) * x[:2]  # fmt: skip  # noqa: E702
    return r


def stores_twice(x):
    r = np.zeros(2)
    r[0], r[1] = x[0], np.array(2.0) * x[1]
    return r


def stores_over_lines(x):
    r = np.zeros(3)
    r[
        0  # here
    ] = x[0]
    return r


def adds_in_a_loop(x):
    r = np.zeros(3)
    for i in range(3): r[i] += x[i]  # fmt: skip  # noqa: E701
    return r


def adds_rows_in_a_loop(x):
    r = np.zeros((2, 3))
    for i in range(2): r[i] += x * x[i]  # fmt: skip  # noqa: E701
    return r


def adds_to_a_place_in_an_array(x):
    r = np.ones(3)
    if r.size: r[eo.argmax(x)] += 1.0  # fmt: skip  # noqa: E701
    return r


STORES = [stores_in_a_loop, stores_in_a_branch, stores_after_a_call, stores_twice, stores_over_lines]
STORES += [adds_in_a_loop, adds_rows_in_a_loop]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("store", STORES)
def test_a_store_into_an_array_asks_for_a_tensor(store, context):
    """An array of which a tensor is made for the one store would not have what is stored."""
    with pytest.raises(eo.EveryOError) as caught:
        CONTEXTS[context](store)
    assert re.match(
        r"make (r|the array) a tensor, with eo\.zeros\(n, dtype=eo\.float64\) in", caught.value.remedy
    )
    assert " in place of r[" not in caught.value.remedy


@pytest.mark.parametrize("context", ["vmap", "compile"])
def test_a_sum_at_a_place_that_is_read_first(context):
    with pytest.raises(eo.EveryOError, match=r"make r a tensor"):
        CONTEXTS[context](adds_to_a_place_in_an_array)


def test_a_store_into_a_part_asks_for_one_index():
    """What is stored in a part of a tensor does not reach the tensor."""

    def nested(x):
        r = np.zeros((2, 3))
        r[0][1] = x[0]
        return r

    def transposed(x):
        r = np.zeros((2, 3))
        r.T[0] = x[:2]
        return r

    for wrong, part in ((nested, r"r\[0\]"), (transposed, r"r\.T")):
        with pytest.raises(eo.GraphStateError, match=rf"make r a tensor(.|\n)*store into r(.|\n)*{part}"):
            eo.grad(lambda x, f=wrong: f(x).sum())(X)

    def through_a_name(x):
        r = np.zeros((2, 3))
        for row in r: row[:] = x  # fmt: skip  # noqa: E701
        return r

    def added_through_a_name(x):
        r = np.zeros((2, 3))
        for row in r: row += x  # fmt: skip  # noqa: E701
        return r

    for wrong in (through_a_name, added_through_a_name):
        with pytest.raises(eo.EveryOError, match=r"of another array, make that one a tensor"):
            eo.grad(lambda x, f=wrong: f(x).sum())(X)

    def in_a_list(x):
        rows = [np.zeros(3), np.zeros(3)]
        rows[0][1] = x[0]
        return rows[0]

    with pytest.raises(eo.GraphStateError, match=r"make rows\[0\] a tensor, with eo\.zeros"):
        eo.grad(lambda x: in_a_list(x).sum())(X)


def test_a_store_into_an_argument_asks_for_another_argument():
    """A tensor that the function makes of its argument is not the caller's."""

    def fill(out, x):
        out[0] = x[0]

    def f(x):
        r = np.zeros(3)
        fill(r, x)
        return r.sum()

    with pytest.raises(eo.GraphStateError, match=r"make out a tensor") as caught:
        eo.grad(f)(X)
    assert "asarray" not in caught.value.remedy


def test_a_number_that_is_stored():
    """The conversion is the call's, not the store's."""

    def f(x):
        r = np.zeros(3)
        r[0] = float(x[0])
        return r.sum()

    with pytest.raises(eo.GraphStateError, match=r"remedy: +write x\.item\(\) if that is meant"):
        eo.grad(f)(X)


@pytest.mark.parametrize("context", ["grad", "compile", "nested"])
def test_a_call_is_not_blamed_for_another_of_its_line(context):
    """The call that failed has no counterpart here, or is no call: what stands beside it stays."""

    def arange(x):
        return scipy.linalg.expm(np.eye(2)).sum() + np.arange(x[0]).sum()

    def number(x):
        return math.exp(1.0) * float(np.log(x[0]))

    def statement(x):
        w = np.array([1.0, 2.0, 3.0]); w -= x  # fmt: skip  # noqa: E702
        return w.sum()

    for wrong in (arange, number, statement):
        with pytest.raises(eo.EveryOError) as caught:
            CONTEXTS[context](wrong)
        for other in ("matrix_exp", "eo.exp ", "eo.asarray or eo.stack"):
            assert other not in caught.value.remedy


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_call_over_several_lines(context):
    def wrong(x):
        y = math.exp(1.0) * scipy.special.logsumexp(
            # of all of them
            x
        )
        return y

    with pytest.raises(eo.EveryOError, match=r"write eo\.logsumexp in place of scipy\.special\.logsumexp"):
        CONTEXTS[context](wrong)


def test_a_line_whose_instructions_have_no_places(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import math, everyo as eo\neo.grad(lambda x: math.sin(x))(1.0)\n")
    command = [sys.executable, "-X", "no_debug_ranges", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "write eo.sin in place of math.sin" in done.stderr


def test_a_read_beside_a_call():
    def f(x):
        return math.sin(2.0) * COLUMN[eo.argmax(x)] * x

    with pytest.raises(eo.EveryOError, match=r"write eo\.asarray\(COLUMN\)\[eo\.argmax\(x\)\] in place of"):
        eo.compile(f)(X)


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (lambda x: scipy.integrate.quad(lambda s: s * x[0], 0, 1)[0], r"eo\.trapezoid(.|\n)*eo\.custom_vjp"),
        (lambda x: scipy.optimize.brentq(lambda s: s - x[0], 0, 10), r"eo\.implicit\.custom_root"),
        (lambda x: scipy.optimize.brentq(lambda s: s - x.sum(), 0, 10), r"eo\.implicit\.custom_root"),
        (lambda x: scipy.optimize.brentq(lambda s: s * eo.exp(x[0]) - 1, 0, 10), r"custom_root"),
        (
            lambda x: scipy.optimize.minimize(lambda s: (s[0] - x[0]) ** 2, [0.0]).x[0],
            r"eo\.scipy_compat\.minimize(.|\n)*eo\.implicit\.custom_root",
        ),
        (lambda x: scipy.linalg.sinm(eo.outer(x, x)), r"use eo\.custom_vjp around it"),
        (lambda x: scipy.stats.norm.logpdf(x), r"use the density written with functions of eo"),
    ],
)
def test_what_scipy_alone_has(wrong, remedy):
    with pytest.raises(eo.GraphStateError, match=remedy):
        eo.grad(lambda x: eo.sum(wrong(x)))(X)


@pytest.mark.parametrize("transform", [eo.grad, lambda f: eo.vmap(eo.grad(f)), eo.hessian])
def test_an_attribute_that_is_there_but_was_not_found(transform):
    """What Python makes of an error that code in C left behind and went on, if a lookup meets it first."""

    def wrong(x):
        raise AttributeError("no attribute 'real'", name="real", obj=1.0)

    with pytest.raises(eo.GraphStateError, match=r"eo\.implicit\.custom_root"):
        transform(wrong)(eo.ones(3))
    with pytest.raises(AttributeError, match="unreal"):
        transform(lambda x: x.data.unreal)(eo.ones(3))


LIBRARY = """
def solve(f, x):
    for _ in range(2):
        try:
            float(f(x))
        except Exception:
            pass
    raise ValueError("f(a) and f(b) must have different signs")
"""


@pytest.mark.parametrize("transform", [eo.grad, lambda f: lambda x: eo.jvp(f, (x,), (x,)), eo.hessian])
def test_an_error_that_a_library_did_not_see(transform):
    """As SciPy's brentq, in C, which takes -1 for a number that is not there."""
    library = {"__name__": "scipy.optimize"}
    exec(LIBRARY, library)
    with pytest.raises(eo.GraphStateError, match="becomes a Python number"):
        transform(lambda x: library["solve"](lambda s: s - x[0], eo.sum(x)))(eo.ones(3))

    def mine(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):  # nothing is left of it
        transform(mine)(eo.ones(3))


def test_an_error_of_the_users_own_after_one_that_was_caught():
    def f(x):
        with pytest.raises(eo.GraphStateError):
            float(x[0])
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        eo.grad(f)(eo.ones(3))


def test_a_line_that_says_nothing():
    with pytest.raises(eo.GraphStateError, match=r"x\.detach\(\)\.numpy\(\)"):
        eo.grad(lambda x: x.numpy().sum())(X)
    with pytest.raises(eo.UnsupportedOperationError, match="loop over the batch in Python"):
        eo.vmap(lambda x: x.numpy())(X)


def test_what_is_no_conversion_keeps_its_own_remedy():
    def branches(x):
        return x if x.sum() > np.array(3.0) else -x

    with pytest.raises(eo.CompileError, match=r"use eo\.where, eo\.cond"):
        eo.compile(branches)(X)
    with pytest.raises(eo.UnsupportedOperationError, match=r"use eo\.where instead of `if`"):
        eo.vmap(branches)(eo.stack([X, X]))
    history = {}

    def notes(x):
        history["loss"] = float(x[0])
        return x.sum()

    with pytest.raises(eo.GraphStateError, match=r"remedy: +write x\.item\(\) if that is meant"):
        eo.grad(notes)(X)


def test_attributes_are_not_computed_for_an_error():
    class Model:
        @property
        def table(self):
            looked.append("table")
            return np.zeros(3)

    looked, model = [], Model()
    model.total = np.zeros(3)

    def stores(x):
        model.table[0] = x[0]
        return x.sum()

    def adds(x):
        model.total[0] += x[0]
        return x.sum()

    with pytest.raises(eo.GraphStateError):
        eo.grad(stores)(X)
    assert looked == ["table"]  # by the function alone
    with pytest.raises(eo.GraphStateError, match=r"make model\.total a tensor"):
        eo.grad(adds)(X)


class Attributes(dict):
    """A dict whose items are its attributes: it has no other, and says so by a KeyError."""

    __getattr__ = dict.__getitem__

    def __call__(self, function):
        return function


def test_objects_with_attributes_of_their_own_do_not_hide_the_error():
    settings = Attributes()
    with pytest.raises(eo.GraphStateError):
        settings(np.asarray)(eo.ones(1, requires_grad=True))


def test_a_source_that_has_changed_since_it_was_read(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    place = tmp_path / "edited_source.py"
    place.write_text("import numpy as np\ndef f(x):\n    return 1, np.array(x)\n", encoding="utf-8")
    import edited_source

    place.write_text(
        "import numpy as np\ndef f(x):\n    # " + "é" * 20 + "\n    return 1\n", encoding="utf-8"
    )
    with pytest.raises(eo.GraphStateError):
        edited_source.f(eo.ones(1, requires_grad=True))


LEAF = eo.tensor([1.0, 2.0, 3.0], requires_grad=True)
TERMS = [LEAF[0], LEAF[1] * 2]


@pytest.mark.parametrize(
    "taken",
    [
        lambda x: x.numpy(),
        lambda x: np.save(io.BytesIO(), x),
        lambda x: np.savez(io.BytesIO(), x=x),
        lambda x: np.savetxt(io.StringIO(), x),
        lambda x: np.testing.assert_allclose(x, [1, 2, 3]),
        lambda x: np.testing.assert_array_equal(x, [1, 2, 3]),
        lambda x: memoryview(np.ascontiguousarray(x.numpy())),
    ],
)
def test_an_array_without_a_graph_is_that_of_a_detached_tensor(taken):
    with pytest.raises(eo.GraphStateError, match=r"remedy: .*x\.detach\(\)") as caught:
        taken(LEAF)
    assert "stack" not in str(caught.value)
    taken(LEAF.detach())


def test_numpy_does_not_see_tensors_in_a_list():
    cases = {
        "np.mean(eo.asarray([LEAF[0], LEAF[1]]))": lambda: np.mean([LEAF[0], LEAF[1]]),
        "np.sum(eo.asarray(TERMS))": lambda: np.sum(TERMS),
        "np.max(eo.asarray([LEAF, LEAF]), axis=0)": lambda: np.max([LEAF, LEAF], axis=0),
        "np.linalg.norm(eo.asarray([x * x for x in LEAF]))": lambda: np.linalg.norm([x * x for x in LEAF]),
    }
    for written, wrong in cases.items():
        with pytest.raises(eo.GraphStateError, match=f"write {re.escape(written)} in place of np"):
            wrong()
        right = eval(written)
        with eo.no_grad():
            constant = eval(
                written.replace("eo.asarray", "np.asarray"),
                globals() | {"LEAF": LEAF.detach(), "TERMS": [x.detach() for x in TERMS]},
            )
        assert right.requires_grad
        np.testing.assert_allclose(right.detach().numpy(), constant, rtol=1e-6)
