"""`compile`: a function that runs as machine code, compiled when it first meets arguments of some kind."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import everyo.compiler.control  # noqa: F401 - loops and branches find their way into graphs
from everyo.compiler.graph import Graph, Value
from everyo.compiler.native import require
from everyo.compiler.passes import remove_dead
from everyo.compiler.program import Program
from everyo.compiler.replay import replay
from everyo.compiler.trace import Cell, Tracer
from everyo.core.dispatch import apply, wrap
from everyo.core.modes import current_mode
from everyo.core.primitive import Primitive
from everyo.core.tensor import Tensor
from everyo.core.traced import Traced, staging
from everyo.errors import ArgumentError, CompileError
from everyo.ops.creation import as_tensor
from everyo.transforms import jvp as _jvp
from everyo.transforms import vjp as _vjp
from everyo.transforms import vmap as _vmap
from everyo.transforms.trees import flatten, unflatten

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
    ) -> None:
        self.program, self.cells, self.writes = program, list(cells), list(writes)
        self.structure, self.count = structure, count
        self.width = len(program.graph.inputs) - len(cells)
        self.outside = bool(cells or writes)
        self.guards = list(guards)
        self.grad = current_mode().grad
        self.primitive = _primitive(program)

    def attempt(self, arrays: list[Any]) -> Any:
        """Return the results for the arrays of tensors that need no gradient; None if another way is due."""
        if self.outside or self.guards or current_mode().grad is not self.grad:
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
            or (self.grad and any(_requires_grad(x) for x in (*leaves, *(c.tensor for c in self.cells))))
        ):
            tensors = [
                *(as_tensor(x) for x in leaves),
                *(wrap(c.get()) if c.tensor is None else c.tensor for c in self.cells),
            ]
            out = apply(self.primitive, tensors)
            results = list(out) if isinstance(out, tuple) else [out]
        else:
            results = [wrap(array) for array in self.program(tuple(arrays))]
        for cell, result in zip(self.writes, results[self.count :], strict=True):
            cell.set(result.data)
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
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on arguments, compiled for their shapes and dtypes."""
        last = self._last  # the program that served the call before, which most calls can use too
        if last is not None and not kwargs and len(args) == last.width and staging.get() is None:
            arrays = []
            for x in args:
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
        static = [args[i] for i in self.static_argnums if i < len(args)]
        dynamic = [x for i, x in enumerate(args) if i not in self.static_argnums] if static else args
        leaves, structure = flatten((tuple(dynamic), kwargs))
        grad = current_mode().grad
        key = (structure, tuple([_kind(x) for x in leaves]), _hashable(static) if static else (), grad)
        entry = self._entries.get(key)
        if entry is None or not entry.holds():
            entry = self._compile(key, args, leaves, structure)
        else:
            self._hits += 1
        if not static and not kwargs and all(isinstance(x, Tensor) for x in args):
            self._last = entry
        return entry.run(leaves)

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
        graph.outputs = [*outputs, *(value for _, value in tracer.writes)]
        remove_dead(graph)
        entry = Entry(
            Program(graph),
            [cell for cell, _ in tracer.cells.values()],
            [cell for cell, _ in tracer.writes],
            list(tracer.guards.values()),
            structure,
            len(outputs),
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
            stacklevel=5,
        )

    def cache_info(self) -> CacheInfo:
        """Return hits, misses and the number of compiled programs."""
        return CacheInfo(self._hits, self._misses, len(self._entries))

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}>"


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
    """Return a program as a primitive, so that what is compiled differentiates, batches and nests."""
    graph = program.graph
    several = len(graph.outputs) > 1

    def compiled(xp: Any, *inputs: Any) -> Any:
        results = program(tuple([np.asarray(x) for x in inputs]))
        return results if several else results[0]

    def function(*inputs: Any) -> Any:
        out = replay(graph, inputs)
        return tuple(out) if several else out[0]

    @functools.cache
    def pullback(present: tuple[int, ...], moving: tuple[int, ...]) -> Compiled:
        def pull(inputs: Any, cotangents: Any) -> Any:
            def moved(*parts: Any) -> Any:
                full = list(inputs)
                for i, part in zip(moving, parts, strict=True):
                    full[i] = part
                outs = replay(graph, full)
                return tuple(outs[i] for i in present)

            return _vjp(moved, *(inputs[i] for i in moving))[1](tuple(cotangents))

        return Compiled(pull, (), None)

    def vjp(g: Any, inputs: Any, needs: Any) -> Any:
        parts = g if isinstance(g, dict) else {0: g}
        present = tuple(sorted(parts))
        moving = tuple(i for i, need in enumerate(needs) if need)
        found = pullback(present, moving)(tuple(inputs), [parts[i] for i in present])
        gradients = dict(zip(moving, found, strict=True))
        return [gradients.get(i) for i in range(len(inputs))]

    def pushforward(tangents: Any, inputs: Any) -> Any:
        moving = [i for i, t in enumerate(tangents) if t is not None]
        push = _pushing(function, tuple(moving))
        return push(tuple(inputs), [tangents[i] for i in moving])

    def batch(primitive: Any, inputs: Any, batched: Any, size: int, params: Any) -> Any:
        return mapped(tuple(0 if b else None for b in batched), size)(*inputs)

    @functools.cache
    def mapped(axes: tuple[int | None, ...], size: int) -> Compiled:
        return Compiled(_vmap(function, in_axes=axes, axis_size=size), (), None)

    @functools.cache
    def _pushing(function: Any, moving: tuple[int, ...]) -> Compiled:
        def push(inputs: Any, tangents: Any) -> Any:
            def moved(*parts: Any) -> Any:
                full = list(inputs)
                for i, part in zip(moving, parts, strict=True):
                    full[i] = part
                return function(*full)

            return _jvp(moved, tuple(inputs[i] for i in moving), tuple(tangents))[1]

        return Compiled(push, (), None)

    return Primitive(
        compiled, vjp=vjp, jvp=pushforward, batch=batch, listed=False, inline=function, several=several
    )


def compile(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    backend: str = "llvm",
    threads: int | None = None,
    fullgraph: bool = True,
) -> Any:
    """Compile a function to machine code."""
    if f is None:
        return functools.partial(
            compile, static_argnums=static_argnums, backend=backend, threads=threads, fullgraph=fullgraph
        )
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    return Compiled(f, numbers, threads)
