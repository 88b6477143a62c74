"""The SNMP fast path: BER, store, requests, groups and sockets, compared with net-snmp and pysnmp."""
