"""The command table: methods of objects, called by SET in the manner of DISMAN-SCRIPT-MIB (RFC 3165).

The package has no socket, no clock and no codec of SNMP: a SET comes in as names and values, and requests
to the core go out as operations.
"""
