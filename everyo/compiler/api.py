"""`compile`: a function that runs as machine code, compiled when it first meets arguments of some kind."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np
from optree import tree_flatten

import everyo.compiler.control  # noqa: F401 - loops and branches find their way into graphs
from everyo.compiler import pool
from everyo.compiler.draws import draws_of
from everyo.compiler.graph import Graph, Op, Value
from everyo.compiler.native import require
from everyo.compiler.passes import remove_dead, seen
from everyo.compiler.program import Program
from everyo.compiler.replay import replay
from everyo.compiler.trace import Cell, Tracer
from everyo.core.dispatch import apply, wrap
from everyo.core.dtypes import DIFFERENTIABLE, get_default_dtype
from everyo.core.modes import current_mode
from everyo.core.primitive import Primitive
from everyo.core.tape import FREED
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, staging
from everyo.errors import ArgumentError, CompileError
from everyo.ops.creation import as_tensor
from everyo.transforms import jvp as _jvp
from everyo.transforms import vjp as _vjp
from everyo.transforms import vmap as _vmap
from everyo.transforms.trees import NAMESPACE, flatten, unflatten

MANY = 8  # compilations of one function after which it warns
NUMBERS = (bool, int, float)


class CacheInfo(NamedTuple):
    """How often a compiled function found a program, how often it compiled one, and how many it holds."""

    hits: int
    misses: int
    currsize: int


class Entry:
    """What one compilation made: the program, and how its inputs and outputs relate to the function's."""

    def __init__(
        self,
        program: Program,
        cells: Sequence[Cell],
        writes: Sequence[Cell],
        guards: Sequence[tuple[Callable[[], Any], Any]],
        structure: Any,
        count: int,
        tracked: bool,
    ) -> None:
        self.program, self.cells, self.writes = program, list(cells), list(writes)
        self.structure, self.count = structure, count
        self.width = len(program.graph.inputs) - len(cells)
        self.outside = bool(cells or writes)
        self.guards = list(guards)
        self.grad, self.default = current_mode().grad, get_default_dtype()
        self.tracked = tracked  # whether results can be differentiated with respect to what is outside
        self.given: Any = None  # the structure of the arguments, where all leaves are tensors
        self.nested = False  # whether some of them are in containers
        self.primitive = _primitive(program)

    def attempt(self, arrays: list[Any]) -> Any:
        """Return the results for the arrays of tensors that need no gradient; None if another way is due."""
        if self.outside or self.guards or current_mode().grad is not self.grad:
            return None
        if get_default_dtype() is not self.default:
            return None
        results = self.program.attempt(tuple(arrays))
        if results is None:
            return None
        if self.structure is None:
            return wrap(results[0])
        return unflatten(self.structure, [wrap(array) for array in results])

    def holds(self) -> bool:
        """Whether what was taken for constant still is, and what is outside has its shapes and dtypes."""
        if not all(read() == value for read, value in self.guards):
            return False
        for cell, value in zip(self.cells, self.program.graph.inputs[self.width :], strict=True):
            array = cell.get()
            if array is None or array.shape != value.shape or array.dtype.type is not value.dtype.type:
                return False
        return True

    def run(self, leaves: Sequence[Any]) -> Any:
        """Return the results for leaves of the kinds that were compiled."""
        arrays = [x.data if isinstance(x, Tensor) else np.asarray(x) for x in leaves]
        arrays += [cell.get() for cell in self.cells]
        if (
            staging.get() is not None
            or any(isinstance(a, Traced) for a in arrays)
            or (self.grad and any(map(_requires_grad, leaves)))
            or (self.grad and self.tracked and any(_requires_grad(c.tensor) for c in self.cells))
        ):
            tensors = [
                *(as_tensor(x) for x in leaves),
                *(wrap(c.get()) if c.tensor is None else c.tensor for c in self.cells),
            ]
            out = apply(self.primitive, tensors)
            results = list(out) if isinstance(out, tuple) else [out]
        else:
            results = [wrap(array) for array in self.program(tuple(arrays))]
        before = [cell.get() for cell in self.writes]
        del arrays
        for cell, result in zip(self.writes, results[self.count :], strict=False):  # then come numbers drawn
            cell.set(result.data)
        while before:
            array = before.pop()
            if getrefcount(array) == 2:  # this name and the argument: nobody else has the old state
                self.program.keep(array)
        return unflatten(self.structure, results[: self.count])


