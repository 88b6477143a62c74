"""The demonstration: a RabbitMQ of our own, a small workload on it, and the Debian packages that it needs.

Nothing here is needed to run a gateway; nothing outside this folder, the command line and the tests imports
it. Everything that is started here is ended here, however the process that started it ends.
"""
