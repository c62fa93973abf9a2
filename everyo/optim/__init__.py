"""`eo.optim`: optimizers, with PyTorch's names and arithmetic."""

from everyo.guidance import unknown_name as _unknown_name
from everyo.optim.adam import Adam as Adam
from everyo.optim.adam import AdamW as AdamW
from everyo.optim.optimizer import Optimizer as Optimizer
from everyo.optim.sgd import SGD as SGD

__all__ = ["Optimizer", "SGD", "Adam", "AdamW"]

__getattr__ = _unknown_name(__name__)
