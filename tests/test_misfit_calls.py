"""Calls with PyTorch's or JAX's arguments: each error says what to write, and that works."""

import inspect
import pickle
import types

import numpy as np
import pytest

import everyo as eo

X = eo.tensor(np.arange(6.0).reshape(2, 3))
THREE = eo.ones((2, 3, 4))

CALLS = {  # a call, the remedy, what the remedy says
    "sum": (lambda: X.sum(dim=1), "write axis=1 in place of dim=1", lambda: X.sum(axis=1)),
    "function": (lambda: eo.sum(X, dim=1), "axis=1 in place of dim=1", lambda: eo.sum(X, axis=1)),
    "keepdim": (
        lambda: X.mean(1, keepdim=True),
        "keepdims=True in place of keepdim=True",
        lambda: X.mean(1, keepdims=True),
    ),
    "both": (
        lambda: X.max(dim=0, keepdim=True),
        r"axis=0 in place of dim=0; write keepdims=True",
        lambda: X.max(axis=0, keepdims=True),
    ),
    "min": (lambda: X.min(dim=0), "axis=0", lambda: X.min(axis=0)),
    "prod": (lambda: X.prod(dim=0), "axis=0", lambda: X.prod(axis=0)),
    "argmax": (lambda: X.argmax(dim=1), "axis=1", lambda: X.argmax(axis=1)),
    "all": (lambda: X.all(dim=1), "axis=1", lambda: X.all(axis=1)),
    "any": (lambda: X.any(dim=1), "axis=1", lambda: X.any(axis=1)),
    "var": (lambda: X.var(unbiased=False), "correction=0 for unbiased=False", lambda: X.var(correction=0)),
    "std": (lambda: X.std(dim=0), "axis=0", lambda: X.std(axis=0)),
    "softmax": (lambda: X.softmax(dim=1), "axis=1", lambda: X.softmax(axis=1)),
    "functional": (lambda: eo.nn.functional.softmax(X, dim=1), "axis=1", lambda: X.softmax(axis=1)),
    "logsumexp": (lambda: eo.logsumexp(X, dim=1), "axis=1", lambda: eo.logsumexp(X, axis=1)),
    "cumsum": (lambda: X.cumsum(dim=0), "axis=0", lambda: X.cumsum(axis=0)),
    "cummax": (lambda: eo.cummax(X, dim=0), "axis=0", lambda: eo.cummax(X, axis=0)),
    "concat": (lambda: eo.concat([X, X], dim=1), "axis=1", lambda: eo.concat([X, X], axis=1)),
    "stack": (lambda: eo.stack([X, X], dim=1), "axis=1", lambda: eo.stack([X, X], axis=1)),
    "split": (lambda: eo.split(X, 3, dim=1), "axis=1", lambda: eo.split(X, 3, axis=1)),
    "flip": (lambda: eo.flip(X, dims=(0,)), r"axis=\(0,\)", lambda: eo.flip(X, axis=(0,))),
    "roll": (lambda: eo.roll(X, 1, dims=0), "axis=0", lambda: eo.roll(X, 1, axis=0)),
    "squeeze": (lambda: eo.squeeze(X[None], dim=0), "axis=0", lambda: eo.squeeze(X[None], axis=0)),
    "expand_dims": (lambda: X.expand_dims(dim=0), "axis=0 in place of", lambda: X.expand_dims(axis=0)),
    "sort": (lambda: eo.sort(X, dim=0), "axis=0", lambda: eo.sort(X, axis=0)),
    "topk": (lambda: X.topk(2, dim=1), "axis=1", lambda: X.topk(2, axis=1)),
    "median": (lambda: eo.median(X, dim=0), "axis=0", lambda: eo.median(X, axis=0)),
    "vector_norm": (lambda: eo.vector_norm(X, dim=1), "axis=1", lambda: eo.vector_norm(X, axis=1)),
    "linalg.norm": (lambda: eo.linalg.norm(X, dim=1), "axis=1", lambda: eo.linalg.norm(X, axis=1)),
    "fft": (lambda: eo.fft.fft(X, dim=0), "axis=0", lambda: eo.fft.fft(X, axis=0)),
    "fftn": (lambda: eo.fft.fftn(X, dim=(0,)), r"axes=\(0,\)", lambda: eo.fft.fftn(X, axes=(0,))),
    "linspace": (lambda: eo.linspace(0, 1, steps=3), "num=3", lambda: eo.linspace(0, 1, num=3)),
    "gather": (
        lambda: eo.gather(X, dim=1, index=eo.tensor([[0], [1]])),
        "pass axis by position(.|\n)*pass indices by position",
        lambda: eo.gather(X, 1, eo.tensor([[0], [1]])),
    ),
    "ones": (lambda: eo.ones(2, 3), r"write eo.ones\(\(2, 3\)\)", lambda: eo.ones((2, 3))),
    "zeros": (lambda: eo.zeros(2, 3), r"write eo.zeros\(\(2, 3\)\)", lambda: eo.zeros((2, 3))),
    "empty": (lambda: eo.empty(2, 3), r"write eo.empty\(\(2, 3\)\)", lambda: eo.empty((2, 3)) * 0),
    "full": (lambda: eo.full(2, 3, 1.5), r"write eo.full\(\(2, 3\), 1.5\)", lambda: eo.full((2, 3), 1.5)),
    "reshape": (lambda: eo.reshape(X, 3, 2), r"eo.reshape\(x, \(3, 2\)\)", lambda: eo.reshape(X, (3, 2))),
    "transpose": (
        lambda: eo.transpose(THREE, 1, 0, 2),
        r"eo.transpose\(x, \(1, 0, 2\)\)",
        lambda: eo.transpose(THREE, (1, 0, 2)),
    ),
    "permute_dims": (
        lambda: eo.permute_dims(X, 1, 0),
        r"eo.permute_dims\(x, \(1, 0\)\)",
        lambda: eo.permute_dims(X, (1, 0)),
    ),
    "broadcast_to": (
        lambda: X.broadcast_to(2, 2, 3),
        r"eo.broadcast_to\(x, \(2, 2, 3\)\)",
        lambda: X.broadcast_to((2, 2, 3)),
    ),
    "tile": (lambda: X.tile(2, 2), r"eo.tile\(x, \(2, 2\)\)", lambda: X.tile((2, 2))),
    "where": (lambda: eo.where(X > 1), r"eo.nonzero\(condition\)", lambda: eo.nonzero(X > 1)),
    "where of two": (
        lambda: eo.where(X > 1, X),
        r"eo.where\(condition, a, b\)",
        lambda: eo.where(X > 1, X, 0),
    ),
    "out": (lambda: eo.sum(X, out=np.zeros(())), r"y = f\(x\) in place of f\(x, out=y\)", lambda: eo.sum(X)),
    "out of one": (lambda: eo.exp(X, out=X), r"y = f\(x\) in place of f\(x, out=y\)", lambda: eo.exp(X)),
    "out of two": (
        lambda: eo.add(X, X, out=X),
        r"y = f\(x\) in place of f\(x, out=y\)",
        lambda: eo.add(X, X),
    ),
    "out of a method": (lambda: X.sqrt(out=X), r"y = f\(x\) in place of f\(x, out=y\)", lambda: X.sqrt()),
    "named": (lambda: eo.std(input=X, dim=0), "without a name", lambda: eo.std(X, axis=0)),
    "static_argnames": (
        lambda: eo.compile(lambda x, n: x * n, static_argnames="n"),
        "static_argnums=1",
        lambda: eo.compile(lambda x, n: x * n, static_argnums=1)(X, n=2),
    ),
    "dynamic": (
        lambda: eo.compile(abs, dynamic=True),
        "leave it out",
        lambda: eo.compile(lambda x: x * 1)(X),
    ),
    "compile": (
        lambda: eo.compile(lambda x: x * 1, X),
        r"eo.compile\(f\)\(x\)",
        lambda: eo.compile(lambda x: x * 1)(X),
    ),
    "checkpoint": (
        lambda: eo.checkpoint(eo.sin, X),
        r"eo.checkpoint\(f\)\(x\)",
        lambda: eo.checkpoint(eo.sin)(X),
    ),
    "use_reentrant": (
        lambda: eo.checkpoint(eo.sin, use_reentrant=False),
        r"eo.checkpoint\(f\)\(x\)",
        lambda: eo.checkpoint(eo.sin)(X),
    ),
    "vmap": (
        lambda: eo.vmap(eo.sum, in_dims=1),
        "in_axes=1 in place of in_dims=1",
        lambda: eo.vmap(eo.sum, in_axes=1)(X),
    ),
    "grad": (
        lambda: eo.grad(lambda x: x.sum(), argnum=0),
        "argnums=0",
        lambda: eo.grad(lambda x: x.sum(), argnums=0)(X),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_says_what_to_write_and_that_works(name):
    call, remedy, right = CALLS[name]
    with pytest.raises(eo.SignatureError, match=remedy) as caught:
        call()
    assert isinstance(caught.value, TypeError)
    assert caught.value.expected.startswith(f"{caught.value.operation}(")
    assert "unknown" not in caught.value.expected
    assert "surplus" not in caught.value.expected
    assert "test_misfit_calls.py" in caught.value.line
    result = right()
    assert isinstance(result, (eo.Tensor, tuple, list))


def test_the_whole_text():
    with pytest.raises(eo.SignatureError) as caught:
        X.sum(dim=1)
    assert str(caught.value).partition("\n  at:")[0] == (
        "sum: there is no argument 'dim'\n"
        "  expected: sum(x, /, axis=None, *, dtype=None, keepdims=False, initial=None, where=None)\n"
        "  found:    dim=1\n"
        "  remedy:   write axis=1 in place of dim=1"
    )
    with pytest.raises(eo.SignatureError, match=r"where\(condition, x1, x2, /\)"):
        eo.where(X > 1)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: eo.linalg.solve_triangular(X, X, lower=True), "upper=False for lower=True"),
        (lambda: eo.linalg.cholesky(X, lower=True), "leave it out for the lower factor"),
        (lambda: eo.linalg.eigh(X, lower=True), 'UPLO="L"'),
        (lambda: eo.linalg.inv(), "pass the arguments that are expected"),
        (lambda: eo.linalg.lstsq(X, X, driver="gelsd"), "leave driver out"),
        (lambda: eo.einsum("ij->i", X, optimise=True), "write optimize= in place of optimise="),
    ],
)
def test_functions_of_matrices_explain_what_does_not_fit(call, remedy):
    with pytest.raises(eo.SignatureError, match=remedy):
        call()


