"""What Python does beside tensors happens once, while a function is traced; saving tensors is an error."""

import pickle

import numpy as np
import pytest

import everyo as eo

X = eo.tensor([1.0, 2.0])


def test_python_values_change_while_the_function_is_traced(capsys, tmp_path):
    count, seen, kept = 0, [], {}
    total = eo.tensor(0)
    path = tmp_path / "log"

    @eo.compile
    def f(x):
        nonlocal count
        count += 1
        seen.append(count)
        kept["count"] = count
        total[...] = total + 1
        print("traced", x.shape)
        with path.open("a") as file:
            file.write("traced\n")
        return x * 2

    for _ in range(3):
        assert f(X).tolist() == [2.0, 4.0]
    assert (count, seen, kept) == (1, [1], {"count": 1})
    assert total.item() == 3
    assert capsys.readouterr().out == "traced (2,)\n"
    assert path.read_text() == "traced\n"
    f(eo.ones(3))  # of another shape: another program
    assert (count, total.item()) == (2, 4)


@pytest.mark.parametrize("what", [lambda x, w: w, lambda x, w: x * 2], ids=["captured", "computed"])
def test_saving_is_an_error(what, tmp_path):
    w = eo.tensor([1.0, 2.0])
    path = tmp_path / "w.safetensors"

    def saves(x):
        eo.io.save_safetensors({"w": what(x, w)}, path)
        return x * 1

    with pytest.raises(eo.CompileError, match="save what the compiled function returns") as caught:
        eo.compile(saves)(X)
    assert caught.value.operation == "save_safetensors"
    assert not path.exists()
    with pytest.raises((eo.CompileError, eo.GraphStateError), match="pickle"):
        eo.compile(lambda x: (pickle.dumps(what(x, w)), x * 1)[1])(X)
    eo.io.save_safetensors({"w": eo.compile(lambda x: x * 2)(X)}, path)
    assert eo.io.load_safetensors(path)["w"].tolist() == [2.0, 4.0]


def test_saving_inside_other_transformations(tmp_path):
    path = tmp_path / "w.safetensors"

    def saves(x):
        eo.io.save_safetensors({"w": x * 3}, path)
        return (x * x).sum()

    assert eo.grad(saves)(X).tolist() == [2.0, 4.0]
    assert eo.io.load_safetensors(path)["w"].tolist() == [3.0, 6.0]
    eo.jvp(lambda x: saves(x + 1), (X,), (X,))
    assert eo.io.load_safetensors(path)["w"].tolist() == [6.0, 9.0]
    with pytest.raises(eo.UnsupportedOperationError, match="a whole batch"):
        eo.vmap(saves)(np.ones((3, 2)))
