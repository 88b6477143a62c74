"""Outcomes of operations on a real RabbitMQ, in SNMP, JMX, the command line and the log."""
