"""MIB modules as text: generated from OID registries, and checked with the tools that users have.

The one module written by hand is ``mibs/AMQP-GATEWAY-MIB.mib``; `gateway.snmp.fixed_mib` has its numbers.
Files are called ``<module>.mib``: smilint, pysmi, Erlang's compiler and net-snmp all find them so.
"""
