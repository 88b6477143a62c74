"""A gateway from AMQP management protocols to SNMP, JMX and Spark.

The layers and the direction of their imports are described in ``docs/architecture.md``; each folder's
docstring says what belongs there and what must not.
"""
