"""SET: values written, statuses, the two phases, retransmissions, and net-snmp's own command."""
