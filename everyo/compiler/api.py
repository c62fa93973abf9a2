"""`compile`: a function that runs as machine code, compiled when it first meets arguments of some kind."""

from __future__ import annotations

import functools
import operator
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

import everyo.compiler.control  # noqa: F401 - loops and branches find their way into graphs
from everyo.compiler import pool
from everyo.compiler.asked import of_argument
from everyo.compiler.direct import Door, prepare
from everyo.compiler.entry import Entry, states_of
from everyo.compiler.graph import Graph, Value
from everyo.compiler.leaks import Places
from everyo.compiler.native import require
from everyo.compiler.passes import remove_dead, seen
from everyo.compiler.primitives import primitive_of
from everyo.compiler.program import Program
from everyo.compiler.recompiling import parameters_of, what_changes
from everyo.compiler.trace import Tracer, leads_back
from everyo.core.dtypes import get_default_dtype
from everyo.core.functions import name_of
from everyo.core.keys import typed
from everyo.core.modes import current_mode
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import ArgumentError, CompileError
from everyo.ops.axes import as_list
from everyo.ops.creation import as_tensor
from everyo.ops.signatures import explained
from everyo.transforms.trees import EXACT, flatten, odd_keys, unflatten

PLAIN = (bool, int, str, type(None))  # of static arguments: what equals them has their meaning
MANY = 8  # compilations of one function after which it warns
VARIANTS = 8  # programs for arguments of one kind that are kept, of different modes, gradients and the like
NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}  # as arguments


class CacheInfo(NamedTuple):
    """How often a compiled function found a program, how often it compiled one, and how many it holds."""

    hits: int
    misses: int
    currsize: int


