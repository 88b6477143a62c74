"""Metrics of the gateway itself, for Prometheus: one endpoint for all its processes.

A process answers with counters that it has anyway; nothing is written in between. The supervisor asks over
the lifeline of each process, so there is no reading of a process that has died. Only `families` defines
families; `endpoint` serves them over HTTP.
"""
