"""Names of PyTorch, NumPy and JAX that do not exist here: hints are code that runs, or name what is there."""

import importlib
import re
import subprocess
import sys

import numpy as np
import optree
import pytest

import everyo as eo
from everyo.guidance import Elsewhere, names, tables
from everyo.ops import methods

X = np.array([[3.0, 0.5, 0.25, 0.5], [0.5, 3.0, 0.5, 0.25], [0.25, 0.5, 3.0, 0.5], [0.5, 0.25, 0.5, 3.0]])
TABLES = {"Tensor": tables.OF_TENSORS, "Module": names.OF_OBJECTS["modules"], **names.OF_NAMESPACES}
HINTS = [(table, name, text) for table, known in TABLES.items() for name, text in known.items()]


def floats(*shape):
    return eo.ones(shape, dtype=eo.float64)


def names_in_hints(folder):
    """Return what the names in hints stand for."""
    x = eo.asarray(X.copy())
    batch = eo.asarray(np.linspace(0.1, 1.2, 24).reshape(2, 3, 4))
    parameter = eo.nn.Parameter(x)
    parameter.grad = x * 1
    module = eo.nn.Module()
    module.register_buffer("n", x)
    path = str(folder / "tensors")
    eo.io.save_safetensors({"x": x}, path)
    np.savetxt(folder / "text", X)
    return {
        "eo": eo, "np": np, "optree": optree, "structure": optree.tree_structure([0.0]),
        "x": x, "y": x + 1, "a": x * 2, "b": x + 0.5, "c": x, "q": batch, "k": batch,
        "v": x[0], "axis": 0, "axes": (1, 0), "axis1": 0, "axis2": 1, "source": 0, "destination": 1,
        "shape": (4, 4), "value": 2.0, "data": [1.0, 2.0], "dtype": eo.float64, "low": 0.5, "high": 1.0,
        "parts": 2, "start": 1, "length": 2, "condition": x > 1, "mask": x > 1, "i": 0, "n": 4, "d": 4,
        "mean": 0.0, "std": 1.0, "var": 1.0, "eps": 1e-5, "repeats": 2, "weight": 0.5,
        "indices": x.argmax(0)[None], "index": eo.tensor([[0, 1, 2, 3]]), "src": floats(1, 4),
        "values": [1.0, 2.0], "array": X, "arrays": [x, x], "tensors": [x, x], "matrices": [x, x],
        "f": lambda x, *rest: x * 2, "size": 2, "p": np.full(4, 0.25), "r": x, "angle": x, "bins": 3,
        "boundaries": eo.asarray([0.0, 1.0, 2.0]), "window": floats(4), "subscripts": "ij,jk",
        "kind": "real floating", "seed": 0, "parameters": [parameter], "lr": 0.1, "cov": x, "logits": x,
        "parameter": parameter, "device": "cpu",
        "factor": eo.linalg.cholesky(x), "buffer": X.tobytes(), "tree": {"x": x}, "primals": (x,),
        "tangents": (x,), "path": path, "text": "{}", "widths": 1, "module": module, "name": "n",
        "tensor": x, "rate": 0.1, "group": {}, "keys": x[0], "stop": 4, "step": 1, "z": floats(1, 1, 5),
        "coefficients": [1.0, 2.0], "beta": 1.0, "x0": np.array([1.0, 2.0]),
    }  # fmt: skip


