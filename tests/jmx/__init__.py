"""The JMX projection: feed messages in, commands out; and the process, with a real virtual machine."""
