"""`eo.io`: tensors in files."""

from everyo.io.safetensors import load_safetensors as load_safetensors
from everyo.io.safetensors import save_safetensors as save_safetensors

__all__ = ["load_safetensors", "save_safetensors"]


def __getattr__(name: str) -> object:
    from everyo.guidance.names import missing

    raise AttributeError(missing(name, __name__), name=name)