class Compiled:
    """A compiled function. Made by `everyo.compile`."""

    def __init__(self, f: Callable[..., Any], static_argnums: tuple[int, ...], threads: int | None) -> None:
        functools.update_wrapper(self, f, updated=())
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        self.f, self.static_argnums, self.threads = f, static_argnums, threads
        self._entries: dict[Any, Entry] = {}
        self._hits = self._misses = 0
        self._bound: weakref.WeakKeyDictionary[Any, Compiled] = weakref.WeakKeyDictionary()
        self._keys: list[Any] = []
        self._last: Entry | None = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the compiled method of an instance; the instance is reached from outside."""
        if instance is None:
            return self
        found = self._bound.get(instance)
        if found is None:
            reference = weakref.ref(instance)

            @functools.wraps(self.f)
            def method(*args: Any, **kwargs: Any) -> Any:
                return self.f(reference(), *args, **kwargs)

            static = tuple(n - 1 for n in self.static_argnums if n > 0)
            found = self._bound[instance] = Compiled(method, static, self.threads)
        return Bound(found, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on arguments, compiled for their shapes and dtypes."""
        last = self._last  # the program that served the call before, which most calls can use too
        if last is not None and staging.get() is None:
            leaves: Sequence[Any] = args
            given: Any = args, kwargs
            if kwargs or last.nested:
                leaves, structure = tree_flatten(given, namespace=NAMESPACE)
            if last.width == len(leaves) and (structure == last.given if kwargs or last.nested else True):
                arrays = []
                for x in leaves:
                    if x.__class__ is not Tensor or x.grad_node is not None:
                        break
                    arrays.append(x.data)
                else:
                    results = last.attempt(arrays)
                    if results is not None:
                        self._hits += 1
                        return results
        return self._call(args, kwargs)

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        entry, leaves = self.entry(args, kwargs)
        return entry.run(leaves)

    def entry(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Entry, Sequence[Any]]:
        """Return what was compiled for arguments of such kinds, compiled now if need be, and their leaves."""
        static = [args[i] for i in self.static_argnums if i < len(args)]
        dynamic = [x for i, x in enumerate(args) if i not in self.static_argnums] if static else args
        leaves, structure = flatten((tuple(dynamic), kwargs))
        grad = current_mode().grad
        kinds = tuple([_kind(x) for x in leaves])
        key = (structure, kinds, _hashable(static) if static else (), grad, get_default_dtype())
        entry = self._entries.get(key)
        if entry is None or not entry.holds():
            entry = self._compile(key, args, leaves, structure)
        else:
            self._hits += 1
        if not static and all(type(x) is Tensor for x in leaves):
            entry.given, entry.nested = structure, bool(kwargs) or not all(type(x) is Tensor for x in args)
            self._last = entry
        return entry, leaves

    def _compile(self, key: Any, args: Sequence[Any], leaves: Sequence[Any], structure: Any) -> Entry:
        require()
        self._misses += 1
        graph = Graph(getattr(self.f, "__name__", "function"))
        inputs = [graph.input(*_spec(x)) for x in leaves]
        tracer = Tracer(graph)
        with tracer:
            symbols = [tracer.symbol(v, weak=type(x) in NUMBERS) for v, x in zip(inputs, leaves, strict=True)]
            dynamic, kwargs = unflatten(structure, symbols)
            following = iter(dynamic)
            call = [x if i in self.static_argnums else next(following) for i, x in enumerate(args)]
            result = self.f(*call, **kwargs)
            found, structure = flatten(result)
            outputs = [self._output(tracer, x) for x in found]
            tracked = any(isinstance(x, Tensor) and _leads_back(x) for x in found)
        graph.outputs = [*outputs, *(value for _, value in tracer.writes)]
        seen("traced, without dead code", remove_dead(seen("traced", graph)))
        entry = Entry(
            Program(graph, self.threads),
            [cell for cell, _ in tracer.cells.values()],
            [cell for cell, _ in tracer.writes],
            list(tracer.guards.values()),
            structure,
            len(outputs),
            tracked,
        )
        self._entries[key] = entry
        self._warn(key)
        return entry

    def _output(self, tracer: Tracer, x: Any) -> Value:
        if not isinstance(x, (Tensor, np.ndarray, np.generic, *NUMBERS)):
            raise CompileError(
                "the function returned something that no program can make",
                operation="compile",
                expected="a pytree of tensors",
                found=type(x).__name__,
                remedy="return tensors; other things can be computed outside",
            )
        tensor = tracer.released(as_tensor(x))
        value = tracer._operand(tensor, None)
        assert value is not None
        return value

    def _warn(self, key: Any) -> None:
        self._keys.append(key)
        if len(self._keys) <= MANY:
            return
        columns = list(zip(*(k[1] for k in self._keys[-MANY:])))
        counts = [len(set(column)) for column in columns]
        worst = max(range(len(counts)), key=counts.__getitem__, default=None)
        found = f"argument leaf {worst} keeps changing" if worst is not None else "static arguments change"
        warnings.warn(
            f"{self.__name__} has been compiled {len(self._keys)} times: {found}; "
            "compiling costs more than it saves when shapes differ at each call",
            stacklevel=6,
        )

    def cache_info(self) -> CacheInfo:
        """Return hits, misses and the number of compiled programs."""
        return CacheInfo(self._hits, self._misses, len(self._entries))

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

    def __repr__(self) -> str:
        return repr(self.compiled)


def _kind(x: Any) -> Any:
    if isinstance(x, (Tensor, np.ndarray, np.generic)):
        return tuple(x.shape), x.dtype, isinstance(x, Tensor) and x.requires_grad
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
        return (), {bool: np.bool_, int: np.int64, float: np.float64}[type(x)]
    return tuple(x.shape), x.dtype


