"""Jacobians: the direction that is cheaper, inputs and outputs of several dtypes; auxiliary data of `jvp`."""

import numpy as np
import pytest

import everyo as eo

f32, f64 = eo.float32, eo.float64


def passes(f, *args, **options):
    """Return what `jacobian` gives, and in which direction its last run of the function went."""
    seen = []

    def watched(*args):
        seen.append("reverse" if args[0].grad_node is not None else "forward")
        return f(*args)

    found = eo.jacobian(watched, **options)(*args)
    assert len(seen) == 2  # the first learns the sizes
    return found, seen[-1]


DIRECTIONS = {
    "fewer outputs": (lambda x: x[:2] * 3, 3, "reverse"),
    "a scalar": (lambda x: (x * 3).sum(), 3, "reverse"),
    "as many": (lambda x: x * 3, 3, "forward"),
    "more outputs": (lambda x: eo.concat([x, x]) * 3, 3, "forward"),
    "several outputs": (lambda x: {"a": x[:1], "b": [x[1:] * 2, x[0]]}, 3, "forward"),
    "several small outputs": (lambda x: {"a": x[:1], "b": [x[1:2] * 2]}, 3, "reverse"),
    "one input": (lambda x: x * eo.tensor([1.0, 2.0]), 1, "forward"),
}


@pytest.mark.parametrize("name", DIRECTIONS)
def test_the_cheaper_direction_is_taken(name):
    f, n, expected = DIRECTIONS[name]
    x = eo.arange(1.0, n + 1.0)
    found, seen = passes(f, x)
    assert seen == expected

    def leaves(tree):
        return [leaf.tolist() for leaf in eo_leaves(tree)]

    assert leaves(found) == leaves(eo.jacrev(f)(x)) == leaves(eo.jacfwd(f)(x))


def eo_leaves(tree):
    found = []
    eo.tree_map(found.append, tree)
    return found


def test_elements_of_all_arguments_count():
    def f(x, y):
        return eo.concat([x * y, x])  # four outputs

    x, y = eo.tensor([1.0, 2.0]), eo.tensor([5.0, 7.0])
    assert passes(f, x, y)[1] == "forward"
    assert passes(f, x, y, argnums=(0, 1))[1] == "forward"
    assert passes(lambda x, y: f(x, y)[:3], x, y, argnums=(0, 1))[1] == "reverse"


def mixed(p):
    """Of a float32 and a float64 input, outputs of both dtypes."""
    return {"single": p["single"] * 2 + p["double"].astype(f32)[:2], "double": p["double"] ** 2 * 3}


POINT = {"single": eo.tensor([1.0, 2.0], dtype=f32), "double": eo.tensor([3.0, 4.0, 5.0], dtype=f64)}
BLOCKS = {
    ("single", "single"): 2 * np.eye(2),
    ("single", "double"): np.eye(2, 3),
    ("double", "single"): np.zeros((3, 2)),
    ("double", "double"): np.diag([18.0, 24.0, 30.0]),
}


@pytest.mark.parametrize("chunk_size", [None, 1, 2])
@pytest.mark.parametrize("transform", [eo.jacrev, eo.jacfwd, eo.jacobian])
@pytest.mark.parametrize("order", [1, -1])
def test_inputs_and_outputs_of_several_dtypes(transform, order, chunk_size):
    names = ["single", "double"][::order]
    point = {f"{i}{name}": POINT[name] for i, name in enumerate(names)}  # leaves go by sorted keys

    def f(p):
        out = mixed({name: p[f"{i}{name}"] for i, name in enumerate(names)})
        return [out[name] for name in names]

    found = transform(f, chunk_size=chunk_size)(point)
    for row, name in zip(found, names, strict=True):
        for i, other in enumerate(names):
            block = row[f"{i}{other}"]
            np.testing.assert_allclose(block.numpy(), BLOCKS[name, other])
            assert block.dtype in (POINT[name].dtype, POINT[other].dtype)


def test_auxiliary_data_of_jvp_are_values_of_the_level_around():
    def f(x):
        return x * x, {"cube": x**3, "text": "aux", "list": [x, 2.0]}

    x, one = eo.tensor(2.0, dtype=f64), eo.tensor(1.0, dtype=f64)
    value, tangent, aux = eo.jvp(f, (x,), (one,), has_aux=True)
    assert (value.item(), tangent.item(), (aux["cube"] + 1).item()) == (4.0, 4.0, 9.0)
    assert aux["cube"].numpy() == 8.0
    assert aux["cube"].level == aux["list"][0].level == 0
    assert aux["text"] == "aux"
    assert aux["list"][1] == 2.0

    def again(x):
        return eo.jvp(f, (x,), (one,), has_aux=True)[2]["cube"]

    assert eo.jvp(again, (x,), (one,))[1].item() == 12.0
    assert eo.grad(again)(x).item() == 12.0
    assert eo.vmap(again)(eo.stack([x, one])).tolist() == [8.0, 1.0]
