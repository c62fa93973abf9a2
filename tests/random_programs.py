"""Random programs: source text of functions of tensors, drawn by Hypothesis, with arguments for them.

A program is a list of lines, each of which applies one operation to values before it. It is run as it is
drawn, so that shapes are known; values are kept small, and no discontinuous operation is drawn where a
rounding error would change its result.
"""

import numpy as np
from hypothesis import strategies as st

import everyo as eo

LARGE = 20.0  # what is larger is drawn back into the range of a sine
MARGIN = 1e-6  # from discontinuities
LENGTHS = [2, 3, 4, 1, 5, 0]
LARGE_SHAPES = [(300, 40), (40,), (1000,), (20, 30), (7, 33, 5), (64, 64), (3, 100), (17,), (2, 3, 50)]

UNARY = [
    "eo.sin({0})", "eo.cos({0})", "eo.tanh({0})", "eo.sigmoid({0})", "eo.exp(-{0} * {0})", "eo.abs({0})",
    "eo.sqrt({0} * {0} + 1)", "eo.log({0} * {0} + 0.5)", "-{0}", "{0} ** 2", "eo.relu({0})", "{0} * 2.5 + 1",
    "1 / (1 + {0} * {0})", "eo.softplus({0})", "eo.erf({0})", "3 - {0}", "eo.clip({0}, -0.75, 0.5)",
    "eo.stop_gradient({0})", "eo.zeros_like({0})", "eo.maximum({0}, 0.25)", "eo.sign({0} + 0.03)",
    "eo.expm1(eo.minimum({0}, 1))", "{0} ** 3 / 4",
]  # fmt: skip
BINARY = [
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "eo.maximum({0}, {1})", "eo.minimum({0}, {1})",
    "{0} / (1 + {1} * {1})", "eo.logaddexp({0}, {1})", "eo.arctan2({0}, {1} * {1} + 1)",
    "eo.hypot({0}, {1} + 30)", "{0} * {0} + {1}", "eo.where({0} < {1} + 0.37, {0} * 2, {1})",
]  # fmt: skip
INTEGER = ["{0} + 1", "{0} * 2 - 3", "{0} % 3", "{0} // 2", "-{0}", "eo.abs({0})", "eo.minimum({0}, 2)"]
REDUCTIONS = ["sum", "mean", "max", "min", "logsumexp", "sum", "var", "vector_norm"]


class Drawing:
    """A program that is being drawn: its lines, and the values that they have on its arguments."""

    def __init__(self, draw, arguments):
        self.draw = draw
        self.lines = []
        self.values = {f"x{i}": eo.asarray(a) for i, a in enumerate(arguments)}

    def choose(self, options):
        return self.draw(st.sampled_from(list(options)))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def names(self, kinds="f", test=lambda x: True):
        found = [n for n, x in self.values.items() if x.dtype.kind in kinds and test(x)]
        return [*found[:-4:-1], *found[::-1]]  # the youngest are more likely: programs grow deep

    def pick(self, kinds="f", test=lambda x: True):
        """Return the name of a value; None if there is none."""
        found = self.names(kinds, test)
        return self.choose(found) if found else None

    def add(self, text):
        """Append a line; return the name of its value, None if the values are not fit to go on with."""
        value = eo.asarray(eval(text, {"eo": eo, "np": np, **HELPERS}, self.values))
        name = f"v{len(self.lines)}"
        if value.size > 50_000:
            return None
        if value.dtype.kind == "f":
            array = value.numpy()
            if not np.isfinite(array).all():
                return None
            if array.size and np.abs(array).max() > LARGE:
                text, value = f"eo.sin({text})", eo.sin(value)
        self.lines.append(f"{name} = {text}")
        self.values[name] = value
        return name


def assigned(x, index, value):
    """Return `x` with elements replaced, in place."""
    x = eo.clone(x)
    x[index] = value
    return x


def increased(x, index, value):
    """Return `x` with elements increased, in place."""
    x = eo.clone(x)
    x[index] += value
    return x


HELPERS = {"assigned": assigned, "increased": increased}


# ---- steps: each returns the text of an expression, or None where nothing fits


def unary(d):
    return d.choose(UNARY).format(d.pick())


def binary(d):
    a = d.pick()
    b = d.pick(test=lambda x: fits(x.shape, d.values[a].shape))
    text = d.choose(BINARY)
    if "<" in text and near(d.values[a].numpy() - d.values[b].numpy() - 0.37):
        text = "{0} - {1} * 0.5"
    return text.format(*d.draw(st.permutations([a, b])) if "<" not in text else (a, b))


