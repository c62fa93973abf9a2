"""What transformations return is a function like others: pickled by reference, copied as itself, a method."""

import asyncio
import copy
import functools
import inspect
import io
import operator
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pytest

import everyo as eo


def cube(x, scale=1.0):
    """Return a cube."""
    return scale * x**3


def weighted(w, x):
    return (w * x**3).sum()


def pair(x):
    return cube(x), {"twice": 2 * x}


def optimality(x, a):
    return x * x - a


def newton(x, a):
    return eo.fori_loop(0, 30, lambda i, x: (x + a / x) / 2, x)


def heron(x, a):
    return (x + a / x) / 2


X = eo.tensor(2.0, dtype=eo.float64)
XS = eo.tensor([1.0, 2.0, 3.0], dtype=eo.float64)

# name: the function made, its arguments, and the result by its definition
MADE = {
    "grad": (eo.grad(cube), (X,), 12.0),
    "grad, with options": (eo.grad(weighted, argnums=(0, 1)), (X, X), (8.0, 24.0)),
    "grad, by name": (eo.grad(cube, argnames="scale"), (X,), None),
    "grad, auxiliary": (eo.grad(pair, has_aux=True), (X,), (12.0, {"twice": 4.0})),
    "value_and_grad": (eo.value_and_grad(cube), (X,), (8.0, 12.0)),
    "jacrev": (eo.jacrev(cube, chunk_size=2), (XS,), np.diag([3.0, 12.0, 27.0])),
    "jacfwd": (eo.jacfwd(cube, chunk_size=2), (XS,), np.diag([3.0, 12.0, 27.0])),
    "jacobian": (eo.jacobian(cube), (XS,), np.diag([3.0, 12.0, 27.0])),
    "hessian": (eo.hessian(cube), (X,), 12.0),
    "hessian, holomorphic": (eo.hessian(cube, holomorphic=True), (eo.asarray(np.array(2j)),), 12j),
    "vmap": (eo.vmap(weighted, in_axes=(None, 0)), (X, XS), [2.0, 16.0, 54.0]),
    "vmap, out": (eo.vmap(cube, out_axes=-1, chunk_size=2), (XS,), [1.0, 8.0, 27.0]),
    "checkpoint": (eo.checkpoint(cube), (X,), 8.0),
    "checkpoint_sequential": (eo.checkpoint_sequential([cube, cube, operator.neg], 2), (X,), -512.0),
    "no_grad": (eo.no_grad()(cube), (X,), 8.0),
    "no_grad, bare": (eo.no_grad(cube), (X,), 8.0),
    "inference_mode": (eo.inference_mode(False)(cube), (X,), 8.0),
    "set_grad_enabled": (eo.set_grad_enabled(False)(cube), (X,), 8.0),
    "custom_root": (eo.implicit.custom_root(optimality)(newton), (X, X), np.sqrt(2.0)),
    "custom_fixed_point": (eo.implicit.custom_fixed_point(heron)(newton), (X, X), np.sqrt(2.0)),
    "twice": (eo.grad(eo.grad(cube)), (X,), 12.0),
    "thrice, mixed": (eo.vmap(eo.grad(eo.checkpoint(cube))), (XS,), [3.0, 12.0, 27.0]),
    "of a partial": (eo.grad(functools.partial(cube, scale=2.0)), (X,), 24.0),
    "in a partial": (functools.partial(eo.grad(cube), scale=2.0), (X,), 24.0),
    "compiled inside": (eo.grad(eo.compile(cube)), (X,), 12.0),
    "compiled": (eo.compile(eo.grad(cube)), (X,), 12.0),
    "of a builtin": (eo.grad(operator.neg), (X,), -1.0),
}  # fmt: skip
FUNCTIONS = {name: made for name, (made, _, _) in MADE.items()}
NAMED = [name for name in MADE if "partial" not in name and name not in ("checkpoint_sequential",)]


def agree(found, expected):
    eo.tree_map(lambda a, b: np.testing.assert_allclose(a.numpy(), b, rtol=1e-12), found, expected)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", MADE)
def test_a_pickle_makes_the_function_again(name, protocol):
    made, arguments, expected = MADE[name]
    again = pickle.loads(pickle.dumps(made, protocol))
    assert again is not made
    if name == "grad, by name":
        agree(again(X, scale=eo.tensor(3.0, dtype=eo.float64)), 8.0)
    elif isinstance(expected, tuple):
        agree(again(*arguments), expected)
    else:
        np.testing.assert_allclose(again(*arguments).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in MADE if name != "in a partial"])
