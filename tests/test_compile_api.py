"""`everyo.compile` as its users meet it: caching, arguments, state from outside, transformations, errors."""

import gc
import importlib
import threading
import warnings
import weakref

import numpy as np
import pytest

import everyo as eo
from everyo.compiler import native
from everyo.errors import ArgumentError, CompileError, EveryOError, IndexingError
from tests.compiling import agree, same


def array(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


def tensor(*shape, seed=0):
    return eo.asarray(array(*shape, seed=seed))


def misses(f):
    return f.cache_info().misses


# ---- the cache


def test_one_program_for_each_kind_of_argument():
    f = eo.compile(lambda x: x * 2 + 1)
    x = eo.asarray([1.0, 2.0])
    assert x.dtype == np.float32
    assert f(x).tolist() == [3.0, 5.0]
    assert f(x + 1).tolist() == [5.0, 7.0]
    assert f.cache_info() == (1, 1, 1)
    assert f(eo.asarray([1.0, 2.0, 3.0])).tolist() == [3.0, 5.0, 7.0]
    assert f(eo.asarray(np.array([1, 2], np.int32))).dtype == np.int32
    assert f(x.astype(eo.float32)).dtype == np.float32
    assert f(x.astype(eo.float64)).dtype == np.float64
    assert f.cache_info() == (2, 4, 4)


def test_structure_is_part_of_the_key():
    f = eo.compile(lambda tree: eo.tree_map(lambda x: x + 1, tree))
    x = tensor(2)
    agree(f({"a": x, "b": (x, x)}), {"a": x + 1, "b": (x + 1, x + 1)})
    agree(f([x, {"b": x}]), [x + 1, {"b": x + 1}])
    agree(f({"b": (x, x), "a": x}), {"a": x + 1, "b": (x + 1, x + 1)})
    assert misses(f) == 2


def test_keyword_arguments():
    f = eo.compile(lambda x, *, scale, shift=0.0: x * scale + shift)
    x = tensor(3)
    agree(f(x, scale=x), x * x)
    agree(f(x, shift=x, scale=x), x * x + x)
    agree(f(x, scale=x, shift=x), x * x + x)
    assert misses(f) == 2


@pytest.mark.parametrize(("first", "second"), [(2, 3), (2.0, 3.5), (True, False)])
def test_numbers_do_not_recompile_on_value(first, second):
    f = eo.compile(lambda x, n: x * n + n)
    for x in (tensor(3), tensor(3).astype(eo.float32), eo.arange(3)):
        for n in (first, second):
            agree(f(x, n), x * n + n, f"{x.dtype} and {n!r}")
    assert misses(f) == 3


def test_numbers_in_tuples_do_not_recompile_on_value():
    f = eo.compile(lambda x, pair: x * pair[0] - pair[1]["shift"])
    x = tensor(2)
    for pair in ((2.0, {"shift": 1}), (3.0, {"shift": -4})):
        agree(f(x, pair), x * pair[0] - pair[1]["shift"])
    assert misses(f) == 1


def test_numbers_take_the_dtype_of_the_tensor_they_meet():
    x = tensor(3).astype(eo.float32)
    assert eo.compile(lambda x, n: x * (n * 2 + 1))(x, 0.5).dtype == np.float32
    assert eo.compile(lambda x, n: x + n)(eo.arange(3), 2).dtype == np.int64
    agree(eo.compile(lambda n: eo.sin(n))(0.5), eo.sin(0.5))


def test_static_arguments_are_values():
    @eo.compile(static_argnums=(1, 2))
    def f(x, n, name):
        for _ in range(n):
            x = getattr(eo, name)(x)
        return x

    x = tensor(3)
    agree(f(x, 3, "sin"), eo.sin(eo.sin(eo.sin(x))))
    agree(f(x, 2, "cos"), eo.cos(eo.cos(x)))
    agree(f(x, 2, "sin"), eo.sin(eo.sin(x)))
    assert misses(f) == 3
    f(x, 2, "sin")
    assert f.cache_info() == (1, 3, 3)


def test_static_values_of_other_types_are_other_values():
    f = eo.compile(lambda x, n: x * n, static_argnums=1)
    x = eo.arange(3)
    for n in (1, 1.0, True):
        agree(f(x, n), x * n, repr(n))
    assert misses(f) == 3


def test_static_arguments_without_hash():
    f = eo.compile(lambda x, n: x, static_argnums=1)
    with pytest.raises(ArgumentError, match="a static argument has no hash"):
        f(tensor(2), [1, 2])


def test_many_compilations_warn_and_name_the_argument():
    f = eo.compile(lambda x, y: x.sum() + y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 9):
            f(tensor(n), 1.0)
        assert not caught
        f(tensor(9), 1.0)
    assert len(caught) == 1
    assert "compiled 9 times" in str(caught[0].message)
    assert "argument" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_what_cannot_be_an_argument():
    with pytest.raises(ArgumentError, match="static_argnums"):
        eo.compile(lambda x, name: x)(tensor(2), "name")


# ---- arguments of every layout


def layouts():
    x = array(4, 3)
    frozen = x.copy()
    frozen.flags.writeable = False
    padded = np.zeros((4, 5), np.float64)
    padded[:, 1:4] = x
    yield "contiguous", x
    yield "Fortran order", np.asfortranarray(x)
    yield "every second row", array(8, 3)[::2]
    yield "reversed", x[::-1, ::-1]
    yield "inner columns", padded[:, 1:4]
    yield "read-only", frozen
    yield "broadcast", np.broadcast_to(array(3), (4, 3))
    yield "transposed", array(3, 4).T
    yield "unaligned", np.frombuffer(b"\0" + x.tobytes(), np.float64, offset=1).reshape(4, 3)
    yield "other byte order", x.astype(x.dtype.newbyteorder())


@pytest.mark.parametrize(("name", "x"), list(layouts()), ids=lambda p: p if isinstance(p, str) else "")
def test_layouts(name, x):
    f = eo.compile(lambda x: (x * 2 + eo.sum(x, axis=0), x))
    wanted = (x * 2 + x.sum(axis=0), np.array(x, np.float64))
    for _ in range(2):
        for made in (eo.from_numpy(x), x):
            found = f(made)
            agree(found, tuple(eo.asarray(w) for w in wanted), name)
    f(tensor(4, 3))
    agree(f(eo.from_numpy(x)), tuple(eo.asarray(w) for w in wanted), name)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 0, 3), (1, 1, 1)])
