"""Benchmarks: the gateway beside other programs of the same purpose, in the same rounds on one machine.

This package has the common parts of all benchmarks: rounds, readings, rows, the page. Each benchmark has a
folder or module of its own; `tests.bench.benchmarks` names them all.
"""
