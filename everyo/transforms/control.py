"""Control flow as functions: `cond`, `while_loop`, `fori_loop`.

They run eagerly, with the meaning that a compiler can give them too. Everything differentiates, in
both directions and to any order; under `vmap`, where the examples of a batch disagree, both branches
run and a loop runs until all examples are done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo.core.copying import same_value
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import is_number, staging
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.creation import as_tensor, asarray
from everyo.ops.ranges import arange
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_function
from everyo.transforms.carry import (
    Carry,
    bottom,
    decided,
    guarded,
    leaf_names,
    same_leaves,
    same_structure,
)
from everyo.transforms.segments import checked_interval, segment
from everyo.transforms.trees import flatten, own_objects, unflatten

__all__ = ["cond", "fori_loop", "while_loop"]

State = list[Tensor]
Step = Callable[[int, State], tuple[State, bool]]


@explained
def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Return ``true_fun(*operands)`` if `pred` holds, else ``false_fun(*operands)``.

    The derivative is that of the branch that was taken.

    Under `vmap` with a predicate that differs between the examples, both branches run on the whole batch
    and each example takes its own result. What the other branch computed for it, be it NaN or infinite,
    touches neither its value nor the gradient of an operand. A tensor that a branch captures instead
    of taking it as an operand has no such protection in reverse mode.

    Parameters
    ----------
    pred : bool or tensor of one element
        Numbers count as true where they are not 0.
    true_fun, false_fun : callable
        Take the operands, return a pytree of tensors. Under `vmap` the two must agree in structure,
        shapes and dtypes.
    *operands : pytrees of tensors
        What the branches compute with.

    Returns
    -------
    pytree of tensors
        What the branch returned.

    Raises
    ------
    ShapeError
        If `pred` has several elements, or the branches differ in structure or shapes under `vmap`.
    DTypeError
        If the branches differ in dtypes under `vmap`.

    Examples
    --------
    >>> import everyo as eo
    >>> def safe_sqrt(x):
    ...     return eo.cond(x > 0, eo.sqrt, eo.zeros_like, x)
    >>> print(eo.vmap(eo.grad(safe_sqrt))(eo.tensor([4.0, -1.0])))
    [0.25 0.  ]
    """
    require_function("cond", true_fun, false_fun)
    stages = staging.get()
    if stages is not None and isinstance(pred, Tensor):
        return stages.cond(pred, true_fun, false_fun, operands)
    holds = decided(pred, "cond")
    if holds is True or holds is False:
        leaves, structure = flatten((true_fun if holds else false_fun)(*own_objects(operands)))
        return unflatten(structure, [as_tensor(leaf) for leaf in leaves])
    first, structure = _branch(true_fun, operands, holds)
    second, other = _branch(false_fun, operands, op.logical_not(holds))
    same_structure(other, structure, "cond", "the result, from branch to branch,")
    rows = [(_like(a, b), _like(b, a)) for a, b in zip(first, second, strict=True)]
    names = leaf_names(structure, "result")
    same_leaves([b for _, b in rows], [a for a, _ in rows], names, "cond")
    return unflatten(structure, [op.where(holds, a, b) for a, b in rows])


def _like(value: Any, other: Any) -> Tensor:
    """Return a branch's result as a tensor; a number takes the dtype of the other branch's tensor."""
    weak = isinstance(value, (int, float, complex)) and isinstance(other, Tensor)
    return asarray(value, dtype=other.dtype if weak else None)


def _branch(function: Callable[..., Any], operands: Any, taken: Any) -> tuple[list[Any], Any]:
    """Return leaves and structure of a branch that only the examples of `taken` take."""
    leaves, structure = flatten(operands)
    safe = [guarded(taken, same_value(x)) if isinstance(x, Tensor) else x for x in leaves]
    return flatten(function(*unflatten(structure, safe)))


@explained
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    checkpoint_every: int | None = None,
) -> Any:
    """Repeat ``state = body_fun(state)`` while ``cond_fun(state)`` holds.

    Differentiates in both directions, however often the body runs: reverse mode keeps what each step
    needs, or with `checkpoint_every` only every k-th state, and computes the steps between again.

    Under `vmap` the loop runs until all examples are done. An example that is done keeps its state, and
    its gradient is that of its own steps.

    Parameters
    ----------
    cond_fun : callable
        Takes the state, returns a boolean (a tensor of one element).
    body_fun : callable
        Takes the state and returns the next: the same structure, shapes and dtypes.
    init_val : pytree of tensors
        The first state. A Python number takes the dtype that the body gives it.
    checkpoint_every : int, optional
        Keep every k-th state for reverse mode: memory for n / k states and the inner values of k
        steps, at the price of running the body once more. k near ``sqrt(n)`` needs the least. The
        body must be deterministic and must not change what it captures.

    Returns
    -------
    pytree of tensors
        The last state.

    Raises
    ------
    ShapeError, DTypeError
        If the state changes its structure, a shape or a dtype; the message names the leaf.

    Examples
    --------
    >>> import everyo as eo
    >>> def halved(x):
    ...     return eo.while_loop(lambda y: y > 1, lambda y: y / 2, x)
    >>> halved(eo.tensor(20.0)).item(), eo.grad(halved)(20.0).item()
    (0.625, 0.03125)
    """
    require_function("while_loop", cond_fun, body_fun)
    stages = staging.get()
    if stages is not None:
        return stages.while_loop(cond_fun, body_fun, init_val)
    carry = Carry(init_val, "while_loop")

    def step(number: int, leaves: State) -> tuple[State, bool]:
        going = decided(cond_fun(carry.copied(leaves)), "while_loop")
        if going is False:
            return leaves, False
        return carry.advance(lambda tree: (body_fun(tree), None), leaves, going)[0], True

    return carry.tree(_repeat(step, carry, checkpoint_every))


