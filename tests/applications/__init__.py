"""Applications that use AMI over real sockets, as shown by SNMP, JMX, the command line and the event log."""