def public_functions():
    for prefix in ("", "linalg", "fft", "special", "nn.functional"):
        module = eo
        for part in filter(None, prefix.split(".")):
            module = getattr(module, part)
        for name in dir(module):
            function = getattr(module, name)
            if isinstance(function, types.FunctionType) and not name.startswith("_"):
                yield prefix, name, function


def test_every_function_with_an_axis_explains_dim():
    own = {"gradient", "apply_along_axis", "apply_over_axes", "normalize_axis"}
    seen = 0
    for prefix, name, function in public_functions():
        parameters = inspect.signature(function).parameters
        if name in own or not {"axis", "axes"} & set(parameters):
            continue
        with pytest.raises(eo.SignatureError, match="dim=") as caught:
            function(X, dim=0)
        assert caught.value.operation == function.__name__, (prefix, name)
        seen += 1
    assert seen > 120


def test_a_type_error_inside_stays_what_it_is():
    def breaks(x):
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$") as caught:
        eo.tree_map(breaks, X)
    assert not isinstance(caught.value, eo.EveryOError)
    with pytest.raises(TypeError, match=r"^mine$"):
        eo.scan(lambda carry, x: breaks(x), X, X)


def test_functions_keep_what_they_are():
    assert pickle.loads(pickle.dumps(eo.cummax)) is eo.cummax
    assert eo.where.primitive.name == "where"
    assert list(inspect.signature(eo.stack).parameters) == ["arrays", "axis", "dtype"]
    assert eo.stack.__name__ == "stack"
    assert "Join tensors" in eo.stack.__doc__


