"""The JMX agent beside platform MXBeans in the same virtual machine, read over the same connector.

The process ``jmx`` is measured as it is deployed, with login and serial filters. A launcher of the
benchmark's (named under ``jmx.java`` in the configuration) starts its virtual machine with a Java agent more,
which registers the MXBeans; the gateway does not know of it.
"""