VALUE = {"v": 1.0}
OWN = {  # what some hints mean by the same names
    "kthvalue": {"k": 2}, "top_k": {"k": 2}, "squeeze_": {"x": floats(1, 4)}, "factorial": {"n": 3.0},
    "ogrid": {"a": [0, 1], "b": [2, 3]}, "mgrid": {"a": floats(2), "b": floats(3)}, "one_hot": {"i": 1},
    "cartesian_prod": {"a": floats(2), "b": floats(3)}, "ger": {"a": floats(2), "b": floats(3)},
    "promote_types": {"a": eo.float32, "b": eo.float64}, "trapz": {"y": floats(4), "x": floats(4)},
    "cumulative_trapezoid": {"y": floats(4), "x": floats(4)}, "stft": {"x": floats(8)},
    "index_add_": {"index": eo.tensor([0]), "values": floats(1, 4)}, "dynamic_slice": {"n": 2},
    "dynamic_update_slice": {"n": 2, "v": 1.0}, "kl_div": {"p": floats(2), "q": floats(2)},
    "KLDivLoss": {"p": floats(2), "q": floats(2)}, "AvgPool1d": {"x": floats(1, 1, 4)},
    "MaxPool1d": {"x": floats(1, 1, 4)}, "Conv3d": dict.fromkeys(("x", "weight"), floats(1, 1, 2, 2, 2)),
    "conv_general_dilated": {"x": floats(1, 1, 4, 4), "weight": floats(1, 1, 2, 2)},
    "ConvTranspose1d": {"x": floats(1, 1, 4), "weight": floats(1, 1, 2)}, "view_as_real": {"x": X + 1j * X},
    **{
        name: {"z": floats(1, 1, 5, 5), "x": floats(1, 1, 4, 4), "weight": floats(1, 1, 2, 2)}
        for name in ("ConvTranspose2d", "conv_transpose2d")
    },
    "dynamic_slice_in_dim": {"n": 2}, "get_parameter": {"module": eo.nn.Linear(1, 1), "name": "bias"},
    "get_submodule": {"name": ""},
    "register_module": {"name": "part", "child": eo.nn.Linear(1, 1)},
    **{
        name: {"v": floats(2, 3, 4)}
        for name in ("scaled_dot_product_attention", "dot_product_attention", "MultiheadAttention")
    },
    **{name: {"v": floats(2, 3, 4)} for name in names.OF_NAMESPACES["everyo.nn"] if "Transformer" in name},
    "LBFGS": {"f": lambda x: eo.sum(x * x)}, "save": {"tensors": {"x": floats(2)}},
    "savez": {"tensors": {"x": floats(2)}}, "frombuffer": {"dtype": np.float64},
    **dict.fromkeys(("index_put", "index_put_", "masked_fill_", "put", "putmask", "place", "copyto"), VALUE),
    **dict.fromkeys(("fill_diagonal", "at"), VALUE),
    **{
        name: {"f": lambda x: eo.sum(x * x), "x": floats(3), "v": floats(3)}
        for name in ("make_hvp", "hessian_vector_product", "hessian_tensor_product")
    },
    **{
        name: {"f": eo.sin, "x": floats(3), "v": floats(3)}
        for name in ("make_ggnvp", "tensor_jacobian_product")
    },
    **{name: {"f": eo.sum, "x": floats(3)} for name in ("check_grads", "test_util")},
    "optimize": {"f": lambda x: eo.sum(x * x)}, "tree_unflatten": {"leaves": [1.0]},
    "interpolate": {"x": floats(2), "xp": [0.0, 1.0], "fp": [2.0, 3.0]},
    "signal": {"a": floats(2), "v": floats(2)}, "ndimage": dict.fromkeys(("x", "weight"), floats(1, 1, 2, 2)),
    **{
        name: {"y": floats(4), "x": floats(4)}
        for name in ("quad", "simpson", "cumulative_simpson", "integrate")
    },
    "curve_fit": {"model": lambda p: p, "data": np.ones(2)},
}  # fmt: skip
ENDS = r"; |: docs|,? (?:or|which|and|where|for|in place of|then|a|the|of|in) "


def code(text):
    """Return the code that a hint begins with, or None."""
    start = re.split(ENDS, text, maxsplit=1)[0]
    if "..." in start.replace("[...]", ""):
        return None
    for mode in ("eval", "exec"):
        try:
            return compile(start, text, mode)
        except SyntaxError:
            continue
    return None


RUNS = [hint for hint in HINTS if code(hint[2]) is not None]
READS_TEXT = ("loadtxt", "genfromtxt")


@pytest.fixture
def same_default_dtype():
    yield
    eo.set_default_dtype(eo.float32)


@pytest.mark.usefixtures("same_default_dtype")
@pytest.mark.parametrize("table", TABLES)
def test_the_code_of_a_hint_runs(table, tmp_path):
    for _, name, text in (hint for hint in RUNS if hint[0] == table):
        names = {**names_in_hints(tmp_path), **OWN.get(name, {})}
        if name in READS_TEXT:
            names["path"] = tmp_path / "text"
        with eo.no_grad():
            exec(code(text), names)  # its file name is the hint: a traceback shows it


def test_most_hints_are_code():
    assert len(RUNS) > 0.7 * len(HINTS)


@pytest.mark.parametrize("table", TABLES)
def test_what_a_hint_names_exists(table):
    for text in TABLES[table].values():
        for path in re.findall(r"\beo((?:\.[A-Za-z]\w*)+)", text):
            found = eo
            for part in path.removeprefix(".").split("."):
                found = getattr(found, part)
        for method in re.findall(r"\bx\.([a-zA-Z]\w*)", text.replace("x.at", "")):
            assert hasattr(eo.Tensor, method), text


def find(module, name):
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(module), name)
    assert caught.value.name == name
    return str(caught.value)


@pytest.mark.parametrize("module", names.OF_NAMESPACES)
def test_namespaces_give_their_hints(module):
    for name, hint in names.OF_NAMESPACES[module].items():
        assert find(module, name) == f"module {module!r} has no attribute {name!r}; in EveryO: {hint}"


def test_modules_give_their_hints():
    assert {n for n, v in vars(eo.nn.Module).items() if isinstance(v, Elsewhere)} == set(
        names.OF_OBJECTS["modules"]
    )
    for name, hint in names.OF_OBJECTS["modules"].items():
        with pytest.raises(AttributeError) as caught:
            getattr(eo.nn.Linear(1, 1), name)
        assert str(caught.value) == f"'Linear' object has no attribute {name!r}; in EveryO: {hint}"
    module = eo.nn.Module()
    module.type = "dense"  # the names are free
    assert module.type == "dense"