def test_the_larger_of_two_is_maximum():
    for function, other in ((eo.max, "eo.maximum"), (eo.min, "eo.minimum")):
        with pytest.raises(eo.DTypeError, match=rf"{other}\(a, b\)"):
            function(X, X)


def test_copies_of_the_whole_are_tile():
    with pytest.raises(eo.IndexingError, match=r"eo\.tile\(x, \(2, 2\)\)"):
        X.repeat(2, 2)
    assert eo.tile(X, (2, 2)).shape == (4, 6)


def test_two_axes_are_exchanged_by_swapaxes():
    with pytest.raises(eo.ShapeError, match=r"x\.swapaxes\(0, 1\)"):
        THREE.transpose(0, 1)
    assert THREE.swapaxes(0, 1).shape == (3, 2, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.clip(0.0, 1.0, out=X), lambda: X.round(out=X), lambda: eo.arange(3, like=X),
        lambda: eo.broadcast_arrays(X, X, subok=True), lambda: eo.zeros_like(X, order="F"),
        lambda: eo.ones_like(X, subok=False), lambda: eo.full_like(X, 1.0, order="C"),
        lambda: eo.empty_like(X, order="K"), lambda: eo.eye(2, order="C"), lambda: eo.tri(2, like=X),
        lambda: eo.isposinf(X, out=X), lambda: eo.isneginf(X, out=X), lambda: X.astype("int8", subok=True),
    ],
)  # fmt: skip
def test_numpys_keywords_that_are_not_there_end_in_an_error_with_a_remedy(call):
    with pytest.raises(eo.SignatureError, match="remedy"):
        call()
