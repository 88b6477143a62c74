"""A console, a changing broker and failures, drawn by hypothesis; and an inventory of the observations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from gateway.dialects.cml.console_config import Budget, Matching, ShortLived
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    Invalid,
    MethodReply,
    ModifyReply,
    Notify,
    Reply,
    SchemaReply,
)
from gateway.dialects.cml.session_state import State
from gateway.dialects.session import LossSuspected, NotSent
from gateway.model.observations import ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.operations import Answer, MethodCall, Outcome
from gateway.model.times import SECOND
from tests.dialects.cml.console_story import CONFIG, fetch, key, modify, native
from tests.dialects.cml.playbook import SCHEMA, ConsolePlay, Step

NUMBERS = st.sampled_from((0, 1, 7, 8, 9, 20, 1 << 32, 1 << 63))
STATUSES = st.sampled_from(("ok", "ok", "ok", "notfound", "noaccess", "invalid", "", "so-so"))
CLASSES = st.sampled_from(("", "broker", "queue", "queue_binding", "connection", "config", "cellar"))
FIELDS = st.lists(
    st.builds(
        Field,
        st.sampled_from(
            (
                "name",
                "started",
                "pending",
                "exclusive",
                "queue",
                "connection",
                "queue_binding",
                "config",
                "odd",
            )
        ),
        st.sampled_from(("", "0", "1", "7", "8", "9", "20", "4294967296", "shop", "x" * 300)),
    ),
    max_size=6,
).map(tuple)
REPLIES: st.SearchStrategy[Reply] = st.one_of(
    st.builds(InspectReply, STATUSES, st.none() | st.sampled_from((0, 1, 7, 8, 9)), CLASSES, FIELDS),
    st.builds(ModifyReply, STATUSES, st.none() | st.sampled_from((0, 1, 7))),
    st.builds(MethodReply, STATUSES, st.none() | st.sampled_from((0, 1, 7))),
    st.just(SCHEMA),
    st.builds(SchemaReply, STATUSES),
    st.builds(Notify, st.text("EWI: x", max_size=9)),
    st.just(Invalid()),
)


@dataclass
class Inventory:
    """An inventory that applies the observations."""

    living: dict[str, int] = field(default_factory=dict)
    generation: int = 0

    def take(self, steps: list[Step]) -> None:
        for one in steps:
            if isinstance(one, ObjectSeen) and one.deleted:
                assert one.native_id in self.living, "an end of what was not there"
                del self.living[one.native_id]
            elif isinstance(one, ObjectSeen):
                self.living[one.native_id] = self.generation
            elif isinstance(one, ResyncBegan):
                self.generation += 1
            elif isinstance(one, ResyncEnded) and one.complete:
                self.living = {
                    name: reported for name, reported in self.living.items() if reported == self.generation
                }


class Trial:
    """A console with a changing broker and failures in between."""

    def __init__(self, data: st.DataObject, matching: Matching, short_lived: ShortLived) -> None:
        self.data = data
        config = replace(
            CONFIG,
            matching=matching,
            short_lived=short_lived,
            object_limit=20,
            budget=Budget(50, 4, 0.5),
            request_attempts=2,
            retry_longest=20 * SECOND,
        )
        self.play = ConsolePlay(config)
        self.inventory = Inventory()
        self.answers: Counter[int] = Counter()
        self.open: set[int] = set()
        self.token = 0
        self.runs = 0

    def look(self) -> None:
        steps = self.play.left()
        self.inventory.take(steps)
        for one in steps:
            if isinstance(one, Answer):
                self.answers[one.token] += 1
                assert self.answers[one.token] == 1 or one.outcome is not Outcome.UNKNOWN
        waiting = [self.play.read(send) for send in self.play.waiting if not send.not_after]
        assert len(waiting) <= 4 + 64

    def wish(self) -> None:
        self.token += 1
        number, play = self.data.draw(NUMBERS), self.play
        names = {0: "broker", 1: "config", 7: "queue", 9: "connection"}
        class_name = names.get(number, "queue_binding")
        kind = self.data.draw(st.sampled_from(("fetch", "modify", "call")))
        if kind == "fetch":
            play.take(play.session.handle(fetch(play, number, class_name, self.token), play.now))
        elif kind == "modify":
            play.take(play.session.handle(modify(play, number, class_name, self.token, limit=1), play.now))
        else:
            deadline = play.now + 5 * SECOND
            call = MethodCall(self.token, key(class_name), "broker", native(number), "purge", (), deadline)
            play.take(play.session.handle(call, play.now))

    def happens(self) -> None:
        events = ("answer", "answer", "spoil", "octets", "wait", "wish", "link", "lose", "change")
        getattr(self, self.data.draw(st.sampled_from(events)))()
        self.look()

    def answer(self) -> None:
        if self.play.waiting:
            which = self.data.draw(st.integers(0, len(self.play.waiting) - 1))
            self.play.answers(to=self.play.waiting[which])

    def spoil(self) -> None:
        if self.play.waiting:
            message_id = self.data.draw(st.sampled_from((None, None, "", "c-1")))
            self.play.answers(self.data.draw(REPLIES), to=self.play.waiting[0], message_id=message_id)

    def octets(self) -> None:
        exchange = self.data.draw(st.sampled_from(("amq.direct", "amq.notify")))
        identity = self.play.sent[-1].message_id if self.play.sent else ""
        self.play.arrives(self.data.draw(st.binary(max_size=40)), identity, exchange)

    def wait(self) -> None:
        seconds = self.data.draw(st.sampled_from((0.1, 1, 5, 12)))
        connected = self.play.session.state is not State.DISCONNECTED
        self.play.time_passes(seconds, answering=connected and self.data.draw(st.booleans()))

    def link(self) -> None:
        if self.play.session.state is State.DISCONNECTED:
            self.play.connects()
        else:
            self.play.disconnects()

    def lose(self) -> None:
        if self.play.waiting:
            lost = self.play.waiting.popleft()
            if self.data.draw(st.booleans()):
                self.play.take(self.play.session.handle(NotSent([lost], "no route"), self.play.now))

    def change(self) -> None:
        broker = self.play.broker
        what = self.data.draw(st.sampled_from(("put", "remove", "restart", "doubt")))
        if what == "put" and 20 not in broker.objects:
            exclusive = self.data.draw(st.sampled_from("01"))
            broker.put(20, "queue", 0, name="late", pending="1", exclusive=exclusive)
        elif what == "remove" and 20 in broker.objects:
            broker.remove(20)
        elif what == "restart":
            self.runs += 1
            broker.put(0, "broker", name="shop", started=f"2027-01-01T00:0{self.runs % 10}+00:00")
        else:
            self.play.take(self.play.session.handle(LossSuspected("doubt"), self.play.now))

    def ends_well(self) -> None:
        """Restore normal operation, and assert that the inventory equals the broker's objects."""
        play = self.play
        if play.session.state is State.DISCONNECTED:
            play.connects()
        play.waiting.clear()
        # Whatever was missed, and however long the next attempt was put off.
        for _ in range(24):
            play.time_passes(5)
            self.look()
        play.stands(State.SYNCHRONISED)
        hidden = {9} if play.session._config.short_lived is ShortLived.NO else set()  # noqa: SLF001
        private = {n for n, (_, fields, _) in play.broker.objects.items() if fields.get("exclusive") == "1"}
        hidden |= private if hidden else set()
        trusted = sorted(int(name.rpartition("/")[2]) for name in self.inventory.living)
        assert trusted == sorted(play.broker.objects.keys() - hidden)
        assert set(self.answers) == set(range(1, self.token + 1))
