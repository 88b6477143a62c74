"""The command table: methods of objects, called by SET in the manner of DISMAN-SCRIPT-MIB (RFC 3165).

No socket, no clock, no request of SNMP: what a SET asks for comes in as names and values, and what is to be
asked of the core goes out as operations.
"""
