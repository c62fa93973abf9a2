"""Compiled programs on disk: found again by other processes, and never a reason to fail."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import everyo as eo
from everyo import cli
from everyo.compiler import cache, native
from everyo.compiler.native import object_code
from everyo.compiler.program import entrance

KEY, OTHER = "a" * 64, "b" * 64
MODULE = 'define i32 @answer() {\n  ret i32 42\n}\nattributes #0 = { "n"="%d" }\n'

PROGRAM = """
import numpy as np, everyo as eo
from everyo.compiler import native
compiled, real = [], native.optimized
native.optimized = lambda text: compiled.append(text) or real(text)

@eo.compile
def f(x, w):
    eo.debug_print("w {}", w[0, 0])
    return eo.grad(lambda x: (eo.exp(x) @ w).sum())(x)

x, w = np.linspace(0.0, 1.0, 900).reshape(30, 30), np.eye(30) * 4.0
g = f(eo.asarray(x), eo.asarray(w))
np.testing.assert_allclose(g.numpy(), 4.0 * np.exp(x), 1e-14)
print(len(compiled))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache that is in use; what all programs share is there already."""
    entrance()
    place = tmp_path / "cache"
    monkeypatch.setenv("EVERYO_CACHE", "1")
    monkeypatch.setenv("EVERYO_CACHE_DIR", str(place))
    return place


@pytest.fixture
def compiled(monkeypatch):
    """The texts that LLVM has compiled."""
    texts, real = [], native.optimized

    def noted(text):
        texts.append(text)
        return real(text)

    monkeypatch.setattr(native, "optimized", noted)
    return texts


def start(place, seed="0"):
    environment = {**os.environ, "EVERYO_CACHE": "1", "EVERYO_CACHE_DIR": str(place), "PYTHONHASHSEED": seed}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out.splitlines()


# ---- processes


def test_another_process_finds_the_program(folder):
    assert finish(start(folder, "1")) == ["w 4.0", "2"]  # the program, and the way into all of them
    assert finish(start(folder, "2")) == ["w 4.0", "0"]
    assert cache.info().programs == 3  # with the direct call, which is hardly optimized


def test_processes_that_compile_at_once(folder):
    processes = [start(folder, str(i)) for i in range(3)]
    assert [finish(p)[0] for p in processes] == ["w 4.0"] * 3
    assert [p.suffix for p in folder.iterdir()] == [".everyo"] * 3


def test_nothing_in_a_program_is_an_address(folder, compiled):
    eo.compile(lambda x: x + 1)(eo.asarray(np.ones(3)))
    assert compiled
    for number in (id(np.ndarray), id(np.dtype(np.float64))):
        assert str(number) not in compiled[0]


# ---- one process


def test_a_program_is_compiled_once(folder, compiled):
    for _ in range(3):
        out = eo.compile(lambda x: x * 3)(eo.asarray([1.0, 2.0]))
        np.testing.assert_array_equal(out.numpy(), [3.0, 6.0])
    assert len(compiled) == 1


def test_what_was_stored_is_loaded(folder):
    assert cache.load(KEY) is None
    cache.store(KEY, b"some code")
    assert cache.load(KEY) == b"some code"
    assert cache.load(OTHER) is None
    cache.store(KEY, b"")
    assert cache.load(KEY) == b""


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d[:20], lambda d: b"", lambda d: d + b"x",
                                    lambda d: d[:-3] + b"?" + d[-2:], lambda d: b"?" + d[1:]])  # fmt: skip
def test_a_damaged_entry_is_removed(folder, change):
    cache.store(KEY, b"some code that is long enough")
    path = next(folder.iterdir())
    path.write_bytes(change(path.read_bytes()))
    assert cache.load(KEY) is None
    assert not path.exists()


def test_a_damaged_program_is_compiled_again(folder, compiled):
    def result():
        return eo.compile(lambda x: x - 1)(eo.asarray([4.0])).item()

    assert result() == 3.0
    path = next(folder.iterdir())
    path.write_bytes(path.read_bytes()[:-5] + b"wrong")
    assert result() == 3.0
    assert result() == 3.0
    assert len(compiled) == 2


def test_each_thing_that_code_depends_on_makes_another_entry(folder, compiled, monkeypatch):
    object_code(MODULE % 0)
    object_code(MODULE % 0)
    assert len(compiled) == 1
    object_code(MODULE % 0, native.QUICKEST)
    object_code(MODULE % 1)
    monkeypatch.setattr(eo, "__version__", "0.0.0")
    object_code(MODULE % 0)
    monkeypatch.setitem(native.PIPELINE, "speed_level", 2)
    object_code(MODULE % 0)
    host = native.host()
    monkeypatch.setattr(native, "host", lambda: host._replace(cpu="another"))
    native._generator.cache_clear()
    object_code(MODULE % 0)
    native._generator.cache_clear()
    assert len(compiled) == 5
    assert cache.info().programs == 6


def test_keys_keep_their_parts_apart():
    assert cache.key_of("ab", "c") != cache.key_of("a", "bc")
    assert cache.key_of("a", "") != cache.key_of("a")


# ---- where and whether


def test_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("EVERYO_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification ignores such a value
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.folder() == tmp_path / ".cache" / "everyo"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "everyo"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == tmp_path / "Library" / "Caches" / "everyo"
    monkeypatch.setenv("EVERYO_CACHE_DIR", str(tmp_path / "mine"))
    assert cache.folder() == tmp_path / "mine"


def test_without_a_home(monkeypatch):
    def missing():
        raise RuntimeError("no home")

    monkeypatch.delenv("EVERYO_CACHE_DIR", raising=False)
    monkeypatch.setenv("EVERYO_CACHE", "1")
    monkeypatch.setattr(Path, "home", missing)
    cache.store(KEY, b"code")
    assert cache.load(KEY) is None
    assert cache.info() == (None, True, 0, 0)
    assert cache.clear() == 0


@pytest.mark.parametrize("value", ["0", "false", "Off", "no"])
def test_turned_off(folder, monkeypatch, value):
    monkeypatch.setenv("EVERYO_CACHE", value)
    cache.store(KEY, b"code")
    assert cache.load(KEY) is None
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("EVERYO_CACHE", "1")
    monkeypatch.setenv("EVERYO_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert eo.compile(lambda x: x * 2)(eo.asarray([4.0])).item() == 8.0
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk(folder, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    cache.store(KEY, b"code")
    assert list(folder.iterdir()) == []


def test_only_the_owner_reads_it(folder):
    cache.store(KEY, b"code")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_an_entry_under_another_name_is_a_miss(folder):
    cache.store(KEY, b"code")
    other = "f" * 64
    (folder / f"{KEY}.everyo").rename(folder / f"{other}.everyo")
    assert cache.load(other) is None
    assert not (folder / f"{other}.everyo").exists()


# ---- size


def test_what_was_read_least_recently_goes_first(folder, monkeypatch):
    size = len(cache.MAGIC) + 32 + 100
    monkeypatch.setattr(cache, "LIMIT", 3 * size)
    keys = [letter * 64 for letter in "abcd"]
    for age, key in enumerate(keys[:3]):
        cache.store(key, bytes(100))
        past = time.time() - 1000 + age
        os.utime(folder / f"{key}.everyo", (past, past))
    assert cache.load(keys[0]) is not None  # now the youngest
    cache.store(keys[3], bytes(100))
    assert [cache.load(key) is not None for key in keys] == [True, False, True, True]


def test_what_dead_writers_left_is_removed(folder):
    cache.store(KEY, b"code")
    old, new = folder / "old.everyo.tmp", folder / "new.everyo.tmp"
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.store(OTHER, b"code")
    assert (old.exists(), new.exists()) == (False, True)


def test_a_large_folder_is_not_looked_through_for_each_entry(folder, monkeypatch):
    looks, real = [], os.scandir

    def scandir(place):
        looks.append(place)
        return real(place)

    monkeypatch.setattr(cache.os, "scandir", scandir)
    for i in range(300):
        cache.store(f"{i:064}", b"code")
    few = len(looks)
    assert 60 < few < 200  # for each of the first 64, for every second one of the next 64, and so on
    monkeypatch.setattr(cache, "LIMIT", 1)
    for i in range(300, 310):
        cache.store(f"{i:064}", b"code")
    assert cache.info().programs < 10  # soon after it has grown too large


def test_readers_and_writers_at_once(folder):
    payloads = [bytes([i]) * 50_000 for i in range(8)]

    def work(i):
        for _ in range(30):
            cache.store(KEY, payloads[i])
            assert cache.load(KEY) in payloads

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert [p.suffix for p in folder.iterdir()] == [".everyo"]


# ---- the command


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["everyo", "cache", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 0


def test_clear_leaves_what_is_not_its_own(folder, monkeypatch, capsys):
    cache.store(KEY, b"code")
    cache.store(OTHER, b"code")
    (folder / "notes.txt").write_text("mine")
    call(monkeypatch, "clear")
    assert capsys.readouterr().out == f"2 programs removed from {folder}\n"
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]


def test_info(folder, monkeypatch, capsys):
    cache.store(KEY, bytes(3 << 20))
    call(monkeypatch, "info")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"folder    {folder}", "programs  1", "size      3.0 MiB of at most 512 MiB"]
    monkeypatch.setenv("EVERYO_CACHE", "0")
    call(monkeypatch, "info")
    assert "not in use" in capsys.readouterr().out
