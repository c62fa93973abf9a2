"""Loops over the elements of an axis: `scan`, `map`, and `associative_scan` in logarithmic depth."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import staging
from everyo.errors import ArgumentError, EveryOError, ShapeError, describe
from everyo.ops.axes import as_integer, normalize_axis
from everyo.ops.creation import asarray, zeros
from everyo.ops.replay import Rehearsal
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_function
from everyo.transforms.carry import Carry, leaf_names, same_leaves, same_structure, tensors_of
from everyo.transforms.segments import checked_interval, segment
from everyo.transforms.trees import unflatten
from everyo.transforms.vectorize import vmap

__all__ = ["associative_scan", "map", "scan"]


@explained
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    *,
    checkpoint_every: int | None = None,
) -> tuple[Any, Any]:
    """Carry a state along the first axis of `xs` and stack what each step gives.

    The same as ``for x in xs: carry, y = f(carry, x)`` with all the y stacked. Differentiates in both
    directions and to any order, with respect to `init`, `xs` and what `f` captures.

    Parameters
    ----------
    f : callable
        ``f(carry, x)`` returns ``(carry, y)``: the next state, of the same structure, shapes and dtypes,
        and a pytree of tensors.
    init : pytree of tensors
        The first state. A Python number takes the dtype that `f` gives it.
    xs : pytree of tensors, optional
        Each is split along its first axis; `f` gets None for it if there are none.
    length : int, optional
        The number of steps, needed only without `xs`.
    reverse : bool, default False
        Go from the last element to the first; the y stay beside their x.
    unroll : int, default 1
        How many steps a compiler may put into one; eagerly without effect.
    checkpoint_every : int, optional
        As for `while_loop`.

    Returns
    -------
    carry : pytree of tensors
        The last state.
    ys : pytree of tensors
        The y of all steps, stacked along a new first axis.

    Raises
    ------
    ShapeError, DTypeError
        If the state or y changes its structure, a shape or a dtype, or the leaves of `xs` differ in
        length; the message names the leaf.
    ArgumentError
        If neither `xs` nor `length` is given, or they contradict each other.

    Notes
    -----
    With no step at all, `f` runs once on zeros in place of an element, to learn what its y look like.
    Where it refuses these, as a check of values does, it runs under `vmap` on a batch of none.

    Examples
    --------
    >>> import everyo as eo
    >>> total, sums = eo.scan(lambda c, x: (c + x, c + x), 0.0, eo.tensor([1.0, 2.0, 3.0]))
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    require_function("scan", f)
    stages = staging.get()
    if stages is not None:
        return stages.scan(f, init, xs, length, reverse)
    elements, count = elements_of(xs, length)
    if unroll is not True and (not isinstance(unroll, int) or unroll < 1):
        raise ArgumentError(
            "unroll is no positive int", operation="scan", expected="1 or more", found=repr(unroll)
        )
    carry = Carry(init, "scan")
    if count == 0:
        return _no_steps(f, carry, elements(None))
    outputs = _Outputs()
    order = range(count - 1, -1, -1) if reverse else range(count)

    def run(leaves: list[Tensor], steps: Sequence[int]) -> list[Tensor]:
        rows = []
        for i in steps:
            x = elements(i)
            leaves, y = carry.advance(lambda tree, x=x: pair_of(f(tree, x)), leaves)  # type: ignore[misc]
            rows.append(outputs.matched(y))
        return [*leaves, *(x for row in rows for x in row)]

    width = len(carry.leaves)
    every = count if checkpoint_every is None else checked_interval(checkpoint_every)
    start = count if checkpoint_every is None else int(carry.unsettled)
    results = run(carry.leaves, order[:start])
    leaves, flat = results[:width], results[width:]
    for i in range(start, count, every):
        results = segment(functools.partial(run, steps=order[i : i + every]), leaves)
        leaves = results[:width]
        flat += results[width:]
    rows = [flat[i * len(outputs.names) : (i + 1) * len(outputs.names)] for i in range(count)]
    if reverse:
        rows.reverse()
    stacked = [op.stack(*column, axis=0) for column in zip(*rows, strict=True)]
    return carry.tree(leaves), unflatten(outputs.structure, stacked)


