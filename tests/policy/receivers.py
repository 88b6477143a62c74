"""Receivers of SNMP notifications, each on a socket of its own: what it receives is all that it is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from gateway.escapes import escaped, unescaped
from gateway.model.observations import EventState
from gateway.model.schema import Argument, ClassKey
from gateway.snmp import ber
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.fixed_mib import NOTIFICATION_OBJECTS, ConditionStateNumber, NotificationObject
from gateway.snmp.oid_registry import (
    DEFAULT_ROOT,
    ArgumentEntry,
    OidRegistry,
    path_of_registry,
    read_registry,
)
from gateway.snmp.syntax import Syntax
from tests.components.command_line import Site
from tests.components.shipped_mappings import shipped_registries
from tests.components.waiting import wait_until
from tests.policy.facts import Expected, Fact
from tests.policy.trap_daemon import USER, trap_daemon
from tests.policy.world import GATEWAY_ID, SOURCES, Happening, Thing, endings, happenings
from tests.snmp.notifications.story import Received
from tests.snmp.notifications.udp_receiver import udp_receiver

VAULT: Final = "vault"
"""The receiver that is net-snmp's."""

RECEIVERS: Final[Mapping[str, dict[str, Any]]] = {
    "clerk": {},
    "desk": {"kind": "inform"},
    "porter": {},
    VAULT: {"version": "v3", "user": USER},
}
"""The receivers by name, with what their settings have beside an address."""

_RATE: Final = 100_000
_SECONDS: Final = 60.0
_ALARM: Final[Oid] = (*DEFAULT_ROOT, *NOTIFICATION_OBJECTS, NotificationObject.ALARM, 0)
_STATES: Final = {
    EventState.ONE_SHOT: ConditionStateNumber.ONE_SHOT,
    EventState.RAISED: ConditionStateNumber.RAISED,
    EventState.CLEARED: ConditionStateNumber.CLEARED,
}


class Mailbox(Protocol):
    """What a receiver has received; it receives at ``address``."""

    @property
    def address(self) -> str: ...

    def drain(self) -> list[Received]:
        """Return all notifications received so far."""


class Receiver:
    """A receiver.

    Args:
        name: its name.
        mailbox: what it has received.
        site: the site whose SNMP process sends.
    """

    def __init__(self, name: str, mailbox: Mailbox, site: Site) -> None:
        self.principal = f"notify:{name}"
        self._mailbox = mailbox
        self._site = site
        self._registries: Sequence[OidRegistry] = ()
        self._seen = 0
        self._facts: dict[int, set[Fact]] = {}
        self._known: dict[str, Happening] = {}

    def compare(self, expected: Expected) -> int:
        """Compare what it received of the events while there are objects."""
        self._expect(happenings(expected.things, expected.stamp))
        self._expect(endings(expected.things, expected.stamp))
        self._until(expected.stamp, expected.events())
        return expected.questions // 4

    def compare_ends(self, expected: Expected) -> None:
        """Compare what it has received when the alarms have ended, too."""
        self._until(expected.stamp, expected.events() | expected.ends_of_alarms())

    def _expect(self, events: list[Happening]) -> None:
        self._known |= {event.event_id: event for event in events}

    def _until(self, stamp: int, wanted: set[Fact]) -> None:
        def is_there() -> bool:
            self._read()
            found = self._facts.get(stamp, set())
            assert found <= wanted, found - wanted
            return found == wanted

        try:
            wait_until(is_there, "the notifications that are expected", _SECONDS)
        except AssertionError as error:
            error.add_note(f"{self.principal} lacks {wanted - self._facts.get(stamp, set())}")
            raise

    def _read(self) -> None:
        received = self._mailbox.drain()
        for one in received[self._seen :]:
            event_id = one.event_id
            if event_id.startswith(f"{GATEWAY_ID}."):
                what = self._known[event_id]
                stamp = int(event_id.rpartition(".")[2]) // 1000
                self._facts.setdefault(stamp, set()).add(self._fact(one, what))
        self._seen = len(received)

    # ---- varbinds -----------------------------------------------------------------------------------------

    def _fact(self, received: Received, what: Happening) -> Fact:
        """Return an event as it was received; what does not depend on the policy is compared at once."""
        subject = what.subject
        assert _text(received, NotificationObject.SOURCE) == SOURCES[what.source]
        assert _text(received, NotificationObject.CLASS) == (subject.class_name if subject else "")
        assert _text(received, NotificationObject.OBJECT_NAME) == (subject.stable_name if subject else "")
        assert _text(received, NotificationObject.CONDITION) == what.condition
        assert received.content(NotificationObject.STATE) == bytes([_STATES[what.state]])
        row = ber.decode_name(received.content(NotificationObject.ROW))
        assert row[-2:] == ((subject.source, subject.row) if subject else NO_ROW[-2:])
        shown = {
            argument.name
            for argument in what.in_class.schema.arguments
            if self._shows(received, what, argument)
        }
        return ("event", what.event_id, _text(received, NotificationObject.TEXT), frozenset(shown))

    def _shows(self, received: Received, what: Happening, argument: Argument) -> bool:
        """Return whether an argument has its value; else it must have the value that stands for none."""
        value = what.values[argument.name]
        names = self._names(what.in_class.schema.key, argument.name)
        contents = [_content(received.values[name]) for name in names]
        if isinstance(value, Thing):
            pointer, name = contents
            is_shown = name != b""
            assert name in {b"", escaped(value.stable_name).encode()}
            target = ber.decode_name(pointer)
            assert target[-2:] == (value.source, value.row) if is_shown else target == NO_ROW
            return is_shown
        assert contents in ([b""], [escaped(value).encode()])
        return contents != [b""]

    def _names(self, event: ClassKey, argument: str) -> list[Oid]:
        if event.package == "gateway":
            assert argument == "alarm"
            return [_ALARM]
        if not self._registries:
            path = path_of_registry(self._site.state.path, "provisional")
            self._registries = (*shipped_registries(), read_registry(path))
        for registry in self._registries:
            found = registry.find_event(event)
            if found is not None:
                [entry] = [one for one in registry.arguments_of(found) if _is_of(one, argument)]
                return [registry.argument_oid(DEFAULT_ROOT, arc) for arc in entry.arcs]
        raise AssertionError(f"{event} has no notification")


def _is_of(entry: ArgumentEntry, argument: str) -> bool:
    return entry.name == argument and entry.current and entry.syntax in {Syntax.TEXT, Syntax.ROW_POINTER}


def _text(received: Received, number: NotificationObject) -> str:
    return unescaped(received.content(number).decode())


def _content(tlv: bytes) -> bytes:
    _, start, stop = ber.read_header(tlv, 0, len(tlv))
    return tlv[start:stop]


@contextmanager
def mailboxes(site: Site) -> Iterator[dict[str, Mailbox]]:
    """Provide a mailbox for each receiver of a site; informs are answered when they are read."""
    with contextlib.ExitStack() as stack:
        opened: dict[str, Mailbox] = {VAULT: stack.enter_context(trap_daemon(site))}
        for name in RECEIVERS.keys() - opened.keys():
            socket = stack.enter_context(udp_receiver())
            socket.answering = True
            opened[name] = socket
        yield {name: opened[name] for name in RECEIVERS}


def notification_settings(opened: Mapping[str, Mailbox]) -> dict[str, dict[str, Any]]:
    """Return the section of the configuration: the receivers, for everything, at any rate."""
    return {
        name: {"address": mailbox.address, "rate": _RATE, "window": 1_000, **RECEIVERS[name]}
        for name, mailbox in opened.items()
    }
