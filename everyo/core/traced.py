"""Values inside a transformation: a tensor's `data` is then a `Traced` value instead of an array.

Transformations nest by level. A value of a level holds values of the levels below, down to arrays, and
an operation is processed by the interpreter of its highest operand, which calls the same operation on
the level below. No kernel takes a `Traced` value, so the eager path never has to ask for one.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from everyo.errors import CompileError, EveryOError, GraphStateError, UnsupportedOperationError, describe

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive
    from everyo.core.tensor import Tensor

_depth: ContextVar[int] = ContextVar("everyo_depth", default=0)
depth = _depth.get
# What writes loops and branches down, where a function is compiled rather than run; set by its tracer.
staging: ContextVar[Any] = ContextVar("everyo_staging", default=None)
batches: ContextVar[tuple[Any, ...]] = ContextVar("everyo_batches", default=())  # the vmaps that run
# Where it is noted that a value was cut off from what it was computed from, as by `item`, `numpy` and
# `detach`; None where nobody asks.
readings: ContextVar[list[str] | None] = ContextVar("everyo_readings", default=None)
# The last conversion that was refused to a library, which may go on regardless; until a transformation ends.
refusal: ContextVar[EveryOError | None] = ContextVar("everyo_refusal", default=None)


Entry = tuple["weakref.ref[Tensor]", Any, Any]  # a tensor that changed in place; its data and node before


class Changes:
    """Tensors that took a value of the eager tape in place while one function ran, as they were before.

    Attributes
    ----------
    born : int
        Younger nodes belong to the run: their tensors are no captured ones.
    entries : list of Entry
    taken : str
        How a number was taken out of a tensor of the run, if one was.
    """

    __slots__ = ("born", "entries", "taken")

    def __init__(self, born: int) -> None:
        self.born = born
        self.entries: list[Entry] = []
        self.taken = ""

    def note(self, x: Tensor) -> None:
        """Remember what a tensor is, unless an operation of this run made it."""
        if x.grad_node is None or x.grad_node.age < self.born:
            self.entries.append((weakref.ref(x), x.data, x.grad_node))


def _let_go(entries: Sequence[Entry], mine: Callable[[Tensor], bool]) -> None:
    """Let Python collect tensors of the function's own that only cycles of references keep alive."""
    for generation in range(3):
        if not any((x := entry[0]()) is not None and mine(x) for entry in entries):
            return
        x = None
        gc.collect(generation)


def undo(entries: Sequence[Entry], mine: Callable[[Tensor], bool], name: str, error: Any) -> list[Entry]:
    """Give tensors that are still there, and `mine`, their old values back; return the entries of the others.

    Raises
    ------
    UnsupportedOperationError
        If there were such tensors and there is no other `error`.
    """
    if error is None:
        _let_go(entries, mine)
    changed, others = 0, []
    for entry in entries:
        x = entry[0]()
        if x is None:
            continue
        if mine(x):
            _, x.data, x.grad_node = entry
            changed += 1
        else:
            others.append(entry)
    if changed and error is None:
        raise UnsupportedOperationError(
            f"the function changed {changed} captured tensor(s) in place",
            operation=name,
            expected="a function without side effects on tensors from outside",
            found="an in-place statement on a captured tensor, which has its old value again",
            remedy="return the new value, or work on a copy: y = x.clone()",
        )
    return others


def reveal(error: BaseException | None) -> None:
    """Raise the error of this package that the one that ends a transformation, if any, hides.

    NumPy has one of its own in ``a[i] = x``, with an array a. Code in C that calls back without a look at an
    error, such as SciPy's ``brentq``, gets a SystemError from Python; or an attribute that is there is not
    found, or it takes the number -1 for what could not be converted, and nothing is left of the first error.
    """
    refused = refusal.get()
    if refused is not None:
        refusal.set(None)
        if isinstance(error, Exception) and not isinstance(error, EveryOError):
            raise refused.with_traceback(error.__traceback__) from None
    if error is None:
        return
    cause = error.__cause__
    assigned = type(error) is ValueError and str(error).startswith("setting an array element")
    called = type(error) is SystemError and "with an exception set" in str(error)
    if (assigned or called) and isinstance(cause, EveryOError):
        error.__cause__ = None
        raise cause.with_traceback(error.__traceback__) from None
    if type(error) is AttributeError and error.name is not None and hasattr(error.obj, error.name):
        raise GraphStateError(
            "compiled code from elsewhere was given a tensor and did not see that it cannot be converted",
            operation="float",
            expected="functions of eo, or of libraries that take tensors",
            found="code that goes on after an error",
            remedy="for a solver in C use eo.implicit.custom_root around it; else eo.custom_vjp",
        ).with_traceback(error.__traceback__) from None


