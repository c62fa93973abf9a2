"""Sparse Jacobians and Hessians: the pattern detected, its columns coloured, few directions pushed."""

try:
    import scipy.sparse
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("sparse derivatives need SciPy: pip install 'everyo[scipy]'") from error

from everyo.transforms.sparse.compressed import SparseDerivative as SparseDerivative
from everyo.transforms.sparse.compressed import sparse_hessian as sparse_hessian
from everyo.transforms.sparse.compressed import sparse_jacobian as sparse_jacobian