class Compiled:
    """A compiled function. Made by `everyo.compile`."""

    __slots__ = ("__dict__", "__weakref__", "direct")

    def __init__(self, f: Callable[..., Any], static_argnums: tuple[int, ...], threads: int | None) -> None:
        functools.update_wrapper(self, f, updated=())
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        self.f, self.static_argnums, self.threads = f, _from_the_front(f, static_argnums), threads
        self._entries: dict[Any, list[Entry]] = {}
        self._hits = self._misses = 0
        self._direct_hits = np.zeros(1, np.int64)
        self.direct: Door | None = None  # the way to a program past this class's Python code
        self._bound: dict[int, tuple[Callable[[], Any], Compiled]] = {}
        self._keys: list[Any] = []
        self._last: Entry | None = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the compiled method of an instance; the instance is reached from outside."""
        if instance is None:
            return self
        found = self._bound.get(id(instance))
        if found is None or found[0]() is not instance:
            found = self._bound[id(instance)] = self._bind(instance)
        return Bound(found[1], instance)

    def _bind(self, instance: Any) -> tuple[Callable[[], Any], Compiled]:
        """Return a reference to an instance and its compiled method, which goes when the instance goes."""
        place, bound = id(instance), self._bound

        def forget(gone: Any) -> None:
            if place in bound and bound[place][0] is gone:
                del bound[place]

        try:
            reference: Callable[[], Any] = weakref.ref(instance, forget)
        except TypeError:  # its class has slots, and none for references

            def reference() -> Any:
                return instance

        @functools.wraps(self.f)
        def method(*args: Any, **kwargs: Any) -> Any:
            return self.f(reference(), *args, **kwargs)

        static = tuple(n - 1 if n > 0 else n for n in self.static_argnums if n)
        made = Compiled(method, static, self.threads)
        made._static_names = self._static_names  # the method has one argument less
        return reference, made

    def __reduce__(self) -> Any:
        """Return how to find the function again, or to compile it anew: no copy has programs."""
        return name_of(self) or (Compiled, (self.f, self.static_argnums, self.threads))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on arguments, compiled for their shapes and dtypes."""
        if staging.get() is not None:  # in a function that is being compiled, which it becomes part of
            return self.f(*args, **kwargs)
        if current_mode().anomaly:  # whose operations are looked at one by one
            return self.f(*args, **kwargs)
        last = self._last  # the program that served the call before, which most calls can use too
        if last is not None:
            leaves = last.leaves(args, kwargs) if kwargs or last.nested or last.static else args
            if leaves is not None and len(leaves) == last.width:
                arrays = []
                for x in leaves:
                    if x.__class__ is not Tensor or x.grad_node is not None:
                        break
                    arrays.append(x.data)
                else:
                    results = last.attempt(tuple(arrays))
                    if results is not None:
                        self._hits += 1
                        if self.direct is None and not kwargs:
                            self.direct = last.door(type(self), args, leaves, self._direct_hits)
                        return results
        return self._call(args, kwargs)

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        entry, leaves = self.entry(args, kwargs)
        return entry.run(leaves)

    def entry(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Entry, Sequence[Any]]:
        """Return what was compiled for arguments of such kinds, compiled now if need be, and their leaves."""
        static: tuple[Any, ...] = ()
        fixed: set[int] = set()
        dynamic, named = args, {}
        if self.static_argnums:
            fixed = {n + len(args) if n < 0 else n for n in self.static_argnums}
            named = {k: x for k, x in kwargs.items() if k in self._static_names}
            static = (*(x for i, x in enumerate(args) if i in fixed), *named.items())
            dynamic = [x for i, x in enumerate(args) if i not in fixed]
            kwargs = {k: x for k, x in kwargs.items() if k not in named}
        leaves, structure = flatten((tuple(dynamic), kwargs), EXACT)
        kinds = tuple([_kind(x) for x in leaves])
        constants = _hashable(static) if static else ()
        key = (structure, kinds, constants, current_mode().grad, get_default_dtype())
        known = self._entries.get(key, ())
        if known and known[0].keys is not None:  # of all that are equal, or of none
            keys = odd_keys(structure)
            known = [e for e in known if e.keys == keys]
        entry = next((e for e in known if e.holds() and e.answers(leaves)), None)
        if entry is None:
            with ExitStack() as undoing:
                entry = self._compile(key, args, named, leaves, structure, undoing)
                undoing.pop_all()
            entry.keys = odd_keys(structure)
        else:
            self._hits += 1
        alone = entry.plain and not (entry.asked or entry.keys or named)
        if alone and all(type(x) in PLAIN for x in static) and all(type(x) is Tensor for x in leaves):
            entry.given, entry.nested = structure, bool(kwargs) or not all(type(x) is Tensor for x in dynamic)
            entry.static = {i: args[i] for i in sorted(fixed) if i < len(args)} if static else {}
            entry.length = len(args)
            if entry is not self._last:
                self._last, self.direct = entry, None
        return entry, leaves

    @functools.cached_property
    def _static_names(self) -> frozenset[str]:
        """The names of the static arguments, by which they may be given too."""
        named = [p.name for p in parameters_of(self.f) if p.kind is p.POSITIONAL_OR_KEYWORD]
        return frozenset(named[n] for n in self.static_argnums if -len(named) <= n < len(named))

    def _compile(
        self,
        key: Any,
        args: Sequence[Any],
        named: dict[str, Any],
        leaves: Sequence[Any],
        structure: Any,
        undoing: ExitStack,
    ) -> Entry:
        require()
        self._misses += 1
        graph = Graph(getattr(self.f, "__name__", "function"))
        inputs = [graph.input(*_spec(x)) for x in leaves]
        tracer = Tracer(graph)
        tracer.arguments, tracer.undoing = dict(zip(inputs, leaves, strict=True)), undoing
        places = Places(self.f, args)
        for x in places.tensors:
            tracer.raw.note(x)
        try:
            structure, outputs, changed, new, tracked = self._trace(tracer, args, named, leaves, structure)
        except BaseException:
            places.put_back(tracer.made)
            raise
        places.put_back_own(tracer.attributes)
        places.check(tracer.made)
        graph.outputs = [*outputs, *new, *(value for _, value in tracer.writes)]
        seen("traced, without dead code", remove_dead(seen("traced", graph)))
        program = Program(graph, self.threads, states_of(tracer, len(outputs) + len(changed)))
        primitive = primitive_of(program, lambda f, threads: Compiled(f, (), threads))
        entry = Entry(program, primitive, tracer, structure, len(outputs), changed, tracked)
        tracer.arguments = {}  # which the program needs no longer
        others = self._entries.get(key, [])
        self._entries[key] = [entry, *others[: VARIANTS - 1]]
        self._warn(key)
        if entry.plain:
            prepare(type(self))  # compiled here, once, so that no later call has to
        return entry

    def _trace(
        self,
        tracer: Tracer,
        args: Sequence[Any],
        named: dict[str, Any],
        leaves: Sequence[Any],
        structure: Any,
    ) -> tuple[Any, list[Value], list[int], list[Value], bool]:
        """Call the function on symbols; return the structure of its results, and them.

        Then which leaves it has changed in place, their new values, and whether a graph leads on from here.
        """
        inputs = tracer.graph.inputs[: len(leaves)]
        with tracer:
            symbols = [tracer.symbol(v, weak=type(x) in NUMBERS) for v, x in zip(inputs, leaves, strict=True)]
            for value, symbol, x in zip(inputs, symbols, leaves, strict=True):
                if type(x) not in NUMBERS and not value.shape:
                    symbol.mutable = functools.partial(of_argument, tracer, value, "mutable")
            dynamic, kwargs = unflatten(structure, symbols)
            following, fixed = iter(dynamic), {n + len(args) if n < 0 else n for n in self.static_argnums}
            call = [x if i in fixed else next(following) for i, x in enumerate(args)]
            result = self.f(*call, **kwargs, **named)
            found, structure = flatten(result, EXACT)
            outputs = [self._output(tracer, x) for x in found]
            changed = [
                i for i, x in enumerate(leaves) if _is_object(x) and symbols[i].data.value is not inputs[i]
            ]
            tracked = any(
                isinstance(x, Tensor) and leads_back(x) for x in [*found, *(symbols[i] for i in changed)]
            )
            new = [symbols[i].data.value for i in changed]
            return structure, outputs, changed, new, tracked

    def _output(self, tracer: Tracer, x: Any) -> Value:
        if not isinstance(x, (Tensor, np.ndarray, np.generic, *NUMBERS)):
            raise CompileError(
                "the function returned something that no program can make",
                operation="compile",
                expected="a pytree of tensors",
                found=type(x).__name__,
                remedy="return tensors; other things can be computed outside",
            )
        tensor = tracer.released(x if isinstance(x, Tensor) else as_tensor(x))
        value = tracer.operand(tensor)
        assert value is not None
        return value

    def _warn(self, key: Any) -> None:
        self._keys.append(key)
        times = len(self._keys)
        if times == 1 or (times - 1) % MANY:
            return
        found = what_changes(self.f, self._keys[-MANY:], self.static_argnums)
        warnings.warn(
            f"{self.__name__} has been compiled {times} times: {found}; "
            "compiling at each call costs more than it saves",
            stacklevel=6,
        )

    def cache_info(self) -> CacheInfo:
        """Return hits, misses and the number of compiled programs."""
        hits = self._hits + int(self._direct_hits[0])
        return CacheInfo(hits, self._misses, sum(map(len, self._entries.values())))

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}>"