def _leads_back(x: Tensor) -> bool:
    """Whether a backward pass from a result could go on: a training step has used its graph up."""
    return x.grad_node is not None and x.grad_node.saved is not FREED


def _requires_grad(x: Any) -> bool:
    return isinstance(x, Tensor) and x.grad_node is not None


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
    return tuple(map(_typed, static))


def _typed(x: Any) -> Any:
    """Return a key that tells 1 from 1.0 and True."""
    return (tuple, *map(_typed, x)) if type(x) is tuple else (type(x), x)


def _primitive(program: Program) -> Primitive:
    """Return a program as a primitive, so that what is compiled differentiates, batches and nests.

    Its results are those of the program and the random numbers that it has drawn, which its derivatives read.
    """
    graph, noted, pure = program.graph, program.graph, program.graph
    draws = draws_of(graph)
    if draws:
        noted, pure = _with_draws(graph, draws)
    count, several = len(graph.outputs), len(noted.outputs) > 1

    @functools.cache
    def noting() -> Program:
        return Program(noted, program.threads) if draws else program

    def compiled(xp: Any, *inputs: Any) -> Any:
        results = noting()(tuple([np.asarray(x) for x in inputs]))
        return results if several else results[0]

    def again(inputs: Any, moving: tuple[int, ...], wanted: tuple[int, ...]) -> Callable[..., Any]:
        def moved(*parts: Any) -> Any:
            full = list(inputs)
            for i, part in zip(moving, parts, strict=True):
                full[i] = part
            outs = replay(pure, full)
            return tuple(outs[i] for i in wanted)

        return moved

    @functools.cache
    def pulling(wanted: tuple[int, ...], moving: tuple[int, ...]) -> Compiled:
        def pull(inputs: Any, cotangents: Any) -> Any:
            back = _vjp(again(inputs, moving, wanted), *(inputs[i] for i in moving))[1]
            return back(tuple(cotangents))

        return Compiled(pull, (), program.threads)

    def vjp(g: Any, inputs: Any, out: Any, needs: Any) -> Any:
        parts = g if isinstance(g, dict) else {0: g}
        wanted = tuple(sorted(i for i in parts if i < count))
        moving = tuple(i for i, need in enumerate(needs) if need)
        given = (*inputs, *(out[count:] if draws else ()))
        found = pulling(wanted, moving)(given, [parts[i] for i in wanted])
        gradients = dict(zip(moving, found, strict=True))
        return [gradients.get(i) for i in range(len(inputs))]

    @functools.cache
    def pushing(wanted: tuple[int, ...], moving: tuple[int, ...]) -> Compiled:
        def push(inputs: Any, tangents: Any) -> Any:
            moved = again(inputs, moving, wanted)
            return _jvp(moved, tuple(inputs[i] for i in moving), tuple(tangents))[1]

        return Compiled(push, (), program.threads)

    def jvp(tangents: Any, inputs: Any, out: Any) -> Any:
        moving = tuple(i for i, t in enumerate(tangents) if t is not None)
        wanted = tuple(i for i in range(count) if graph.outputs[i].dtype.kind in DIFFERENTIABLE)
        given = (*inputs, *(out[count:] if draws else ()))
        found = dict(zip(wanted, pushing(wanted, moving)(given, [tangents[i] for i in moving]), strict=True))
        pushed = tuple(found.get(i) for i in range(len(noted.outputs)))
        return pushed if several else pushed[0]

    def function(*inputs: Any) -> Any:
        out = replay(graph, inputs)
        return tuple(out) if len(out) > 1 else out[0]

    @functools.cache
    def mapped(axes: tuple[int | None, ...], size: int) -> Compiled:
        def all_results(*inputs: Any) -> Any:
            out = replay(noted, inputs)
            return tuple(out) if several else out[0]

        return Compiled(_vmap(all_results, in_axes=axes, axis_size=size), (), program.threads)

    def batch(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
        return mapped(tuple(0 if b else None for b in batched), size)(*inputs)

    return Primitive(compiled, vjp=vjp, jvp=jvp, batch=batch, listed=False, inline=function, several=several)


def _with_draws(graph: Graph, draws: Sequence[Op]) -> tuple[Graph, Graph]:
    """Return a graph that has its draws as further outputs, and one that has them as further inputs."""
    values = [v for op in draws for v in op.outs]
    noted, pure = Graph(graph.name), Graph(graph.name)
    noted.inputs, noted.ops, noted.outputs = graph.inputs, graph.ops, [*graph.outputs, *values]
    pure.inputs, pure.outputs = [*graph.inputs, *values], graph.outputs
    pure.ops = [op for op in graph.ops if op not in draws]
    return noted, pure


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
        The compiled function, with the method ``cache_info()``. Results are fresh tensors.

    Raises
    ------
    ArgumentError
        If an option is not one of those above.
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
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    return Compiled(f, numbers, threads)


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
