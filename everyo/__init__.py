"""EveryO: exact derivatives of NumPy-style code, eager, to any order."""

import numpy as _numpy  # noqa: I001 - first: deep inside another import it takes a third longer

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from everyo import autograd as autograd
from everyo import backends as backends
from everyo.core.device import available_devices as available_devices
from everyo.core.dtypes import bool_ as bool
from everyo.core.dtypes import complex64 as complex64
from everyo.core.dtypes import complex128 as complex128
from everyo.core.dtypes import float16 as float16
from everyo.core.dtypes import float32 as float32
from everyo.core.dtypes import float64 as float64
from everyo.core.dtypes import get_default_dtype as get_default_dtype
from everyo.core.dtypes import int8 as int8
from everyo.core.dtypes import int16 as int16
from everyo.core.dtypes import int32 as int32
from everyo.core.dtypes import int64 as int64
from everyo.core.dtypes import set_default_dtype as set_default_dtype
from everyo.core.dtypes import uint8 as uint8
from everyo.core.dtypes import uint16 as uint16
from everyo.core.dtypes import uint32 as uint32
from everyo.core.dtypes import uint64 as uint64
from everyo.core.modes import detect_anomaly as detect_anomaly
from everyo.core.modes import enable_grad as enable_grad
from everyo.core.modes import inference_mode as inference_mode
from everyo.core.modes import is_grad_enabled as is_grad_enabled
from everyo.core.modes import is_inference_mode_enabled as is_inference_mode_enabled
from everyo.core.modes import no_grad as no_grad
from everyo.core.modes import set_grad_enabled as set_grad_enabled
from everyo.core.tensor import Tensor as Tensor
from everyo.errors import ArgumentError as ArgumentError
from everyo.errors import CompileError as CompileError
from everyo.errors import ConvergenceError as ConvergenceError
from everyo.errors import DeviceError as DeviceError
from everyo.errors import DTypeError as DTypeError
from everyo.errors import EveryOError as EveryOError
from everyo.errors import GraphStateError as GraphStateError
from everyo.errors import IndexingError as IndexingError
from everyo.errors import NonFiniteGradientError as NonFiniteGradientError
from everyo.errors import SerializationError as SerializationError
from everyo.errors import ShapeError as ShapeError
from everyo.errors import UnsupportedOperationError as UnsupportedOperationError
from everyo.ops import *
from everyo.ops import random as random
from everyo.ops.later import ON_FIRST_USE as _OPERATIONS
from everyo.ops.random import manual_seed as manual_seed

if _TYPE_CHECKING:
    from everyo import io as io
    from everyo import nn as nn
    from everyo import optim as optim
    from everyo import scipy_compat as scipy_compat
    from everyo import testing as testing
    from everyo.compiler import compile as compile
    from everyo.compiler import debug_print as debug_print
    from everyo.compiler import jit as jit
    from everyo.transforms import associative_scan as associative_scan
    from everyo.transforms import checkpoint as checkpoint
    from everyo.transforms import checkpoint_sequential as checkpoint_sequential
    from everyo.transforms import cond as cond
    from everyo.transforms import fori_loop as fori_loop
    from everyo.transforms import grad as grad
    from everyo.transforms import hessian as hessian
    from everyo.transforms import hvp as hvp
    from everyo.transforms import implicit as implicit
    from everyo.transforms import jacfwd as jacfwd
    from everyo.transforms import jacobian as jacobian
    from everyo.transforms import jacrev as jacrev
    from everyo.transforms import jvp as jvp
    from everyo.transforms import linearize as linearize
    from everyo.transforms import map as map
    from everyo.transforms import scan as scan
    from everyo.transforms import tree_map as tree_map
    from everyo.transforms import value_and_grad as value_and_grad
    from everyo.transforms import vhp as vhp
    from everyo.transforms import vjp as vjp
    from everyo.transforms import vmap as vmap
    from everyo.transforms import while_loop as while_loop
    from everyo.transforms.custom import custom_jvp as custom_jvp
    from everyo.transforms.custom import custom_vjp as custom_vjp
    from everyo.transforms.custom import stop_gradient as stop_gradient
    from everyo.transforms.sparse import sparse_hessian as sparse_hessian
    from everyo.transforms.sparse import sparse_jacobian as sparse_jacobian

__version__ = "0.1.0"

# Loaded when first used, so that `import everyo` costs little more than NumPy.
_PACKAGES = ("io", "nn", "optim", "scipy_compat", "testing")
_MODULES = ("autograd", "backends", "errors", "implicit", "random", *_PACKAGES)  # those with public names
_TRANSFORMS = (
    "associative_scan", "checkpoint", "checkpoint_sequential", "cond", "fori_loop", "grad", "hessian",
    "hvp", "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "map", "scan", "tree_map", "value_and_grad",
    "vhp", "vjp", "vmap", "while_loop",
)  # fmt: skip
_ON_FIRST_USE = {
    **_OPERATIONS,
    **{name: f"everyo.{name}" for name in _PACKAGES},
    **dict.fromkeys(_TRANSFORMS, "everyo.transforms"),
    "implicit": "everyo.transforms.implicit",
    **dict.fromkeys(("compile", "debug_print", "jit"), "everyo.compiler"),
    **dict.fromkeys(("custom_jvp", "custom_vjp", "stop_gradient"), "everyo.transforms.custom"),
    **dict.fromkeys(("sparse_hessian", "sparse_jacobian"), "everyo.transforms.sparse"),
}


def __getattr__(name: str) -> _Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'everyo' has no attribute {name!r}")
    module = _importlib.import_module(_ON_FIRST_USE[name])
    found = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    private = {name for name in globals() if name.startswith("_") and not name.startswith("__")}
    inner = {name for name, value in globals().items() if type(value) is type(_importlib)} - {*_MODULES}
    return sorted({*globals(), *_ON_FIRST_USE} - private - inner)
