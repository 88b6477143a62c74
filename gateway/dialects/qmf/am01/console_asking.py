"""What a console asks of an agent before AM2, in the form of each revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.dialects.qmf.am01.keys import COMMAND_KEY, method_key
from gateway.dialects.qmf.am01.messages import AgentHello, Message, MethodRequest
from gateway.dialects.qmf.am01.revisions import Revision
from gateway.dialects.qmf.am01.writer import write
from gateway.dialects.qmf.console_requests import FetchObjects, Greeting, ListClasses, ListPackages, Subject
from gateway.dialects.qmf.messages import BrokerRequest, ClassQuery, GetQuery, PackageQuery
from gateway.dialects.qmf.object_id import NULL
from gateway.model.schema import ClassKey

PROBE_METHOD: Final = "probe"
PROBE_SEQUENCE: Final = 0
"""Operations are numbered from far above on (`console_operations`)."""


def request(subject: Subject, sequence: int, revision: Revision) -> Message:
    """Return a request as a revision has it: AM01 numbers none, and knows no G."""
    numbered = revision is Revision.MARCH_2008
    number = sequence if numbered else 0
    match subject:
        case Greeting():
            return BrokerRequest(number) if numbered else AgentHello()
        case ListPackages():
            return PackageQuery(number)
        case ListClasses(package):
            return ClassQuery(number, package)
        case FetchObjects(name=name):
            return GetQuery(number, {"_class": name})
        case _:
            return subject.message(number)


def probes(
    revisions: frozenset[Revision], known_class: ClassKey | None, reply_to: str
) -> Iterator[tuple[str, bytes]]:
    """Return routing keys and bodies that make an agent give a sign of life, and do nothing else.

    Args:
        revisions: what the agent may speak.
        known_class: any of its classes; without one, who answers calls only is asked nothing.
        reply_to: the queue for answers.
    """
    for revision in sorted(revisions, key=lambda one: one.value):
        if revision is Revision.FEBRUARY_2008:
            yield COMMAND_KEY, write(AgentHello(), revision)
        elif revision is Revision.MARCH_2008:
            yield COMMAND_KEY, write(BrokerRequest(0), revision)
        elif known_class is not None:
            # No object has the number 0, and none this method: the agent says so, and does nothing.
            queue = reply_to if revision is Revision.NOVEMBER_2007 else ""
            call = MethodRequest(PROBE_SEQUENCE, NULL, known_class, PROBE_METHOD, reply_queue=queue)
            yield method_key(revision, known_class, PROBE_METHOD), write(call, revision)