def test_shapes_at_the_edges(shape):
    x = tensor(*shape)
    same(
        lambda x: (x * 2, x.sum(), eo.sum(x, axis=0) if x.ndim else x, eo.reshape(x, (-1,)) if x.size else x),
        x,
    )
    same(eo.grad(lambda x: (eo.sin(x) * x).sum()), x)


def test_no_arguments_and_no_results():
    assert eo.compile(lambda: eo.ones(3) * 2)().tolist() == [2.0, 2.0, 2.0]
    assert eo.compile(lambda x: ())(tensor(2)) == ()
    assert eo.compile(lambda x: None)(tensor(2)) is None
    agree(eo.compile(lambda x, y: x)(tensor(2), tensor(3)), tensor(2))


def test_results_that_are_no_computations():
    shown = np.arange(3.0)
    x = tensor(3)
    same(lambda x: {"input": x, "twice": [x, x], "array": shown, "constant": eo.zeros(2)}, x)


def test_a_result_that_no_program_can_make():
    with pytest.raises(CompileError, match="str"):
        eo.compile(lambda x: (x, "done"))(tensor(2))


def test_an_argument_given_twice():
    x = tensor(3)
    agree(eo.compile(lambda a, b: (a + b, a, b))(x, x), (x + x, x, x))


def test_results_are_fresh_arrays():
    f = eo.compile(lambda x: (x, x, x * 2, eo.reshape(x * 2, (1, -1)), eo.zeros(3)))
    x = eo.asarray([1.0, 2.0, 3.0])
    first = f(x)
    kept = [r.numpy().copy() for r in first]
    for i, result in enumerate(first):
        with eo.no_grad():
            result[...] = -7.0
        for j, other in enumerate(first):
            if j > i:
                np.testing.assert_array_equal(other.numpy(), kept[j])
    assert x.tolist() == [1.0, 2.0, 3.0]
    for result, wanted in zip(f(x), kept, strict=True):
        np.testing.assert_array_equal(result.numpy(), wanted)
    arrays = [r.data for r in f(x)]
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in [*arrays[i + 1 :], x.data])