def fits(a, b):
    try:
        return bool(np.broadcast_shapes(a, b)) or True
    except ValueError:
        return False


def near(array):
    return bool((np.abs(array) < MARGIN).any())


def integer(d):
    name = d.pick("i")
    return name and d.choose(INTEGER).format(name)


def comparison(d):
    name = d.pick()
    if near(d.values[name].numpy() - 0.17):
        return None
    return f"{name} {d.choose(['<', '>', '<=', '>='])} 0.17"


def logical(d):
    a = d.pick("b")
    b = a and d.pick("b", lambda x: fits(x.shape, d.values[a].shape))
    return a and d.choose([f"eo.logical_and({a}, {b})", f"{a} | ~{b}", f"eo.logical_xor({a}, {b})"])


def select(d):
    c = d.pick("b")
    a = c and d.pick(test=lambda x: fits(x.shape, d.values[c].shape))
    return a and d.choose([f"eo.where({c}, {a}, 0.5)", f"eo.where({c}, {a}, -{a})", f"{c} * {a}"])


def cast(d):
    if d.choose([False, False, True]):
        name = d.pick("bi")
        return name and f"{name}.astype(eo.{d.choose(['float64', 'float32', 'int64', 'int32'])})"
    name = d.pick()
    if d.choose([True, False]) or near((d.values[name].numpy() * 2 + 0.5) % 1):
        return f"{name}.astype(eo.{d.choose(['float64', 'float32'])})"
    return f"eo.floor({name} * 2 + 0.5).astype(eo.{d.choose(['int64', 'int32'])})"


def axes(d, rank):
    """Return the text of an axis parameter: None, an int or a tuple."""
    if not rank or d.choose([False, False, True]):
        return "None"
    if d.choose([True, False]):
        return str(d.number(-rank, rank - 1))
    chosen = d.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    return str(tuple(a - rank if d.choose([False, True]) else a for a in chosen))


def reduction(d):
    kind = d.choose(REDUCTIONS)
    name = d.pick(test=lambda x: x.size)
    if name is None:
        name = d.pick()
        return f"eo.sum({name}, axis={axes(d, d.values[name].ndim)})"
    text = f"axis={axes(d, d.values[name].ndim)}, keepdims={d.choose([False, True])}"
    if kind == "vector_norm":
        return f"eo.vector_norm({name} + 3, {text})"
    if kind == "var":
        text += ", correction=0"
    return f"eo.{kind}({name}, {text})"


def other_reduction(d):
    name = d.pick("bi")
    if name is None:
        return None
    text = f"({name}, axis={axes(d, d.values[name].ndim)}, keepdims={d.choose([False, True])})"
    return f"eo.{d.choose(['any', 'all', 'count_nonzero', 'sum'])}{text}"


def axis_of(d, name):
    rank = d.values[name].ndim
    return d.number(-rank, rank - 1)


def has_axes(x):
    return x.ndim > 0


def along(d):
    name = d.pick(test=lambda x: x.ndim and x.size)
    if name is None:
        return None
    axis = axis_of(d, name)
    return d.choose([
        f"eo.cumsum({name}, axis={axis})", f"eo.softmax({name}, axis={axis})",
        f"eo.log_softmax({name}, axis={axis})", f"eo.flip({name}, axis={axis})",
        f"eo.roll({name}, {d.number(-3, 3)}, axis={axis})", f"eo.cumprod(eo.cos({name}), axis={axis})",
        f"eo.diff({name}, axis={axis})", f"eo.sort({name}, axis={axis})",
        f"{name} - eo.max({name}, axis={axis}, keepdims=True)",
    ])  # fmt: skip


def distinct(array, axis):
    ordered = np.sort(array, axis=axis)
    return not near(np.diff(ordered, axis=axis))


def extreme_position(d):
    name = d.pick(test=lambda x: x.ndim and x.size)
    if name is None:
        return None
    axis = axis_of(d, name)
    if not distinct(d.values[name].numpy(), axis):
        return None
    kind = d.choose(["argmax", "argmin"])
    picked = f"eo.take_along_axis({name}, eo.{kind}({name}, axis={axis}, keepdims=True), axis={axis})"
    return d.choose([f"eo.{kind}({name}, axis={axis})", picked])


