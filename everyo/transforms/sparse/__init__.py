"""Sparse Jacobians and Hessians: the pattern detected, its columns coloured, few directions pushed."""

try:
    import scipy.sparse
except ModuleNotFoundError as error:
    from everyo.errors import install

    raise ModuleNotFoundError(f"sparse derivatives need SciPy: {install('scipy')}") from error

from everyo.transforms.sparse.compressed import SparseDerivative as SparseDerivative
from everyo.transforms.sparse.compressed import sparse_hessian as sparse_hessian
from everyo.transforms.sparse.compressed import sparse_jacobian as sparse_jacobian
