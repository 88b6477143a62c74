"""A sender with a clock that the test moves, and receivers whose answers the test sends."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gateway.feed.records import Place
from gateway.model.observations import EventState, Severity
from gateway.model.times import SECOND
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import NOTIFICATION_OBJECTS, NotificationObject, TargetKindNumber
from gateway.snmp.notifications.backlog import PAGE, PastEvent
from gateway.snmp.notifications.encoding import EncodedNotification
from gateway.snmp.notifications.notification import (
    SNMP_TRAP_OID,
    ActiveAlarms,
    Notification,
    condition_of,
)
from gateway.snmp.notifications.receiver import Address, Target
from gateway.snmp.notifications.saved import SavedNotifications, SavedTarget, from_text, to_text
from gateway.snmp.notifications.sender import NotificationSender, Outside, SenderSettings, SendResult

ROOT: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999)
GATEWAY = "6c0f9f1e-6a5c-4f5b-9a55-2d3c7d0f7a11"
QUEUE_DELETED: Oid = (*ROOT, 2, 1, 0, 2)
START = 1_700_000_000 * SECOND
NMS: Address = ("192.0.2.1", 162)

TRAP_V1, TRAP, INFORM = TargetKindNumber.TRAP_V1, TargetKindNumber.TRAP_V2C, TargetKindNumber.INFORM_V2C


def event(number: int = 1, **changes: Any) -> Notification:  # noqa: ANN401  fields of all types
    """Return an event of the first epoch with these changes."""
    return msgspec.structs.replace(
        Notification(
            oid=QUEUE_DELETED,
            name="rabbitmq:queueDeleted",
            number=number,
            epoch=1,
            event_id=f"{GATEWAY}.1.{number}",
            severity=Severity.INFO,
            time=START,
            source="orders",
            class_name="rabbitmq:queue",
            object_name="/|inbox",
            row=ber.encode_oid((*ROOT, 2, 1, 1, 2, 1, 2, 1, 7)),
            text="queue inbox in / was deleted",
            state=EventState.ONE_SHOT,
            condition="",
        ),
        **changes,
    )


def raised(
    number: int, condition: str, severity: Severity = Severity.CRITICAL, name: str = "rabbitmq:alarmSet"
) -> Notification:
    """Return the event that begins a condition."""
    return event(number, name=name, severity=severity, state=EventState.RAISED, condition=condition)


def cleared(number: int, condition: str, name: str = "rabbitmq:alarmCleared") -> Notification:
    """Return the event that ends a condition."""
    return event(number, name=name, severity=Severity.CLEARED, state=EventState.CLEARED, condition=condition)


def target(name: str = "nms", address: Address = NMS, **changes: Any) -> Target:  # noqa: ANN401
    """Return a receiver of v2c traps of everything, with these changes."""
    return replace(Target(name, address, TRAP, b"public"), **changes)


@dataclass(frozen=True, slots=True)
class Received:
    """A notification as its receiver reads it."""

    pdu_type: int
    request_id: int
    oid: Oid
    values: dict[Oid, bytes]

    def content(self, number: NotificationObject) -> bytes:
        """Return the content octets of a common varbind or an argument of ours."""
        value = self.values[(*ROOT, *NOTIFICATION_OBJECTS, number, 0)]
        _, start, stop = ber.read_header(value, 0, len(value))
        return value[start:stop]

    @property
    def event_id(self) -> str:
        """The event id."""
        return self.content(NotificationObject.ID).decode()

    @property
    def number(self) -> int:
        """The last part of the event id, as a number."""
        return int(self.event_id.rpartition(".")[2].lstrip("s"))

    @property
    def suppressed(self) -> int:
        """The number of suppressed notifications in a summary."""
        return int.from_bytes(self.content(NotificationObject.SUPPRESSED_COUNT), "big")

    @property
    def is_event(self) -> bool:
        """Whether it is an event, and not a notification that the SNMP agent creates itself."""
        return ".s" not in self.event_id


def read(datagram: bytes) -> Received:
    """Return the fields of a version 2c notification."""
    envelope = message.read_message(datagram)
    assert envelope.version == message.VERSION_2C
    request = message.read_request(datagram, envelope.start, envelope.stop)
    assert (request.first, request.second) == (0, 0)
    names = [ber.decode_name(name) for name in request.names]
    assert names[1] == SNMP_TRAP_OID
    oid, _ = ber.read_name(request.values[1], 0, len(request.values[1]))
    return Received(
        envelope.pdu_type,
        request.request_id,
        ber.decode_name(oid),
        dict(zip(names, request.values, strict=True)),
    )


def answer_to(datagram: bytes, status: int = 0) -> bytes:
    """Return the answer of a receiver to an inform."""
    envelope = message.read_message(datagram)
    request = message.read_request(datagram, envelope.start, envelope.stop)
    varbinds = [ber.encode_varbind(*pair) for pair in zip(request.names, request.values, strict=True)]
    pdu = message.encode_response_pdu(request.request_id, status, 0, varbinds)
    return message.enclose(envelope, pdu)


@dataclass
class Play:
    """A sender and its surroundings. It sends only in `work`, `pass_time` and `settle`.

    Attributes:
        recorded: the event log, from which events are sent late: all that the sender was notified of.
        missed: receiver, first and last number, and how many events it has missed.
        unanswered: the address of the receiver of each inform that was sent again.
    """

    targets: Sequence[Target]
    saved: SavedNotifications | None = None
    boot: int = 1
    configuration: str = "same"
    late_after: int = 5 * SECOND
    record: Callable[[Notification, EncodedNotification], None] = lambda _notification, _encoded: None
    now: int = 0
    result: SendResult = SendResult.SENT
    sent: dict[Address, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    failures: list[Exception] = field(default_factory=list)
    due: int | None = None
    active: dict[str, ActiveAlarms] | None = None
    alarms: dict[tuple[str, str], Notification] = field(default_factory=dict)
    policies: dict[str, str] | None = None
    hidden_ends: set[str] = field(default_factory=set)
    recorded: dict[Place, Notification] = field(default_factory=dict)
    withheld: set[tuple[str, Place]] = field(default_factory=set)
    missed: list[tuple[str, int, int, int | None]] = field(default_factory=list)
    unanswered: list[Address] = field(default_factory=list)

    def __post_init__(self) -> None:
        request_ids = itertools.count(1000)
        settings = self._settings()
        outside = Outside(
            send=self._send,
            agent_address=lambda _: bytes((192, 0, 2, 99)),
            request_id=lambda: next(request_ids),
            monotonic=lambda: self.now,
            clock=lambda: START + self.now,
            up_time=lambda: self.now // 10**7,
            active=lambda: self.active,
            alarm=lambda source, condition: self.alarms.get((source, condition)),
            wake=lambda: None,
            failed=self.failures.append,
            record=self.record,
            is_restricted=lambda name: self.policies is not None and self.policies.get(name) != "everything",
            policy=lambda name: None if self.policies is None else self.policies.get(name),
            receives_end=lambda name, _: name not in self.hidden_ends,
            missed=self._missed,
            unanswered=self.unanswered.append,
        )
        self.sender = NotificationSender(settings, outside, self.saved)

    def _settings(self) -> SenderSettings:
        targets = tuple(self.targets)
        return SenderSettings(
            ROOT, (*ROOT, 1), GATEWAY, self.boot, self.configuration, targets, self.late_after
        )

    def change(self, *targets: Target) -> list[SavedTarget]:
        """Send to these receivers from now on; return those that were removed."""
        self.targets = targets
        return self.sender.change(self._settings())

    def _missed(self, receiver: str, first: str, last: str, number: int | None) -> None:
        begin, end = (int(each.rpartition(".")[2] or 0) for each in (first, last))
        self.missed.append((receiver, begin, end, number))

    def _send(self, address: Address, datagram: bytes) -> SendResult:
        if self.result is SendResult.SENT:
            self.sent[address].append(datagram)
        return self.result

    def notify(self, *notifications: Notification) -> None:
        """Pass events to the sender, and let it send what it can at once."""
        for notification in notifications:
            self.recorded[notification.epoch, notification.number] = notification
            self.sender.notify(notification)
        self.settle()

    def settle(self) -> None:
        """Let the sender work until it wants to wait, and fetch what it sends late."""
        self.due = self.sender.work()
        while self._fetch() or (self.due is not None and self.due <= self.now):
            self.due = self.sender.work()

    def _fetch(self) -> bool:
        wanted = self.sender.wanted()
        if wanted is None:
            return False
        epoch, first, last = wanted.range
        places = sorted(place for place in self.recorded if (epoch, first) <= place <= (epoch, last))[:PAGE]
        events = [self._past(wanted.receiver, place) for place in places]
        self.sender.fetched(wanted, events, places[-1] if len(places) == PAGE else (epoch, last))
        return True

    def _past(self, receiver: str, place: Place) -> PastEvent:
        event = self.recorded[place]
        form: Notification | None = event.forms.get(receiver, event) if event.again is None else None
        if event.again is not None:
            form = event.again(receiver)
        is_meant = (receiver, place) not in self.withheld
        if form is None or not is_meant:
            return PastEvent(place, event.name, None, is_meant, condition_of(event))
        changes: dict[str, Any] = {"is_late": True, "repeated": False, "again": event.again, "forms": {}}
        return PastEvent(
            place, event.name, msgspec.structs.replace(form, **changes), condition=condition_of(event)
        )

    def pass_time(self, nanoseconds: int) -> None:
        """Advance the clock, and let the sender work whenever it asked to."""
        end = self.now + nanoseconds
        self.settle()
        while self.due is not None and self.due <= end:
            self.now = self.due
            self.settle()
        self.now = end
        self.settle()

    def received(self, address: Address = NMS) -> list[Received]:
        """Return the notifications of a receiver since the last call."""
        datagrams, self.sent[address] = self.sent[address], []
        return [read(datagram) for datagram in datagrams]

    def answer_all(self, address: Address = NMS) -> list[Received]:
        """Answer all notifications of a receiver since the last call, and those that result; return them."""
        answered = []
        while datagrams := self.sent.pop(address, []):
            for datagram in datagrams:
                answered.append(read(datagram))
                self.sender.received(answer_to(datagram), address)
            self.settle()
        return answered

    def restarted(self, **changes: Any) -> Play:  # noqa: ANN401
        """Return a play of a new process with the saved state of this one, converted to text and back."""
        saved = from_text(to_text(self.sender.saved()))
        return replace(
            self, saved=saved, sent=defaultdict(list), **{"now": self.now + SECOND, "due": None, **changes}
        )