def product(d):
    a = d.pick(test=has_axes)
    if a is None:
        return None
    left = d.values[a].shape

    def matches(x):
        if not x.ndim or x.shape[max(x.ndim - 2, 0)] != left[-1]:
            return False
        return fits(x.shape[:-2], left[:-2])

    b = d.pick(test=matches)
    scale = max(left[-1], 1)
    if b is not None and d.choose([True, True, False]):
        return f"eo.matmul({a}, {b}) / {scale}"
    if len(left) < 2:
        return f"eo.matmul({a}, {a}) / {scale}"
    return d.choose([
        f"eo.matmul({a}, eo.matrix_transpose({a})) / {scale}",
        f"eo.matmul(eo.matrix_transpose({a}), {a}) / {max(left[-2], 1)}",
        f"eo.matmul({a}, {a}[..., 0, :]) / {scale}" if len(left) == 2 and left[0] else f"{a} * 0.5",
    ])  # fmt: skip


def reshape(d):
    name = d.pick("fib")
    shape = list(d.values[name].shape)
    kind = d.number(0, 4)
    if kind == 0 or not shape:
        place = d.number(0, len(shape))
        return f"eo.reshape({name}, {(*shape[:place], 1, *shape[place:])})"
    if kind == 1:
        return f"eo.reshape({name}, (-1,))" if 0 not in shape else f"eo.reshape({name}, (0,))"
    if kind == 2 and len(shape) > 1:
        place = d.number(0, len(shape) - 2)
        return f"eo.reshape({name}, {(*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :])})"
    place = d.number(0, len(shape) - 1)
    divisors = [k for k in range(1, shape[place] + 1) if shape[place] % k == 0] or [1]
    k = d.choose(divisors)
    return f"eo.reshape({name}, {(*shape[:place], k, shape[place] // k, *shape[place + 1 :])})"


def transpose(d):
    name = d.pick("fib")
    order = d.draw(st.permutations(range(d.values[name].ndim)))
    return f"eo.transpose({name}, {tuple(order)})" if len(order) > 1 else f"eo.squeeze({name})"


def broadcast(d):
    name = d.pick("fb")
    shape = d.values[name].shape
    wide = [d.number(2, 4) if n == 1 and d.choose([True, False]) else n for n in shape]
    return f"eo.broadcast_to({name}, {(*[d.number(1, 3)] * d.number(0, 1), *wide)})"


