"""What the gateway measures of itself, for Prometheus: one endpoint for all its processes.

A process counts what it does anyway and tells it only when it is asked; nothing is written anywhere in
between. The supervisor asks over the lifeline of each process, so what has died is not told any more.
Which families there are stands in `families`, and nowhere else; how they travel over HTTP in `endpoint`.
"""