def refuse_taken(x: Any, taken: str, name: str) -> None:
    """Raise GraphStateError for a number that a function returned after it took one out of a tensor."""
    if not taken or hasattr(x, "grad_node"):
        return
    if isinstance(x, (float, complex)) or getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c"):
        raise GraphStateError(
            f"the function returned a number, after {taken}() had taken one out of a tensor",
            operation=name,
            expected="the tensor that was computed: the derivative ends at a number",
            found=type(x).__name__,
            remedy=f"leave {taken}() out of the result; other data go beside it, with has_aux=True; "
            "for a constant return eo.asarray(value)",
        )


class Interpreter:
    """One running transformation; a context manager around the call of the function it transforms.

    Attributes
    ----------
    level : int
        How deep it is nested, from 1.
    active : bool
        Whether its function still runs.
    """

    name = "transformation"
    follows = False  # whether derivatives may be asked for, with no node or tangent to tell
    linear = False  # whether what it follows is the argument of a linear map
    writes_outside = False  # whether an in-place change of a parameter from outside is part of its result

    def __init__(self) -> None:
        self.level = depth() + 1
        self.active = False
        self.taken = ""  # how a number was taken out of a value of this level, if one was
        self.staging = staging.get()  # constants of this level belong to the trace around it, to none inside
        self._token: Any = None
        self._adopted: list[Entry] = []

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply `primitive` to operands of which at least one belongs to this level."""
        raise NotImplementedError

    def mine(self, x: Any) -> bool:
        """Whether a tensor is a value of this level."""
        return getattr(getattr(x, "data", None), "interpreter", None) is self

    def refuse_foreign(self, primitive: Primitive, inputs: Sequence[Any]) -> None:
        """Raise GraphStateError for a value that outlived the transformation it belongs to.

        This is the interpreter of the operand that `top_of` found, which prefers such a value to all others.
        """
        if self.active:
            return
        for x in inputs:
            data = getattr(x, "data", None)
            if isinstance(data, Traced) and not data.interpreter.active:
                raise _outlived(x, primitive.name)

    def adopt(self, x: Tensor, data: Any, node: Any) -> None:
        """Remember what a tensor of a lower level was before it took a value of this one in place."""
        self._adopted.append((weakref.ref(x), data, node))

    def __enter__(self) -> Any:
        self._token = _depth.set(self.level)
        self._before = 0 if self.staging is None else len(self.staging.made)
        self.active = True
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _depth.reset(self._token)
        self.active = False
        adopted, self._adopted = self._adopted, []
        if adopted and self.staging is not None:  # what a program has made of nothing captured is its own
            adopted = [e for e in adopted if not self.staging.made_since(e[1], self._before)]
        if adopted:
            undo(adopted, self.mine, self.name, error)
        reveal(error)

    def released(self, x: Any) -> Any:
        """Return a result of the function, and let go of the object if it adopted its value.

        Raises
        ------
        GraphStateError
            If the derivative ends before the result: at a number taken out of a tensor, or in another level.
        """
        refuse_taken(x, self.taken, self.name)
        if self._adopted:
            self._adopted = [entry for entry in self._adopted if entry[0]() is not x]
        if isinstance(getattr(x, "data", None), Traced) and x.data.interpreter is not self:
            require_outer(x, self.level, self.name)
        return x


class Traced:
    """A value of an interpreter's level. Subclasses say what it consists of.

    Attributes
    ----------
    interpreter : Interpreter
        Whose value it is.
    below : array or tensor
        The value of a lower level that gives shape, dtype and backend.
    """

    __slots__ = ("__weakref__", "below", "interpreter")
    differentiated = False  # whether it carries a derivative of its own
    batched = False  # whether the value below is that of a batch

    def __init__(self, interpreter: Interpreter, below: Any) -> None:
        self.interpreter, self.below = interpreter, below

    @property
    def level(self) -> int:
        """The level it belongs to."""
        return self.interpreter.level

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.below.shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.below.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether a transformation differentiates it, or a value below."""
        return self.differentiated or self.interpreter.follows or getattr(self.below, "requires_grad", False)

    def concrete(self, operation: str) -> Any:
        """Return the value as an array or a tensor of the level below, for `item`, `numpy`, `bool`."""
        return self.below


