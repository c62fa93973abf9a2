"""The tape: a Node for each recorded operation, linked to the nodes of its inputs.

A node is always younger than its parents. It keeps only what its rule reads and never refers to the
tensor it made, so a graph has no reference cycle and goes the moment the last tensor goes.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from everyo.core.cotangents import Several
from everyo.errors import DTypeError, GraphStateError

if TYPE_CHECKING:
    from everyo.core.primitive import Plan
    from everyo.core.tensor import Tensor

next_age = itertools.count().__next__


class _Freed:
    """What a node holds in place of its residuals once a backward pass has released them."""

    def __repr__(self) -> str:
        return "<freed>"


FREED: Any = _Freed()


class Node:
    """One recorded operation: whom its cotangents go to, and what its rule reads.

    Attributes
    ----------
    plan : Plan
        The operation, and how it is pulled back for the inputs that need a gradient.
    parents : tuple of Node
        The nodes of those inputs, in order.
    saved : tuple
        The residuals that `plan` names, raw.
    params : dict
        The static parameters of the call.
    age : int
        Grows with every node: a reverse sort by age is a reverse topological order.
    restore : tuple or None
        Shape and dtype of each needed input where broadcasting or promotion must be undone; None in place
        of an input that has those of the result.
    extras : Extras or None
        Hooks, the tensor that retains its gradient, the source line: what few nodes have.
    """

    __slots__ = (
        "__weakref__", "age", "extras", "params", "parents", "plan", "restore", "saved",
    )  # fmt: skip

    plan: Plan
    parents: tuple[Node, ...]
    saved: tuple[Any, ...]
    params: dict[str, Any]
    age: int
    restore: tuple[tuple[tuple[int, ...], Any] | None, ...] | None
    extras: Extras | None

    is_leaf = False

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.plan.primitive.name

    @property
    def line(self) -> str | None:
        """The source line of the forward call, recorded under `detect_anomaly`."""
        return self.extras.line if self.extras else None

    @property
    def backward_fn(self) -> Callable[[Any], tuple[Any, ...]]:
        """The pullback: takes the cotangent of the output, returns one for each of `parents`.

        It works on raw arrays. For complex values cotangents are plain transposes, without conjugates.
        """
        from everyo.core.walk import pull_back

        return lambda cotangent: tuple(pull_back(self, cotangent))

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node's rule has run.

        A tuple that it returns replaces `grad_inputs`; what it changes of them in place counts as well. The
        gradients are plain transposes, as in
        `backward_fn`; of an operation with several results they are a dict by result position.
        """
        return RemovableHandle(self.ensure_extras().after, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node's rule runs.

        A tuple that it returns replaces them; what it changes of them in place counts as well.
        """
        return RemovableHandle(self.ensure_extras().before, hook)

    def ensure_extras(self) -> Extras:
        """Return this node's extras, made when first asked for."""
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def require_saved(self) -> None:
        """Raise GraphStateError if an earlier backward pass released the residuals."""
        if self.saved is FREED:
            raise GraphStateError(
                "the graph was freed by an earlier backward pass",
                operation=self.name,
                expected="the values saved in the forward pass",
                found="released values",
                remedy="call the first backward() or grad() with retain_graph=True; what is carried from "
                "step to step leaves the graph by x.detach(), or in `with eo.no_grad():`",
            )

    def __repr__(self) -> str:
        return f"<Node {self.name}>"


class LeafNode(Node):
    """Where gradients of one leaf tensor arrive. It refers to the tensor weakly."""

    __slots__ = ("leaf",)

    is_leaf = True

    def __init__(self, leaf: Tensor) -> None:
        self.leaf = weakref.ref(leaf)
        self.parents, self.saved, self.params = (), (), {}
        self.age, self.restore, self.extras = next_age(), None, None

    @property
    def name(self) -> str:
        """The name shown for a leaf: where gradients accumulate."""
        return "accumulate_grad"

    @property
    def backward_fn(self) -> Callable[[Any], tuple[Any, ...]]:
        """A leaf passes nothing on."""
        return lambda cotangent: ()


class VariableNode(LeafNode):
    """Where the gradient of an argument arrives while a tape differentiates a function of it.

    Only that tape asks for it. To the function the argument is no leaf: it may change it in place.
    """

    __slots__ = ()

    is_leaf = False

    @property
    def name(self) -> str:
        """The name shown for an argument."""
        return "argument"


def origin(node: Node | None) -> str:
    """Return in words where the tensor of a node comes from; what errors say of one that is no leaf."""
    if node is None:
        return ""
    argument = isinstance(node, VariableNode) or node.name == "alias"  # of one that has a graph outside
    return "an argument of the transformation" if argument else f"the result of {node.name}"


class OutputNode(Node):
    """One result of an operation that has several: passes its cotangent on as a part of theirs."""

    __slots__ = ("index",)

    def __init__(self, node: Node, index: int) -> None:
        self.index = index
        self.plan = _PASS_ON
        self.parents, self.saved, self.params = (node,), (index,), {}
        self.age, self.restore, self.extras = next_age(), None, None

    @property
    def name(self) -> str:
        """The operation's name and which result this is."""
        return f"{self.parents[0].name}[{self.index}]"


class Extras:
    """What few nodes carry: hooks, the tensor that retains its gradient, the forward's source line."""

    __slots__ = ("after", "before", "checksums", "line", "on_gradient", "retained")

    def __init__(self) -> None:
        self.on_gradient: dict[int, Callable[[Any], Any]] = {}
        self.before: dict[int, Callable[..., Any]] = {}
        self.after: dict[int, Callable[..., Any]] = {}
        self.retained: weakref.ref[Tensor] | None = None
        self.line: str | None = None
        self.checksums: Sequence[int] | None = None


class _PassOn:
    """The plan of an `OutputNode`."""

    save, direct, silent = None, None, False
    origins, needed, count = (-3,), (0,), 1  # its residual, the position, is static
    primitive = type("output", (), {"family": "linear", "name": "output"})

    @staticmethod
    def pull(g: Any, saved: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any]:
        return (Several({saved[0]: g}),)


_PASS_ON: Any = _PassOn


class RemovableHandle:
    """Returned by the ``register_*`` methods: `remove` takes the hook away again; also a context manager."""

    _keys = itertools.count()

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        if not callable(hook):
            raise DTypeError(
                "what should be a hook cannot be called",
                operation="hook",
                expected="a callable",
                found=type(hook).__name__,
                remedy="pass a function of what the hook is told: see help() of the method",
            )
        self._hooks, self._key = hooks, next(self._keys)
        hooks[self._key] = hook

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
