"""The calculus: every operation, with its rules beside it. One file a family.

Importing this package defines all operations; the public ones are collected here from each module's
``__all__``, and `methods` attaches operators and array methods to `Tensor`.
"""

from types import ModuleType as _ModuleType

from everyo.ops.arithmetic import *  # isort: skip
from everyo.ops.piecewise import *  # isort: skip
from everyo.ops.comparison import *  # isort: skip
from everyo.ops.complex_parts import *  # isort: skip
from everyo.ops.exponential import *  # isort: skip
from everyo.ops.trigonometric import *  # isort: skip
from everyo.ops.activations import *  # isort: skip
from everyo.ops.creation import *  # isort: skip
from everyo.ops.ranges import *  # isort: skip
from everyo.ops.shape import *  # isort: skip
from everyo.ops.transposition import *  # isort: skip
from everyo.ops.conversion import *  # isort: skip
from everyo.ops.gathering import *  # isort: skip
from everyo.ops.rearranging import *  # isort: skip
from everyo.ops.diagonals import *  # isort: skip
from everyo.ops.joining import *  # isort: skip
from everyo.ops.splitting import *  # isort: skip
from everyo.ops.contraction import *  # isort: skip
from everyo.ops.embedding import *  # isort: skip
from everyo.ops.reductions import *  # isort: skip
from everyo.ops.extremes import *  # isort: skip
from everyo.ops.truth import *  # isort: skip
from everyo.ops.norms import *  # isort: skip
from everyo.ops.statistics import *  # isort: skip
from everyo.ops.normalizers import *  # isort: skip
from everyo.ops.scans import *  # isort: skip
from everyo.ops.sorting import *  # isort: skip
from everyo.ops import methods  # isort: skip

__all__ = [n for n, v in globals().items() if not (n.startswith("_") or isinstance(v, _ModuleType))]