def test_numpy_arrays_are_arguments():
    f = eo.compile(lambda x, y: x @ y)
    x, y = array(2, 3), array(3, 2)
    np.testing.assert_allclose(f(x, y).numpy(), x @ y, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(f(eo.asarray(x), y).numpy(), x @ y, rtol=1e-15, atol=1e-15)
    assert f(np.float64(2.0) * np.ones(2), np.ones(2)).item() == 4.0


def test_complex_and_half_precision_pass_through():
    z = eo.asarray(array(3) + 1j * array(3, seed=1))
    h = tensor(3).astype(eo.float16)
    same(lambda z: (z, z * 2, z.real, eo.abs(z), eo.reshape(z, (3, 1))), z)
    same(lambda h: (h, h + h, eo.reshape(h, (3, 1)), eo.ones_like(h)), h)
    same(lambda x: (x + eo.full((3,), 2.0 + 1.0j), eo.full((3,), 1.0j)), tensor(3))


# ---- methods, modules


class Scaler:
    def __init__(self, factor):
        self.factor = factor
        self.shift = eo.asarray([1.0, 2.0])

    @eo.compile
    def apply(self, x):
        return x * self.factor + self.shift

    @eo.compile(static_argnums=2)
    def power(self, x, n):
        for _ in range(n):
            x = x * self.shift
        return x


def test_methods_belong_to_their_instance():
    two, five = Scaler(2.0), Scaler(5.0)
    x = eo.asarray([1.0, 1.0])
    assert two.apply(x).tolist() == [3.0, 4.0]
    assert five.apply(x).tolist() == [6.0, 7.0]
    assert two.apply(x).tolist() == [3.0, 4.0]
    assert (misses(two.apply), misses(five.apply)) == (1, 1)
    assert two.power(x, 2).tolist() == [1.0, 4.0]
    assert two.power(x, 1).tolist() == [1.0, 2.0]


def test_a_compiled_method_keeps_no_instance_alive():
    scaler = Scaler(2.0)
    scaler.apply(eo.asarray([1.0, 1.0]))
    reference = weakref.ref(scaler)
    del scaler
    gc.collect()
    assert reference() is None


def test_modules():
    eo.manual_seed(0)
    model = eo.nn.Sequential(eo.nn.Linear(3, 4), eo.nn.ReLU(), eo.nn.Linear(4, 2))
    x = tensor(5, 3).astype(eo.float32)
    f = eo.compile(model)
    agree(f(x), model(x), ulps=256)
    f(x).sum().backward()
    compiled = [p.grad.numpy().copy() for p in model.parameters()]
    for p in model.parameters():
        p.grad = None
    model(x).sum().backward()
    for found, p in zip(compiled, model.parameters(), strict=True):
        np.testing.assert_allclose(found, p.grad.numpy(), rtol=1e-5, atol=1e-6)
    with eo.no_grad():
        for p in model.parameters():
            p *= 2
    agree(f(x), model(x), ulps=256)
    assert repr(f)


def test_the_mode_of_a_module_is_part_of_the_program():
    model = eo.nn.Sequential(eo.nn.Dropout(0.5))
    f, x = eo.compile(model), eo.ones(64)
    for training in (False, True, False, True):
        model.train(training)
        dropped = (f(x) == 0).sum().item()
        assert 0 < dropped < 64 if training else dropped == 0


# ---- tensors from outside


def test_captured_tensors_are_read_at_each_call():
    w = eo.asarray([1.0, 2.0])
    f = eo.compile(lambda x: x * w)
    x = eo.asarray([1.0, 1.0])
    assert f(x).tolist() == [1.0, 2.0]
    w += 10.0
    assert f(x).tolist() == [11.0, 12.0]
    w[0] = 0.0
    assert f(x).tolist() == [0.0, 12.0]
    assert misses(f) == 1


def test_captured_tensors_of_another_shape():
    box = {"w": eo.asarray([1.0, 2.0])}
    f = eo.compile(lambda x: x * box["w"])
    assert f(eo.asarray(2.0)).tolist() == [2.0, 4.0]
    box["w"].assign(eo.asarray([1.0, 2.0, 3.0]))
    assert f(eo.asarray(2.0)).tolist() == [2.0, 4.0, 6.0]


def test_updates_of_captured_tensors_are_written_back():
    count = eo.asarray(np.array(0))
    total = eo.asarray([0.0, 0.0])

    @eo.compile
    def f(x):
        nonlocal total
        count.assign(count + 1)
        total += x
        return total * 2

    for n in range(1, 4):
        assert f(eo.asarray([1.0, 2.0])).tolist() == [2.0 * n, 4.0 * n]
        assert (count.item(), total.tolist()) == (n, [1.0 * n, 2.0 * n])
    assert misses(f) == 1


def test_a_value_that_the_caller_kept_is_not_written_into():
    w = eo.asarray([1.0, 2.0])
    kept, before = w.detach(), w.data

    @eo.compile
    def f(x):
        w.assign(w + x)
        return w * 1

    f(eo.asarray([1.0, 1.0]))
    assert w.tolist() == [2.0, 3.0]
    assert kept.tolist() == [1.0, 2.0]
    assert before.tolist() == [1.0, 2.0]


def test_an_exception_leaves_the_old_state():
    w = eo.asarray([1.0, 2.0])

    def fail(x):
        raise RuntimeError("in the middle")

    @eo.compile
    def f(x, fails):
        w.assign(w + x)
        if fails:
            fail(x)
        return w * 1

    f_static = eo.compile(f.f, static_argnums=1)
    f_static(eo.asarray([1.0, 1.0]), False)
    assert w.tolist() == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="in the middle"):
        f_static(eo.asarray([1.0, 1.0]), True)
    assert w.tolist() == [2.0, 3.0]
    assert not w.level
    f_static(eo.asarray([1.0, 1.0]), False)
    assert w.tolist() == [3.0, 4.0]


