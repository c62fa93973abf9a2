"""Modules: registration, traversal, state dicts, modes, hooks, copies, calls with other parameters."""

import copy
import math
import pickle

import numpy as np
import pytest

import everyo as eo
from everyo import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.scale = nn.Parameter([2.0])
        self.register_buffer("count", eo.tensor([0]))
        self.register_buffer("scratch", eo.tensor([1.0]), persistent=False)

    def forward(self, x):
        return self.inner(x) * self.scale


class Shared(nn.Module):
    """One module under two names, and one parameter in two modules."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2, bias=False)
        self.again = self.first
        self.tied = nn.Linear(2, 2, bias=False)
        self.tied.weight = self.first.weight

    def forward(self, x):
        return self.tied(self.again(self.first(x)))


# ---- parameters


def test_a_parameter_is_a_leaf_that_requires_grad():
    p = nn.Parameter([1.0, 2.0])
    assert isinstance(p, eo.Tensor)
    assert p.requires_grad
    assert p.is_leaf
    assert repr(p) == "parameter([1., 2.], dtype=float32, shape=(2,), requires_grad=True)"
    assert type(p * 2) is eo.Tensor
    assert type(p.detach()) is eo.Tensor
    assert not nn.Parameter([1.0], requires_grad=False).requires_grad
    with pytest.raises(eo.DTypeError):
        nn.Parameter([1, 2])


def test_a_parameter_copies_arrays_and_detaches_tensors():
    array = np.ones(2)
    p = nn.Parameter(array)
    array[0] = 5.0
    assert p.detach().tolist() == [1.0, 1.0]
    x = eo.ones(2, requires_grad=True)
    assert nn.Parameter(x * 2).is_leaf


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_parameter_does_not_lose_the_derivative_of_an_argument(requires_grad):
    """It had the gradient 0, in silence."""
    x = eo.tensor([1.0, 2.0])

    def f(x):
        return (nn.Parameter(x * 2, requires_grad) * 3).sum()

    calls = (lambda: eo.grad(f)(x), lambda: eo.jvp(f, (x,), (x,)), lambda: eo.compile(eo.grad(f))(x))
    for call in calls:
        with pytest.raises(eo.EveryOError, match="remedy:"):
            call()
    assert eo.grad(lambda x: (nn.Parameter(x.detach()) * x).sum())(x).tolist() == [1.0, 2.0]


# ---- registration


def test_attributes_register_in_their_order():
    block = Block()
    assert [name for name, _ in block.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert [name for name, _ in block.named_buffers()] == ["count", "scratch"]
    assert [name for name, _ in block.named_modules()] == ["", "inner"]
    assert list(block.children()) == [block.inner]
    assert [name for name, _ in block.named_parameters("top", recurse=False)] == ["top.scale"]


def test_deleting_and_replacing_attributes():
    block = Block()
    del block.scale, block.count
    assert [name for name, _ in block.named_parameters()] == ["inner.weight", "inner.bias"]
    assert "count" not in block.state_dict()
    block.count = "no buffer any more"
    block.inner = nn.Linear(2, 5)
    assert block.inner.weight.shape == (5, 2)
    block.inner.bias = None
    assert [name for name, _ in block.named_parameters()] == ["inner.weight"]


@pytest.mark.parametrize(
    ("name", "value"), [("scale", eo.ones(1)), ("inner", lambda x: x), ("count", 3), ("scale", 2.0)]
)
def test_a_registered_name_refuses_another_kind(name, value):
    block = Block()
    before = getattr(block, name)
    with pytest.raises(eo.DTypeError, match=f"{name!r} would no longer be"):
        setattr(block, name, value)
    assert getattr(block, name) is before


def test_in_place_updates_keep_the_parameter():
    block = Block()
    scale = block.scale
    with eo.no_grad():
        block.scale -= 0.5
    assert block.scale is scale
    assert scale.tolist() == [1.5]


def test_registration_by_computed_names():
    module = nn.Module()
    module.register_parameter("w", nn.Parameter([1.0]))
    module.register_parameter("b", None)
    module.add_module("child", nn.ReLU())
    assert [name for name, _ in module.named_parameters()] == ["w"]
    assert [name for name, _ in module.named_children()] == ["child"]
    with pytest.raises(eo.DTypeError):
        module.register_parameter("v", eo.ones(1))
    with pytest.raises(eo.DTypeError):
        module.add_module("v", print)
    for name in ("", "a.b"):
        with pytest.raises(eo.ArgumentError, match="dot"):
            module.register_parameter(name, nn.Parameter([1.0]))
    with pytest.raises(eo.ArgumentError, match="attribute exists"):
        module.register_buffer("w", eo.ones(1))


def test_a_module_works_without_calling_super_init():
    class Bare(nn.Module):
        def __init__(self):
            self.w = nn.Parameter([1.0])

    bare = Bare()
    assert bare.training
    assert len(list(bare.parameters())) == 1
    with pytest.raises(eo.UnsupportedOperationError, match="does not define forward"):
        bare(1)


def test_what_is_shared_is_counted_once():
    shared = Shared()
    assert [name for name, _ in shared.named_parameters()] == ["first.weight"]
    assert len(list(shared.named_parameters(remove_duplicate=False))) == 3
    assert [name for name, _ in shared.named_modules()] == ["", "first", "tied"]
    assert len(list(shared.named_modules(remove_duplicate=False))) == 4
    assert sorted(shared.state_dict()) == ["again.weight", "first.weight", "tied.weight"]
    shared.load_state_dict(shared.state_dict())


def test_a_module_that_refers_to_its_parent_is_walked_once():
    block = Block()
    block.inner.parent = block
    assert len(list(block.modules())) == 2
    assert len(block.state_dict()) == 4
    assert block.train(False).inner.training is False
    assert "(inner): Linear" in repr(block)


# ---- state dicts


def test_state_dict_is_a_snapshot():
    block = Block()
    state = block.state_dict()
    assert list(state) == ["scale", "count", "inner.weight", "inner.bias"]
    assert not any(t.requires_grad for t in state.values())
    block(eo.ones((1, 2))).sum().backward()
    optimizer = eo.optim.SGD(block.parameters(), lr=1.0)
    optimizer.step()
    optimizer.step()
    assert state["scale"].tolist() == [2.0]
    assert block.scale.tolist() != [2.0]


def test_load_state_dict_restores_converts_and_copies():
    source, target = Block(), Block()
    wide = {"f": "float64", "i": "int32"}
    state = {k: v.numpy().astype(wide[v.dtype.kind]) for k, v in source.state_dict().items()}
    scale = target.scale
    result = target.load_state_dict(state)
    assert result == ([], [])
    assert target.scale is scale
    assert target.scale.dtype == eo.float32
    assert target.count.dtype == source.count.dtype
    state["scale"][0] = 99.0
    for key, value in source.state_dict().items():
        np.testing.assert_array_equal(target.state_dict()[key].numpy(), value.numpy())


BAD_STATES = [
    (lambda s: s.pop("scale"), ["missing: scale"]),
    (lambda s: s.update(extra=eo.ones(1)), ["unexpected: extra"]),
    (lambda s: s.update(scale=eo.ones(3)), ["shape of scale", r"\(3,\)"]),
    (lambda s: s.update(scale=eo.tensor([1j])), ["dtype of scale: complex"]),
    (lambda s: s.update(count=eo.tensor([0.5])), ["dtype of count: float32"]),
    (lambda s: s.update(count="many", scale=None), ["value of count: str", "value of scale: NoneType"]),
    (
        lambda s: (s.pop("count"), s.update(scale=eo.ones(2), more=1, **{"inner.bias": eo.ones(())})),
        ["missing: count", "unexpected: more", "shape of scale", "shape of inner.bias"],
    ),
]


@pytest.mark.parametrize(("spoil", "messages"), BAD_STATES)
def test_a_state_dict_that_does_not_fit_changes_nothing(spoil, messages):
    block = Block()
    before = block.state_dict()
    state = Block().state_dict()
    spoil(state)
    with pytest.raises(eo.SerializationError, match=r"Block\.load_state_dict") as caught:
        block.load_state_dict(state)
    for message in messages:
        caught.match(message)
    for key, value in block.state_dict().items():
        assert value.data is before[key].data


def test_loading_what_is_there():
    block = Block()
    result = block.load_state_dict({"scale": eo.tensor([7.0]), "extra": eo.ones(1)}, strict=False)
    assert block.scale.tolist() == [7.0]
    assert result.missing_keys == ["count", "inner.weight", "inner.bias"]
    assert result.unexpected_keys == ["extra"]
    with pytest.raises(eo.SerializationError, match="shape of scale"):
        block.load_state_dict({"scale": eo.ones(2)}, strict=False)
    with pytest.raises(eo.DTypeError, match="maps names"):
        block.load_state_dict(["scale"])


# ---- training, moving


def test_train_and_eval_reach_every_module():
    model = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    assert model.eval() is model
    assert not any(m.training for m in model.modules())
    model.train()
    assert all(m.training for m in model.modules())


def test_zero_grad_and_requires_grad():
    block = Block()
    block(eo.ones((1, 2))).sum().backward()
    block.zero_grad(set_to_none=False)
    assert block.scale.grad.tolist() == [0.0]
    block.zero_grad()
    assert block.scale.grad is None
    block.requires_grad_(False)
    assert not any(p.requires_grad for p in block.parameters())
    assert len(list(block.parameters())) == 3


def test_to_converts_in_place():
    block = Block()
    scale, hooked = block.scale, []
    scale.register_hook(lambda g: hooked.append(g.dtype))
    block(eo.ones((1, 2))).sum().backward()
    assert block.to(eo.float64) is block
    assert block.scale is scale
    assert scale.dtype == scale.grad.dtype == eo.float64
    assert block.scratch.dtype == eo.float64
    assert block.count.dtype.kind == "i"
    block.zero_grad()
    block(eo.ones((1, 2), dtype=eo.float64)).sum().backward()
    assert scale.grad.dtype == eo.float64
    assert hooked == [eo.float32, eo.float64]
    block.to("cpu").to("float32").to(device="cpu", dtype=eo.float64)
    assert scale.dtype == eo.float64


def test_to_refuses_what_would_lose_values():
    block = Block()
    with pytest.raises(eo.DTypeError):
        block.to(eo.int64)
    with pytest.raises(eo.DeviceError):
        block.to("nowhere")
    block.to(eo.complex64)
    with pytest.raises(eo.DTypeError, match="imaginary"):
        block.to(eo.float32)
    assert block.scale.dtype == eo.complex64


def test_apply_visits_children_first_and_each_once():
    shared, seen = Shared(), []
    assert shared.apply(seen.append) is shared
    assert seen == [shared.first, shared.tied, shared]


# ---- hooks, copies, showing


def test_forward_hooks():
    layer = nn.ReLU()
    before = layer.register_forward_pre_hook(lambda module, args: (args[0] - 1,))
    after = layer.register_forward_hook(lambda module, args, output: output * 10)
    assert layer(eo.tensor([3.0])).tolist() == [20.0]
    after.remove()
    assert layer(eo.tensor([3.0])).tolist() == [2.0]
    before.remove()
    assert layer(eo.tensor([3.0])).tolist() == [3.0]


@pytest.mark.parametrize("carry", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent_and_keep_what_is_shared(carry):
    shared = Shared()
    shared.register_buffer("steps", eo.tensor([1, 2]))
    shared(eo.ones((1, 2))).sum().backward()
    twin = carry(shared)
    assert twin.first is twin.again
    assert twin.tied.weight is twin.first.weight
    assert isinstance(twin.first.weight, nn.Parameter)
    assert twin.first.weight is not shared.first.weight
    assert twin.first.weight.requires_grad
    np.testing.assert_array_equal(twin.first.weight.detach().numpy(), shared.first.weight.detach().numpy())
    assert list(twin.state_dict()) == list(shared.state_dict())
    held = shared.first.weight.tolist()
    for _ in range(2):
        eo.optim.SGD(twin.parameters(), lr=1.0).step()
    assert shared.first.weight.tolist() == held
    twin(eo.ones((1, 2))).sum().backward()


def test_repr_shows_the_structure():
    head = nn.Sequential(nn.ReLU(), nn.Linear(2, 3, bias=False))
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), head)
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Conv2d(1, 4, kernel_size=(3, 3), stride=1, padding=1)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=2, out_features=3, bias=False)\n"
        "  )\n"
        ")"
    )


# ---- containers


def test_sequential_and_module_list():
    layers = [nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)]
    model = nn.Sequential(*layers)
    assert len(model) == 3
    assert list(model) == layers
    assert model[-1] is layers[-1]
    assert list(model[1:]) == layers[1:]
    assert model(eo.ones((4, 2))).shape == (4, 1)
    assert len(model.append(nn.ReLU())) == 4
    named = nn.Sequential({"a": layers[0], "b": layers[1]})
    assert list(named.state_dict()) == ["a.weight", "a.bias"]
    assert [name for name, _ in named[:1].named_children()] == ["a"]
    twice = nn.Sequential(layers[0], layers[0])
    assert len(twice) == 2
    assert len(list(twice.parameters())) == 2
    with pytest.raises(eo.IndexingError):
        model[7]
    with pytest.raises(eo.DTypeError, match="every element must be a module"):
        nn.Sequential(nn.ReLU(), eo.relu)
    assert len(nn.ModuleList(layers).extend([nn.ReLU()])) == 4
    with pytest.raises(eo.DTypeError):
        nn.ModuleList([3])


# ---- functional_call


def test_functional_call_differentiates_with_respect_to_given_parameters():
    block = Block()
    own = block.scale
    scale = eo.tensor([5.0], requires_grad=True)
    x = eo.ones((1, 2))
    y = nn.functional_call(block, {"scale": scale}, x)
    y.sum().backward()
    assert block.scale is own
    assert own.grad is None
    assert scale.grad.item() == pytest.approx(block.inner(x).sum().item())
    np.testing.assert_allclose(y.detach().numpy(), 2.5 * block(x).detach().numpy(), rtol=1e-6)


def test_functional_call_replaces_what_is_shared_everywhere_and_puts_it_back():
    shared = Shared()
    own = shared.first.weight
    y = nn.functional_call(shared, {"first.weight": 2 * eo.eye(2)}, (eo.ones((1, 2)),))
    assert y.tolist() == [[8.0, 8.0]]
    with pytest.raises(eo.ShapeError):
        nn.functional_call(shared, {"first.weight": eo.ones((3, 3))}, eo.ones((1, 2)))
    assert shared.first.weight is shared.tied.weight is own
    with pytest.raises(eo.ArgumentError, match=r"'second\.weight'"):
        nn.functional_call(shared, {"second.weight": own}, eo.ones((1, 2)))


# ---- initialization


def test_initial_values_follow_the_seed_and_the_bound():
    def values(layer):
        return np.concatenate([p.detach().numpy().ravel() for p in layer.parameters()])

    for make, fan_in in (
        (lambda **kw: nn.Linear(50, 40, **kw), 50),
        (lambda **kw: nn.Conv2d(8, 10, 3, groups=2, **kw), 36),
        (lambda **kw: nn.Conv1d(4, 30, 5, **kw), 20),
    ):
        eo.manual_seed(3)
        first = values(make())
        eo.manual_seed(3)
        np.testing.assert_array_equal(first, values(make()))
        assert not np.array_equal(first, values(make()))
        bound = 1 / math.sqrt(fan_in)
        assert bound * 0.95 < np.abs(first).max() <= bound
        assert abs(first.std() - bound / math.sqrt(3)) < 0.03 * bound
        one, two = (values(make(generator=eo.random.Generator(5))) for _ in range(2))
        np.testing.assert_array_equal(one, two)
        assert next(make(dtype=eo.float64).parameters()).dtype == eo.float64


def test_init_functions():
    generator = eo.random.Generator(0)
    w = nn.Parameter(eo.zeros((200, 100)))
    init = nn.init
    assert init.kaiming_normal_(w, nonlinearity="relu", generator=generator) is w
    assert abs(w.detach().numpy().std() - math.sqrt(2 / 100)) < 2e-3
    init.kaiming_uniform_(w, mode="fan_out", nonlinearity="linear", generator=generator)
    assert np.abs(w.detach().numpy()).max() <= math.sqrt(3 / 200)
    init.xavier_uniform_(w, generator=generator)
    assert np.abs(w.detach().numpy()).max() <= math.sqrt(6 / 300)
    init.xavier_normal_(w, generator=generator)
    assert abs(w.detach().numpy().std() - math.sqrt(2 / 300)) < 2e-3
    assert init.ones_(w)[0, 0].item() == 1.0
    assert init.zeros_(w)[0, 0].item() == 0.0
    assert w.dtype == eo.float32
    with pytest.raises(eo.ArgumentError, match="mode"):
        init.kaiming_uniform_(w, mode="fan")
    with pytest.raises(eo.ArgumentError, match="nonlinearity"):
        init.kaiming_uniform_(w, nonlinearity="swish")
    with pytest.raises(eo.ShapeError, match="fan_in"):
        init.xavier_uniform_(nn.Parameter([1.0]))
    assert nn.Linear(0, 3).bias.tolist() is not None


def test_a_shared_parameter_is_given_once():
    shared, x = Shared(), eo.ones((1, 2))
    double = {name: 2 * eo.ones((2, 2)) for name in shared.state_dict()}
    with pytest.raises(eo.ArgumentError, match="is shared with another name"):
        nn.functional_call(shared, double, x)
    np.testing.assert_array_equal(
        nn.functional_call(shared, {"tied.weight": eo.ones((2, 2))}, x), [[8.0, 8.0]]
    )
    np.testing.assert_array_equal(nn.functional_call(shared, shared.state_dict(), x), shared(x).detach())