def test_copies_are_the_function_itself(name):
    made = FUNCTIONS[name]
    if name != "compiled":  # whose copies compile their own
        assert copy.copy(made) is made
        assert copy.deepcopy({"f": [made]})["f"][0] is made


def test_the_grad_mode_stays_as_it_is():
    stored = pickle.dumps(FUNCTIONS["set_grad_enabled"])
    pickle.loads(stored)
    assert eo.is_grad_enabled()
    x = eo.tensor(2.0, requires_grad=True)
    assert not pickle.loads(stored)(x).requires_grad
    assert pickle.loads(pickle.dumps(FUNCTIONS["inference_mode"]))(x).requires_grad
    assert not pickle.loads(pickle.dumps(FUNCTIONS["no_grad"]))(x).requires_grad


# ---- decorated functions, whose names lead to what the transformation returned


@eo.grad
def slope(x):
    return x**3


@eo.vmap
@eo.grad
def slopes(x):
    return x**3


@eo.no_grad()
def constant(x):
    return x * 1


@eo.custom_vjp
def clipped(x):
    return x * 1


clipped.defvjp(lambda x: (x * 1, None), lambda _, g: (5 * g,))


@eo.custom_jvp
def steep(x):
    return x * 1


steep.defjvp(lambda primals, tangents: (primals[0] * 1, 7 * tangents[0]))


class Model:
    def __init__(self, scale):
        self.scale = scale

    @eo.value_and_grad
    def unbound(self):
        return self * 2

    @functools.partial(eo.grad, argnums=1)
    def slope(self, x):
        """Return a slope."""
        return self.scale * x**2

    @eo.no_grad()
    def value(self, x, by=1):
        return self.scale * x * by

    @classmethod
    @eo.checkpoint
    def made(cls, x):
        return cls, x * 1

    @staticmethod
    @eo.grad
    def free(x):
        return x**2


@pytest.mark.parametrize(
    "function",
    [slope, slopes, constant, clipped, steep, Model.slope, Model.free],
    ids=["grad", "vmap of grad", "no_grad", "custom_vjp", "custom_jvp", "method", "static method"],
)
def test_a_decorated_function_is_pickled_by_its_name(function):
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


def test_what_is_made_of_decorated_functions():
    assert pickle.loads(pickle.dumps(eo.grad(slope)))(X).item() == 12
    assert pickle.loads(pickle.dumps(eo.grad(clipped)))(X).item() == 5
    assert pickle.loads(pickle.dumps(eo.grad(steep)))(X).item() == 7
    assert pickle.loads(pickle.dumps(eo.vmap(slope)))(XS).tolist() == [3, 12, 27]


def test_methods_bind():
    model = Model(eo.tensor(3.0))
    assert model.slope(eo.tensor(2.0)).item() == 12
    assert Model.slope(model, eo.tensor(2.0)).item() == 12
    assert model.value(X, by=2).item() == 12
    assert Model.made(X)[0] is Model
    assert Model.free(X).item() == 4
    assert isinstance(model.slope, types.MethodType)
    assert str(inspect.signature(model.value)) == "(x, by=1)"
    assert pickle.loads(pickle.dumps(model.slope))(eo.tensor(2.0)).item() == 12


# ---- what cannot be pickled is named


def local():
    def inner(x):
        return x * x

    return inner


@pytest.mark.parametrize("make", [eo.grad, eo.vmap, eo.checkpoint, eo.no_grad, eo.hessian])
@pytest.mark.parametrize(
    ("function", "name"), [(lambda x: x * x, "<lambda>"), (local(), r"local\.<locals>\.inner")]
)
@pytest.mark.parametrize("dumps", [pickle.dumps, lambda x: pickle._Pickler(io.BytesIO()).dump(x)])
def test_the_error_names_the_function_inside(make, function, name, dumps):
    with pytest.raises((pickle.PicklingError, AttributeError), match=name) as caught:
        dumps(make(function))
    with pytest.raises(type(caught.value)) as plain:
        dumps(function)
    texts = [re.sub(r" at 0x\w+", "", str(error.value)) for error in (caught, plain)]
    assert texts[0] == texts[1]


# ---- other processes


