"""Side-by-side benchmarks of EveryO and its peers.

``python -m benchmarks.eager`` measures eager execution, ``python -m benchmarks.compiled`` compiled functions;
see ``--help``. The parts:

- ``harness``: rows, measurements, interleaved timing, the agreement check;
- ``libraries``: one adapter for each library, so that a row is written once;
- ``functional``: their function transformations under shared names;
- ``chains``, ``loops``, ``networks``, ``transformations``, ``memory``, ``startup``: the rows, by subject;
- ``compiled``: programs, networks and GradBench's problems for EveryO, JAX and PyTorch;
- ``runner``: the command line, and one fresh process for each row;
- ``report``, ``environment``: the Markdown table and page, and what they say of the machine.

A new suite is a list of rows handed to ``runner.main``; ``eager`` is the example.
"""
