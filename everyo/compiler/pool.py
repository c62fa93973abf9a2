"""Threads that compiled programs share: native ones, which know nothing of Python.

A program hands over a function of one chunk of its work and the number of chunks; the calling thread and
the pool's threads take chunks until none is left. One program uses the pool at a time; another one that
comes meanwhile works through its chunks alone, and so does a program that may use one thread only. Which
thread takes a chunk changes nothing about its result.

Threads are started when they are first needed, wait in the kernel, take no signals, and end before a fork
and at the end of the process. A child process that was forked in some other way finds a pool without threads.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import signal

from everyo.compiler.native import Code
from everyo.errors import ArgumentError

VARIABLE = "EVERYO_NUM_THREADS"
MOST = 255  # threads besides the caller's
STACK = 16 << 20  # bytes for each thread: kernels keep rows there
SPIN = 400  # looks at whether the others are done, before waiting for them


def count() -> int:
    """Return how many threads a program uses unless it is told: those this process may run at once."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return checked(chosen, VARIABLE)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked(threads: object, name: str) -> int:
    """Return a number of threads; ArgumentError unless it is a whole number above zero."""
    try:
        number = int(str(threads))
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentError(
            f"{name} is not a number of threads",
            operation="compile",
            expected="a whole number, at least 1",
            found=repr(threads),
            remedy="1 keeps everything on the calling thread",
        )
    return number


def runner() -> int:
    """Return the address of ``run(threads, function, context, chunks)``; the pool is there from now on."""
    return _pool().address("everyo_run")


@functools.cache
def _pool() -> Code:
    code = Code(_text() if os.name == "posix" else ALONE)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # threads may be in it until the process has ended
    stop = ctypes.CFUNCTYPE(None)(code.address("everyo_stop"))
    atexit.register(stop)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=stop)
    return code


# What stands for the pool where there are no threads of POSIX.
ALONE = """\
define void @everyo_run(i64 %threads, ptr %function, ptr %context, i64 %chunks) {
entry:
  br label %loop
loop:
  %chunk = phi i64 [ 0, %entry ], [ %following, %body ]
  %more = icmp slt i64 %chunk, %chunks
  br i1 %more, label %body, label %end
body:
  call void %function(ptr %context, i64 %chunk)
  %following = add i64 %chunk, 1
  br label %loop
end:
  ret void
}

define void @everyo_stop() {
  ret void
}
"""