def test_tensors_give_their_hints():
    x = eo.ones(2)
    assert set(methods.ELSEWHERE) == set(tables.OF_TENSORS)
    for name, hint in tables.OF_TENSORS.items():
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
        assert str(caught.value) == f"'Tensor' object has no attribute {name!r}; in EveryO: {hint}"


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("everyo", "det", "eo.linalg.det"),
        ("everyo", "erfinv", "eo.special.erfinv"),
        ("everyo", "Linear", "eo.nn.Linear"),
        ("everyo", "Adam", "eo.optim.Adam"),
        ("everyo", "detach", "x.detach"),
        ("everyo", "gradcheck", "eo.testing.gradcheck"),
        ("everyo.linalg", "einsum", "eo.einsum"),
        ("everyo.special", "log1p", "eo.log1p"),
        ("everyo.nn.functional", "pad", "eo.pad"),
        ("everyo.optim", "Linear", "eo.nn.Linear"),
        ("everyo.fft", "svd", "eo.linalg.svd"),
        ("everyo.autograd", "gradcheck", "eo.testing.gradcheck"),
    ],
)
def test_names_that_stand_elsewhere(module, name, hint):
    assert find(module, name) == f"module {module!r} has no attribute {name!r}; in EveryO: {hint}"


def test_the_layer_is_known_at_the_top_too():
    assert "docs/training.md" in find("everyo", "LSTM")
    assert "L-BFGS-B" in find("everyo", "LBFGS")


@pytest.mark.parametrize("module", ["everyo", "everyo.nn", "everyo.linalg", "everyo.fft", "everyo.autograd"])
def test_what_nobody_has_is_a_plain_error(module):
    assert find(module, "nonsense") == f"module {module!r} has no attribute 'nonsense'"
    assert find(module, "__nonsense__") == f"module {module!r} has no attribute '__nonsense__'"


def test_names_that_stand_elsewhere_are_those_of_the_namespaces():
    for namespace, moved in names.MOVED.items():
        module = eo
        for part in namespace.split("."):
            module = getattr(module, part)
        for name in moved.split():
            assert hasattr(module, name), (namespace, name)
            assert name not in dir(eo), (namespace, name)
    for namespace in ("linalg", "special", "random", "optim", "io"):
        here = {n for n in getattr(eo, namespace).__all__ if n not in dir(eo)}
        assert here - set(names.MOVED[namespace].split()) <= {"default_generator", "norm", "randint"}


def test_no_hint_hides_what_is_there():
    for module, known in names.OF_NAMESPACES.items():
        assert not [name for name in known if name in dir(importlib.import_module(module))]


def test_hints_are_read_when_one_is_asked_for():
    program = (
        "import sys, everyo; everyo.ones(2).sum()\n"
        "assert not any(name.startswith('everyo.guidance.') for name in sys.modules)\n"
        "assert not hasattr(everyo, 'cat') and 'everyo.guidance.tables' in sys.modules\n"
        "assert 'everyo.nn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


UFUNC_HINTS = [(m, f, text) for m, known in tables.OF_UFUNCS.items() for f, text in known.items()]
UFUNC_HINTS += [(m, f, text.format(f)) for m, text in tables.OF_ALL_UFUNCS.items() for f in ("power", "less")]


@pytest.mark.parametrize(("method", "function", "hint"), UFUNC_HINTS)
def test_methods_of_ufuncs_give_their_hints(method, function, hint):
    with pytest.raises(AttributeError) as caught:
        getattr(getattr(eo, function), method)(eo.ones(3))
    assert str(caught.value) == f"function {function!r} has no attribute {method!r}; in EveryO: {hint}"
    places = {"i": eo.tensor([0, 2]), "v": floats(2), "ids": eo.tensor([0, 0, 1]), "n": 2, "axis": 0}
    names = {"eo": eo, "x": floats(3), "y": floats(2), **places}
    exec(hint.partition(", where")[0].replace("...", "v"), names)


def test_a_method_of_ufuncs_that_nothing_replaces():
    with pytest.raises(AttributeError, match=r"^function 'power' has no attribute 'reduce'$"):
        eo.power.reduce(eo.ones(3))
    for function in (eo.sin, eo.matmul, eo.where):
        assert not hasattr(function, "reduce")


@pytest.mark.parametrize("name", tables.SET)
def test_properties_that_cannot_be_set_say_what_to_write(name):
    x = eo.ones((2, 3), dtype=eo.complex128)
    with pytest.raises(AttributeError) as caught:
        setattr(x, name, 0)
    text = f"attribute {name!r} of 'Tensor' objects cannot be set; in EveryO: {tables.SET[name]}"
    assert (str(caught.value), caught.value.name) == (text, name)
    exec(tables.SET[name], {"x": x, "shape": (3, 2), "dtype": eo.complex64, "value": 1.0})
