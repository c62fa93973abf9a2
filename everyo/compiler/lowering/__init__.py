"""Lowering: from EveryO's primitives to the core operations, one row of a table for each primitive."""

from everyo.compiler.lowering import complex_functions as _complex_functions
from everyo.compiler.lowering import complex_numbers as _complex_numbers
from everyo.compiler.lowering import compositions as _compositions
from everyo.compiler.lowering import convolution as _convolution
from everyo.compiler.lowering import elementwise as _elementwise
from everyo.compiler.lowering import indexing as _indexing
from everyo.compiler.lowering import numbers as _numbers
from everyo.compiler.lowering import reductions as _reductions
from everyo.compiler.lowering import scans as _scans
from everyo.compiler.lowering import scattering as _scattering
from everyo.compiler.lowering import shapes as _shapes
from everyo.compiler.lowering import special as _special
from everyo.compiler.lowering import windows as _windows
from everyo.compiler.lowering import writes as _writes
from everyo.compiler.lowering.builder import Builder as Builder
from everyo.compiler.lowering.table import LOWERINGS as LOWERINGS
from everyo.compiler.lowering.table import lower as lower
