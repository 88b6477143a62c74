"""What can go wrong with the virtual machine, in words for people."""

from __future__ import annotations


class JmxError(Exception):
    """The virtual machine cannot do its work; the text says what happened and what to do."""


class JavaMissingError(JmxError):
    """There is no Java runtime, or none that is new enough, or nothing to compile our classes with."""


class ListenError(JmxError):
    """The address of the JMX agent is taken or not permitted."""


class MachineEndedError(JmxError):
    """The virtual machine has ended or was ended, so nothing can be asked of it; start another."""
