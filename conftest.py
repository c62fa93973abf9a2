"""Settings for the whole suite."""

import gc
import os
import shutil
import tempfile

# pytest-xdist already runs one process per core: BLAS threads on top would only compete with them.
# NumPy reads these when it is first imported, so they come before any other import.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# Programs are compiled by the code under test, and one that several tests compile only once: workers share
# a cache that begins empty and goes with the session.
_cache = ""
if "PYTEST_XDIST_WORKER" not in os.environ and "EVERYO_CACHE" not in os.environ:
    _cache = tempfile.mkdtemp(prefix="everyo-tests-")
    os.environ.update(EVERYO_CACHE="1", EVERYO_CACHE_DIR=_cache)

import pytest  # noqa: E402 - behind what NumPy reads when it is imported, as all of these
from hypothesis import settings  # noqa: E402 - likewise

import everyo.compiler  # noqa: E402, F401 - pytest finds the modules it collects doctests from already imported

gc.set_threshold(20_000, 20, 20)  # few of the many objects that tests make stay

# The same examples in every run, so that a red suite means a changed tree. To search for new ones:
# pytest --hypothesis-profile=explore
settings.register_profile("everyo", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("everyo")


def pytest_unconfigure() -> None:
    """Remove the session's cache."""
    if _cache:
        shutil.rmtree(_cache, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the collector the tests themselves, many thousands of objects that stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _frozen_past():
    """Spare the collector what earlier modules have left: reports, caches, hypotheses."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _verified_graphs():
    """Look at what each pass of the compiler leaves of a graph, where no test watches the passes itself."""
    from everyo.compiler.graph import verify
    from everyo.compiler.passes import watch

    token = watch.set(lambda name, graph: verify(graph, core=not name.startswith("traced")))
    yield
    watch.reset(token)
