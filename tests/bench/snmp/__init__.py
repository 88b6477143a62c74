"""The SNMP agent beside net-snmp's, pysnmp's and a bare echo: processor time for each request."""
