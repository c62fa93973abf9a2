"""What rules of the user's own return: results that are no tensors, batches, and errors under `vmap`."""

import numpy as np
import pytest

import everyo as eo

f64 = eo.float64
X = eo.tensor(2.0, dtype=f64)
POINTS = eo.tensor([1.0, 2.0], dtype=f64)


def class_of(**methods):
    return type("Rule", (eo.autograd.Function,), {name: staticmethod(m) for name, m in methods.items()})


# ---- results of `forward`


ARRAYS = {"array": lambda x: np.sin(x.numpy()), "0-d array": lambda x: np.asarray(np.sin(x.numpy()))}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_become_tensors(name):
    rule = class_of(forward=lambda ctx, x: ARRAYS[name](x), backward=lambda ctx, g: g * 7)
    for x in (X, eo.tensor(2.0, dtype=f64, requires_grad=True), POINTS):
        out = rule.apply(x)
        assert isinstance(out, eo.Tensor)
        assert out.dtype == f64
        np.testing.assert_allclose(out.detach().numpy(), np.sin(x.detach().numpy()), rtol=1e-15)
    assert eo.grad(rule.apply)(X).item() == 7.0
    assert eo.grad(lambda x: rule.apply(x).sum())(POINTS).tolist() == [7.0, 7.0]
    assert eo.jvp(rule.apply, (X,), (X,))[1].item() == 14.0
    x = eo.tensor(2.0, dtype=f64, requires_grad=True)
    rule.apply(x).backward()
    assert x.grad.item() == 7.0


def test_arrays_among_several_results():
    rule = class_of(
        forward=lambda ctx, x: (np.square(x.numpy()), x.numpy().argmax(), "text", x * 3),
        backward=lambda ctx, g, gi, gt, h: g * 7 + h * 3,
    )
    square, where, text, triple = rule.apply(POINTS)
    assert isinstance(square, eo.Tensor)
    assert where.item() == 1
    assert text == "text"
    assert eo.grad(lambda x: rule.apply(x)[0].sum())(POINTS).tolist() == [7.0, 7.0]
    assert eo.grad(lambda x: (rule.apply(x)[0] * rule.apply(x)[3]).sum())(POINTS).tolist() == [24.0, 54.0]
    assert triple.tolist() == [3.0, 6.0]


