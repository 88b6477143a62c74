"""Sources of kind cml from the broker to net-snmp: an OpenAMQ, and a server of CML beside a RabbitMQ."""
