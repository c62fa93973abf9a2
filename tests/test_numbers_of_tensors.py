"""Numbers that Python's own modules take out of tensors, and names that arrays have: each error helps."""

import re
import statistics

import numpy as np
import pytest

import everyo as eo

X = eo.tensor([1.0, 2.0, 4.0])
CONTEXTS = {
    "grad": lambda f: eo.grad(lambda x: eo.sum(f(x)))(X),
    "jvp": lambda f: eo.jvp(f, (X,), (X,)),
    "compile": lambda f: eo.compile(f)(X),
    "compiled gradient": lambda f: eo.compile(eo.grad(lambda x: eo.sum(f(x))))(X),
}


@pytest.mark.parametrize("context", ["eager", *CONTEXTS])
@pytest.mark.parametrize("name", ["mean", "stdev", "variance", "pstdev", "pvariance"])
def test_statistics_are_those_of_a_tensor(name, context):
    run = CONTEXTS.get(context, lambda f: f(X))
    function = getattr(statistics, name)
    with pytest.raises(eo.EveryOError, match=r"remedy: +write eo\.") as caught:
        run(lambda x: function([x[0], x[1], x[2]]))
    written = re.search(r"write (eo\.[^;]*) in place of", caught.value.remedy)[1]
    call = written if "(" in written else f"{written}([x[0], x[1], x[2]])"
    np.testing.assert_allclose(eval(call, {"eo": eo, "x": X}).item(), function([1.0, 2.0, 4.0]), rtol=1e-6)


def test_the_slices_that_a_row_of_booleans_chooses():
    a = np.arange(12.0).reshape(3, 4)
    x = eo.tensor(a, requires_grad=True)
    for condition, axis in (([True, False, True], 0), ([False, True], 1), ([1, 0, 0, 1, 1], None)):
        expected = a.compress(condition, axis)
        np.testing.assert_array_equal(x.compress(condition, axis).detach().numpy(), expected)
        np.testing.assert_array_equal(x.compress(condition, axis=axis).detach().numpy(), expected)
    x.compress([False, True, True], axis=0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat([[0.0], [1.0], [1.0]], 4, axis=1))
    with pytest.raises(eo.SignatureError, match="there is no argument 'out'"):
        x.compress([True], 0, out=x)


def test_the_remedy_for_flat_works():
    x = eo.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(AttributeError) as caught:
        x.flat
    names = {"eo": eo, "x": x, "i": 2, "v": 7.0}
    read, written = re.fullmatch(r".*: (.*) to read; (.*) writes", str(caught.value)).groups()
    assert eval(read, names).tolist() == [1.0, 2.0, 3.0, 4.0]
    exec(written, names)
    assert x.tolist() == [[1.0, 2.0], [7.0, 4.0]]
