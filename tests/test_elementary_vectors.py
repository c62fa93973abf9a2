"""Elementary functions in compiled loops: special values, vectors, and how the text composes."""

import ctypes
import math
import platform
import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from everyo.compiler import elementary
from tests.elementary_kernels import (
    TYPES,
    Kernel,
    call_of,
    kernel,
    loop,
    module_text,
    new_target_machine,
    optimized,
)
from tests.elementary_reference import samples

INF, NAN = math.inf, math.nan
NAMES = elementary.names()
FEATURES = llvm.get_host_cpu_features()
# Processors to compile for: this one, and one with vectors of 256 bits where this one is of its kind.
PROCESSORS = [None, "haswell"] if platform.machine() in ("x86_64", "AMD64") else [None]

# Each row: function, then pairs of arguments (one number or two) and the value; signs of zeros count.
SPECIAL_VALUES = {
    "exp": [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0), (1e4, INF), (-1e4, 0.0)],
    "exp2": [(-INF, 0.0), (INF, INF), (-0.0, 1.0), (10.0, 1024.0), (-3.0, 0.125), (1e5, INF), (-1e5, 0.0)],
    "expm1": [(-INF, -1.0), (INF, INF), (0.0, 0.0), (-0.0, -0.0), (-1e4, -1.0), (1e4, INF)],
    "sigmoid": [(-INF, 0.0), (INF, 1.0), (0.0, 0.5), (-0.0, 0.5), (1e4, 1.0), (-1e4, 0.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log2": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (8.0, 3.0)],
    "log10": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (1000.0, 3.0)],
    "log1p": [(-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-2.0, NAN), (-INF, NAN)],
    "softplus": [(-INF, 0.0), (INF, INF), (0.0, math.log(2)), (1e4, 1e4), (-1e4, 0.0)],
    "logaddexp": [
        ((INF, INF), INF), ((-INF, -INF), -INF), ((INF, -INF), INF), ((-INF, 3.0), 3.0), ((3.0, -INF), 3.0),
        ((INF, 1.0), INF), ((0.0, 0.0), math.log(2)), ((NAN, INF), NAN), ((1.0, NAN), NAN), ((1e4, 0.0), 1e4),
    ],
    "tanh": [(-INF, -1.0), (INF, 1.0), (0.0, 0.0), (-0.0, -0.0), (50.0, 1.0)],
    "sinh": [(-INF, -INF), (INF, INF), (0.0, 0.0), (-0.0, -0.0), (1e4, INF), (-1e4, -INF)],
    "cosh": [(-INF, INF), (INF, INF), (0.0, 1.0), (-0.0, 1.0), (1e4, INF), (-1e4, INF)],
    "asinh": [(-INF, -INF), (INF, INF), (0.0, 0.0), (-0.0, -0.0)],
    "acosh": [(1.0, 0.0), (INF, INF), (0.5, NAN), (-1.0, NAN), (-5.0, NAN), (-INF, NAN)],
    "atanh": [(1.0, INF), (-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN)],
    "sin": [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "cos": [(INF, NAN), (-INF, NAN), (0.0, 1.0), (-0.0, 1.0)],
    "tan": [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asin": [(1.0, math.pi / 2), (-1.0, -math.pi / 2), (0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-INF, NAN)],
    "acos": [(1.0, 0.0), (-1.0, math.pi), (0.0, math.pi / 2), (-0.0, math.pi / 2), (1.5, NAN), (INF, NAN)],
    "atan": [(INF, math.pi / 2), (-INF, -math.pi / 2), (0.0, 0.0), (-0.0, -0.0), (1.0, math.pi / 4)],
    "atan2": [
        ((0.0, 0.0), 0.0), ((-0.0, 0.0), -0.0), ((0.0, -0.0), math.pi), ((-0.0, -0.0), -math.pi),
        ((0.0, 3.0), 0.0), ((-0.0, -3.0), -math.pi), ((2.0, 0.0), math.pi / 2), ((-2.0, -0.0), -math.pi / 2),
        ((INF, INF), math.pi / 4), ((INF, -INF), 3 * math.pi / 4), ((-INF, INF), -math.pi / 4),
        ((-INF, -INF), -3 * math.pi / 4), ((1.0, INF), 0.0), ((-1.0, INF), -0.0), ((1.0, -INF), math.pi),
        ((INF, 1.0), math.pi / 2), ((-INF, -1.0), -math.pi / 2), ((NAN, 1.0), NAN), ((0.0, NAN), NAN),
    ],
    "pow": [
        ((NAN, 0.0), 1.0), ((1.0, NAN), 1.0), ((NAN, 1.0), NAN), ((2.0, NAN), NAN), ((0.0, -3.0), INF),
        ((-0.0, -3.0), -INF), ((-0.0, -2.0), INF), ((-0.0, 3.0), -0.0), ((-0.0, 2.0), 0.0), ((0.0, 0.5), 0.0),
        ((-0.0, 0.5), 0.0), ((-1.0, INF), 1.0), ((-1.0, -INF), 1.0), ((0.5, INF), 0.0), ((0.5, -INF), INF),
        ((2.0, INF), INF), ((2.0, -INF), 0.0), ((-2.0, INF), INF), ((-8.0, 1 / 3), NAN), ((-2.0, 3.0), -8.0),
        ((-2.0, 2.0), 4.0), ((INF, 2.0), INF), ((INF, -2.0), 0.0), ((-INF, 3.0), -INF), ((-INF, 2.0), INF),
        ((-INF, -3.0), -0.0), ((-INF, -2.0), 0.0), ((-INF, 0.5), INF), ((INF, INF), INF), ((0.0, INF), 0.0),
        ((0.0, -INF), INF), ((10.0, 3.0), 1000.0), ((-1.0, 1e30), 1.0), ((-1.5, 1e30), INF),
        ((-0.0, INF), 0.0), ((-0.0, -INF), INF), ((INF, 0.0), 1.0), ((7.0, 1.0), 7.0), ((4.0, 0.5), 2.0),
    ],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (9.0, 3.0)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (4.0, 0.5)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-27.0, -3.0), (8.0, 2.0)],
    "hypot": [
        ((INF, NAN), INF), ((NAN, -INF), INF), ((NAN, 1.0), NAN), ((0.0, -0.0), 0.0), ((-3.0, 4.0), 5.0),
        ((-2.0, 0.0), 2.0), ((-0.0, -0.0), 0.0), ((INF, -INF), INF),
    ],
    "erf": [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    "erfc": [(INF, 0.0), (-INF, 2.0), (0.0, 1.0), (-0.0, 1.0), (1e4, 0.0), (-1e4, 2.0)],
    "gelu": [(INF, INF), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (-1e4, -0.0), (1e4, 1e4)],
    "lgamma": [
        (INF, INF), (-INF, INF), (0.0, INF), (-0.0, INF), (-1.0, INF), (-3.0, INF), (1.0, 0.0), (2.0, 0.0),
        (3.0, math.log(2)), (-1e18, INF),
    ],
    "digamma": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, INF), (-1.0, NAN), (-7.0, NAN), (-1e18, NAN)],
}  # fmt: skip