@explained
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    checkpoint_every: int | None = None,
) -> Any:
    """Return the state after ``state = body_fun(i, state)`` for each i from `lower` to `upper` - 1.

    The derivative is that of the steps one after the other, in both directions and to any order.

    Parameters
    ----------
    lower, upper : int or integer tensor of one element
        The bounds. Under `vmap` each example may have its own.
    body_fun : callable
        Takes the index, a Python int (an integer tensor where the lower bound differs between the
        examples of a batch), and the state; returns the next state.
    init_val : pytree of tensors
        The first state. A Python number takes the dtype that the body gives it.
    checkpoint_every : int, optional
        As for `while_loop`.

    Returns
    -------
    pytree of tensors
        The last state; `init_val` if `upper` is not above `lower`.

    Raises
    ------
    ShapeError, DTypeError
        If the state changes its structure, a shape or a dtype; the message names the leaf.
    ArgumentError
        If a bound is not one integer.

    Examples
    --------
    >>> import everyo as eo
    >>> power = lambda x: eo.fori_loop(0, 3, lambda i, y: y * x, 1.0)
    >>> power(eo.tensor(2.0)).item(), eo.grad(power)(2.0).item()
    (8.0, 12.0)
    """
    require_function("fori_loop", body_fun)
    stages = staging.get()
    if stages is not None:
        return _staged_fori(stages, lower, upper, body_fun, init_val)
    start, stop = _bound(lower), _bound(upper)
    carry = Carry(init_val, "fori_loop")

    def step(number: int, leaves: State) -> tuple[State, bool]:
        i = start + number
        going = decided(i < stop, "fori_loop")
        if going is False:
            return leaves, False
        if going is not True and isinstance(i, Tensor):
            i = guarded(going, i)  # an example that is done must not index with a number beyond its last
        return carry.advance(lambda tree: (body_fun(i, tree), None), leaves, going)[0], True

    return carry.tree(_repeat(step, carry, checkpoint_every))


def _staged_fori(stages: Any, lower: Any, upper: Any, body: Callable[..., Any], init: Any) -> Any:
    """The loop as a scan if the number of turns is known, else as a while loop.

    The index is a number, as it is outside of compiled functions, unless the first one is a tensor.
    """
    if not isinstance(lower, Tensor) or is_number(lower):
        inner = body

        def body(i: Any, state: Any) -> Any:
            return inner(i.data.interpreter.number(i), state)

    if isinstance(lower, int) and isinstance(upper, int):
        indices = arange(lower, max(upper, lower), dtype="int64")
        return stages.scan(lambda state, i: (body(i, state), None), init, indices, None, False)[0]
    first = as_tensor(lower).astype("int64")
    _, state = stages.while_loop(
        lambda carry: carry[0] < upper, lambda carry: (carry[0] + 1, body(*carry)), (first, init)
    )
    return state


def _repeat(step: Step, carry: Carry, every: int | None) -> State:
    """Return the last state: step by step, or in segments of `every` steps that are run again later."""
    leaves, going, number = carry.leaves, True, 0
    length = 0 if every is None else checked_interval(every)
    while going and (not length or carry.unsettled):
        leaves, going = step(number, leaves)
        number += 1
    while going:

        def run(leaves: State, first: int = number) -> State:
            nonlocal going
            for i in range(first, first + length):
                leaves, going = step(i, leaves)
                if not going:
                    break
            return leaves

        leaves = segment(run, leaves)
        number += length
    return leaves


def _bound(value: Any) -> Any:
    """Return a bound as an int, or as a tensor where each example of a batch has its own."""
    if isinstance(value, int):
        return value
    try:
        bound: Any = as_tensor(value)
    except DTypeError:
        bound = None
    if bound is None or bound.size != 1 or bound.dtype.kind not in "iu":
        raise ArgumentError(
            "a bound is not one integer",
            operation="fori_loop",
            expected="an int or an integer tensor of one element",
            found=repr(value) if bound is None else describe(bound),
            remedy="convert it with int(...)",
        )
    bound = op.reshape(bound, shape=())
    array, batched = bottom(bound, "fori_loop")
    return bound if batched else int(array)