def test_workers_of_multiprocessing(tmp_path):
    script = (
        "import multiprocessing, everyo as eo\n"
        "def ros(x):\n    return x**3\n"
        "@eo.grad\ndef slope(x):\n    return x**2\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        xs = [eo.tensor(1.0), eo.tensor(2.0)]\n"
        "        print([y.item() for f in (eo.grad(ros), slope) for y in pool.map(f, xs)])\n"
    )
    _run(tmp_path / "script.py", script, "[3.0, 12.0, 2.0, 4.0]")


def test_workers_of_joblib(tmp_path):
    pytest.importorskip("joblib")
    script = (
        "import everyo as eo, joblib\n"
        "@eo.grad\ndef slope(x):\n    return x**2\n"
        "@eo.compile\ndef double(x):\n    return x * 2\n"
        "def value(x):\n    return x**3\n"
        "if __name__ == '__main__':\n"
        "    x = eo.tensor(2.0)\n"
        "    made = (slope, eo.grad(slope), eo.grad(value), eo.grad(lambda x: x**4), double)\n"
        "    calls = [joblib.delayed(f)(x) for f in made]\n"
        "    print([y.item() for y in joblib.Parallel(n_jobs=2)(calls)])\n"
    )
    _run(tmp_path / "script.py", script, "[4.0, 2.0, 12.0, 32.0, 4.0]")


def _run(path, text, expected):
    path.write_text(text)
    found = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=False)
    assert found.stdout.strip() == expected, found.stderr


# ---- they look like what they were made of


@pytest.mark.parametrize("name", NAMED)
def test_they_look_like_what_they_were_made_of(name):
    made = FUNCTIONS[name]
    inner = inspect.unwrap(made)
    assert made.__wrapped__ is not None
    assert (made.__name__, made.__doc__) == (inner.__name__, inner.__doc__)
    assert made.__qualname__ == inner.__qualname__
    assert made.__module__ == inner.__module__
    assert inspect.signature(made) == inspect.signature(inner)
    assert inspect.isroutine(made) or name == "compiled"
    assert callable(made)


def test_attributes():
    def f(x: int) -> float:
        return x

    f.kept = 3
    f.__signature__ = inspect.Signature()
    made = eo.grad(f)
    assert made.kept == 3
    assert made.__annotations__ == f.__annotations__
    assert inspect.signature(made) == inspect.Signature()
    made.own = 4
    assert eo.grad(made).own == 4
    assert not hasattr(f, "own")
    assert eo.grad(functools.partial(cube, scale=2.0)).__name__ == "transformed"
    assert "cube" in repr(eo.grad(cube))
    assert repr(eo.grad(cube)).startswith("<grad of")


def test_generators_and_coroutines_are_still_told():
    @eo.no_grad()
    def numbers():
        yield eo.is_grad_enabled()

    @eo.no_grad()
    async def number():
        return eo.is_grad_enabled()

    @eo.no_grad()
    async def stream():
        yield eo.is_grad_enabled()

    assert inspect.isgeneratorfunction(numbers)
    assert inspect.iscoroutinefunction(number)
    assert inspect.isasyncgenfunction(stream)
    assert [*numbers()] == [False]
    assert asyncio.run(number()) is False
    assert pickle.loads(pickle.dumps(eo.no_grad()(counted))).__name__ == "counted"
    assert inspect.isgeneratorfunction(pickle.loads(pickle.dumps(eo.no_grad()(counted))))


def counted():
    yield 1


@pytest.mark.parametrize("inside", [lambda f: eo.grad(f), lambda f: eo.grad(functools.partial(f))])
def test_a_compiled_scan_finds_what_the_body_captures(inside):
    w = eo.tensor(2.0, dtype=eo.float64)
    body = inside(lambda x: w * x**2)
    f = eo.compile(lambda x: eo.fori_loop(0, 2, lambda i, x: body(x), x))
    g = eo.compile(lambda x: eo.map(body, x))
    assert f(X).item() == 32
    assert g(XS).tolist() == [4, 8, 12]
    w[...] = 3.0
    assert f(X).item() == 72
    assert g(XS).tolist() == [6, 12, 18]


def test_the_call_of_inspection():
    found = pickle.loads(pickle.dumps(eo.compile.inspect(cube)))
    assert "kernel" in repr(found(X))


def test_sparse_derivatives():
    sparse = pytest.importorskip("scipy.sparse")
    made = eo.sparse_jacobian(cube)
    for before in (made, made(XS) is not None and made):
        again = pickle.loads(pickle.dumps(before))
        found = again(XS)
        assert sparse.issparse(found)
        np.testing.assert_allclose(found.toarray(), np.diag([3.0, 12.0, 27.0]))
