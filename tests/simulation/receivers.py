"""Receivers of SNMP notifications and the way to them: one of traps, one of informs that may get lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    MODULE,
    NOTIFICATION_OBJECTS,
    ConditionStateNumber,
    NotificationObject,
    TargetKindNumber,
)
from gateway.snmp.notifications.delivery import SavedNotifications, from_text, to_text
from gateway.snmp.notifications.notification import Notification
from gateway.snmp.notifications.receiver import Address, Target
from gateway.snmp.notifications.sender import NotificationSender, Outside, SenderSettings, SendResult
from gateway.snmp.projection import Projection
from tests.simulation.pipes import QUICK, Pipe
from tests.simulation.scheduler import MILLISECOND, SECOND, Clock, Scheduler, Timer
from tests.simulation.table_reader import ROOT, decoded

_SAVE = SECOND
_WAY = (50_000, 20 * MILLISECOND)


@dataclass(slots=True)
class Receiver:
    """What one receiver has been told.

    Attributes:
        target: as the gateway knows it.
        loss: share of datagrams that are lost, on either way.
        believed: conditions that it was told began and not that they ended, by source.
        heard: ids of the events that the present run of the SNMP process has told.
        twice: ids of those that it told twice.
        deaf: whether nothing reaches it.
    """

    target: Target
    loss: float = 0.0
    believed: set[tuple[str, str]] = field(default_factory=set)
    heard: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    deaf: bool = False
    _answered: dict[int, None] = field(default_factory=dict)

    def receive(self, datagram: bytes) -> bytes | None:
        """Take a notification; the answer, if it wants one."""
        request_id, values = _content(datagram)
        is_inform = self.target.kind is TargetKindNumber.INFORM_V2C
        if not (is_inform and request_id in self._answered):  # sent again because the answer was lost
            self._take(values)
        self._answered[request_id] = None
        return _answer(datagram) if is_inform else None

    def _take(self, values: dict[NotificationObject, str]) -> None:
        event_id = values.get(NotificationObject.ID, "")
        if event_id in self.heard:
            self.twice.append(event_id)
        self.heard.add(event_id)
        condition = values.get(NotificationObject.CONDITION, "")
        key = values.get(NotificationObject.SOURCE, ""), condition
        state = values.get(NotificationObject.STATE)
        if condition and state == str(int(ConditionStateNumber.RAISED)):
            self.believed.add(key)
        elif condition and state == str(int(ConditionStateNumber.CLEARED)):
            self.believed.discard(key)


class Receivers:
    """All receivers, and what the SNMP process keeps for them over its death."""

    def __init__(self, scheduler: Scheduler) -> None:
        random = scheduler.random
        rate = random.choice((1, 100))
        traps = Target("traps", ("192.0.2.1", 162), TargetKindNumber.TRAP_V2C, b"public", rate=rate)
        informs = Target("informs", ("192.0.2.2", 162), TargetKindNumber.INFORM_V2C, b"public", rate=rate)
        self.all = {
            traps.address: Receiver(traps),
            informs.address: Receiver(informs, loss=random.choice((0.0, 0.3))),
        }
        self.kept = ""

    @property
    def targets(self) -> tuple[Target, ...]:
        """As they are configured."""
        return tuple(receiver.target for receiver in self.all.values())


class Sending:
    """The part of an SNMP process that sends notifications, as `service.processes.notifications` drives it.

    Args:
        scheduler: time and chance.
        clock: the gateway's.
        receivers: who is sent what.
        boot: of the core when the process began.
        projection: knows which alarms last.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        receivers: Receivers,
        boot: int,
        projection: Projection,
    ) -> None:
        self._scheduler = scheduler
        self._receivers = receivers
        self._traps: Pipe[tuple[Receiver, bytes]] = Pipe(scheduler, self._arrive, QUICK)
        self._working: Timer | None = None
        self._saving: Timer | None = None
        self._stopped = False
        for receiver in receivers.all.values():
            receiver.heard.clear()
        outside = Outside(
            send=self._send,
            agent_address=lambda _: bytes(4),
            request_id=lambda: scheduler.random.randrange(2**31),
            monotonic=lambda: scheduler.now,
            clock=clock.now,
            up_time=lambda: 0,
            standing=projection.standing_alarms,
            alarm=projection.alarm_notification,
            wake=self._wake,
            failed=self._failed,
        )
        settings = SenderSettings(ROOT, (*ROOT, *MODULE), "7b0c5b3e", boot, "", receivers.targets)
        saved: SavedNotifications | None = from_text(receivers.kept) if receivers.kept else None
        self._sender = NotificationSender(settings, outside, saved)
        self._sender.start()

    def notify(self, notification: Notification) -> None:
        """The projection tells an event."""
        self._sender.notify(notification)

    def events_made(self, epoch: int, number: int) -> None:
        """The projection tells how many events a former core made."""
        self._sender.events_made(epoch, number)

    def stop(self) -> None:
        """The process is killed."""
        self._stopped = True
        for timer in (self._working, self._saving):
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        self._work_after(MILLISECOND)
        if self._saving is None:
            self._saving = self._scheduler.after(_SAVE, self._save)

    def _save(self) -> None:
        self._saving = None
        self._receivers.kept = to_text(self._sender.saved())

    def _work_after(self, delay: int) -> None:
        if self._stopped:
            return
        if self._working is not None:
            self._working.cancel()
        self._working = self._scheduler.after(delay, self._work)

    def _work(self) -> None:
        self._working = None
        due = self._sender.work()
        if due is not None and self._working is None:
            self._work_after(max(due - self._scheduler.now, MILLISECOND))

    def _send(self, address: Address, datagram: bytes) -> SendResult:
        receiver = self._receivers.all[address]
        if receiver.target.kind is TargetKindNumber.TRAP_V2C:
            # Nobody could mend what a network does to traps: this one keeps their order, and loses none.
            self._traps.put((receiver, datagram))
        elif not self._lost(receiver):
            self._later(lambda: self._arrive((receiver, datagram)))
        return SendResult.SENT

    def _arrive(self, sent: tuple[Receiver, bytes]) -> None:
        receiver, datagram = sent
        answer = receiver.receive(datagram)
        self._scheduler.tell(receiver.target.name, f"believes {sorted(receiver.believed)}")
        if answer is not None and not self._lost(receiver) and not self._stopped:
            self._later(lambda: self._answered(answer, receiver.target.address))

    def _answered(self, answer: bytes, address: Address) -> None:
        if not self._stopped:
            self._sender.received(answer, address)

    def _lost(self, receiver: Receiver) -> bool:
        return receiver.deaf or self._scheduler.random.random() < receiver.loss

    def _later(self, action: Callable[[], None]) -> None:
        self._scheduler.after(self._scheduler.between(*_WAY), action)

    @staticmethod
    def _failed(error: Exception) -> None:
        raise error


