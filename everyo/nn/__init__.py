"""`eo.nn`: layers and losses, with PyTorch's names."""

from everyo.guidance import unknown_name as _unknown_name
from everyo.nn import functional as functional
from everyo.nn import init as init
from everyo.nn.activations import GELU as GELU
from everyo.nn.activations import ReLU as ReLU
from everyo.nn.activations import Sigmoid as Sigmoid
from everyo.nn.activations import SiLU as SiLU
from everyo.nn.activations import Softplus as Softplus
from everyo.nn.activations import Tanh as Tanh
from everyo.nn.calling import functional_call as functional_call
from everyo.nn.containers import ModuleList as ModuleList
from everyo.nn.containers import Sequential as Sequential
from everyo.nn.convolution import Conv1d as Conv1d
from everyo.nn.convolution import Conv2d as Conv2d
from everyo.nn.dropout import Dropout as Dropout
from everyo.nn.embedding import Embedding as Embedding
from everyo.nn.flatten import Flatten as Flatten
from everyo.nn.linear import Identity as Identity
from everyo.nn.linear import Linear as Linear
from everyo.nn.losses import BCEWithLogitsLoss as BCEWithLogitsLoss
from everyo.nn.losses import CrossEntropyLoss as CrossEntropyLoss
from everyo.nn.losses import HuberLoss as HuberLoss
from everyo.nn.losses import L1Loss as L1Loss
from everyo.nn.losses import MSELoss as MSELoss
from everyo.nn.losses import NLLLoss as NLLLoss
from everyo.nn.module import Module as Module
from everyo.nn.normalization import LayerNorm as LayerNorm
from everyo.nn.parameter import Parameter as Parameter
from everyo.nn.pooling import AvgPool2d as AvgPool2d
from everyo.nn.pooling import MaxPool2d as MaxPool2d

__getattr__ = _unknown_name(__name__)
