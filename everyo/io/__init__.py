"""`eo.io`: tensors in files."""

from everyo.io.safetensors import load_safetensors as load_safetensors
from everyo.io.safetensors import save_safetensors as save_safetensors

__all__ = ["load_safetensors", "save_safetensors"]
