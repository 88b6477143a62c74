"""What the gateway measures of itself, for Prometheus: one endpoint for all its processes.

A process answers with counters that it has anyway; nothing is written in between. The supervisor asks over
the lifeline of each process, so there is no reading of a process that has died.
Which families there are stands in `families`, and nowhere else; how they travel over HTTP in `endpoint`.
"""
