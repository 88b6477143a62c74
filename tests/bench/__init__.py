"""Benchmarks: what we do beside others who do the same, in the same rounds on the same machine.

Here lives what every benchmark needs: rounds, readings, rows, the page. What is compared, and how, lives in a
folder or module for each benchmark; `tests.bench.benchmarks` names them all.
"""