def same(found, expected):
    """Whether two numbers are the same, with the sign of a zero."""
    return (math.isnan(found) and math.isnan(expected)) or (
        found == expected and math.copysign(1, found) == math.copysign(1, expected)
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name, dtype):
    f = kernel(name, dtype)
    rows = [*SPECIAL_VALUES[name]] + ([(NAN, NAN)] if f.arity == 1 else [((NAN, NAN), NAN)])
    for arguments, expected in rows:
        arguments = arguments if isinstance(arguments, tuple) else (arguments,)
        # In a full vector beside an ordinary number, and alone.
        for size in (1, 64):
            arrays = [np.full(size, 0.75, f.numpy_type) for _ in arguments]
            for a, x in zip(arrays, arguments):
                a[-1] = x
            found = float(f(*arrays)[-1])
            assert same(found, float(f.numpy_type(expected))), (arguments, found, expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_an_element_does_not_depend_on_its_place_in_a_vector(name, dtype):
    f = kernel(name, dtype)
    arguments = samples(name, dtype, 300, f.arity, seed=3)
    whole = f(*arguments)
    alone = np.array([f(*(a[i : i + 1] for a in arguments))[0] for i in range(whole.size)])
    assert whole.tobytes() == alone.tobytes() or (
        np.array_equal(whole, alone, equal_nan=True) and np.array_equal(np.signbit(whole), np.signbit(alone))
    )


@pytest.mark.parametrize("cpu", PROCESSORS, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_the_loop_is_vectorized(name, dtype, cpu):
    kind = TYPES[dtype][0]
    text = module_text([(name, dtype)], loop("kernel", kind, call_of(name, dtype), elementary.arity(name)))
    machine = new_target_machine(cpu)
    body = re.search(r"define void @kernel.*?^}", str(optimized(text, machine)), re.DOTALL | re.MULTILINE)[0]
    lanes = [int(n) for n in re.findall(rf"store <(\d+) x {kind}>", body)]
    assert lanes
    assert max(lanes) * (64 if dtype == "f64" else 32) >= 128
    # No function is left that would be called element by element, other than behind the vector version.
    vector_calls = re.findall(rf"call <\d+ x {kind}> @\"?eo", body)
    scalar_calls = re.findall(rf"call \w*\s*{kind} @\"?eo", body)
    assert bool(vector_calls) == bool(scalar_calls)


@pytest.mark.parametrize("name", ["exp", "sin", "lgamma", "pow"])
def test_shorter_vectors_give_the_same_bits(name):
    for cpu in PROCESSORS if FEATURES.get("avx2") and FEATURES.get("fma") else [None]:
        short, host = Kernel(name, "f64", cpu), kernel(name, "f64")
        arguments = samples(name, "f64", 2000, host.arity, seed=5)
        np.testing.assert_array_equal(short(*arguments), host(*arguments))


def test_functions_share_a_module():
    needed = [
        ("sin", "f64"),
        ("cos", "f64"),
        ("sin", "f32"),
        ("lgamma", "f64"),
        ("digamma", "f64"),
        ("sin", "f64"),
    ]
    call = """  %a = call double @eo.sin.f64(double %v0)
  %b = call double @eo.cos.f64(double %v0)
  %c = fmul double %a, %a
  %d = fmul double %b, %b
  %y = fadd double %c, %d"""
    machine = new_target_machine()
    module = optimized(module_text(needed, loop("kernel", "double", call, 1)), machine)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("kernel")
    )
    x = np.random.default_rng(0).uniform(-1e30, 1e30, 100)
    out = np.empty_like(x)
    run(x.size, out.ctypes.data, x.ctypes.data)
    np.testing.assert_allclose(out, 1, rtol=4e-16)


def test_each_definition_stands_once():
    needed = [(name, dtype) for name in NAMES for dtype in TYPES]
    lanes = {"f64": ("", ".v2", ".v4", ".v8"), "f32": ("", ".v2", ".v4", ".v8", ".v16")}
    symbols = [f"{elementary.symbol(name, t)}{n}" for name, t in needed for n in lanes[t]]
    text = elementary.source([symbol[1:] for symbol in symbols] * 2)
    defined = re.findall(r"^(?:define [^@]*)?(@[\w.]+)", text, re.MULTILINE)
    assert len(defined) == len(set(defined))
    assert set(symbols) <= set(defined)
    for kind, end in (("float", ""), ("<16 x float>", ".v16")):
        head = f"define available_externally {kind} @eo.pow.f32{end}({kind} %x, {kind} %y) alwaysinline {{"
        assert head in text.splitlines()
    llvm.parse_assembly(text).verify()


def test_a_module_declares_each_function_once_with_its_vectors():
    lines = elementary.declarations([("exp", "f32"), ("exp", "f64"), ("exp", "f32"), ("pow", "f64")])
    declared = sorted(re.search(r"@([\w.]+)\(", line)[1] for line in lines if line.startswith("declare"))
    numbers = {"eo.exp.f32": (2, 4, 8, 16), "eo.exp.f64": (2, 4, 8), "eo.pow.f64": (2, 4, 8)}
    assert declared == sorted([*numbers, *(f"{name}.v{n}" for name, of in numbers.items() for n in of)])
    kept = next(line for line in lines if line.startswith("@llvm.compiler.used"))
    assert set(re.findall(r"ptr @([\w.]+)", kept)) == set(declared) - set(numbers)
    text = "\n".join(sorted(lines))
    assert "_ZGV_LLVM_N8vv_eo.pow.f64(eo.pow.f64.v8)" in text
    llvm.parse_assembly(text).verify()
    assert elementary.declarations([]) == set()


def test_nothing_is_called_but_what_is_rare():
    machine = new_target_machine()
    for name in ("exp", "sin"):
        text = str(
            optimized(
                module_text([(name, "f64")], loop("kernel", "double", call_of(name, "f64"), 1)), machine
            )
        )
        left = elementary.called(text)
        assert left == []
        assert ("eo.sin.rare" in text) == (name == "sin")


def test_modules_with_other_definitions_are_other_texts(monkeypatch):
    before = elementary.declarations([("exp", "f64")])
    monkeypatch.setattr(elementary, "_fingerprint", lambda: "another")
    assert "; with the elementary functions another" in elementary.declarations([("exp", "f64")]) - before
