"""The demonstration: a RabbitMQ of our own, a small workload on it, and what Debian packages it takes.

Nothing here is needed to run a gateway; nothing outside this folder, the command line and the tests
imports it. What is started here is ended here, whatever becomes of the process that asked for it.
"""
