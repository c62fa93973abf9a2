"""`eo.io`: tensors in files."""

from everyo.guidance import unknown_name as _unknown_name
from everyo.io.safetensors import load_safetensors as load_safetensors
from everyo.io.safetensors import save_safetensors as save_safetensors

__all__ = ["load_safetensors", "save_safetensors"]

__getattr__ = _unknown_name(__name__)
