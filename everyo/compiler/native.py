"""Machine code: LLVM turns the text of a module into a function that Python calls."""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

from everyo.errors import CompileError

try:
    import llvmlite.binding as llvm
except ImportError:  # the extra is not installed
    llvm = None

BLAS = ("dgemm", "sgemm")


def require() -> None:
    """Raise CompileError unless the packages of the extra are there."""
    try:
        importlib.import_module("llvmlite.binding")
        importlib.import_module("scipy.linalg.cython_blas")
    except ImportError as error:
        raise CompileError(
            "the compiler needs packages that are not installed",
            operation="compile",
            expected="llvmlite and scipy",
            found=str(error),
            remedy='install the extra: pip install "everyo[compile]"',
        ) from None


@functools.cache
def target() -> Any:
    """Return LLVM's description of this machine, once BLAS is known to it."""
    require()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in BLAS:
        llvm.add_symbol(f"everyo_{name}", _blas(name))
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True
    )


def _blas(name: str) -> int:
    """Return the address of a routine of the BLAS that SciPy brings."""
    capsule = importlib.import_module("scipy.linalg.cython_blas").__pyx_capi__[name]
    describe = ctypes.pythonapi.PyCapsule_GetName
    describe.restype, describe.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = address(capsule, describe(capsule))
    assert found is not None
    return int(found)


class Code:
    """A compiled module; it lives as long as this object."""

    def __init__(self, text: str) -> None:
        machine = target()
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        options.loop_interleaving = options.loop_unrolling = True
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        self.optimized = module
        self._engine = llvm.create_mcjit_compiler(module, _machine())
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


def _machine() -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