def test_an_exception_while_it_runs_leaves_the_old_state():
    w, generator = eo.asarray([1.0, 2.0]), eo.random.Generator(3)
    wrong = [False]

    class Shown:
        def __format__(self, spec):
            if wrong[0]:
                raise RuntimeError("while it runs")
            return "shown"

    @eo.compile
    def f(x):
        w.assign(w + x)
        eo.debug_print("{} {}", Shown(), x)
        w.assign(w + eo.random.normal(size=2, generator=generator) * 0)
        return w * 1

    x = eo.asarray([1.0, 1.0])
    f(x)
    wrong[0] = True
    with pytest.raises(RuntimeError, match="while it runs"):
        f(x)
    assert w.tolist() == [2.0, 3.0]
    wrong[0] = False
    assert f(x).tolist() == [3.0, 4.0]


def test_a_training_step():
    def train(compiled):
        eo.manual_seed(3)
        model = eo.nn.Sequential(eo.nn.Linear(3, 5), eo.nn.Tanh(), eo.nn.Dropout(0.25), eo.nn.Linear(5, 1))
        optimizer = eo.optim.Adam(model.parameters(), lr=0.05)
        x, y = tensor(8, 3).astype(eo.float32), tensor(8, 1, seed=1).astype(eo.float32)

        def step(x, y):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = eo.compile(step) if compiled else step
        losses = [step(x, y).item() for _ in range(5)]
        return losses, [p.detach().numpy().copy() for p in model.parameters()]

    losses, parameters = train(True)
    wanted_losses, wanted = train(False)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    for found, right in zip(parameters, wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5)
    assert losses[-1] < losses[0]


def test_random_numbers_are_the_eager_ones():
    def draws(f):
        eo.manual_seed(5)
        return [f(eo.ones(6)).tolist() for _ in range(3)]

    def f(x):
        return eo.dropout(x, 0.5) + eo.random.uniform(size=6) * eo.random.normal(size=(2, 6)).sum(axis=0)

    assert draws(eo.compile(f)) == pytest.approx(np.array(draws(f)), rel=1e-6)
    generator = eo.random.Generator(1)

    def g(x):
        return x + eo.random.integers(0, 100, size=3, generator=generator)

    compiled, x = eo.compile(g), eo.zeros(3)
    for seed in (1, 2):
        generator.manual_seed(seed)
        wanted = [g(x).tolist() for _ in range(2)]
        generator.manual_seed(seed)
        assert [compiled(x).tolist() for _ in range(2)] == wanted


# ---- transformations


def smooth(x):
    return (eo.tanh(x) * eo.sin(x * 2)).sum() + (x[1:] * x[:-1]).sum()