def index_text(d, shape, arrays=True):
    """Return the text of an index into a tensor of a shape, with at most one advanced part."""
    items, advanced = [], False
    for n in shape:
        kinds = ["slice", "slice", "all", "int" if n else "all"]
        if arrays and n and not advanced:
            kinds.append("array")
        kind = d.choose(kinds)
        if kind == "all":
            items.append(":")
        elif kind == "int":
            items.append(str(d.number(-n, n - 1)))
        elif kind == "slice":
            start, stop = d.number(-n - 1, n), d.number(-n, n + 1)
            step = d.choose([1, 1, 2, -1, -2, 3])
            items.append(f"{d.choose([start, ''])}:{d.choose([stop, ''])}:{step}")
        else:
            advanced = True
            picked = d.draw(st.lists(st.integers(-n, n - 1), min_size=0, max_size=4))
            if d.choose([False, True]) and len(picked) in (2, 4):
                picked = [picked[: len(picked) // 2], picked[len(picked) // 2 :]]
            items.append(f"np.array({picked}, int)")
        if d.choose([False, False, False, True]):
            items.append("None")
    if d.choose([False, True]) and items and items[-1] == ":":
        items[-1] = "..."
    return "(" + "".join(f"{i}, " for i in items) + ")"


def subscript(text):
    """Return an index as it stands between brackets."""
    return text[1:-1].removesuffix(", ") or "()"


def getitem(d):
    name = d.pick("fib")
    return f"{name}[{subscript(index_text(d, d.values[name].shape))}]"


def set_items(d):
    name = d.pick()
    shape = d.values[name].shape
    text = index_text(d, shape)
    index = f"np.s_[{subscript(text)}]"
    region = np.empty(shape)[eval(index, {"np": np})].shape
    value = d.pick(test=lambda x: fits(x.shape, region) and np.broadcast_shapes(x.shape, region) == region)
    value = value if value and d.choose([True, False]) else "1.5"
    return f"{d.choose(['assigned', 'increased'])}({name}, {index}, {value})"


def gather(d):
    i = d.pick("i")
    name = i and d.pick("f", lambda x: x.ndim and x.size)
    if not name:
        return None
    axis = d.number(0, d.values[name].ndim - 1)
    n = d.values[name].shape[axis]
    colons = ":, " * axis
    return d.choose([f"{name}[{colons}{i} % {n}]", f"eo.take({name}, {i} % {n}, axis={axis})"])


def join(d):
    name = d.pick("f", has_axes)
    if name is None:
        return None
    axis = axis_of(d, name)
    shape = list(d.values[name].shape)

    def matches(x):
        other = list(x.shape)
        if len(other) != len(shape):
            return False
        other[axis] = shape[axis]
        return other == shape

    other = d.pick("f", matches)
    text = f"[{name}, {other}]" if d.choose([True, False]) else f"[{other}, {name} * 2, {name}]"
    if d.values[other].shape == d.values[name].shape and d.choose([True, False]):
        return f"eo.stack({text}, axis={axis})"
    return f"eo.concat({text}, axis={axis})"


def move(d):
    name = d.pick("f", has_axes)
    if name is None:
        return None
    widths = [(d.number(0, 2), d.number(0, 2)) for _ in d.values[name].shape]
    options = [f"eo.pad({name}, {widths}, constant_values={d.choose([0, 1.5])})", f"eo.flip({name})"]
    if d.values[name].ndim > 1:
        options += [f"eo.tril({name}, k={d.number(-1, 1)})", f"eo.triu({name}, k={d.number(-1, 1)})"]
    options += [f"eo.repeat({name}, 2, axis={axis_of(d, name)})", f"eo.tile({name}, 2)"]
    return d.choose(options)


STEPS = [
    unary, unary, unary, binary, binary, binary, reduction, reduction, product, reshape, transpose, broadcast,
    getitem, getitem, set_items, gather, join, move, along, along, extreme_position, cast, comparison,
    logical, select, integer, other_reduction,
]  # fmt: skip


class Program:
    """A function as source text, with arguments."""

    def __init__(self, names, lines, outputs, arguments):
        self.arguments = arguments
        body = "".join(f"    {line}\n" for line in lines)
        self.text = f"def f({', '.join(names)}):\n{body}    return ({', '.join(outputs)},)\n"

    @property
    def is_single(self):
        """Whether single precision takes part."""
        return "float32" in self.text or any(a.dtype == np.float32 for a in self.arguments)

    @property
    def function(self):
        space = {"eo": eo, "np": np, **HELPERS}
        exec(self.text, space)
        return space["f"]

    def __repr__(self):
        given = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.arguments)
        return f"Program on {given}:\n{self.text}"


def values(shape, dtype, seed):
    """Return an argument: numbers between -1.5 and 1.5 that all differ, or small integers."""
    rng = np.random.default_rng(seed)
    if dtype == "int64":
        return rng.integers(0, 5, shape)
    return np.asarray(rng.uniform(-1.5, 1.5, shape), dtype)


@st.composite
def programs(draw):
    """Draw a program."""
    large = draw(st.sampled_from([False, False, True]))
    if large:
        base = draw(st.sampled_from(LARGE_SHAPES))
    else:
        base = tuple(draw(st.lists(st.sampled_from(LENGTHS), max_size=4)))
    shapes = [base]
    for _ in range(draw(st.integers(0, 3))):
        shape = [1 if draw(st.sampled_from([False, False, True])) else n for n in base]
        shape = shape[draw(st.integers(0, len(shape))) :]
        shapes.append(tuple(shape))
    dtypes = [draw(st.sampled_from(["float64", "float64", "float64", "float32", "int64"])) for _ in shapes]
    dtypes[0] = "float64"
    arguments = [values(s, t, i) for i, (s, t) in enumerate(zip(shapes, dtypes, strict=True))]
    d = Drawing(draw, arguments)
    for _ in range(draw(st.sampled_from([2, 4, 8, 12, 16, 24]))):
        text = draw(st.sampled_from(STEPS))(d)
        if text is not None:
            d.add(text)
    made = [n for n in d.values if n.startswith("v")] or ["x0"]
    used = "\n".join(line.split("=", 1)[1] for line in d.lines)
    outputs = [n for n in made if n not in used.replace("(", " ").replace(")", " ").replace(",", " ").split()]
    outputs = (outputs or made[-1:])[:6]
    if draw(st.sampled_from([False, True])):
        outputs = [*outputs, draw(st.sampled_from(made))]
    return Program(list(d.values)[: len(arguments)], d.lines, outputs, arguments)
