"""Receivers of SNMP notifications and the network to them: one of traps, one of informs with losses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gateway.model.times import MILLISECOND, SECOND
from gateway.service.processes.notifications import FetchPast
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    NOTIFICATION_OBJECTS,
    PRODUCT,
    ConditionStateNumber,
    NotificationObject,
    TargetKindNumber,
)
from gateway.snmp.notifications.backlog import PAGE, place_of
from gateway.snmp.notifications.notification import Notification
from gateway.snmp.notifications.receiver import Address, Target
from gateway.snmp.notifications.saved import SavedNotifications, from_text, to_text
from gateway.snmp.notifications.sender import NotificationSender, Outside, SenderSettings, SendResult
from gateway.snmp.projection import Projection
from tests.simulation.core import GATEWAY
from tests.simulation.event_account import EventAccount
from tests.simulation.pipes import QUICK, Pipe
from tests.simulation.scheduler import Clock, Scheduler, Timer
from tests.simulation.table_reader import ROOT, decoded
from tests.simulation.violations import demand

_SAVE = SECOND
FORGOTTEN = 2 * SECOND
"""The time before a power failure within which notifications may be neither saved nor committed."""
_FETCH_SECONDS, _FETCH_AGAIN_SECONDS = 30.0, 0.2
_WAY = (50_000, 20 * MILLISECOND)


@dataclass(slots=True)
class Receiver:
    """The notifications of one receiver.

    Attributes:
        target: its configuration in the gateway.
        loss: share of datagrams that are lost, in either direction.
        trusted: conditions of which it received the begin and not the end, with their source.
        event_ids: ids of the events that it received from the present run of the SNMP process.
        twice: ids of those that it received twice, but for a beginning behind an end of its condition: what
            came late may end a condition that has begun again.
        deaf: whether no datagram reaches it.
        account: the account of its events, if it loses none of them.
        lately: the time of the last notification of each condition.
        unsure: conditions notified just before a power failure, whose state may be lost.
    """

    target: Target
    loss: float = 0.0
    trusted: set[tuple[str, str]] = field(default_factory=set)
    event_ids: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    deaf: bool = False
    account: EventAccount | None = None
    lately: dict[tuple[str, str], int] = field(default_factory=dict)
    unsure: set[tuple[str, str]] = field(default_factory=set)
    _answered: dict[int, None] = field(default_factory=dict)

    def receive(self, datagram: bytes, now: int) -> bytes | None:
        """Process a notification, and return the response to an inform."""
        request_id, values = _content(datagram)
        is_inform = self.target.kind is TargetKindNumber.INFORM_V2C
        if not (is_inform and request_id in self._answered):  # sent again because the answer was lost
            self._take(values, now)
        self._answered[request_id] = None
        return _answer(datagram) if is_inform else None

    def power_failed(self, now: int) -> None:
        """Mark the latest conditions as unsure; they may be unsaved, so that their end is not notified."""
        self.unsure |= {key for key, time in self.lately.items() if time > now - FORGOTTEN}

    def _take(self, values: dict[NotificationObject, str], now: int) -> None:
        event_id = values.get(NotificationObject.ID, "")
        condition = values.get(NotificationObject.CONDITION, "")
        key = values.get(NotificationObject.SOURCE, ""), condition
        state = values.get(NotificationObject.STATE)
        begins_again = state == str(int(ConditionStateNumber.RAISED)) and key not in self.trusted
        if event_id in self.event_ids and not (condition and begins_again):
            self.twice.append(event_id)
        self.event_ids.add(event_id)
        if self.account is not None:
            self.account.reported(event_id, is_alarm=state == str(int(ConditionStateNumber.RAISED)))
        self.lately[key] = now
        self.unsure.discard(key)
        if condition and state == str(int(ConditionStateNumber.RAISED)):
            self.trusted.add(key)
        elif condition and state == str(int(ConditionStateNumber.CLEARED)):
            self.trusted.discard(key)


class Receivers:
    """All receivers, and the state that the SNMP process keeps for them over its death."""

    def __init__(self, scheduler: Scheduler) -> None:
        random = scheduler.random
        rate = random.choice((1, 100))
        traps = Target("traps", ("192.0.2.1", 162), TargetKindNumber.TRAP_V2C, b"public", rate=rate)
        informs = Target("informs", ("192.0.2.2", 162), TargetKindNumber.INFORM_V2C, b"public", rate=rate)
        self.all = {
            traps.address: Receiver(traps, account=EventAccount()),
            informs.address: Receiver(informs, loss=random.choice((0.0, 0.3))),
        }
        self.kept = ""

    @property
    def account(self) -> EventAccount:
        """The account of the receiver that loses no event."""
        (account,) = (receiver.account for receiver in self.all.values() if receiver.account is not None)
        return account

    def is_accounted(self, name: str) -> bool:
        """Return whether the account of a receiver is kept."""
        return any(each.account is not None and each.target.name == name for each in self.all.values())

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets as they are configured."""
        return tuple(receiver.target for receiver in self.all.values())


