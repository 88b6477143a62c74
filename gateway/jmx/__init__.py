"""The JMX front end: the feed as MBeans of a Java virtual machine.

The values are in the virtual machine, so that no read comes back to Python. Python pushes batches of commands
(`commands`); the virtual machine calls back for logins and for operations (`backend`). `projection` makes the
commands, and `virtual_machine` runs the process that carries them out.
"""
