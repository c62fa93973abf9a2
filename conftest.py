"""Settings for the whole suite."""

import gc
import os

# pytest-xdist already runs one process per core: BLAS threads on top would only compete with them.
# NumPy reads these when it is first imported, so they come before any other import.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("EVERYO_CACHE", "0")  # programs are compiled by the code under test

import pytest  # noqa: E402 - behind what NumPy reads when it is imported, as all of these
from hypothesis import settings  # noqa: E402 - likewise

import everyo.compiler  # noqa: E402, F401 - pytest finds the modules it collects doctests from already imported

# The same examples in every run, so that a red suite means a changed tree. To search for new ones:
# pytest --hypothesis-profile=explore
settings.register_profile("everyo", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("everyo")


def pytest_collection_finish() -> None:
    """Spare the collector the tests themselves, many thousands of objects that stay to the end."""
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