class Bound:
    """The compiled method of an instance, which lives at least as long as this."""

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self.compiled, self.__self__ = compiled, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, compiled for the shapes and dtypes of the arguments."""
        return self.compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)

    def __reduce__(self) -> Any:
        """Return how to find the method again, of the instance or of its copy."""
        return getattr, (self.__self__, self.compiled.__name__)

    def __repr__(self) -> str:
        return repr(self.compiled)


def _kind(x: Any) -> Any:
    if isinstance(x, Tensor):
        return tuple(x.shape), x.dtype, x.grad_node is not None
    if isinstance(x, (np.ndarray, np.generic)):
        if x.dtype.kind not in "biufc" or (type(x) is not np.ndarray and isinstance(x, np.ndarray)):
            as_tensor(x)  # which refuses masked arrays, and elements that are not numeric
        return tuple(x.shape), x.dtype, False
    if type(x) is int and not -(2**63) <= x < 2**63:
        raise ArgumentError(
            "an argument is outside the range of int64, in which programs compute with integers",
            operation="compile",
            expected="an int of 64 bits",
            found=repr(x),
            remedy="pass float(n), or name its position in static_argnums",
        )
    if type(x) in NUMBERS:
        return type(x)
    raise ArgumentError(
        "an argument is neither a tensor nor a number",
        operation="compile",
        expected="pytrees of tensors, arrays and numbers",
        found=type(x).__name__,
        remedy="name its position in static_argnums",
    )


def _spec(x: Any) -> tuple[tuple[int, ...], Any]:
    if type(x) in NUMBERS:
        return (), NUMBERS[type(x)]
    return tuple(x.shape), x.dtype


def _is_object(x: Any) -> bool:
    """Whether an in-place change of an argument is seen by who passed it."""
    return isinstance(x, (Tensor, np.ndarray))


def _hashable(static: Sequence[Any]) -> tuple[Any, ...]:
    try:
        hash(tuple(static))
    except TypeError:
        raise ArgumentError(
            "a static argument has no hash",
            operation="compile",
            expected="numbers, strings, tuples of them: what can be a key",
            found=", ".join(type(x).__name__ for x in static),
            remedy="pass it as a pytree of tensors, or make it a tuple",
        ) from None
    return tuple(map(typed, static))


@explained
def compile(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    backend: str = "llvm",
    threads: int | None = None,
    fullgraph: bool = True,
) -> Any:
    """Compile a function to machine code.

    The function is traced when it first meets arguments of some shapes, dtypes and structure; the operations
    that it applies become one program, which all later calls with such arguments run. Derivatives,
    batching and whole training steps compile as they are written: tensors that the function reaches from
    outside are read anew at each call, and what it changes outside is changed at the end of each call.

    Parameters
    ----------
    f : callable, optional
        A function of pytrees of tensors, arrays and numbers that returns a pytree of tensors. Without it, a
        decorator is returned.
    static_argnums : int or sequence of int, optional
        Positions of arguments that are plain Python values: for each value another program is compiled.
        Negative ones count from the last argument that is given by position.
    backend : str, optional
        What compiles; there is only "llvm".
    threads : int, optional
        How many threads may work on one call. By default what the environment variable
        ``EVERYO_NUM_THREADS`` says, or as many as this process may run at once. Results do not depend on it.
    fullgraph : bool, optional
        Whether all of the function must compile; only True is possible.

    Returns
    -------
    callable
        The compiled function, with the method ``cache_info()``. Results are fresh tensors. Copies and pickles
        of it have no programs; they compile their own.

    Raises
    ------
    ArgumentError
        If `f` is no function, or an option is not one of those above.
    CompileError
        When called: if the packages of the extra ``compile`` are missing, or the function asks for a value
        that is not there while it is traced.

    Examples
    --------
    >>> import everyo as eo
    >>> @eo.compile
    ... def f(x):
    ...     return (x * x + 1).sum()
    >>> f(eo.asarray([1.0, 2.0])).item()
    7.0
    >>> eo.compile(eo.grad(f))(eo.asarray([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    _check_options(backend, threads, fullgraph)
    if f is None:
        return functools.partial(
            compile, static_argnums=static_argnums, backend=backend, threads=threads, fullgraph=fullgraph
        )
    if not callable(f):
        raise ArgumentError(
            "what is compiled must be a function",
            operation="compile",
            expected="a callable",
            found=type(f).__name__,
            remedy="write eo.compile(f)(x): first the function, then its arguments",
        )
    return Compiled(f, _positions(static_argnums), threads)


def _from_the_front(f: Callable[..., Any], positions: tuple[int, ...]) -> tuple[int, ...]:
    """Return positions counted from the first parameter; those of a function that takes any number stay."""
    if min(positions, default=0) >= 0:
        return positions
    parameters = parameters_of(f)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return positions
    count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return tuple(n + count if -count <= n < 0 else n for n in positions)


def _positions(static_argnums: Any) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, as_list(static_argnums)))
    except TypeError:
        raise ArgumentError(
            "positions of static arguments are integers",
            operation="compile",
            expected="an int or a sequence of ints",
            found=repr(static_argnums),
            remedy="count the arguments from 0",
        ) from None


def _check_options(backend: Any, threads: Any, fullgraph: Any) -> None:
    if threads is not None:
        pool.checked(threads, "threads")
    for name, value, only in (("backend", backend, "llvm"), ("fullgraph", fullgraph, True)):
        if value != only:
            raise ArgumentError(
                f"there is no such {name}",
                operation="compile",
                expected=f"{name}={only!r}",
                found=f"{name}={value!r}",
                remedy="leave it out",
            )
