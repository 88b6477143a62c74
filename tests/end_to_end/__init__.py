"""The whole gateway against a live RabbitMQ, looked at with net-snmp's commands."""