TRANSFORMED = {
    "grad": lambda f: eo.grad(f),
    "value_and_grad": lambda f: eo.value_and_grad(f),
    "vjp": lambda f: lambda x: eo.vjp(f, x)[1](x[0] + 2),
    "jvp": lambda f: lambda x: eo.jvp(f, (x,), (eo.cos(x),)),
    "jacfwd": lambda f: eo.jacfwd(f),
    "jacrev": lambda f: eo.jacrev(f),
    "hessian": lambda f: eo.hessian(f),
    "hvp": lambda f: lambda x: eo.hvp(f, (x,), (x * 2,)),
    "vmap": lambda f: lambda x: eo.vmap(f)(eo.stack([x, x * 2, x - 1])),
    "vmap of grad": lambda f: lambda x: eo.vmap(eo.grad(f))(eo.stack([x, x * 2, x - 1])),
    "grad of vmap": lambda f: lambda x: eo.grad(lambda x: eo.vmap(f)(eo.stack([x, x * 2])).sum())(x),
    "third derivative": lambda f: eo.grad(lambda x: eo.grad(lambda x: eo.grad(f)(x).sum())(x).sum()),
    "checkpoint": lambda f: eo.grad(lambda x: eo.checkpoint(f)(x) * 2),
    "linearize": lambda f: lambda x: eo.linearize(f, x)[1](x + 1),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_of_a_compiled_function(name):
    transform, x = TRANSFORMED[name], tensor(5)
    agree(transform(eo.compile(smooth))(x), transform(smooth)(x), name)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_compiled_transformation(name):
    same(TRANSFORMED[name](smooth), tensor(5))


@pytest.mark.parametrize("name", ["grad", "hessian", "vmap", "jvp"])
def test_a_compiled_transformation_of_a_compiled_function(name):
    inner = eo.compile(smooth)
    x = tensor(5)
    agree(eo.compile(TRANSFORMED[name](inner))(x), TRANSFORMED[name](smooth)(x), name)


def test_compiled_in_compiled():
    inner = eo.compile(lambda x, y: (x * y, x + y))
    outer = eo.compile(lambda x: inner(x, inner(x, x)[0])[1] * 2)
    x = tensor(3)
    agree(outer(x), (x + x * x) * 2)


def test_backward_through_a_compiled_function():
    x = tensor(5).requires_grad_()
    w = tensor(5, seed=1).requires_grad_()
    f = eo.compile(lambda x: (eo.sin(x) * w).sum())
    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(array(5)) * array(5, seed=1), rtol=1e-14)
    np.testing.assert_allclose(w.grad.numpy(), np.sin(array(5)), rtol=1e-14)
    with eo.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad


def test_several_results_of_which_few_are_used():
    f = eo.compile(lambda x, i: (eo.sin(x), i + 1, x * 2, x * 3))
    x, i = tensor(3), eo.arange(3)
    agree(eo.grad(lambda x: f(x, i)[2].sum())(x), eo.full((3,), 2.0, dtype=eo.float64))
    agree(eo.grad(lambda x: (f(x, i)[0] * f(x, i)[3]).sum())(x), 3 * (eo.cos(x) * x + eo.sin(x)))
    agree(eo.jvp(lambda x: f(x, i)[3], (x,), (x,))[1], x * 3)


def test_custom_rules():
    @eo.custom_vjp
    def f(x):
        return eo.exp(x)

    f.defvjp(lambda x: (eo.exp(x), x), lambda r, g: (g * 3 * r,))
    x = tensor(3)
    agree(eo.compile(eo.grad(lambda x: f(x).sum()))(x), 3 * x)
    agree(eo.grad(lambda x: eo.compile(f)(x).sum())(x), 3 * x)


# ---- errors


def line_of(text):
    """Return the number of the line of this file that ends with a mark."""
    with open(__file__) as source:
        return next(i for i, line in enumerate(source, 1) if line.rstrip().endswith("# " + text))


def test_branching_on_a_value_names_the_line():
    def f(x):
        if x.sum() > 0:  # branch
            return x
        return -x

    with pytest.raises(CompileError) as error:
        eo.compile(f)(tensor(3))
    text = str(error.value)
    assert f"test_compile_api.py:{line_of('branch')}" in text
    for part in ("bool", "eo.where", "eo.cond", "eo.while_loop", "static_argnums"):
        assert part in text


@pytest.mark.parametrize(
    "read", [lambda x: x.item(), lambda x: float(x), lambda x: int(x), lambda x: x.tolist()]
)
def test_asking_for_a_value_names_the_remedy(read):
    with pytest.raises(CompileError, match=r"debug_print[\s\S]*test_compile_api.py"):
        eo.compile(lambda x: x * read(x.sum()))(tensor(3))


def test_numpy_of_a_traced_value():
    with pytest.raises(CompileError):
        eo.compile(lambda x: x * x.numpy())(tensor(3))
    with pytest.raises((CompileError, TypeError)):
        eo.compile(lambda x: x * np.asarray(x))(tensor(3))


def test_what_the_function_has_written_down_has_a_value():
    def f(x):
        n = eo.tensor(3)
        if n > 2:
            x = x * n.item()
        return eo.repeat(x, 2)

    with pytest.raises(CompileError, match="bool"):
        eo.compile(f)(tensor(2))
    agree(eo.compile(lambda x: x * eo.tensor(3).item())(tensor(2)), tensor(2) * 3)