def _refuse_raw(self: Traced, *operands: Any, **options: Any) -> Any:
    """Raise for a computation on ``x.data``, which is no array inside a transformation."""
    name = self.interpreter.name
    raise (GraphStateError if staging.get() is None else CompileError)(
        f"inside {name} the data of a tensor is no array to compute with",
        operation="data",
        inputs=describe(self),
        expected="operations on tensors: x * 2 in place of x.data * 2",
        found="an operation on x.data",
        remedy="leave .data out, and update a parameter with `with eo.no_grad(): p -= lr * p.grad`",
    )


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(Traced, f"__{_name}__", _refuse_raw)
    setattr(Traced, f"__r{_name}__", _refuse_raw)
for _name in ("neg", "pos", "abs", "getitem", "setitem", "array_ufunc", "array_function"):
    setattr(Traced, f"__{_name}__", _refuse_raw)


def is_number(x: Any) -> bool:
    """Whether a tensor stands for a Python number, in compiled code: it takes the dtype of what it meets."""
    data = getattr(x, "data", None)
    return isinstance(data, Traced) and getattr(data, "weak", False)


@contextmanager
def staged(tracer: Any) -> Iterator[None]:
    """Write down in `tracer`, if anywhere, what is computed from constants."""
    token = staging.set(tracer)
    try:
        yield
    finally:
        staging.reset(token)


def top_of(values: Sequence[Any]) -> Traced | None:
    """Return the value of the highest level among tensors' data, or None if all are arrays.

    A value that outlived its transformation stands above all others.
    """
    found: Traced | None = None
    highest = 0
    seen: Any = None
    for value in values:
        if isinstance(value, Traced) and value.interpreter is not seen:
            seen = value.interpreter
            if not seen.active:
                return value
            level = seen.level
            if level > highest:
                found, highest = value, level
            elif level == highest and found is not None and seen is not found.interpreter:
                raise _elsewhere(seen.name, found.interpreter.name)
    return found


def processing(value: Traced) -> Any:
    """Return the interpreter that processes an operation whose highest operand is `value`."""
    tracer = staging.get()
    found = value.interpreter
    return tracer.writer(found) if tracer is not None and found.active else found


def refuse_traced(operation: str, found: str, remedy: str) -> None:
    """Raise CompileError while a function is traced, for what would happen then and at no call after it."""
    if staging.get() is not None:
        raise CompileError(
            "this would happen once, while the function is traced, and not at each call",
            operation=operation,
            expected="operations on tensors, which become part of the program",
            found=found,
            remedy=remedy,
        )


def require_outer(x: Tensor, level: int, name: str) -> None:
    """Raise GraphStateError for a result of a transformation `name` of a level that cannot lie inside it.

    What cannot is a value of a transformation that has ended, or of one that runs in another thread: then the
    two do not know of each other, and the derivative of one would be lost in the other.
    """
    interpreter = x.data.interpreter
    if not interpreter.active:
        raise _outlived(x, name)
    if interpreter.level >= level:
        raise _elsewhere(interpreter.name, name)


def _outlived(x: Tensor, operation: str) -> GraphStateError:
    return GraphStateError(
        f"a value outlived the {x.data.interpreter.name} that it belongs to",
        operation=operation,
        inputs=describe(x),
        expected="values that the function was given, made or captured",
        found="a tensor kept from a call that has ended",
        remedy="return it from the function instead of keeping it",
    )


def _elsewhere(outer: str, inner: str) -> GraphStateError:
    return GraphStateError(
        f"the function uses a value of a {outer} that runs in another thread",
        operation=inner,
        expected="values of transformations that run around this one in the same context",
        found=f"a value of a {outer} that this thread does not know of",
        remedy="run the thread's function in a copy of the context: contextvars.copy_context().run(f)",
    )


def innermost(x: Any) -> Any:
    """Return the array at the bottom of a value, for checks of values: under `vmap` the whole batch."""
    while True:
        if isinstance(x, Traced):
            x = x.below
        elif hasattr(x, "grad_node"):  # a tensor
            x = x.data
        else:
            return x


def downwards(x: Any) -> Iterator[Tensor]:
    """Yield a tensor and those of the lower levels that it stands on, the highest level first."""
    while hasattr(x, "grad_node"):  # a tensor
        yield x
        x = x.data.below if isinstance(x.data, Traced) else None
