"""Matrix products by BLAS."""

from __future__ import annotations

from everyo.compiler.codegen.text import Function, literal, type_of
from everyo.compiler.fuse import is_transposed
from everyo.compiler.graph import Op

ROUTINES = {"double": "dgemm", "float": "sgemm"}


def gemm(f: Function, op: Op, pa: str, pb: str, pc: str, rows: str = "") -> None:
    """Write the product of one pair of matrices; a transposed operand is read as it lies in memory.

    It is added to what lies at `pc` where the operation has something that it is added to. `rows` is how many
    rows it has if these are not all.
    """
    a, b, *added = op.operands
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    ta, tb = is_transposed(op, 0), is_transposed(op, 1)
    dtype, kind = op.out.dtype, type_of(op.out.dtype)
    numbers = {"m": m, "n": n, "k": k, "lda": m if ta else k, "ldb": k if tb else n, "ldc": n}
    places = {name: _constant(f, "i32", str(value)) for name, value in numbers.items()}
    if rows:
        places["m"] = f.alloca("i32")
        f.line(f"store i32 {rows}, ptr {places['m']}")
    alpha = _constant(f, kind, literal(op.params.get("alpha", 1), dtype))
    beta = _constant(f, kind, literal(len(added), dtype))
    flags = [_constant(f, "i8", str(ord("T" if t else "N"))) for t in (ta, tb)]
    symbol = f"@everyo_{ROUTINES[kind]}"
    f.declares.add(f"declare void {symbol}({', '.join(['ptr'] * 13)})")
    # BLAS counts columns first: it is asked for the transposed product of the operands, swapped
    arguments = [flags[1], flags[0], places["n"], places["m"], places["k"], alpha, pb, places["ldb"], pa,
                 places["lda"], beta, pc, places["ldc"]]  # fmt: skip
    f.line(f"call void {symbol}({', '.join(f'ptr {x}' for x in arguments)})")


def _constant(f: Function, type: str, value: str) -> str:
    """Return a pointer to a number, written where the function begins."""
    key = ("constant", type, value)
    place = f.constants.get(key)
    if place is None:
        place = f.constants[key] = f.alloca(type)
        f.entry.append(f"  store {type} {value}, ptr {place}")
    return place
