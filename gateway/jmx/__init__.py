"""The JMX north: the feed as MBeans in a JVM of the gateway's own.

Values live in the JVM, so that no read ever comes back to Python: Python pushes batches of commands
(`commands`), and the JVM calls back only to prove who somebody is. What knows the feed and what knows the
JVM do not know each other: they meet in `commands`.
"""
