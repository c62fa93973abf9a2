"""Rare arguments: a slow evaluation that a vectorized loop reaches without losing its vectors.

The usual result is computed without branches. It is then passed, with the argument, to a helper that
returns it unless the argument is rare. The helper's versions for vectors compare once for the whole vector
and branch; only with a rare element in it they go lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable

from everyo.compiler.elementary.builder import Code, Value, literal

_ATTRIBUTES = "nounwind willreturn memory(none)"


def where_large(name: str, x: Value, usual: Value, bound: float, slow: Callable[[Value], Value]) -> Value:
    """Return `usual`, but ``slow(x)`` where ``|x| > bound``; the helper is called `name`."""
    code, kind = x.code, x.kind
    suffix = "f64" if kind == "double" else "f32"
    helper = f"@eo.{name}.rare.{suffix}"
    if helper not in code.globals:
        code.globals[helper] = _scalar(code, helper, kind, suffix, bound, slow)
    if code.lanes > 1:
        code.globals.setdefault(f"{helper}.each", _each(helper, kind))
        version = f"{helper}.v{code.lanes}"
        code.globals[version] = _vector(code, helper, version, kind, suffix, bound, code.lanes)
        helper = version
    return code.call(helper, kind, x, usual, attributes=f" {_ATTRIBUTES}")


def _scalar(
    code: Code, helper: str, kind: str, suffix: str, bound: float, slow: Callable[[Value], Value]
) -> str:
    """Return the helper for one element."""
    inner = Code()
    result = slow(Value(inner, kind, "%x"))
    code.declared |= inner.declared
    code.globals |= inner.globals
    code.declared.add(f"declare {kind} @llvm.fabs.{suffix}({kind})")
    return "\n".join(
        [
            f"define internal {kind} {helper}({kind} %x, {kind} %usual) noinline {_ATTRIBUTES} {{",
            "entry:",
            f"  %size = call {kind} @llvm.fabs.{suffix}({kind} %x)",
            f"  %rare = fcmp ogt {kind} %size, {literal(bound, kind)}",
            "  br i1 %rare, label %slow, label %done",
            "slow:",
            *inner.lines,
            "  br label %done",
            "done:",
            f"  %result = phi {kind} [ %usual, %entry ], [ {result.name}, %slow ]",
            f"  ret {kind} %result",
            "}",
        ]
    )


def _each(helper: str, kind: str) -> str:
    """Return the function that applies the helper to `n` elements and replaces their usual results."""
    return f"""define internal void {helper}.each(ptr %xs, ptr %results, i64 %n) noinline nounwind {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr {kind}, ptr %xs, i64 %i
  %to = getelementptr {kind}, ptr %results, i64 %i
  %x = load {kind}, ptr %from
  %usual = load {kind}, ptr %to
  %result = call {kind} {helper}({kind} %x, {kind} %usual)
  store {kind} %result, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}"""


def _vector(code: Code, helper: str, version: str, kind: str, suffix: str, bound: float, lanes: int) -> str:
    """Return the helper for a vector."""
    vector = f"<{lanes} x {kind}>"
    bounds = ", ".join([f"{kind} {literal(bound, kind)}"] * lanes)
    code.declared.add(f"declare {vector} @llvm.fabs.v{lanes}{suffix}({vector})")
    code.declared.add(f"declare i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1>)")
    return f"""define internal {vector} {version}({vector} %x, {vector} %usual) noinline {_ATTRIBUTES} {{
entry:
  %xs = alloca {vector}
  %results = alloca {vector}
  %size = call {vector} @llvm.fabs.v{lanes}{suffix}({vector} %x)
  %each = fcmp ogt {vector} %size, <{bounds}>
  %rare = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> %each)
  br i1 %rare, label %slow, label %done
slow:
  store {vector} %x, ptr %xs
  store {vector} %usual, ptr %results
  call void {helper}.each(ptr %xs, ptr %results, i64 {lanes})
  %changed = load {vector}, ptr %results
  br label %done
done:
  %result = phi {vector} [ %usual, %entry ], [ %changed, %slow ]
  ret {vector} %result
}}"""
