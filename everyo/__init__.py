"""EveryO: exact derivatives of NumPy-style code, eager, to any order."""

import numpy as _numpy  # noqa: I001 - first: deep inside another import it takes a third longer

import importlib as _importlib
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
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
from everyo.errors import LinAlgError as LinAlgError
from everyo.errors import NonFiniteGradientError as NonFiniteGradientError
from everyo.errors import SerializationError as SerializationError
from everyo.errors import ShapeError as ShapeError
from everyo.errors import SignatureError as SignatureError
from everyo.errors import UnsupportedOperationError as UnsupportedOperationError
from everyo.guidance import unknown_name as _missing
from everyo.ops import *
from everyo.ops.later import ON_FIRST_USE as _OPERATIONS

if _TYPE_CHECKING:
    from everyo import fft as fft
    from everyo import io as io
    from everyo import linalg as linalg
    from everyo import nn as nn
    from everyo import optim as optim
    from everyo import random as random
    from everyo import scipy_compat as scipy_compat
    from everyo import special as special
    from everyo import testing as testing
    from everyo.compiler import compile as compile
    from everyo.compiler import debug_print as debug_print
    from everyo.compiler import jit as jit
    from everyo.ops.accumulations import cummax as cummax
    from everyo.ops.accumulations import cummin as cummin
    from everyo.ops.accumulations import cumulative_max as cumulative_max
    from everyo.ops.accumulations import cumulative_min as cumulative_min
    from everyo.ops.accumulations import cumulative_prod as cumulative_prod
    from everyo.ops.accumulations import cumulative_sum as cumulative_sum
    from everyo.ops.accumulations import logcumsumexp as logcumsumexp
    from everyo.ops.assembling import append as append
    from everyo.ops.assembling import atleast_3d as atleast_3d
    from everyo.ops.assembling import column_stack as column_stack
    from everyo.ops.assembling import diagflat as diagflat
    from everyo.ops.assembling import dsplit as dsplit
    from everyo.ops.assembling import dstack as dstack
    from everyo.ops.assembling import fliplr as fliplr
    from everyo.ops.assembling import flipud as flipud
    from everyo.ops.assembling import hsplit as hsplit
    from everyo.ops.assembling import ix_ as ix_
    from everyo.ops.assembling import resize as resize
    from everyo.ops.assembling import rollaxis as rollaxis
    from everyo.ops.assembling import trim_zeros as trim_zeros
    from everyo.ops.assembling import vsplit as vsplit
    from everyo.ops.bin_edges import histogram_bin_edges as histogram_bin_edges
    from everyo.ops.bits import bitwise_count as bitwise_count
    from everyo.ops.bits import bitwise_not as bitwise_not
    from everyo.ops.bits import invert as invert
    from everyo.ops.bits import left_shift as left_shift
    from everyo.ops.bits import right_shift as right_shift
    from everyo.ops.blocks import block as block
    from everyo.ops.blocks import block_diag as block_diag
    from everyo.ops.broadcasting import broadcast_shapes as broadcast_shapes
    from everyo.ops.choosing import argpartition as argpartition
    from everyo.ops.choosing import choose as choose
    from everyo.ops.choosing import lexsort as lexsort
    from everyo.ops.choosing import partition as partition
    from everyo.ops.choosing import piecewise as piecewise
    from everyo.ops.closeness import allclose as allclose
    from everyo.ops.closeness import array_equal as array_equal
    from everyo.ops.closeness import array_equiv as array_equiv
    from everyo.ops.closeness import isclose as isclose
    from everyo.ops.closeness import iscomplex as iscomplex
    from everyo.ops.closeness import iscomplexobj as iscomplexobj
    from everyo.ops.closeness import isneginf as isneginf
    from everyo.ops.closeness import isposinf as isposinf
    from everyo.ops.closeness import isreal as isreal
    from everyo.ops.closeness import isrealobj as isrealobj
    from everyo.ops.closeness import real_if_close as real_if_close
    from everyo.ops.convolution import conv1d as conv1d
    from everyo.ops.convolution import conv2d as conv2d
    from everyo.ops.convolution import conv3d as conv3d
    from everyo.ops.covariance import corrcoef as corrcoef
    from everyo.ops.covariance import cov as cov
    from everyo.ops.data_types import can_cast as can_cast
    from everyo.ops.data_types import finfo as finfo
    from everyo.ops.data_types import iinfo as iinfo
    from everyo.ops.data_types import isdtype as isdtype
    from everyo.ops.data_types import result_type as result_type
    from everyo.ops.differences import ediff1d as ediff1d
    from everyo.ops.differences import gradient as gradient
    from everyo.ops.differences import trapezoid as trapezoid
    from everyo.ops.differences import unwrap as unwrap
    from everyo.ops.distances import cdist as cdist
    from everyo.ops.distances import pdist as pdist
    from everyo.ops.distances import renorm as renorm
    from everyo.ops.einsum import einsum as einsum
    from everyo.ops.filters import convolve as convolve
    from everyo.ops.filters import correlate as correlate
    from everyo.ops.fitting import polydiv as polydiv
    from everyo.ops.fitting import polyfit as polyfit
    from everyo.ops.fitting import roots as roots
    from everyo.ops.float_parts import copysign as copysign
    from everyo.ops.float_parts import fabs as fabs
    from everyo.ops.float_parts import fix as fix
    from everyo.ops.float_parts import frac as frac
    from everyo.ops.float_parts import frexp as frexp
    from everyo.ops.float_parts import ldexp as ldexp
    from everyo.ops.float_parts import modf as modf
    from everyo.ops.float_parts import nan_to_num as nan_to_num
    from everyo.ops.float_parts import nextafter as nextafter
    from everyo.ops.float_parts import rint as rint
    from everyo.ops.grids import diag_indices as diag_indices
    from everyo.ops.grids import diag_indices_from as diag_indices_from
    from everyo.ops.grids import indices as indices
    from everyo.ops.grids import ravel_multi_index as ravel_multi_index
    from everyo.ops.grids import tril_indices as tril_indices
    from everyo.ops.grids import tril_indices_from as tril_indices_from
    from everyo.ops.grids import triu_indices as triu_indices
    from everyo.ops.grids import triu_indices_from as triu_indices_from
    from everyo.ops.grids import unravel_index as unravel_index
    from everyo.ops.histograms import bincount as bincount
    from everyo.ops.histograms import histogram as histogram
    from everyo.ops.histograms import histogram2d as histogram2d
    from everyo.ops.histograms import histogramdd as histogramdd
    from everyo.ops.insertions import delete as delete
    from everyo.ops.insertions import insert as insert
    from everyo.ops.inspection import __array_namespace_info__ as __array_namespace_info__
    from everyo.ops.interchange import from_dlpack as from_dlpack
    from everyo.ops.masking import argwhere as argwhere
    from everyo.ops.masking import compress as compress
    from everyo.ops.masking import extract as extract
    from everyo.ops.masking import flatnonzero as flatnonzero
    from everyo.ops.masking import masked_fill as masked_fill
    from everyo.ops.masking import masked_scatter as masked_scatter
    from everyo.ops.masking import masked_select as masked_select
    from everyo.ops.masking import select as select
    from everyo.ops.mixtures import deg2rad as deg2rad
    from everyo.ops.mixtures import degrees as degrees
    from everyo.ops.mixtures import fmax as fmax
    from everyo.ops.mixtures import fmin as fmin
    from everyo.ops.mixtures import heaviside as heaviside
    from everyo.ops.mixtures import lerp as lerp
    from everyo.ops.mixtures import rad2deg as rad2deg
    from everyo.ops.mixtures import radians as radians
    from everyo.ops.nan_reductions import nanargmax as nanargmax
    from everyo.ops.nan_reductions import nanargmin as nanargmin
    from everyo.ops.nan_reductions import nancumprod as nancumprod
    from everyo.ops.nan_reductions import nancumsum as nancumsum
    from everyo.ops.nan_reductions import nanmax as nanmax
    from everyo.ops.nan_reductions import nanmin as nanmin
    from everyo.ops.nan_reductions import nanprod as nanprod
    from everyo.ops.nan_reductions import nansum as nansum
    from everyo.ops.nan_statistics import nanmean as nanmean
    from everyo.ops.nan_statistics import nanstd as nanstd
    from everyo.ops.nan_statistics import nanvar as nanvar
    from everyo.ops.order_statistics import median as median
    from everyo.ops.order_statistics import nanmedian as nanmedian
    from everyo.ops.order_statistics import nanpercentile as nanpercentile
    from everyo.ops.order_statistics import nanquantile as nanquantile
    from everyo.ops.order_statistics import percentile as percentile
    from everyo.ops.order_statistics import quantile as quantile
    from everyo.ops.padding import pad as pad
    from everyo.ops.polynomials import poly as poly
    from everyo.ops.polynomials import polyadd as polyadd
    from everyo.ops.polynomials import polyder as polyder
    from everyo.ops.polynomials import polyint as polyint
    from everyo.ops.polynomials import polymul as polymul
    from everyo.ops.polynomials import polysub as polysub
    from everyo.ops.polynomials import polyval as polyval
    from everyo.ops.polynomials import vander as vander
    from everyo.ops.pooling import avg_pool1d as avg_pool1d
    from everyo.ops.pooling import avg_pool2d as avg_pool2d
    from everyo.ops.pooling import max_pool1d as max_pool1d
    from everyo.ops.pooling import max_pool2d as max_pool2d
    from everyo.ops.products import cross as cross
    from everyo.ops.products import kron as kron
    from everyo.ops.products import matvec as matvec
    from everyo.ops.products import vecmat as vecmat
    from everyo.ops.progressions import geomspace as geomspace
    from everyo.ops.progressions import logspace as logspace
    from everyo.ops.progressions import tri as tri
    from everyo.ops.quotients import divmod as divmod
    from everyo.ops.quotients import float_power as float_power
    from everyo.ops.quotients import fmod as fmod
    from everyo.ops.quotients import gcd as gcd
    from everyo.ops.quotients import lcm as lcm
    from everyo.ops.quotients import true_divide as true_divide
    from everyo.ops.random import manual_seed as manual_seed
    from everyo.ops.scattering import index_copy as index_copy
    from everyo.ops.scattering import index_fill as index_fill
    from everyo.ops.scattering import index_reduce as index_reduce
    from everyo.ops.scattering import index_select as index_select
    from everyo.ops.scattering import scatter as scatter
    from everyo.ops.scattering import scatter_reduce as scatter_reduce
    from everyo.ops.searching import digitize as digitize
    from everyo.ops.searching import interp as interp
    from everyo.ops.searching import searchsorted as searchsorted
    from everyo.ops.segments import segment_max as segment_max
    from everyo.ops.segments import segment_mean as segment_mean
    from everyo.ops.segments import segment_min as segment_min
    from everyo.ops.segments import segment_prod as segment_prod
    from everyo.ops.segments import segment_sum as segment_sum
    from everyo.ops.sets import intersect1d as intersect1d
    from everyo.ops.sets import isin as isin
    from everyo.ops.sets import setdiff1d as setdiff1d
    from everyo.ops.sets import setxor1d as setxor1d
    from everyo.ops.sets import union1d as union1d
    from everyo.ops.slicewise import apply_along_axis as apply_along_axis
    from everyo.ops.slicewise import apply_over_axes as apply_over_axes
    from everyo.ops.slicewise import rot90 as rot90
    from everyo.ops.slicewise import sort_complex as sort_complex
    from everyo.ops.special.top_level import i0 as i0
    from everyo.ops.special.top_level import sinc as sinc
    from everyo.ops.standardizing import layer_norm as layer_norm
    from everyo.ops.stochastic import dropout as dropout
    from everyo.ops.unique_elements import unique as unique
    from everyo.ops.unique_elements import unique_all as unique_all
    from everyo.ops.unique_elements import unique_counts as unique_counts
    from everyo.ops.unique_elements import unique_inverse as unique_inverse
    from everyo.ops.unique_elements import unique_values as unique_values
    from everyo.ops.vector_products import vdot as vdot
    from everyo.ops.window_reductions import reduce_window as reduce_window
    from everyo.ops.window_reductions import sliding_window_view as sliding_window_view
    from everyo.ops.window_reductions import unfold as unfold
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
__array_api_version__ = "2025.12"
newaxis = None

# Loaded when first used, so that `import everyo` costs little more than NumPy.
_PACKAGES = ("fft", "io", "linalg", "nn", "optim", "random", "scipy_compat", "special", "testing")
_MODULES = ("autograd", "errors", "implicit", *_PACKAGES)  # those with public names
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
    "manual_seed": "everyo.random",
    **dict.fromkeys(("compile", "debug_print", "jit"), "everyo.compiler"),
    **dict.fromkeys(("custom_jvp", "custom_vjp", "stop_gradient"), "everyo.transforms.custom"),
    **dict.fromkeys(("sparse_hessian", "sparse_jacobian"), "everyo.transforms.sparse"),
}


_unknown_name = _missing(__name__)


def __getattr__(name: str) -> _Any:
    if name not in _ON_FIRST_USE:
        return _unknown_name(name)
    module = _importlib.import_module(_ON_FIRST_USE[name])
    found = module if name in _MODULES else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    private = {name for name in globals() if name.startswith("_") and not name.startswith("__")}
    inner = {name for name, value in globals().items() if type(value) is type(_importlib)} - {*_MODULES}
    return sorted({*globals(), *_ON_FIRST_USE} - private - inner)
