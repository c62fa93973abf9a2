"""What an error says about a leaf that is changed in place is followed to the letter, and must work."""

import re

import numpy as np
import pytest

import everyo as eo

LOOP = """
for _ in range(2):
    loss = ((w * x).sum() - 1) ** 2
    loss.backward()
    g = w.grad
    {update}
    w.zero_grad()
"""
UPDATES = {
    "w -= lr * g": lambda w, g: w - 0.1 * g,
    "w += -lr * g": lambda w, g: w - 0.1 * g,
    "w *= 0.5": lambda w, g: 0.5 * w,
    "w[0] -= lr * g[0]": lambda w, g: w - 0.1 * g * np.array([1, 0]),
    "w[...] = w - lr * g": lambda w, g: w - 0.1 * g,
    "w[1] = 3.0": lambda w, g: np.array([w[0], 3.0]),
    "net.w -= lr * g": lambda w, g: w - 0.1 * g,
    "held['w'] -= lr * g": lambda w, g: w - 0.1 * g,
}


class Net:
    pass


def run(source, tmp_path):
    """Run source from a file, as its lines stand in messages, and return its names."""
    net = Net()
    net.w = w = eo.tensor([0.5, -1.0], dtype=eo.float64, requires_grad=True)
    names = {"eo": eo, "w": w, "net": net, "held": {"w": w}, "lr": 0.1, "x": eo.tensor([1.0, 2.0])}
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"  # another each time: Python keeps their lines
    path.write_text(source)
    exec(compile(source, str(path), "exec"), names)
    return names


def remedy_of(source, tmp_path):
    with pytest.raises(eo.EveryOError) as caught:
        run(source, tmp_path)
    return caught.value.remedy


@pytest.mark.parametrize("update", UPDATES)
def test_the_remedy_works_over_two_steps(update, tmp_path):
    remedy = remedy_of(LOOP.format(update=update), tmp_path)
    first, *others = re.findall(r"`(.*?)`", remedy)
    assert first.startswith("with eo.no_grad(): ")
    names = run(LOOP.format(update=first), tmp_path)
    w, x = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    for _ in range(2):
        w = UPDATES[update](w, 2 * ((w * x).sum() - 1) * x)
    np.testing.assert_allclose(names["w"].detach().numpy(), w, rtol=1e-12)
    assert names["w"].is_leaf
    assert names["w"].requires_grad
    source = "g = eo.ones(2, dtype=eo.float64)\n" + "\n".join(others) + "\n(y * y).sum().backward()"
    changed = run(source, tmp_path)  # a change that is differentiated
    assert changed["w"].grad is not None
    np.testing.assert_allclose(
        changed["y"].detach().numpy(), UPDATES[update](np.array([0.5, -1.0]), np.ones(2))
    )


@pytest.mark.parametrize(
    "statement", ["with eo.no_grad(): w -= eo.ones((3, 2))", "with eo.no_grad(): w -= 1j * lr"]
)
def test_a_leaf_that_cannot_take_an_update_stays(statement, tmp_path):
    remedy = remedy_of(statement, tmp_path)
    assert "w = w" not in remedy
    assert "x = x" not in remedy
    assert re.search(r"shape \(2,\)|real", remedy)


def test_what_cannot_change_its_shape_or_dtype_gets_another_name(tmp_path):
    for before, statement in (
        ("n = eo.tensor([1, 2])", "n /= 2"),
        ("n = eo.ones(2)", "n += eo.ones((3, 2))"),
    ):
        remedy = remedy_of(f"{before}\n{statement}", tmp_path)
        assert remedy.startswith("write n = n")
        run(f"{before}\n{remedy.removeprefix('write ')}", tmp_path)


def test_a_leaf_that_assign_changes(tmp_path):
    remedy = remedy_of("w.assign(w * 2)", tmp_path)
    assert "`with eo.no_grad():`" in remedy
    assert "with eo.no_grad(): v -= lr * v" in remedy_of("for v in [w]: v -= lr * v", tmp_path)


def test_a_leaf_outside_of_a_transformation(tmp_path):
    inside = """
def f(z):
    with eo.no_grad():
        w.assign(w * z)
    return z
eo.vmap(f)(x)
"""
    remedy = remedy_of(inside, tmp_path)
    assert remedy.startswith("return the new value from the function, and update the leaf outside")
    outside = """
def f(z):
    return w * z
new = eo.vmap(f)(x)
with eo.no_grad():
    w.assign(new[0])
"""
    assert run(outside, tmp_path)["w"].requires_grad
