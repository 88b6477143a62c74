"""SNMP version 3 with the User-based Security Model (RFC 3411, RFC 3412, RFC 3414), without I/O."""
