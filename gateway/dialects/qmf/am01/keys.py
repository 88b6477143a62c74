"""Routing keys of AM01 and AM1, and the revisions that use each form.

========================================  =========================================
key                                       used by
========================================  =========================================
``mgmt.<type>.<class>``                   November 2007 to February 2008
``mgmt.<type>.<package>.<class>``         the design notes (events: ``.<severity>`` behind it)
``mgmt.<agent's UUID>.<type>.<class>``    March 2008
``method.<package>.<class>.<method>``     the design notes, November 2007, January 2008
``agent.method.<package>.<class>.<method>``  February and March 2008
``agent``                                 February and March 2008
========================================  =========================================

``<type>`` is ``schema``, ``config``, ``inst`` or ``event``. All other keys are reply queues. Sources: Apache
Qpid management design notes ("Routing Key Structure"); agents of February and March 2008.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.am01.messages import ALL, Revision
from gateway.dialects.qmf.am01.schemas import event_name
from gateway.model.schema import ClassKey

COMMAND_KEY: Final = "agent"
"""The key of all requests to an agent of February or March 2008, except for methods."""

_METHOD_PREFIXES: Final = {
    "method.": frozenset((Revision.DESIGN_NOTES, Revision.NOVEMBER_2007, Revision.JANUARY_2008)),
    "agent.method.": frozenset((Revision.FEBRUARY_2008, Revision.MARCH_2008)),
}
_COMMANDED: Final = frozenset((Revision.FEBRUARY_2008, Revision.MARCH_2008))
_AM1: Final = frozenset((Revision.MARCH_2008,))
_UNSOLICITED: Final = re.compile(
    r"mgmt\.(?:(?P<agent>[0-9a-fA-F-]{36})\.)?(?P<type>schema|config|inst|event)\.(?P<rest>.+)", re.DOTALL
)

_SEVERITIES: Final = {"critical": 2, "error": 3, "warning": 4, "info": 6}
_SEVERITY_WORDS: Final = ("critical", "critical", "critical", "error", "warning", "info", "info", "info")


@dataclass(frozen=True, slots=True)
class Address:
    """The contents of a routing key.

    Attributes:
        revisions: the revisions that use such a key.
        subject: the text after the type in an unsolicited key; empty in all others.
        severity: the severity of an event, as a syslog level; ``None`` where the key has none.
        method: package, class and method of a call; missing parts are empty, as are those of other keys.
        calls: whether it is the key of a call.
    """

    revisions: frozenset[Revision]
    subject: str = ""
    severity: int | None = None
    method: tuple[str, str, str] = ("", "", "")
    calls: bool = False

    def agrees(self, revision: Revision, key: ClassKey) -> bool:
        """Return whether a record of this class belongs under the unsolicited key, by ``revision``."""
        full = revision is Revision.DESIGN_NOTES
        return self.subject == (f"{key.package}.{key.name}" if full else key.name)


@lru_cache(maxsize=4096)
def read_key(routing_key: str) -> Address:
    """Return the contents of a routing key; every text has some."""
    if routing_key == COMMAND_KEY:
        return Address(_COMMANDED)
    for prefix, revisions in _METHOD_PREFIXES.items():
        if routing_key.startswith(prefix):
            # As in agents: a method's name may contain dots, a package cannot.
            package, name, method = (*routing_key[len(prefix) :].split(".", 2), "", "")[:3]
            return Address(revisions, method=(package, name, method), calls=True)
    found = _UNSOLICITED.fullmatch(routing_key)
    if found is None:
        return Address(ALL)
    revisions = _AM1 if found["agent"] else ALL - _AM1
    subject, severity = found["rest"], None
    if found["type"] == "event":
        head, _, word = subject.rpartition(".")
        if word in _SEVERITIES:
            subject, severity = head, _SEVERITIES[word]
    return Address(revisions, subject, severity)


def content_key(revision: Revision, kind: str, key: ClassKey, agent: UUID | None = None) -> str:
    """Return the routing key of a broadcast schema, or of content.

    Args:
        revision: the revision of the agent.
        kind: ``schema``, ``config`` or ``inst``.
        key: the class.
        agent: the broker's UUID, which only keys of March 2008 contain.

    Raises:
        LocalProtocolError: the UUID is required and missing.
    """
    name = f"{key.package}.{key.name}" if revision is Revision.DESIGN_NOTES else key.name
    return f"mgmt.{_agent(revision, agent)}{kind}.{name}"


def package_key(revision: Revision, agent: UUID | None = None) -> str:
    """Return the routing key of unsolicited packages; raise as `content_key`."""
    return f"mgmt.{_agent(revision, agent)}schema.package"


def _agent(revision: Revision, agent: UUID | None) -> str:
    if revision is not Revision.MARCH_2008:
        return ""
    if agent is None:
        raise LocalProtocolError("keys of AM1 need the broker's UUID")
    return f"{agent}."


def event_routing_key(key: ClassKey, severity: int) -> str:
    """Return the routing key of an event (`schemas.event_key`); ``severity`` is a syslog level.

    The key has four words for the eight levels. Raises `LocalProtocolError` for another level.
    """
    if not 0 <= severity < len(_SEVERITY_WORDS):
        raise LocalProtocolError(f"severity {severity} is not one of 0 to 7")
    return f"mgmt.event.{key.package}.{event_name(key)[0]}.{_SEVERITY_WORDS[severity]}"


def method_key(revision: Revision, key: ClassKey, method: str) -> str:
    """Return the routing key of a call."""
    prefix = next(prefix for prefix, revisions in _METHOD_PREFIXES.items() if revision in revisions)
    return f"{prefix}{key.package}.{key.name}.{method}"