def _no_steps(f: Callable[[Any, Any], tuple[Any, Any]], carry: Carry, element: Any) -> tuple[Any, Any]:
    """Return carry and y of no step; `f` runs once on `element`, or, where its zeros are refused, on none.

    A number in the carry has the dtype that a step would give it, and random streams stay where they are.
    """
    numbers = carry.numbers

    def step(x: Any) -> Any:
        carry.numbers = numbers
        return carry.advance(lambda tree: pair_of(f(tree, x)), carry.leaves)

    with Rehearsal():
        try:
            new, y = step(element)
        except EveryOError:
            given, structure = tensors_of(element)
            none = [zeros((0, *x.shape), dtype=x.dtype, device=x.device) for x in given]
            try:
                new, y = vmap(step, axis_size=0, randomness="same")(unflatten(structure, none))
                leaves, structure = tensors_of(y)
            except EveryOError:  # it asks for values, or is wrong for all elements: the first error says why
                leaves = []
            if not leaves:
                raise
            empty = [x.detach() for x in leaves]
        else:
            leaves, structure = tensors_of(y)
            empty = [zeros((0, *x.shape), dtype=x.dtype, device=x.device) for x in leaves]
    places = zip(carry.leaves, numbers, new, strict=True)
    state = [old if n is None else asarray(n, dtype=found.dtype) for old, n, found in places]
    return carry.tree(state), unflatten(structure, empty)


class _Outputs:
    """The y of a scan, which must look the same in each step."""

    first: list[Tensor] | None = None
    structure: Any = None
    names: list[str]

    def matched(self, tree: Any) -> list[Tensor]:
        """Return the leaves of one step's y."""
        leaves, structure = tensors_of(tree)
        if self.first is None:
            self.first, self.structure = leaves, structure
            self.names = leaf_names(structure, "y")
        same_structure(structure, self.structure, "scan", "y")
        same_leaves(leaves, self.first, self.names, "scan")
        return leaves


def pair_of(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            "the function returned no pair",
            operation="scan",
            expected="(carry, y)",
            found=type(result).__name__,
            remedy="return (carry, None) if there is nothing to stack",
        )
    return result


def elements_of(xs: Any, length: int | None) -> tuple[Callable[[int | None], Any], int]:
    """Return a function that gives the i-th elements of `xs` (zeros for None), and how many there are."""
    leaves, structure = tensors_of(xs)
    lengths = []
    for x, name in zip(leaves, leaf_names(structure, "xs"), strict=True):
        if not x.ndim:
            raise ShapeError(
                f"{name} has no axis to go along",
                operation="scan",
                expected="one axis or more",
                found="()",
                remedy="capture it in the function, or repeat it with eo.broadcast_to",
            )
        lengths.append(x.shape[0])
        if x.shape[0] != lengths[0]:
            raise ShapeError(
                f"{name} has another length than the first leaf of xs",
                operation="scan",
                inputs=describe(*leaves),
                expected=f"{lengths[0]} elements along axis 0",
                found=str(x.shape[0]),
                remedy="slice or pad the leaves to one length",
            )
    if length not in (None, lengths[0]) if lengths else length is None:
        raise ArgumentError(
            "length contradicts xs" if lengths else "neither xs nor length is given",
            operation="scan",
            expected=f"length={lengths[0]} or none" if lengths else "length=...",
            found=str(length),
            remedy="leave length out, or slice xs" if lengths else "pass length=n for n steps",
        )
    count = lengths[0] if lengths else as_integer(length, "length", "scan")
    if count < 0:
        raise ArgumentError(
            "length is negative",
            operation="scan",
            expected="0 or more steps",
            found=str(count),
            remedy="pass length=max(n, 0) where n may be negative",
        )

    def element(i: int | None) -> Any:
        if i is None:
            return unflatten(structure, [zeros(x.shape[1:], dtype=x.dtype, device=x.device) for x in leaves])
        return unflatten(structure, [x[i] for x in leaves])

    return element, count