def _text() -> str:
    return f"""\
@lock = internal global [128 x i8] zeroinitializer, align 64
@work = internal global [128 x i8] zeroinitializer, align 64
@done = internal global [128 x i8] zeroinitializer, align 64
@process = internal global i32 0
@busy = internal global i32 0
@stopping = internal global i32 0
@started = internal global i64 0
@handles = internal global [{MOST} x i64] zeroinitializer
@function = internal global ptr null
@context = internal global ptr null
@chunks = internal global i64 0
@places = internal global i64 0
@running = internal global i64 0, align 64
@next = internal global i64 0, align 64

declare i32 @getpid()
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i64 @llvm.smin.i64(i64, i64)

; Take chunks until none is left.
define internal void @take(ptr %function, ptr %context, i64 %chunks) {{
entry:
  br label %loop
loop:
  %chunk = atomicrmw add ptr @next, i64 1 acq_rel
  %more = icmp slt i64 %chunk, %chunks
  br i1 %more, label %body, label %exit
body:
  call void %function(ptr %context, i64 %chunk)
  br label %loop
exit:
  ret void
}}

; What a thread does: wait for a place in some work, help, wait again.
define internal ptr @help(ptr %unused) {{
entry:
  %e = call i32 @pthread_mutex_lock(ptr @lock)
  br label %look
look:
  %places = load i64, ptr @places
  %wanted = icmp sgt i64 %places, 0
  br i1 %wanted, label %join, label %idle
idle:
  %stopping = load i32, ptr @stopping
  %leaving = icmp ne i32 %stopping, 0
  br i1 %leaving, label %leave, label %sleep
sleep:
  %s = call i32 @pthread_cond_wait(ptr @work, ptr @lock)
  br label %look
join:
  %rest = sub i64 %places, 1
  store i64 %rest, ptr @places
  %j = atomicrmw add ptr @running, i64 1 acq_rel
  %function = load ptr, ptr @function
  %context = load ptr, ptr @context
  %chunks = load i64, ptr @chunks
  %u = call i32 @pthread_mutex_unlock(ptr @lock)
  call void @take(ptr %function, ptr %context, i64 %chunks)
  %l = call i32 @pthread_mutex_lock(ptr @lock)
  %others = atomicrmw sub ptr @running, i64 1 acq_rel
  %last = icmp eq i64 %others, 1
  br i1 %last, label %tell, label %look
tell:
  %t = call i32 @pthread_cond_signal(ptr @done)
  br label %look
leave:
  %w = call i32 @pthread_mutex_unlock(ptr @lock)
  ret ptr null
}}

; Start one thread, which takes no signals; return 0 if that worked.
define internal i32 @start() {{
  %attributes = alloca [128 x i8], align 64
  %all = alloca [128 x i8], align 64
  %before = alloca [128 x i8], align 64
  %a = call i32 @pthread_attr_init(ptr %attributes)
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {STACK})
  %c = call i32 @sigfillset(ptr %all)
  %d = call i32 @pthread_sigmask(i32 {int(signal.SIG_SETMASK)}, ptr %all, ptr %before)
  %number = load i64, ptr @started
  %handle = getelementptr i64, ptr @handles, i64 %number
  %code = call i32 @pthread_create(ptr %handle, ptr %attributes, ptr @help, ptr null)
  %e = call i32 @pthread_sigmask(i32 {int(signal.SIG_SETMASK)}, ptr %before, ptr null)
  %f = call i32 @pthread_attr_destroy(ptr %attributes)
  %good = icmp eq i32 %code, 0
  %one = zext i1 %good to i64
  %after = add i64 %number, %one
  store i64 %after, ptr @started
  ret i32 %code
}}

; Make sure that the pool is this process's own; return whether it is free, and take possession of it then.
define internal i1 @claim() {{
entry:
  %mine = call i32 @getpid()
  %owner = load atomic i32, ptr @process acquire, align 4
  %same = icmp eq i32 %owner, %mine
  br i1 %same, label %own, label %foreign
foreign:
  %free = icmp ne i32 %owner, -1
  br i1 %free, label %try, label %no
try:
  %swapped = cmpxchg ptr @process, i32 %owner, i32 -1 acq_rel monotonic
  %won = extractvalue {{i32, i1}} %swapped, 1
  br i1 %won, label %renew, label %no
renew:
  %a = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %b = call i32 @pthread_cond_init(ptr @work, ptr null)
  %c = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i64 0, ptr @started
  store i64 0, ptr @places
  store i32 0, ptr @stopping
  store atomic i64 0, ptr @running release, align 8
  store atomic i32 0, ptr @busy release, align 4
  store atomic i32 %mine, ptr @process release, align 4
  br label %own
own:
  %claimed = cmpxchg ptr @busy, i32 0, i32 1 acq_rel monotonic
  %got = extractvalue {{i32, i1}} %claimed, 1
  ret i1 %got
no:
  ret i1 false
}}

define void @everyo_run(i64 %threads, ptr %function, ptr %context, i64 %chunks) {{
entry:
  %useful = call i64 @llvm.smin.i64(i64 %threads, i64 %chunks)
  %others = sub i64 %useful, 1
  %helpers = call i64 @llvm.smin.i64(i64 %others, i64 {MOST})
  %several = icmp sgt i64 %helpers, 0
  br i1 %several, label %ask, label %alone
ask:
  %got = call i1 @claim()
  br i1 %got, label %grow, label %alone
grow:
  %started = load i64, ptr @started
  %few = icmp slt i64 %started, %helpers
  br i1 %few, label %add, label %post
add:
  %failed = call i32 @start()
  %works = icmp eq i32 %failed, 0
  br i1 %works, label %grow, label %post
post:
  %a = call i32 @pthread_mutex_lock(ptr @lock)
  store ptr %function, ptr @function
  store ptr %context, ptr @context
  store i64 %chunks, ptr @chunks
  store atomic i64 0, ptr @next release, align 8
  store i64 %helpers, ptr @places
  %b = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %wake
wake:
  %k = phi i64 [ 0, %post ], [ %k1, %wake ]
  %c = call i32 @pthread_cond_signal(ptr @work)
  %k1 = add i64 %k, 1
  %all = icmp sge i64 %k1, %helpers
  br i1 %all, label %run, label %wake
run:
  call void @take(ptr %function, ptr %context, i64 %chunks)
  br label %spin
spin:
  %turn = phi i64 [ 0, %run ], [ %turn1, %again ]
  %left = load atomic i64, ptr @running acquire, align 8
  %none = icmp eq i64 %left, 0
  br i1 %none, label %close, label %again
again:
  %turn1 = add i64 %turn, 1
  %long = icmp sge i64 %turn1, {SPIN}
  br i1 %long, label %close, label %spin
close:
  %d = call i32 @pthread_mutex_lock(ptr @lock)
  store i64 0, ptr @places
  br label %look
look:
  %still = load atomic i64, ptr @running acquire, align 8
  %ended = icmp eq i64 %still, 0
  br i1 %ended, label %leave, label %sleep
sleep:
  %e = call i32 @pthread_cond_wait(ptr @done, ptr @lock)
  br label %look
leave:
  %f = call i32 @pthread_mutex_unlock(ptr @lock)
  store atomic i32 0, ptr @busy release, align 4
  ret void
alone:
  %chunk = phi i64 [ 0, %entry ], [ 0, %ask ], [ %following, %turn2 ]
  %more = icmp slt i64 %chunk, %chunks
  br i1 %more, label %turn2, label %end
turn2:
  call void %function(ptr %context, i64 %chunk)
  %following = add i64 %chunk, 1
  br label %alone
end:
  ret void
}}

; End all threads, unless some program uses them; they are started again when they are needed.
define void @everyo_stop() {{
entry:
  %owner = load atomic i32, ptr @process acquire, align 4
  %mine = call i32 @getpid()
  %same = icmp eq i32 %owner, %mine
  br i1 %same, label %ask, label %end
ask:
  %got = call i1 @claim()
  br i1 %got, label %stop, label %end
stop:
  %a = call i32 @pthread_mutex_lock(ptr @lock)
  store i32 1, ptr @stopping
  %b = call i32 @pthread_mutex_unlock(ptr @lock)
  %c = call i32 @pthread_cond_broadcast(ptr @work)
  %count = load i64, ptr @started
  br label %look
look:
  %k = phi i64 [ 0, %stop ], [ %k1, %join ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %join, label %stopped
join:
  %place = getelementptr i64, ptr @handles, i64 %k
  %handle = load i64, ptr %place
  %d = call i32 @pthread_join(i64 %handle, ptr null)
  %k1 = add i64 %k, 1
  br label %look
stopped:
  store i64 0, ptr @started
  store i32 0, ptr @stopping
  store atomic i32 0, ptr @busy release, align 4
  br label %end
end:
  ret void
}}
"""
