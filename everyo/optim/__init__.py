"""`eo.optim`: optimizers, with PyTorch's names and arithmetic."""

from everyo.optim.adam import Adam as Adam
from everyo.optim.adam import AdamW as AdamW
from everyo.optim.optimizer import Optimizer as Optimizer
from everyo.optim.sgd import SGD as SGD

__all__ = ["Optimizer", "SGD", "Adam", "AdamW"]


def __getattr__(name: str) -> object:
    from everyo.guidance.names import missing

    raise AttributeError(missing(name, __name__), name=name)
