"""Hints for LLVM on loops: what it shall do with turns that it cannot judge.

LLVM meets elementary functions as calls, whose place their long definitions take only after it has unrolled
and vectorized loops: how long a loop really is, it is told here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from everyo.compiler import elementary
from everyo.compiler.machine import vectors

# Instructions of one turn: up to `SHORT` of them, two turns interleaved are faster; from `LONG` on turns are
# not interleaved, whatever LLVM thinks; from `HEAVY` on, the rest of a loop is not worth code of its own, but
# its turns are masked, unless more than a fifth of it is not elementary functions: masked, what does not lie
# in order is slow.
SHORT, LONG, HEAVY, OTHER = 50, 100, 250, 0.2
FAR = 8  # elements between two turns above which a vector of turns is read one element at a time
LANES = 10  # instructions that reading or writing such a vector stands for
WHOLE, VECTORS = 150, 250  # instructions of all turns of a loop, or of a vectorized one, that are written out
# Of loops without functions: instructions of all turns up to which LLVM decides; those of a vectorized loop,
# and of its rest, up to which they may be written out; turns from which on a loop is worth LLVM's time.
PLAIN, PLAIN_VECTORS, PLAIN_REST, HOT = 200, 500, 100, 4096
_CALL = re.compile(r"call .*@eo\.(\w+)\.(f64|f32)\(")

# Of each module: a loop that is not interleaved; one whose last turns are masked; then loops with one turn or
# two at a time, those with the vectors written out or not, those with the rest written out or not. The last
# four are the same for loops of which LLVM decides how many turns are interleaved.
METADATA = """!0 = distinct !{!0, !10}
!1 = distinct !{!1, !10, !12, !13}
!2 = distinct !{!2, !10, !13, !15, !17}
!3 = distinct !{!3, !10, !13, !15, !18}
!4 = distinct !{!4, !10, !13, !16, !17}
!5 = distinct !{!5, !10, !13, !16, !18}
!6 = distinct !{!6, !11, !13, !15, !17}
!7 = distinct !{!7, !11, !13, !15, !18}
!8 = distinct !{!8, !11, !13, !16, !17}
!9 = distinct !{!9, !11, !13, !16, !18}
!10 = !{!"llvm.loop.interleave.count", i32 1}
!11 = !{!"llvm.loop.interleave.count", i32 2}
!12 = !{!"llvm.loop.vectorize.predicate.enable", i1 true}
!13 = !{!"llvm.loop.unroll.disable"}
!14 = !{!"llvm.loop.isvectorized", i32 1}
!15 = !{!"llvm.loop.vectorize.followup_vectorized", !14}
!16 = !{!"llvm.loop.vectorize.followup_vectorized", !14, !13}
!17 = !{!"llvm.loop.vectorize.followup_epilogue", !14}
!18 = !{!"llvm.loop.vectorize.followup_epilogue", !14, !13}
!19 = distinct !{!19, !20}
!20 = !{!"llvm.loop.vectorize.enable", i1 false}
!21 = distinct !{!21, !13, !15, !17}
!22 = distinct !{!22, !13, !15, !18}
!23 = distinct !{!23, !13, !16, !17}
!24 = distinct !{!24, !13, !16, !18}"""


def hint(lines: Sequence[str], turns: int | None, strides: Sequence[int]) -> str:
    """Return what the branch at the end of a loop says of it; `turns` is None where that is not known.

    `strides` are the elements by which its addresses move from turn to turn.
    """
    calls = [found.groups() for line in lines if "@eo." in line for found in _CALL.finditer(line)]
    called = sum(elementary.length(*call) for call in calls)
    if _is_spread(strides, called + sum(map(_computes, lines))):
        return ", !llvm.loop !19"
    length = len(lines) + called
    if not calls:
        return ", !llvm.loop !0" if length > LONG else _plain(lines, turns)
    registers = vectors()
    if length > HEAVY and registers.masks and len(lines) <= OTHER * length:
        return ", !llvm.loop !1"
    if turns is not None and turns * length <= WHOLE:
        return ", !llvm.loop !0"
    first = 6 if length <= SHORT else 2
    if turns is None:
        return f", !llvm.loop !{first + 3}"
    lanes = registers.size // max(int(dtype[1:]) // 8 for _, dtype in calls)
    many, rest = turns // lanes * length > VECTORS, turns % lanes * length > VECTORS
    return f", !llvm.loop !{first + 2 * many + rest}"


def _plain(lines: Sequence[str], turns: int | None) -> str:
    """Return what is said of a loop without functions: what LLVM writes out of it would rarely be faster.

    Loops over vectors are left to LLVM, and so are those with many turns.
    """
    if turns is None or turns > HOT or turns * len(lines) <= PLAIN or any("<" in line for line in lines):
        return ""
    lanes = vectors().size // (4 if any("float" in line for line in lines) else 8)
    many = turns // lanes * len(lines) > PLAIN_VECTORS
    rest = turns % lanes * len(lines) > PLAIN_REST
    return f", !llvm.loop !{21 + 2 * many + rest}"


def _is_spread(strides: Sequence[int], work: int) -> bool:
    """Whether turns shall not be the lanes of vectors, as these would take longer to read than to compute.

    LLVM finds vectors within a turn then, whose elements lie together.
    """
    return LANES * (sum(step > FAR for step in strides) - strides.count(1)) > work


def _computes(line: str) -> bool:
    """Whether a line computes with elements; others compute indices, read or write."""
    return "= f" in line or "= select" in line or "= call" in line
