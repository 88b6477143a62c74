"""Applications that speak AMI, over real sockets, seen by SNMP, JMX, the command line and the event log."""