def test_an_operation_that_is_wrong_says_so_as_it_does_eagerly():
    def f(x, y):
        return x @ y

    with pytest.raises(EveryOError) as eager:
        f(tensor(2, 3), tensor(2, 3))
    with pytest.raises(type(eager.value)) as compiled:
        eo.compile(f)(tensor(2, 3), tensor(2, 3))
    assert str(compiled.value).splitlines()[0] == str(eager.value).splitlines()[0]


def test_a_number_that_does_not_fit_the_dtype():
    x = eo.asarray(np.array([1, 2], np.uint8))
    for f in (lambda x: x + 300, lambda x: x * -1):
        with pytest.raises((ArithmeticError, EveryOError)) as eager:
            f(x)
        with pytest.raises(type(eager.value)):
            eo.compile(f)(x)
    same(lambda x: eo.clip(x, -1, 300), x)


def test_an_index_outside_of_the_axis():
    x, inside, outside = tensor(4), eo.asarray(np.array([0, -4])), eo.asarray(np.array([0, 4]))
    f = eo.compile(lambda x, i: x[i])
    agree(f(x, inside), x[inside])
    with pytest.raises(IndexingError):
        f(x, outside)
    agree(f(x, inside), x[inside])


def test_a_value_that_outlives_its_trace_is_refused():
    kept = []
    eo.compile(lambda x: kept.append(x * 2) or x)(tensor(2))
    with pytest.raises(EveryOError):
        kept[0] + 1
    with pytest.raises(EveryOError):
        kept[0].numpy()


def test_without_the_extra(monkeypatch):
    real = importlib.import_module

    def missing(name, *args):
        if name.split(".")[0] == "llvmlite":
            raise ImportError("No module named 'llvmlite'")
        return real(name, *args)

    monkeypatch.setattr(native.importlib, "import_module", missing)
    with pytest.raises(CompileError) as error:
        eo.compile(lambda x: x)(tensor(2))
    assert 'pip install "everyo[compile]"' in str(error.value)


# ---- printing


def test_debug_print_shows_values_at_each_call(capsys):
    @eo.compile
    def f(x):
        eo.debug_print("x is {}", x)
        return x * 2

    f(eo.asarray([1.0, 2.0]))
    f(eo.asarray([3.0, 4.0]))
    assert capsys.readouterr().out == "x is [1. 2.]\nx is [3. 4.]\n"
    eo.grad(lambda x: f(x).sum())(eo.asarray([5.0, 6.0]))
    assert "x is [5. 6.]" in capsys.readouterr().out


def test_debug_print_keeps_its_order(capsys):
    @eo.compile
    def f(x):
        eo.debug_print("first {}", x)
        y = eo.sin(x)
        eo.debug_print("second {}", y * 0)
        eo.debug_print("third")
        return y

    f(eo.asarray([0.0]))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "third" not in line] == ["first [0.]", "second [0.]"]


# ---- threads


def run_in_threads(work, count=8):
    failures, barrier = [], threading.Barrier(count)

    def run(i):
        barrier.wait()
        try:
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_threads_call_one_compiled_function():
    w = tensor(20, 20, seed=5)
    f = eo.compile(lambda x: eo.softmax(eo.sort(eo.tanh(x @ w) @ w, axis=0), axis=1).cumsum(axis=0))

    def work(i):
        x = tensor(30, 20, seed=i)
        wanted = f.f(x)
        for _ in range(30):
            agree(f(x), wanted, f"thread {i}")

    run_in_threads(work)


def test_an_exception_in_one_thread_stays_there():
    x = tensor(4)
    f = eo.compile(lambda x, i: x[i] * 2)

    def work(i):
        position = eo.asarray(np.array([i]))
        for _ in range(20):
            if i < 4:
                assert f(x, position).tolist() == [x[i].item() * 2]
            else:
                with pytest.raises(IndexingError):
                    f(x, position)

    run_in_threads(work)


def test_a_python_exception_in_one_thread_stays_there():
    class Picky:
        def __format__(self, spec):
            raise ValueError(str(threading.get_ident()))

    picky = Picky()

    @eo.compile
    def f(x):
        eo.debug_print("{}{}", picky, x)
        return x

    def work(i):
        for _ in range(20):
            with pytest.raises(ValueError, match=str(threading.get_ident())):
                f(eo.asarray([1.0 * i]))

    run_in_threads(work)
