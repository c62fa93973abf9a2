"""Loops over one elementary function each, compiled, with exact values to compare them with."""

import ctypes
import functools

import llvmlite.binding as llvm
import numpy as np

from everyo.compiler import elementary
from everyo.compiler.native import fill_in

TYPES = {"f64": ("double", np.float64), "f32": ("float", np.float32)}


def new_target_machine(cpu=None):
    """Return LLVM's target machine for this computer, or for another processor of its kind."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten() if cpu is None else ""
    return llvm.Target.from_default_triple().create_target_machine(
        opt=3, cpu=cpu or llvm.get_host_cpu_name(), features=features
    )


def loop(name, kind, call, arity):
    """Return the text of ``void name(n, out, x0, x1, ...)``, where `call` computes %y from %v0, ..."""
    arrays = ", ".join(f"ptr noalias %x{i}" for i in range(arity))
    loads = "\n".join(
        f"  %p{i} = getelementptr {kind}, ptr %x{i}, i64 %i\n  %v{i} = load {kind}, ptr %p{i}"
        for i in range(arity)
    )
    return f"""
define void @{name}(i64 %n, ptr noalias %out, {arrays}) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{loads}
{call}
  %q = getelementptr {kind}, ptr %out, i64 %i
  store {kind} %y, ptr %q
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}
"""


def call_of(name, dtype):
    """Return the line that calls the function `name` on %v0, %v1, ..."""
    kind = TYPES[dtype][0]
    arguments = ", ".join(f"{kind} %v{i}" for i in range(elementary.arity(name)))
    return f"  %y = call {kind} {elementary.symbol(name, dtype)}({arguments})"


def module_text(needed, *loops):
    """Return a module with the functions `needed` and the text of some loops."""
    return "\n".join([*sorted(elementary.declarations(needed)), *loops])


def optimized(text, machine):
    """Return the module of `text` after LLVM's standard passes, with the elementary functions in it."""
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = True
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    fill_in(module, passes)
    module.verify()
    return module


class Kernel:
    """A compiled loop that applies the function `name` to arrays of the type `dtype`."""

    def __init__(self, name, dtype, cpu=None):
        kind, self.numpy_type = TYPES[dtype]
        self.arity = elementary.arity(name)
        text = module_text([(name, dtype)], loop("kernel", kind, call_of(name, dtype), self.arity))
        machine = new_target_machine(cpu)
        module = optimized(text, machine)
        self.optimized = str(module)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.function = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + self.arity))(
            self.engine.get_function_address("kernel")
        )

    def __call__(self, *arrays):
        arrays = [np.ascontiguousarray(a, self.numpy_type) for a in arrays]
        out = np.empty(arrays[0].shape, self.numpy_type)
        self.into(out, *arrays)
        return out

    def into(self, out, *arrays):
        """Write into `out`; all arrays contiguous, of one type and not empty."""
        self.function(out.size, out.ctypes.data, *(a.ctypes.data for a in arrays))


@functools.cache
def kernel(name, dtype):
    return Kernel(name, dtype)


def errors_in_ulp(name, found, exact, *arguments):
    """Return distances in units of the last place of `exact`: 0 for the same infinity, or two NaNs.

    The zeros of logaddexp are curves: there its error counts beside the larger argument.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        size = np.abs(rounded)
        if name == "logaddexp":
            size = np.maximum(size, np.abs(np.maximum(*arguments)))
        distance = np.abs(found.astype(exact.dtype) - exact) / np.spacing(size).astype(exact.dtype)
    same = (found == rounded) & np.isinf(rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same, 0, np.where(np.isnan(distance), np.inf, distance)).astype(float)
