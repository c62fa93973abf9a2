"""Tracing: an interpreter that writes down each operation instead of computing it.

It stands below every other transformation, so that derivatives, batching and the eager tape's own
backward pass run as they always do and leave their operations in one graph. Tensors that the function
reaches from outside become inputs of the graph, read anew at each call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from everyo.compiler import asked
from everyo.compiler.attributes import Attributes
from everyo.compiler.cells import Cell, DataCell, GradientCell, OuterCell
from everyo.compiler.constants import array_of
from everyo.compiler.draws import drawn_anew
from everyo.compiler.gradients import Gradients, unwatch, watch
from everyo.compiler.graph import Graph, Value
from everyo.compiler.infer import infer
from everyo.compiler.items import Items
from everyo.compiler.meeting import ends, in_dtype, in_own, met
from everyo.compiler.raw import RawData, refuse
from everyo.compiler.symbols import Symbol, at_bottom, stand_in, tensor_of
from everyo.compiler.values import Values
from everyo.core.copying import same_value
from everyo.core.dispatch import apply, carries_gradient, record, recorded
from everyo.core.dtypes import DIFFERENTIABLE, default_for
from everyo.core.explaining import explain
from everyo.core.modes import begin, current_mode, is_constant
from everyo.core.operands import WEAK, WEAK_KINDS
from everyo.core.primitive import Primitive
from everyo.core.registry import forget_kernels, get_primitive, op, remember_kernels
from everyo.core.tape import FREED
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Interpreter, Traced, is_number, require_outer, staged, staging, top_of
from everyo.errors import EveryOError
from everyo.transforms.custom_values import noting

COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
ARITHMETIC = frozenset((
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "negative", "positive",
    "abs", "round_to", "real", "imag", "conj",
    "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift",
))  # fmt: skip
BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})
OPERATORS = ARITHMETIC | BITWISE | COMPARISONS | {"stop_gradient"}  # of Python: numbers stay numbers
_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}  # the type of a number by the kind of its dtype


def leads_back(x: Tensor) -> bool:
    """Whether a backward pass from a result could go on: a training step has used its graph up."""
    return x.grad_node is not None and x.grad_node.saved is not FREED


def _kind(example: Any) -> type:
    """Return the Python type of a number that an operation is inferred with."""
    return type(example) if type(example) in WEAK else _PYTHON[example.dtype.kind]


class Tracer(Interpreter):
    """Writes the operations of one call of a function into `graph`.

    Attributes
    ----------
    cells : dict
        What the function reached from outside, each with the input of the graph that stands for it.
    writes : list of (Cell, Value)
        What it changed outside.
    cleared : list of Tensor
        Tensors that it left without a gradient.
    arguments : dict of Value to leaf
        The inputs that stand for arguments, with what this call passes.
    asked : dict
        What the function has asked of them: the answer for each position and attribute.
    gradients : Gradients
        What it did to those of tensors from outside.
    items : Items
        What it reads and writes of dicts.
    attributes : Attributes
        What it has read of modules, shared with the trace around it.
    made : list of weak references
        The values that it has made, shared as well.
    raw : RawData
        The arrays of tensors from outside.
    undoing : ExitStack
        What a failure takes back, shared as well.
    ruled : bool
        Whether what is written down now has derivative rules of the user's own.
    parent : Tracer or None
        The trace around it, where it traces the body of a loop or branch.
    guarding : Tracer or None
        The innermost trace from here outwards whose function may run not at all. What it does with values
        of traces around alone is written down in it: outside it would be computed in any case, with its
        errors, and with a gradient that is NaN where the function is not to run.
    """

    name = "compile"
    writes_outside = True
    scan: Callable[..., Any]  # these three are set by `everyo.compiler.control`
    cond: Callable[..., Any]
    while_loop: Callable[..., Any]

    def __init__(self, graph: Graph, guarded: bool = False) -> None:
        super().__init__()
        self.guarded = guarded
        self.staging = self
        self.graph, self.parent, self.ruled = graph, None, False
        self._recording = begin(self.level).grad
        self.made: list[weakref.ref[Symbol]] = []
        self.cells: dict[Any, tuple[Cell, Value]] = {}
        self.writes: list[tuple[Cell, Value]] = []
        self.cleared: list[Tensor] = []
        self.gradients = Gradients(self)
        self.attributes = Attributes()
        self.values = Values(self)
        self.items = Items(self)
        self.raw = RawData()
        self.guards: dict[Any, tuple[Callable[[], Any], Any]] = {}
        self.arguments: dict[Value, Any] = {}
        self.asked: dict[tuple[int, str], bool] = {}
        self.computed: dict[Value, Any] = {}  # constants that were asked for
        self.undoing = ExitStack()

    @property
    def born(self) -> int:
        """The age of the outermost trace: older nodes are of graphs from outside."""
        return self.gradients.born if self.parent is None else self.parent.born

    def reading(self, x: Tensor) -> Tensor:
        """Return a tensor from outside as a value of the graph, without its graph of the eager tape."""
        return self.symbol(self.read(DataCell(x)))

    def symbol(self, value: Value, weak: bool = False) -> Tensor:
        """Return a tensor that stands for a value of the graph."""
        return tensor_of(Symbol(self, value, weak))

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Write the call down; record it for the eager tape too, if an operand requires grad."""
        if primitive.family == "custom":  # user code: it runs here, on symbols
            return self._custom(primitive, inputs)
        if "inline" in primitive.options:  # a compiled function in a compiled function
            return primitive.options["inline"](*inputs)
        if primitive.options.get("shaped_by_values"):
            arrays = [self.constant_array(self.operand(x)) for x in inputs]
            if all(x is not None for x in arrays):
                with staged(None):
                    return self.fixed(apply(primitive, arrays, params))
        values, outs, weak = self.emit(primitive, inputs, params)
        symbols = [Symbol(self, v, weak) for v in outs]
        out: Any = tuple(symbols) if len(symbols) != 1 or primitive.options.get("several") else symbols[0]
        mask = sum(1 << i for i, x in enumerate(inputs) if self._is_tracked(x))
        if mask and current_mode().grad and primitive.vjp is not None and carries_gradient(out):
            arrays = [
                self.symbol(v) if v is not None and isinstance(x, Tensor) else x
                for x, v in zip(inputs, values, strict=True)
            ]
            plain = tuple(map(wrap, symbols)) if isinstance(out, tuple) else wrap(out)
            return recorded(out, record(primitive, inputs, arrays, params, plain, mask))
        if self._in_block() and primitive.name != "stop_gradient":
            constant = [self._constant_of(s) for s in symbols]  # a replay under a tape knows no mode
            return tuple(constant) if isinstance(out, tuple) else constant[0]
        return tuple(map(wrap, symbols)) if isinstance(out, tuple) else tensor_of(out)

    def _in_block(self) -> bool:
        """Whether what is written down now is constant to whatever differentiates the program."""
        return (self._recording and not current_mode().grad) or is_constant(self.level)

    def is_held(self) -> bool:
        """Whether nobody who differentiates the program follows what is written down now."""
        return self.ruled or self._in_block() or (self.parent is not None and self.parent.is_held())

    def _constant_of(self, x: Symbol) -> Tensor:
        """Return a value that was computed under `no_grad`, marked as constant."""
        return op.stop_gradient(wrap(x)) if x.dtype.kind in DIFFERENTIABLE else wrap(x)

    def _custom(self, primitive: Any, inputs: Sequence[Any]) -> Any:
        """Trace a function with rules of the user's own; its node pulls back by those rules."""
        values = [self.operand(x) for x in inputs]
        arrays = [self.symbol(v) for v in values if v is not None]
        token, ruled = noting.set(False), self.ruled
        self.ruled = True
        try:
            outs, extras = primitive.rules.forward(arrays)
        finally:
            noting.reset(token)
            self.ruled = ruled
        made = [self.operand(x) for x in (*outs, *extras)]
        specs = [(v.shape, v.dtype) for v in made if v is not None]
        marked = self.graph.add("custom", [*values, *made], specs, count=len(values))
        self.graph.ops[-1].primitive = primitive  # for a replay, which must know that there are rules
        results = tuple(self.symbol(v) for v in marked)
        mask = sum(1 << i for i, x in enumerate(inputs) if self._is_tracked(x))
        if mask and current_mode().grad:
            return recorded(
                tuple(r.data for r in results), record(primitive, inputs, arrays, {}, results, mask)
            )
        return tuple(self._constant_of(r.data) for r in results) if self._in_block() else results

    def _is_tracked(self, x: Any) -> bool:
        """Whether the eager tape knows a tensor: one of this level or of none."""
        return isinstance(x, Tensor) and x.grad_node is not None and (not x.level or self.mine(x))

    def emit(
        self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]
    ) -> tuple[list[Value | None], list[Value], bool]:
        """Append the call to the graph; return operands, results and whether these are weak."""
        inputs = [
            self.symbol(self._outer(x), True) if is_number(x) and not self.mine(x) else x for x in inputs
        ]
        if any(is_number(x) and x.shape for x in inputs):
            inputs = self._settled(inputs, primitive.broadcasts)
        weak = [type(x) in WEAK or is_number(x) for x in inputs]
        if not (primitive.broadcasts or all(weak)):  # an index: the dtype of what it meets may not hold it
            inputs = [self.strong(x) if is_number(x) and x.dtype.kind in "iu" else x for x in inputs]
            weak = [type(x) in WEAK or is_number(x) for x in inputs]
        if any(isinstance(p, Graph) for p in params.values()):  # a body takes what it was traced with
            weak = [False] * len(inputs)
        anchored = not all(weak)
        if not anchored and primitive.name in ARITHMETIC:
            inputs = [self._counted(x) for x in inputs]
        if (
            not anchored and primitive.name not in OPERATORS
        ):  # a number alone becomes a tensor, as it does eagerly
            inputs = self._alone(inputs, primitive.broadcasts)
            weak, anchored = [False] * len(inputs), True
        examples = []
        for x, is_weak in zip(inputs, weak, strict=True):
            if is_weak and anchored:
                examples.append(x if type(x) in WEAK else _PYTHON[x.dtype.kind](1))
            else:
                examples.append(self._example(x))
        try:
            specs = infer(primitive, examples, params)
        except EveryOError:
            raise
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise explain(primitive, examples, params, error) from error
        dtypes = [e.dtype for e in examples if hasattr(e, "dtype")]
        made = specs[0][1] if specs else None
        taken = [
            met(primitive, dtypes, _kind(example), x, made) if w and dtypes else None
            for x, w, example in zip(inputs, weak, examples, strict=True)
        ]
        if primitive.name == "clip":
            inputs = [self._bound(x, dtype) for x, dtype in zip(inputs, taken, strict=True)]
        values = [self.operand(x, dtype) for x, dtype in zip(inputs, taken, strict=True)]
        outs = self.graph.add(primitive.name, values, specs, **params)
        self.graph.ops[-1].primitive = primitive
        return values, outs, not anchored and bool(inputs)

    def strong(self, x: Any, dtype: Any = None) -> Tensor:
        """Return a number as a tensor of the default dtype, or unrounded if it is to become `dtype`."""
        value = self.operand(
            x, default_for(np.asarray(self._example(x)).dtype.kind) if dtype is None else None
        )
        assert value is not None
        return self.symbol(value)

    def _alone(self, numbers: Sequence[Any], promoted: bool) -> list[Tensor | None]:
        """Return the operands of an operation on numbers alone as tensors, `promoted` by the strongest."""
        kinds = [None if x is None else np.asarray(self._example(x)).dtype.kind for x in numbers]
        strongest = default_for(max((k for k in kinds if k), key="biufc".index))

        def made(x: Any, kind: str) -> Tensor:
            if strongest is None or not promoted or kind not in WEAK_KINDS:
                return self.strong(x)
            return self.symbol(self._known(x, np.result_type(strongest, WEAK_KINDS[kind])))

        return [None if kind is None else made(x, kind) for x, kind in zip(numbers, kinds, strict=True)]

    def listed(self, items: Sequence[Any]) -> Tensor:
        """Return a list of numbers, or of such lists, as one tensor, which is as weak as they are."""
        values = [self._known(x) for x in items]
        dtype = np.result_type(*(v.dtype for v in values))
        parts = [self.symbol(v if v.dtype == dtype else self.cast(v, dtype)) for v in values]
        return self.number(op.stack(*parts, axis=0))

    def _settled(self, inputs: Sequence[Any], promoted: bool) -> list[Any]:
        """Return operands with lists of numbers in the dtype that they take beside the others."""
        met = [x.dtype for x in inputs if hasattr(x, "dtype") and not is_number(x)] if promoted else []
        if promoted and not met:
            kinds = [np.asarray(self._example(x)).dtype.kind for x in inputs if x is not None]
            met = [d for d in [default_for(max(kinds, key="biufc".index))] if d is not None]
        lists = [is_number(x) and bool(x.shape) for x in inputs]
        return [
            (self.meeting(x, met) if met else self.strong(x)) if many else x
            for x, many in zip(inputs, lists, strict=True)
        ]

    def number(self, x: Tensor) -> Tensor:
        """Return a value of the graph as a number, which takes the dtype of what it meets."""
        return self.symbol(x.data.value, weak=True)

    def _bound(self, x: Any, dtype: Any) -> Any:
        """Return a bound of `clip`, which may lie beyond an integer dtype, and then means its end."""
        if dtype is None or dtype.kind not in "iu":
            return x
        least, end = ends(dtype)
        if type(x) is int:
            return min(max(x, least), end - 1)
        if not self.mine(x) or x.dtype.kind not in "iu" or x.dtype == dtype:
            return x
        _, (bound,), _ = self.emit(get_primitive("clip"), [self.symbol(x.data.value), least, end - 1], {})
        return self.symbol(bound)

    def _counted(self, x: Any) -> Any:
        """Return a truth value as the number that Python computes with."""
        if not is_number(x) or x.dtype.kind != "b":
            return x
        return self.symbol(self.cast(x.data.value, np.dtype(np.int64)), weak=True)

    def meeting(self, x: Tensor, met: Sequence[Any]) -> Tensor:
        """Return a number as a tensor of the dtype that it takes beside those of others."""
        dtype = np.result_type(*met, _PYTHON[x.dtype.kind](1))
        value = self.operand(x, dtype)
        assert value is not None
        return self.symbol(value)

    def _example(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return stand_in(x.data) if x.level else x.data
        return x if x is None or isinstance(x, (np.ndarray, *WEAK)) else np.asarray(x)

    def operand(self, x: Any, dtype: Any = None) -> Value | None:
        """Return the value of the graph that an operand is; a number takes `dtype`."""
        if x is None:
            return None
        if isinstance(x, Tensor):
            if self.mine(x):
                value = x.data.value
                return value if dtype is None or dtype == value.dtype else self.cast(value, dtype)
            if top_of([x.data]) is not None:
                return self._outer(x)
            return self.read(DataCell(x))
        return self.constant(in_own(x) if dtype is None else in_dtype(x, dtype))

    def writer(self, interpreter: Interpreter) -> Interpreter:
        """Return who processes an operation on values of an interpreter."""
        inner = self.guarding
        return interpreter if inner is None or interpreter.level >= inner.level else inner

    def own(self, x: Tensor) -> Tensor:
        """Return what a tensor becomes in place as a value of this trace: a body writes at each turn."""
        if not x.level:
            return op.alias(x)
        if self.parent is None or x.level >= self.level:
            return x
        return self.symbol(self._outer(x), is_number(x))

    def _outer(self, x: Tensor) -> Value:
        """Return the input of a body that stands for a value of an enclosing trace."""
        cell = OuterCell(same_value(x))  # which no in-place statement changes
        found = self.cells.get(cell.key)
        if found is None:
            found = self.cells[cell.key] = cell, self.graph.input(x.shape, x.dtype)
        return found[1]

    def cast(self, value: Value, dtype: Any) -> Value:
        """Return a value in another dtype."""
        made = self.graph.add("astype", [value], [(value.shape, dtype)], dtype=np.dtype(dtype))[0]
        self.graph.ops[-1].primitive = get_primitive("astype")
        return made

    def constant(self, array: Any) -> Value:
        """Return a value that is part of the program."""
        return self.graph.add("constant", [], [(array.shape, array.dtype)], array=np.array(array))[0]

    def constant_array(self, value: Value | None) -> Any:
        """Return the elements of a constant, also of one that is computed, but not in the body of a loop."""
        if self.parent is None and staging.get() is self:
            return array_of(value, self.computed)
        made = None if value is None else value.op  # what the body changes is another in each turn
        return made.params["array"] if made is not None and made.name == "constant" else None

    def fixed(self, out: Any) -> Any:
        """Return the result, or results, of an operation on NumPy arrays alone as constants."""
        if isinstance(out, tuple):
            return tuple(map(self.fixed, out))
        return self.symbol(self.constant(out.data))

    def beneath(self, x: Any) -> Value | None:
        """Return the value of this graph at the bottom of a tensor of any transformation, or None."""
        symbol = at_bottom(x)
        return None if symbol is None else self.operand(tensor_of(symbol))

    def primal(self, x: Any) -> Value | None:
        """Return a value of this graph that has the elements of an operand, and none of its derivatives."""
        value = self.beneath(x)
        if value is not None:
            return value
        while isinstance(getattr(x, "data", x), Traced):
            x = (x.data if isinstance(x, Tensor) else x).below
        return self.operand(x)

    def python(self, function: Callable[..., Any], values: Sequence[Value]) -> None:
        """Append a call of a Python function on arrays, for its effect."""
        self.graph.add("python", values, [], python=function)

    def drawn(self, *draw: Any) -> Tensor:
        """Return random numbers that are drawn each time the program comes here, as eager code draws them."""
        return drawn_anew(self, *draw)

    def guard(self, owner: Any, name: str, read: Callable[[], Any]) -> Any:
        """Return something that is part of the program: where it changes, another program is compiled."""
        if self.parent is not None:
            return self.parent.guard(owner, name, read)
        place = (id(owner), name)
        if place not in self.guards:
            self.guards[place] = (read, read())
        return self.guards[place][1]

    def knows(self, x: Tensor, name: str) -> bool:
        """Return `requires_grad` or `is_leaf` of a tensor."""
        return asked.answer(self, x, name)

    def item(self, container: Any, key: Any) -> Tensor:
        """Return an item of a dict, a number or an array, that is read anew at each call."""
        return self.items.read(container, key)

    def put(self, container: Any, key: Any, value: Any) -> None:
        """Make an item take a value, now for what follows and at the end of each call."""
        self.items.put(container, key, value)

    def read(self, cell: Cell) -> Value:
        """Return the input of the graph that stands for something outside."""
        found = self.cells.get(cell.key)
        if found is None:
            owner = self.gradients.owner(cell.tensor) if isinstance(cell, DataCell) else None
            if owner is not None:  # the tensor is known as the gradient of another
                cell = GradientCell(owner)
            elif isinstance(cell, DataCell):
                self.raw.note(cell.x)
            array = cell.get()
            found = self.cells[cell.key] = cell, self.graph.input(array.shape, array.dtype)
        return found[1]

    def write(self, cell: Cell, value: Value) -> None:
        """Note that the program ends by writing a value into something outside."""
        self.writes = [(c, v) for c, v in self.writes if c.key != cell.key] + [(cell, value)]

    def adopts(self, x: Tensor) -> bool:
        """Whether a tensor from outside has taken a value of this trace in place."""
        return any(entry[0]() is x for entry in self._adopted)

    def released(self, x: Any) -> Any:
        """Return a result of the function, which may be an object from outside that it changed in place."""
        if isinstance(getattr(x, "data", None), Traced) and x.data.interpreter is not self:
            require_outer(x, self.level, self.name)
        return x

    def __enter__(self) -> Tracer:
        self.parent = staging.get()
        if self.parent is not None:
            self.attributes = self.parent.attributes
            self.made = self.parent.made
            self.undoing = self.parent.undoing
        self.guarding = self if self.guarded else self.parent and self.parent.guarding
        self._outside = staging.set(self)
        forget_kernels()
        watch()
        super().__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        unwatch()
        remember_kernels()
        staging.reset(self._outside)
        if self.parent is None and self.attributes:
            self.guards["attributes"] = self.attributes.hold, True
        adopted, self._adopted = self._adopted, []
        written, cleared = self.gradients.put_back()
        if error is None:
            self.items.finish()
            self.cleared = cleared
            for x, gradient in written:
                if self.mine(gradient) or not gradient.level:
                    cell = GradientCell(x)
                    cell.node = leads_back(gradient)
                    self.write(cell, self._known(gradient))
        for reference, data, node in adopted:
            target = reference()
            if target is not None and self.mine(target) and not self.made_since(data, self._before):
                if error is None:
                    self._changed(target, node)
                target.data, target.grad_node = data, node
        self.gradients.forget([cell.x for cell, _ in self.cells.values() if isinstance(cell, DataCell)])
        if self.parent is None:
            self.attributes.owned.clear()
        changed = self.raw.put_back()
        super().__exit__(kind, error, trace)
        if error is None:
            refuse(changed)

    def made_since(self, data: Any, before: int) -> bool:
        """Whether what a tensor was is of the values that were made when there were `before` of them."""
        symbol = at_bottom(data)
        return symbol is not None and any(made() is symbol for made in self.made[before:])

    def _known(self, x: Any, dtype: Any = None) -> Value:
        value = self.operand(x, dtype)
        assert value is not None
        return value

    def _changed(self, x: Tensor, before: Any) -> None:
        """Note the value, and whether there is a graph, that a tensor from outside has at the end."""
        if before is not None and before.is_leaf and self.gradients.made(before):
            return
        cell = DataCell(x)
        if x.grad_node is not before or before is None:
            cell.node = leads_back(x)
        self.write(cell, x.data.value)
