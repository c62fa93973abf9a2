"""Machine code: LLVM turns the text of a module into a function that Python calls."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from everyo.compiler import cache, elementary
from everyo.errors import CompileError, install

try:
    import llvmlite.binding as llvm
except ImportError:  # the extra is not installed
    llvm = None

BLAS = ("dgemm", "sgemm")
PIPELINE = {  # of LLVM's standard pipelines the shortest: what the others add has not made programs faster
    "speed_level": 1,
    "loop_vectorization": True,
    "slp_vectorization": True,
    "loop_interleaving": True,
    "loop_unrolling": True,
}
BEST, QUICKEST = 3, 0  # levels of optimization in generating code
_LINKED: set[str] = set()


class Host(NamedTuple):
    """The processor that code is generated for, as LLVM names it."""

    triple: str
    cpu: str
    features: str


def require() -> None:
    """Raise CompileError unless the packages of the extra are there; SciPy is loaded when it is used."""
    try:
        importlib.import_module("llvmlite.binding")
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("No module named 'scipy'")
    except ImportError as error:
        raise CompileError(
            "the compiler needs packages that are not installed",
            operation="compile",
            expected="llvmlite and scipy",
            found=str(error),
            remedy=install("compile"),
        ) from None


@functools.cache
def host() -> Host:
    """Return this machine's processor, once LLVM can generate code for it."""
    require()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return Host(llvm.get_default_triple(), llvm.get_host_cpu_name(), features)


def _machine(level: int = BEST) -> Any:
    """Return a new code generator; an engine takes possession of the one it is given."""
    triple, cpu, features = host()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=level, jit=True)


@functools.cache
def _generator(level: int = BEST) -> Any:
    return _machine(level)


def _parsed(text: str, context: Any = None) -> Any:
    """Return a module for this machine."""
    machine = _generator()
    module = llvm.parse_assembly(text, context)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return module


def optimized(text: str) -> Any:
    """Return the module that LLVM makes of a text before it generates code."""
    context = llvm.create_context()  # what is in a context of its own goes with the module
    module = _parsed(text, context)
    module.verify()
    options = llvm.create_pipeline_tuning_options()
    for name, value in PIPELINE.items():
        setattr(options, name, value)
    builder = llvm.create_pass_builder(_generator(), options)
    builder.getModulePassManager().run(module, builder)
    if "@eo." in text:
        fill_in(module, builder, context)
    return module


def fill_in(module: Any, builder: Any, context: Any = None) -> None:
    """Put the elementary functions that an optimized module calls in the place of their calls."""
    functions = elementary.called(str(module))
    if functions:
        definitions = llvm.parse_assembly(elementary.source(functions), context)
        definitions.triple, definitions.data_layout = module.triple, module.data_layout
        module.link_in(definitions)
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sccp_pass()  # arguments that are known, such as exponents
        module.get_global_variable("llvm.compiler.used").linkage = "internal"  # has served the vectorizers
        passes.add_global_dead_code_eliminate_pass()
        passes.run(module, builder)


def _hardly_optimized(text: str) -> Any:
    """Return a module in which only the places of local variables have become values."""
    module = _parsed(text, llvm.create_context())
    module.verify()
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, llvm.create_pass_builder(_generator(), llvm.create_pipeline_tuning_options()))
    return module


def object_code(text: str, level: int = BEST) -> bytes:
    """Return the object file of a module, from the cache if it is there."""
    version = ".".join(map(str, llvm.llvm_version_info))
    key = cache.key_of(sys.modules["everyo"].__version__, version, *host(), repr(PIPELINE), str(level), text)
    found = cache.load(key)
    if found is None:
        module = optimized(text) if level == BEST else _hardly_optimized(text)
        found = bytes(_generator(level).emit_object(module))
        cache.store(key, found)
    return found


class _Method(ctypes.Structure):
    """Python's description of a built-in function (PyMethodDef)."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL, _KEYWORDS = 0x80, 0x02  # METH_FASTCALL, METH_KEYWORDS
_METHODS: list[_Method] = []  # of classes: Python keeps their addresses


class Code:
    """A compiled module; it lives as long as this object.

    What consists of calls gains little from LLVM's optimizations, which take most of the time of compiling:
    for that there is the level `QUICKEST`.
    """

    def __init__(self, text: str, level: int = BEST) -> None:
        data = object_code(text, level)
        for name in BLAS:
            if f"@everyo_{name}(" in text:
                _link(name)
        self._engine = llvm.create_mcjit_compiler(_parsed(""), _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        self._methods: dict[str, _Method] = {}  # Python keeps their addresses

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))

    def builtin(self, name: str, owner: Any) -> Any:
        """Return a function as Python's own built-in ones are; `owner` is its first argument.

        It takes positional arguments as ``(owner, arguments, count)`` and returns a new reference.
        """
        if name not in self._methods:
            self._methods[name] = _Method(name.encode(), self.address(name), _FASTCALL, None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._methods[name]), owner, None)


def method(kind: type, name: str, address: int, doc: str) -> Any:
    """Return a function as a method of a class; it stays for good, and so must its code.

    It takes positional arguments, and those with names, as ``(self, arguments, count, names)``.
    """
    _METHODS.append(_Method(name.encode(), address, _FASTCALL | _KEYWORDS, doc.encode()))
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(kind, ctypes.addressof(_METHODS[-1]))


def _link(name: str) -> None:
    """Make a routine of the BLAS that SciPy brings known to programs."""
    if name in _LINKED:
        return
    capsule = _cython_blas().__pyx_capi__[name]
    describe = ctypes.pythonapi.PyCapsule_GetName
    describe.restype, describe.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = address(capsule, describe(capsule))
    assert found is not None
    llvm.add_symbol(f"everyo_{name}", int(found))
    _LINKED.add(name)


def _cython_blas() -> Any:
    """Return SciPy's module of BLAS routines, alone where its package is not loaded: that takes 0.2 s."""
    name = "scipy.linalg.cython_blas"
    package = importlib.util.find_spec("scipy")
    if "scipy.linalg" in sys.modules or package is None or not package.submodule_search_locations:
        return importlib.import_module(name)
    places = [str(Path(place) / "linalg") for place in package.submodule_search_locations]
    found = PathFinder.find_spec(name, places)
    if found is None or found.loader is None:
        return importlib.import_module(name)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return sys.modules.setdefault(name, module)  # where SciPy will look for it