@explained
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply a function to each element along the first axis of `xs`, one after the other.

    Computes what `vmap` computes, in the memory of one element, or of `batch_size` elements at a time;
    derivatives of every order are those of `f`.

    Parameters
    ----------
    f : callable
        Takes an element of `xs`, returns a pytree of tensors.
    xs : pytree of tensors
        Each is split along its first axis.
    batch_size : int, optional
        Take this many elements at a time, through `vmap`.

    Returns
    -------
    pytree of tensors
        The results, stacked along a new first axis.

    Raises
    ------
    ShapeError, ArgumentError
        As for `scan`, and for `vmap` with a batch size.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.map(lambda x: x.sum() ** 2, eo.tensor([[1.0, 2.0], [3.0, 4.0]])))
    [ 9. 49.]
    """
    require_function("map", f)
    if batch_size is None:
        return scan(lambda carry, x: (carry, f(x)), None, xs)[1]
    return vmap(f, chunk_size=batch_size)(xs)


@explained
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All the partial results of an associative operation along an axis, in logarithmic depth.

    The derivative is that of the calls of `fn`. Source: Blelloch (1990), Prefix sums and their applications.

    Element i of the result is ``fn(... fn(fn(e0, e1), e2) ..., ei)``, computed by about
    ``2 * log2(n)`` calls of `fn` on whole slices instead of n on single elements.

    Parameters
    ----------
    fn : callable
        Associative: ``fn(fn(a, b), c) == fn(a, fn(b, c))``. Takes and returns pytrees like `elems`, and
        treats each index of the axis by itself.
    elems : pytree of tensors
        Of one length along `axis`.
    reverse : bool, default False
        Go from the last element to the first.
    axis : int, default 0
        The axis.

    Returns
    -------
    pytree of tensors
        Like `elems`.

    Raises
    ------
    ShapeError, DTypeError
        If lengths differ, or `fn` returns another structure, shape or dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.associative_scan(eo.multiply, eo.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
    [1.0, 2.0, 6.0, 24.0]
    """
    require_function("associative_scan", fn)
    leaves, structure = tensors_of(elems)
    names = leaf_names(structure, "elems")
    axes = [normalize_axis(axis, x.ndim, "associative_scan") for x in leaves]
    lengths = {x.shape[a] for x, a in zip(leaves, axes, strict=True)}
    if len(lengths) > 1:
        raise ShapeError(
            "the leaves of elems differ in length",
            operation="associative_scan",
            inputs=describe(*leaves),
            expected=f"one length along axis {axis}",
            found=", ".join(str(n) for n in sorted(lengths)),
            remedy="slice or pad them to one length",
        )

    def part(xs: Sequence[Tensor], index: slice) -> list[Tensor]:
        return [x[(slice(None),) * a + (index,)] for x, a in zip(xs, axes, strict=True)]

    def combined(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        results, found = tensors_of(fn(unflatten(structure, a), unflatten(structure, b)))
        same_structure(found, structure, "associative_scan", "the element")
        same_leaves(results, a, names, "associative_scan")
        return results

    def scanned(xs: list[Tensor], n: int) -> list[Tensor]:
        if n < 2:
            return xs
        odd = scanned(combined(part(xs, slice(0, n - 1, 2)), part(xs, slice(1, n, 2))), n // 2)
        even = part(xs, slice(0, 1))
        if n > 2:  # each odd result but a last one that nothing follows, joined with the next element
            later = combined(part(odd, slice(0, (n - 1) // 2)), part(xs, slice(2, n, 2)))
            even = [op.concat(a, b, axis=k) for a, b, k in zip(even, later, axes, strict=True)]
        return [_interleaved(a, b, k) for a, b, k in zip(even, odd, axes, strict=True)]

    backwards = slice(None, None, -1)
    ordered = part(leaves, backwards) if reverse else leaves
    results = scanned(ordered, lengths.pop() if lengths else 0)
    return unflatten(structure, part(results, backwards) if reverse else results)


def _interleaved(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """Return the elements of both in turn, `even` first; it may have one more."""
    n = odd.shape[axis]
    head = even[(slice(None),) * axis + (slice(0, n),)]
    shape = tuple(odd.shape)
    pairs = op.reshape(op.stack(head, odd, axis=axis + 1), shape=(*shape[:axis], 2 * n, *shape[axis + 1 :]))
    if even.shape[axis] == n:
        return pairs
    return op.concat(pairs, even[(slice(None),) * axis + (slice(n, None),)], axis=axis)