CONTAINERS = {
    "dict": lambda x: {"a": x * 7},
    "dict of arrays": lambda x: {"a": x.numpy() * 7},
    "nested": lambda x: (x * 7, (x, x)),
    "list in a tuple": lambda x: (x * 7, [x.numpy()]),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_refused(name):
    rule = class_of(forward=lambda ctx, x: CONTAINERS[name](x), backward=lambda ctx, *g: g[0] * 7)
    calls = [
        lambda: rule.apply(X),
        lambda: rule.apply(eo.tensor(2.0, requires_grad=True)),
        lambda: eo.grad(lambda x: rule.apply(x))(X),
    ]
    if name in ("dict", "nested"):  # NumPy takes no batch
        calls.append(lambda: eo.vmap(rule.apply)(POINTS))
    for call in calls:
        with pytest.raises(eo.UnsupportedOperationError, match="with tensors") as error:
            call()
        assert "custom_vjp" in error.value.remedy


def test_containers_without_tensors_pass():
    rule = class_of(forward=lambda ctx, x: (x * 7, {"steps": 3}, (1, 2)), backward=lambda ctx, g, *_: g * 7)
    assert rule.apply(X)[1:] == ({"steps": 3}, (1, 2))
    assert rule.apply(eo.tensor(2.0, requires_grad=True))[1:] == ({"steps": 3}, (1, 2))
    assert eo.grad(lambda x: rule.apply(x)[0])(X).item() == 7.0


# ---- a batching rule


def batching(vmap):
    return class_of(forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2, vmap=vmap).apply


@pytest.mark.parametrize("found", [lambda x: x[:1], lambda x: eo.concat([x, x]), lambda x: x[:0]])
def test_a_batch_of_another_size_is_refused(found):
    with pytest.raises(eo.ShapeError, match="another size") as error:
        eo.vmap(batching(lambda info, dims, x: (found(x) * 2, 0)))(POINTS)
    assert error.value.expected.startswith("2 elements")
    with pytest.raises(eo.ShapeError, match="another size"):
        eo.vmap(batching(lambda info, dims, x: ((x * 2, found(x)), (0, 0))))(POINTS)


def test_what_a_batching_rule_must_return():
    wrong = {
        lambda info, dims, x: x * 2: (eo.ArgumentError, "pair"),
        lambda info, dims, x: None: (eo.ArgumentError, "pair"),
        lambda info, dims, x: (x * 2, 0, 0): (eo.ArgumentError, "pair"),
        lambda info, dims, x: (x * 2, 1): (eo.IndexingError, "axis"),
        lambda info, dims, x: (x * 2, "0"): (eo.ArgumentError, "axes"),
        lambda info, dims, x: (x * 2, (0, 0)): (eo.ShapeError, "number of axes"),
    }
    for vmap, (kind, words) in wrong.items():
        with pytest.raises(kind, match=words):
            eo.vmap(batching(vmap))(POINTS)


def test_where_a_batching_rule_may_put_the_batch():
    x = eo.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=f64)
    double = {
        "first": lambda info, dims, x: (x * 2, 0),
        "last": lambda info, dims, x: ((x * 2).T, -1),
        "list": lambda info, dims, x: [x * 2, 0],
        "integer of NumPy": lambda info, dims, x: ((x * 2).T, np.int64(1)),
    }
    for vmap in double.values():
        assert eo.vmap(batching(vmap))(x).tolist() == (x * 2).tolist()
    assert (
        eo.vmap(batching(lambda info, dims, x: (eo.ones(3) * info.batch_size, None)))(x).tolist()
        == [[2.0] * 3] * 2
    )


# ---- errors in rules


def fail(error):
    def rule(*args):
        raise error

    return rule


ERRORS = [ValueError("my message"), TypeError("my message"), IndexError("my message"), KeyError("my message"),
          eo.ShapeError("my message", operation="mine"), ZeroDivisionError("my message")]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("where", ["fwd", "bwd", "forward", "backward", "jvp", "vmap", "function"])
def test_errors_of_the_users_code_stay_as_they_are(where, error):
    if where in ("fwd", "bwd"):
        f = eo.custom_vjp(lambda x: x * 2)
        rules = {"fwd": lambda x: (x * 2, None), "bwd": lambda kept, g: (g * 2,), where: fail(error)}
        f.defvjp(rules["fwd"], rules["bwd"])
    elif where in ("jvp", "function"):
        f = eo.custom_jvp(fail(error) if where == "function" else lambda x: x * 2)
        f.defjvp(fail(error) if where == "jvp" else lambda p, t: (p[0] * 2, t[0] * 2))
    else:
        f = class_of(
            **{"forward": lambda ctx, x: x * 2, "backward": lambda ctx, g: g * 2, where: fail(error)}
        ).apply
    gradient = eo.grad(f) if where != "vmap" else f
    for call in (
        lambda: eo.vmap(gradient)(POINTS),
        lambda: eo.vmap(eo.vmap(gradient))(eo.stack([POINTS])),
        lambda: eo.vmap(gradient, chunk_size=1)(POINTS),
    ) + ((lambda: eo.grad(f)(X),) if where != "vmap" else ()):
        with pytest.raises(type(error), match="my message"):
            call()


def test_a_captured_tensor_is_refused_alike_under_vmap():
    w = eo.tensor(2.0, dtype=f64, requires_grad=True)
    f = eo.custom_vjp(lambda x: x * w)
    f.defvjp(lambda x: (x * w, x), lambda kept, g: (g,))
    for call in (
        lambda: eo.grad(f)(X),
        lambda: eo.vmap(eo.grad(f))(POINTS),
        lambda: eo.grad(lambda x: eo.vmap(f)(x).sum())(POINTS),
    ):
        with pytest.raises(eo.GraphStateError, match="captured tensor"):
            call()
