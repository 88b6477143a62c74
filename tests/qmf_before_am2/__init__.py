"""Sources of kind am01 from agents on a live RabbitMQ to net-snmp."""
