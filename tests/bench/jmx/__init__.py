"""The JMX agent beside platform MXBeans in the same virtual machine, read over the same connector.

What is measured is the process ``jmx`` as it is deployed, with login and serial filters. A launcher of the
benchmark's (named under ``jmx.java`` in the configuration) starts its virtual machine with a Java agent more,
which registers the MXBeans; nothing of the gateway knows of it.
"""
