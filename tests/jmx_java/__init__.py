"""The virtual machine of the JMX agent, seen by Java clients in a virtual machine of their own."""