class Sending:
    """The part of an SNMP process that sends notifications, as `service.processes.notifications` drives it.

    Args:
        scheduler: time and chance.
        clock: the gateway's clock.
        receivers: the receivers of notifications.
        boot: the epoch of the core when the process began.
        projection: the source of the lasting alarms, and of past events as receivers get them.
        past_events: fetches past events.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        receivers: Receivers,
        boot: int,
        projection: Projection,
        past_events: FetchPast,
    ) -> None:
        self._past_events = past_events
        self._past_event = projection.past_event
        self._is_complete: Callable[[], bool] = lambda: projection.is_complete
        self._scheduler = scheduler
        self._receivers = receivers
        self._traps: Pipe[tuple[Receiver, bytes]] = Pipe(scheduler, self._arrive, QUICK)
        self._working: Timer | None = None
        self._saving: Timer | None = None
        self._traps.owner = None
        self._stopped = False
        self._account = receivers.account
        for receiver in receivers.all.values():
            receiver.event_ids.clear()
        outside = Outside(
            send=self._send,
            agent_address=lambda _: bytes(4),
            request_id=lambda: scheduler.random.randrange(2**31),
            monotonic=lambda: scheduler.now,
            clock=clock.now,
            up_time=lambda: 0,
            active=projection.active_alarms,
            alarm=projection.alarm_notification,
            wake=self._wake,
            failed=self._failed,
            missed=self._missed,
        )
        settings = SenderSettings(ROOT, (*ROOT, *PRODUCT), GATEWAY, boot, "", receivers.targets)
        saved: SavedNotifications | None = from_text(receivers.kept) if receivers.kept else None
        owed = {
            (epoch, number)
            for target in (saved.targets if saved is not None else ())
            for epoch, first, last in target.owed
            for number in range(first, last + 1)
        }
        self._account.process_begins((saved.epoch, saved.number) if saved is not None else (0, 0), owed)
        self._sender = NotificationSender(settings, outside, saved)
        self._sender.start()

    def notify(self, notification: Notification) -> None:
        """Send the notification of an event."""
        suppressed = self._suppressed()
        self._sender.notify(notification)
        if self._suppressed() > suppressed:
            self._account.counted([(notification.epoch, notification.number)])

    def events_made(self, epoch: int, number: int, *, more: bool = False) -> None:
        """Process the number of events that a former core made."""
        self._sender.events_made(epoch, number, more=more)

    def _missed(self, receiver: str, first: str, last: str, number: int | None) -> None:
        begin, end = place_of(first), place_of(last)
        assert begin is not None
        assert end is not None
        demand(end[1] - begin[1] + 1 == number, f"{number} events are missed from {first} to {last}")
        if self._receivers.is_accounted(receiver):
            self._account.counted((begin[0], each) for each in range(begin[1], end[1] + 1))

    async def fetch(self) -> None:
        """Fetch what receivers are owed, until the process ends."""
        while not self._stopped:
            wanted = self._sender.wanted()
            epoch, first, last = wanted.range if wanted is not None else (0, 0, 0)
            page = None
            if wanted is not None:
                page = await self._past_events((epoch, first - 1), (epoch, last), PAGE, _FETCH_SECONDS)
            if wanted is None or page is None or page.through < (epoch, first) or not self._is_complete():
                await asyncio.sleep(_FETCH_AGAIN_SECONDS)
                continue
            if self._stopped:
                return
            events = [
                self._past_event(wanted.receiver, record, page.former_sources) for record in page.records
            ]
            self._sender.fetched(wanted, [each for each in events if each is not None], page.through)

    def policy_changing(self) -> None:
        """Hold what waits."""
        self._sender.policy_changing()

    def policy_changed(self) -> None:
        """Decide again on what waits."""
        self._sender.policy_changed()

    def stop(self) -> None:
        """Stop because the process is killed."""
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
        saved = self._sender.saved()
        self._account.saved((saved.epoch, saved.number))
        self._receivers.kept = to_text(saved)

    def _suppressed(self) -> int:
        """Return how many events were suppressed for the receiver whose account is kept."""
        health = self._sender.health
        return sum(each.suppressed for name, each in health.items() if self._receivers.is_accounted(name))

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
        answer = receiver.receive(datagram, self._scheduler.now)
        self._scheduler.note(receiver.target.name, f"believes {sorted(receiver.trusted)}")
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
    """Return the request id, and the gateway's own objects as text."""
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
    """Yield the tag, the begin and end of the content, and the position of the tag, of each part."""
    while start < stop:
        tag, content, end = ber.read_header(datagram, start, stop)
        yield tag, content, end, start
        start = end


def _answer(datagram: bytes) -> bytes:
    """Return the response to an inform: the same octets except for the type of the PDU."""
    _, start, stop = ber.read_header(datagram, 0, len(datagram))
    *_, pdu = _parts(datagram, start, stop)
    return datagram[: pdu[3]] + bytes((message.RESPONSE,)) + datagram[pdu[3] + 1 :]
