"""What names of other libraries are called here; read when one is asked for that does not exist."""

from __future__ import annotations

# For `x.name`: names of tensors of PyTorch, arrays of NumPy and of JAX.
OF_TENSORS = {
    "unsqueeze": "x.expand_dims(axis)",
    "view": "x.reshape(shape)",
    "permute": "x.transpose(axes)",
    "t": "x.T, and x.mT for stacks of matrices",
    "H": "x.mT.conj()",
    "contiguous": "not needed, as operations take any strides",
    "numel": "x.size",
    "dim": "x.ndim",
    "float": "x.astype(eo.float32)",
    "double": "x.astype(eo.float64)",
    "half": "x.astype(eo.float16)",
    "long": "x.astype(eo.int64)",
    "int": "x.astype(eo.int32)",
    "bool": "x.astype(eo.bool)",
    "type": "x.astype(dtype)",
    "cpu": "not needed, as tensors are on the CPU",
    "cuda": "tensors are on the CPU",
    "expand": "x.broadcast_to(shape)",
    "add_": "x += y",
    "sub_": "x -= y",
    "mul_": "x *= y",
    "div_": "x /= y",
    "zero_": "x[...] = 0",
    "fill_": "x[...] = value",
    "copy_": "x[...] = value",
    "detach_": "x = x.detach()",
    "at": "x[i] = v in place of x.at[i].set(v); x[i] += v adds",
    "sort": "eo.sort(x)",
    "fill": "x[...] = value",
}

# For `eo.name`.
OF_MODULE = {
    "array": "eo.tensor(data), which copies, or eo.asarray(data)",
    "Variable": "eo.tensor(data, requires_grad=True)",
    "from_array": "eo.asarray(array)",
    "cat": "eo.concatenate(tensors, axis)",
    "unsqueeze": "eo.expand_dims(x, axis)",
    "permute": "eo.transpose(x, axes)",
    "view": "eo.reshape(x, shape)",
    "randn": "eo.random.normal(size=shape)",
    "rand": "eo.random.uniform(size=shape)",
    "randint": "eo.random.integers(low, high, size=shape)",
    "numel": "x.size",
    "mm": "eo.matmul(a, b) or a @ b",
    "bmm": "eo.matmul(a, b) or a @ b",
    "clamp": "eo.clip(x, low, high)",
    "long": "eo.int64",
    "float": "eo.float32",
    "double": "eo.float64",
    "half": "eo.float16",
    "int": "eo.int32",
    "tree_leaves": "eo.tree_map(f, tree), which maps over the leaves; optree.tree_leaves(tree) lists them",
    "device_get": "x.numpy()",
    "numpy": "its functions are those of eo itself, as in eo.sin",
}


def missing(name: str, owner: str, known: dict[str, str]) -> str:
    """Return the text of the AttributeError for a name that does not exist."""
    text = f"{owner} has no attribute {name!r}"
    return f"{text}; in EveryO: {known[name]}" if name in known else text
