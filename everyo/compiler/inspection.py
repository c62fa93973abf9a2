"""What the compiler makes of a function, step by step, as text."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

from everyo.compiler.api import Compiled
from everyo.compiler.codegen.program import Body
from everyo.compiler.fuse import Cluster, Member, Plan, is_written_out, reduced
from everyo.compiler.graph import Graph, Op, Value
from everyo.compiler.native import optimized
from everyo.compiler.passes import watch
from everyo.compiler.program import Program
from everyo.core.functions import Transformed


class Inspection:
    """How a function was compiled. Made by `everyo.compile.inspect`; ``print`` shows all of it.

    Attributes
    ----------
    name : str
        The function's name.
    graphs : dict of str to str
        The graph after each pass, by what was done last: "traced" comes first, "lowered" is the first one in
        the operations of the code generator, and the last one is what the kernels compute.
    kernels : str
        What shares a loop, and what of it is kept in memory.
    memory : str
        What lies where in working memory, and for how long.
    llvm : str
        The LLVM IR that was generated.
    optimized : str
        The LLVM IR of which machine code is made.
    """

    def __init__(self, program: Program, graphs: dict[str, str], names: dict[Value, str]) -> None:
        self.name, self.graphs = program.graph.name, graphs
        module = program.module
        writer = _Writer(names)
        several = len(module.bodies) > 1
        self.kernels = "\n".join(line for body in module.bodies for line in writer.kernels(body, several))
        places = [line for body in module.bodies for line in writer.memory(body)]
        self.memory = "\n".join([f"{module.arena} bytes", *places])
        self.llvm = module.text

    @functools.cached_property
    def optimized(self) -> str:
        return str(optimized(self.llvm))

    def __str__(self) -> str:
        parts = {
            **{f"graph, {name}": text for name, text in self.graphs.items()},
            "kernels": self.kernels,
            "memory": self.memory,
            "LLVM IR": self.llvm,
            "LLVM IR, optimized": self.optimized,
        }
        return "\n\n".join(f"==== {title} ====\n{text}" for title, text in parts.items())

    def __repr__(self) -> str:
        kernels = sum(line.endswith(":") for line in self.kernels.splitlines())
        return f"<inspection of {self.name}: {kernels} kernels, {self.memory.splitlines()[0]} of memory>"


def inspect(f: Callable[..., Any], **options: Any) -> Callable[..., Inspection]:
    """Show what `everyo.compile` makes of a function, without running it.

    Parameters
    ----------
    f : callable
        A function as for `everyo.compile`, or one that is compiled.
    **options
        Options of `everyo.compile`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an `Inspection`: ``print`` shows the graph after each pass, the
        kernels, the memory plan and the LLVM IR; each of them is an attribute too.

    Raises
    ------
    CompileError
        If the function cannot be compiled.

    Examples
    --------
    >>> import everyo as eo
    >>> found = eo.compile.inspect(lambda x: eo.exp(x).sum())(eo.zeros((3, 4)))
    >>> print(found.graphs["without dead code"])
    graph <lambda>(%0: f32[3,4])
      %1: f32[3,4] = map(%0) {fn='exp'}
      %2: f32[] = reduce(%1) {kind='sum', axes=(0, 1)}
      return %2
    >>> print(found.kernels)
    k0, loop over 3 x 4:
      %1 = exp
      %2 = sum over the loop, stored
    """

    def inspected(*args: Any, **kwargs: Any) -> Inspection:
        from everyo.compiler.api import compile

        if isinstance(f, Compiled):
            made = Compiled(f.f, f.static_argnums, f.threads)
        else:
            made = compile(f, **options)
        graphs: dict[str, str] = {}
        names: dict[Value, str] = {}

        def note(name: str, graph: Graph) -> None:
            names.clear()
            graphs[name] = graph.show(names)

        token = watch.set(note)
        try:
            entry, _ = made.entry(args, kwargs)
        finally:
            watch.reset(token)
        return Inspection(entry.program, graphs, names)

    return Transformed(inspected, f, inspect, **options)


class _Writer:
    """Writes plans as text, with the names that values have in the graph."""

    def __init__(self, names: dict[Value, str]) -> None:
        self.names = names

    def name(self, value: Value) -> str:
        return self.names.get(value, "(a value of a later pass)")

    # ---- kernels

    def kernels(self, body: Body, named: bool) -> Iterator[str]:
        """Yield the kernels of a graph, under its name if asked, each with its members nest by nest."""
        if named:
            yield f"graph {body.graph.name}"
        for cluster, name in body.kernels.items():
            cut = body.splits.get(cluster)
            chunks = f", in {cut.chunks} chunks of {cut.step}" if cut else ""
            loop = f", loop over {_axes(cluster.outer)}" if cluster.outer and not cluster.opaque else ""
            yield f"{name}{loop}{chunks}:"
            if cluster in body.plan.panels:
                yield f"  {self.name(body.plan.panels[cluster].product.out)} = dot, a panel at a time"
            nests = cluster.nests or [cluster.members]
            for number, nest in enumerate(nests):
                if len(nests) > 1:
                    yield f"  nest {number}{self._loops(cluster, nest)}"
                for member in nest:
                    yield f"  {'  ' * (len(nests) > 1)}{self._member(body.plan, cluster, member)}"

    def _loops(self, cluster: Cluster, nest: list[Member]) -> str:
        inner = cluster.inner(nest[0])
        if not inner or is_written_out(nest[0].op, inner):
            return ", written out" if inner else ""
        return f", loop over {_axes(inner)}"

    def _member(self, plan: Plan, cluster: Cluster, member: Member) -> str:
        op = member.op
        results = ", ".join(map(self.name, op.outs))
        text = f"{results} = {_title(op)}" if results else _title(op)
        if member.sink and not cluster.opaque:
            text += " over the loop"
        elif reduced(op):
            text += f" over {_axes([op.operands[0].shape[a] for a in reduced(op)])}"
        if any(v in plan.stored for v in op.outs):
            text += ", stored"
            text += "".join(f" over {self.name(plan.replaced[v])}" for v in op.outs if v in plan.replaced)
        elif any(v in plan.rows for v in op.outs):
            text += ", kept for a later nest"
        inside = [self.name(v) for other, home in plan.inside.items() if home is op for v in other.outs]
        return f"{text}, computes {', '.join(inside)} as well" if inside else text

    # ---- memory

    def memory(self, body: Body) -> Iterator[str]:
        """Yield what lies in working memory, in order of place."""
        steps = {i: body.kernels[c] for i, c in enumerate(body.plan.clusters) if c in body.kernels}
        for key, start in sorted(
            body.offsets.items(), key=lambda item: (item[1], body.lifetimes[item[0]].first)
        ):
            life = body.lifetimes[key]
            users = dict.fromkeys((steps[life.first], steps[life.last]))
            yield f"  {start} to {start + life.size}: {self._place(key)}, {' to '.join(users)}"

    def _place(self, key: Any) -> str:
        if isinstance(key, Value):
            return f"{self.name(key)} {key.type}"
        op = next(part for part in key if isinstance(part, Op))
        if key[0] == "contributions":
            return f"contributions of chunks to {self.name(op.out)}"
        return f"a state of {op.name}"


def _title(op: Op) -> str:
    return str(op.params.get("fn") or op.params.get("kind") or op.name)


def _axes(shape: Any) -> str:
    return " x ".join(map(str, shape)) if math.prod(shape) != 1 else "1"
