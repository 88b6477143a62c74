"""What becomes of operations on a real RabbitMQ, as SNMP, JMX, the command line and the log tell it."""