def _content(datagram: bytes) -> tuple[int, dict[NotificationObject, str]]:
    """The request id, and the gateway's own objects as text."""
    _, start, stop = ber.read_header(datagram, 0, len(datagram))
    *_, (_, pdu_start, pdu_stop, _) = _parts(datagram, start, stop)
    request, _, _, varbinds = _parts(datagram, pdu_start, pdu_stop)
    objects: Oid = (*ROOT, *NOTIFICATION_OBJECTS)
    values: dict[NotificationObject, str] = {}
    for _, varbind_start, varbind_stop, _ in _parts(datagram, varbinds[1], varbinds[2]):
        name, value = _parts(datagram, varbind_start, varbind_stop)
        oid = ber.decode_name(datagram[name[1] : name[2]])
        if oid[: len(objects)] == objects and oid[len(objects)] in set(NotificationObject):
            plain = decoded(datagram[value[3] : value[2]])
            values[NotificationObject(oid[len(objects)])] = (
                plain.decode("utf-8", "replace") if isinstance(plain, bytes) else str(plain)
            )
    return int.from_bytes(datagram[request[1] : request[2]], "big"), values


def _parts(datagram: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Tag, where the content begins and ends, and where the tag stands, of each part."""
    while start < stop:
        tag, content, end = ber.read_header(datagram, start, stop)
        yield tag, content, end, start
        start = end


def _answer(datagram: bytes) -> bytes:
    """The response to an inform: the same, but for the type of the PDU."""
    _, start, stop = ber.read_header(datagram, 0, len(datagram))
    *_, pdu = _parts(datagram, start, stop)
    return datagram[: pdu[3]] + bytes((message.RESPONSE,)) + datagram[pdu[3] + 1 :]
