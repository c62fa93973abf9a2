"""EveryO as a tool for GradBench, and the measurement of its problems against peers.

``python -m benchmarks.gradbench`` answers GradBench's messages (one JSON object a line) on standard
input and output; ``python -m benchmarks.gradbench.measure`` times the problems in one process. The parts:

- ``hello``, ``lse``, ``llsq``, ``gmm``, ``ode``, ``kmeans``, ``lstm``, ``ba``, ``ht``: one problem each, as
  plain array code, its derivatives, and how its input and output are read and written;
- ``function``: what describes a function of a problem; ``tool``: the protocol;
- ``inputs``: generators of inputs, and readers of GradBench's data files, which are not kept here;
- ``peers``: the same problems in JAX; ``cases``: the measured sizes, with the times of hand-written C++.
"""
