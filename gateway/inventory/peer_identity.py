"""Which peer a source reads: it is noticed when another one answers under the source's name.

A mapping says which elements of a class identify its peer: an id, and a place such as the name of its machine
(`gateway.mapping.rules.IdentityRule`). Another peer is one with another id, and in none of the known places.
Without that, objects of the same names would be the same ones, with counters that go on.

From a lost connection or a restart on, and after the gateway's start, reports wait until such an object has
shown that the peer is the same, or a complete reading that it is another one: then those of the former one
end first. If the connection is lost before the reading is complete, and only other objects were shown, whose
reports these are is never known: they are not used. A reading of one agent decides about that agent only:
others may report the same classes of other brokers.

What waited in a durable queue cannot wait here, as it is acknowledged when it is recorded. The link of such a
source asks for these objects before it reads the queue, and `PeerWatch.replaced` decides by the answers. An
agent that restarts later, or did not answer, has to be asked as well before its objects are used: these are
`PeerWatch.doubted`, and the link begins again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from gateway.inventory.classes import ClassRegistry
from gateway.mapping.rules import IdentityRule
from gateway.model.observations import (
    EVENT_DELAY_BOUNDS,
    AgentGone,
    AgentLost,
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    PeerReplaced,
    RecordLost,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.times import SECOND

PATIENCE: Final = 60 * SECOND
"""Nanoseconds that reports wait at most for an object that identifies the peer."""
MOST_WAITING: Final = 50_000
"""Reports that wait at most, also if another peer is suspected."""

_LOST: Final = frozenset({SourceState.CONNECTING, SourceState.DOWN})
_PASSES: Final = (ClassLearned, EventLearned, SourceStateSeen)


class Peer(msgspec.Struct):
    """What objects of one class show of the peer.

    Attributes:
        ids: the ids, as texts.
        places: the places, as texts.
        agents: the agents that reported these objects.
    """

    ids: set[str] = msgspec.field(default_factory=set)
    places: set[str] = msgspec.field(default_factory=set)
    agents: set[str] = msgspec.field(default_factory=set)

    def __str__(self) -> str:
        places = f" at {', '.join(sorted(self.places))}" if self.places else ""
        return f"{', '.join(sorted(self.ids))}{places}"

    def is_other_than(self, known: Peer) -> bool:
        """Return whether all ids and places are others than those of ``known``; places may be unknown."""
        by_id = bool(self.ids and known.ids) and self.ids.isdisjoint(known.ids)
        return by_id and self.places.isdisjoint(known.places)

    def add(self, other: Peer) -> None:
        """Add what other objects show."""
        self.ids |= other.ids
        self.places |= other.places
        self.agents |= other.agents


class PeerWatch:
    """Holds reports back until it is known whose they are.

    Args:
        classes: knows which classes identify a peer.
        holds: whether reports may wait; if not, each passes, and only `replaced` finds another one. The
            caller drops those that are `doubted`, and asks.
    """

    def __init__(self, classes: ClassRegistry, *, holds: bool = True) -> None:
        self._classes = classes
        self._holds = holds
        self._identifying: dict[ClassKey, ClassSchema] = {}
        self._known: dict[str, Peer] = {}  # by class (``package:name``)
        self._shown: dict[str, Peer] = {}
        self._held: deque[Observation] = deque()
        self._restarts: list[Observation] = []  # of reports that were not used: they hold for the next ones
        self._left: set[str] = set()  # the agents that are not there, until they show the peer again
        self._suspected_at = 0
        self._is_suspected = False
        self._unproven: set[str] = set()  # the agents that may be another peer's since they were asked
        self._doubted: set[str] = set()  # those that are to be asked again
        self._silent: set[str] = set()  # those that were, and did not answer
        self._reads_first = False  # everything, since agents were asked

    def restore(self, class_name: str, agent: str, values: Mapping[str, object]) -> None:
        """Take an object of before the gateway's start, with the values of its elements as texts."""
        rule = self._classes.identity_rule(class_name)
        if rule is not None:
            shown = _peer(rule, values.get(rule.id), values.get(rule.place), agent)
            self._known.setdefault(class_name, Peer()).add(shown)
            self._is_suspected = True

    @property
    def asked(self) -> dict[str, frozenset[str]]:
        """The classes whose objects distinguish the known peer from another one, each with its agents."""
        return {name: frozenset(known.agents) for name, known in self._known.items() if known.ids}

    def is_shown(self, shown: Collection[Observation]) -> bool:
        """Return whether classes and objects that agents have just shown are of the known peer."""
        found = self._found(shown)
        foreign = self._foreign_of(found)
        return any(name in self._known and name not in foreign for name in found)

    def is_answered(self, shown: Collection[Observation], answered: Collection[str]) -> bool:
        """Return whether the known peer has answered, or all agents that were in doubt."""
        return self.is_shown(shown) or bool(self._doubted and self._doubted.issubset(answered))

    def replaced(
        self, shown: Collection[Observation], answered: Collection[str], silent: Collection[str] = ()
    ) -> PeerReplaced | None:
        """Return that another peer was shown in the place of the known one; that one is known from here on.

        Args:
            shown: classes and objects, as agents have just shown them.
            answered: the agents that have shown all their objects of the `asked` classes.
            silent: those that were asked, and have not.
        """
        is_shown = self.is_shown(shown)
        self._silent = (self._silent | self._doubted).intersection(silent)
        self._unproven = set() if is_shown else set(silent) - self._silent
        self._doubted.clear()
        self._reads_first = True
        found = self._found(shown)
        foreign = self._foreign_of(found)
        agents = {agent for name in foreign for agent in self._known_of(name).agents}
        replaced = agents.intersection(answered)
        if not replaced or is_shown:
            return None
        texts = [self._forget(name, one, replaced) for name, one in foreign.items()]
        for name, one in found.items():
            self._known.setdefault(name, Peer()).add(one)
        return PeerReplaced(frozenset(replaced), "; ".join(texts))

    def doubted(self, observations: Iterable[Observation]) -> frozenset[str]:
        """Return the agents that show objects, and may be another peer's: they are to be asked before.

        An agent is in doubt when it has restarted, or did not answer when it was asked (`replaced`). One that
        does not answer then either is in doubt no longer: it would never be read.
        """
        found = set[str]()
        for observation in () if self._holds else observations:
            match observation:
                case ResyncBegan(agent, restarted=restarted):
                    # The first reading reports restarts of before they were asked.
                    if restarted and (agent or not self._reads_first):
                        self._unproven |= self._identified_agents(agent)
                    self._reads_first = self._reads_first and bool(agent)
                case ObjectSeen(agent=agent) if agent in self._unproven:
                    found |= self._identified_agents(agent)
        self._doubted |= found
        return frozenset(found)

    def _identified_agents(self, agent: str) -> set[str]:
        """Return the agents that are `asked`; if one is named, it alone, or none."""
        asked = {one for agents in self.asked.values() for one in agents}
        return asked & {agent} if agent else asked

    def _found(self, shown: Collection[Observation]) -> dict[str, Peer]:
        """Return what classes and objects show, by class."""
        found: dict[str, Peer] = {}
        for observation in shown:
            if isinstance(observation, ClassLearned):
                self._learned(observation.schema)
            elif isinstance(observation, ObjectSeen) and (one := self._identified(observation)) is not None:
                found.setdefault(one[0], Peer()).add(one[1])
        return found

    def is_indifferent_to(self, observation: Observation) -> bool:
        """Return whether `passed` would return just this observation, as nearly always."""
        return (
            not (self._is_suspected and self._holds)
            and isinstance(observation, ObjectSeen | EventSeen | HeartbeatSeen)
            and (not isinstance(observation, ObjectSeen) or observation.key not in self._identifying)
        )

    def passed(self, observation: Observation, now: int) -> Collection[Observation]:
        """Return what is to be applied now of this observation and of earlier ones that wait."""
        if not self._holds:
            self._learn(observation)
            return (observation,)
        if isinstance(observation, SourceStateSeen) and observation.state in _LOST:
            released = self._unused(now) if self._foreign() else self._decided()
            self._is_suspected = bool(self._known)
            return [*released, observation]
        shown = self._noted(observation)
        if not self._is_suspected and not self._is_foreign(shown):
            if shown is not None:
                self._known.setdefault(shown[0], Peer()).add(shown[1])
            return (observation,)
        if isinstance(observation, _PASSES):
            return (observation,)
        self._is_suspected = True
        if not self._held:
            self._suspected_at = now
            self._held.extend(self._restarts)
            self._restarts.clear()
        self._held.append(observation)
        if shown is not None:
            self._shown.setdefault(shown[0], Peer()).add(shown[1])
        if self._is_settled(observation):
            return self._decided(observation)
        return ()

    def _noted(self, observation: Observation) -> tuple[str, Peer] | None:
        """Note classes, restarts and departures; return what an object shows of the peer, with its class."""
        match observation:
            case ClassLearned(schema):
                self._learned(schema)
            case ResyncBegan(restarted=True):
                self._is_suspected = self._is_suspected or bool(self._known)
            case AgentGone(agent) | AgentLost(agent, leaving=True):
                self._left.add(agent)
            case ObjectSeen():
                shown = self._identified(observation)
                self._left -= set() if shown is None else shown[1].agents
                return shown
        return None

    def _learned(self, schema: ClassSchema) -> None:
        if self._rule(schema.key) is not None:
            self._identifying[schema.key] = schema

    def overdue(self, now: int) -> Collection[Observation]:
        """Return what has waited too long for an object that would identify the peer."""
        waits = self._held and not self._foreign()
        return self._decided() if waits and now - self._suspected_at > PATIENCE else ()

    def _identified(self, seen: ObjectSeen) -> tuple[str, Peer] | None:
        """Return what an object shows of the peer, with its class; ``None`` for all but few objects."""
        schema, rule = self._identifying.get(seen.key), self._rule(seen.key)
        if schema is None or rule is None or seen.deleted or seen.properties is None:
            return None
        positions = (schema.positions.get(name, len(seen.properties)) for name in (rule.id, rule.place))
        values = (*seen.properties, None)
        identity, place = (values[min(position, len(seen.properties))] for position in positions)
        return schema.class_name, _peer(rule, identity, place, seen.agent)

    def _rule(self, key: ClassKey) -> IdentityRule | None:
        return self._classes.identity_rule(f"{key.package}:{key.name}")

    def _is_foreign(self, shown: tuple[str, Peer] | None) -> bool:
        """Return whether another peer is shown in the place of the known one, not by a further agent."""
        if shown is None:
            return False
        known = self._known_of(shown[0])
        is_in_place = not known.agents.isdisjoint(shown[1].agents | self._left)
        return is_in_place and shown[1].is_other_than(known)

    def _foreign(self) -> dict[str, Peer]:
        """Return the classes that show another peer than the known one, and none of its objects."""
        return self._foreign_of(self._shown)

    def _foreign_of(self, shown: Mapping[str, Peer]) -> dict[str, Peer]:
        return {name: one for name, one in shown.items() if one.is_other_than(self._known_of(name))}

    def _known_of(self, class_name: str) -> Peer:
        return self._known.get(class_name, Peer())

    def _is_settled(self, last: Observation) -> bool:
        if self._shown and not self._foreign():
            return True
        ends = isinstance(last, ResyncEnded) and last.complete and not last.class_name
        return ends or len(self._held) >= MOST_WAITING

    def _read(self, agents: set[str], last: Observation | None) -> set[str]:
        """Return those agents of which nothing is left to be read after the report that decides."""
        if not isinstance(last, ResyncEnded):
            return set(agents)
        return agents & {last.agent, *self._left} if last.agent else agents - last.without

    def _unused(self, now: int) -> list[Observation]:
        """Forget what waited: it may be of the known peer, of which the rest was not read, or of another one.

        All objects are read again with the next connection; what is not repeated is a gap.
        """
        held = list(self._held)
        shown = ", ".join(map(str, self._foreign().values()))
        restarts = (one for one in held if isinstance(one, ResyncBegan) and one.restarted)
        self._restarts = list(dict.fromkeys(restarts))
        self._held.clear()
        self._shown.clear()
        gaps: list[Observation] = [one for one in held if isinstance(one, Gap)]
        if any(map(_is_once, held)):
            start = min(self._suspected_at - EVENT_DELAY_BOUNDS[1], now)
            text = f"the link was lost before it was known whether {shown} is another broker"
            gaps.append(Gap(start, now, f"{text}: its events until then are not used"))
        return gaps

    def _decided(self, last: Observation | None = None) -> list[Observation]:
        """Return what waited, behind the ends of another peer's objects if it is of another one.

        ``last`` is the report that decides; ``None`` if the decision is that the peer is the same.
        """
        held, foreign = list(self._held), self._foreign()
        out: list[Observation] = []
        for name, shown in foreign.items():
            replaced = self._read(self._known[name].agents, last)
            text = self._forget(name, shown, replaced)
            if replaced:
                out.append(PeerReplaced(frozenset(replaced), text))
        for name, shown in self._shown.items():
            self._known.setdefault(name, Peer()).add(shown)
        self._held.clear()
        self._shown.clear()
        self._is_suspected = False
        return [*out, *held]

    def _learn(self, observation: Observation) -> None:
        """Note what an observation, which passes, shows of the known peer."""
        shown = self._noted(observation)
        if isinstance(observation, AgentGone):
            self._gone(observation.agent)
        if shown is not None and not self._is_foreign(shown):
            self._known.setdefault(shown[0], Peer()).add(shown[1])

    def _gone(self, agent: str) -> None:
        """Forget an agent, of whose objects none is left: it is not asked any more."""
        for known in self._known.values():
            known.agents.discard(agent)
        self._known = {name: known for name, known in self._known.items() if known.agents}

    def _forget(self, class_name: str, shown: Peer, replaced: set[str]) -> str:
        """Forget what these agents showed, and return for people which peer is in the place of which."""
        known = self._known[class_name]
        text = f"another broker, or another run of it, is read, {shown}, in the place of {known}"
        known.agents -= replaced
        if not known.agents:
            del self._known[class_name]
        return text


def _is_once(report: Observation) -> bool:
    """Return whether no later reading shows what was reported: an event, or an end."""
    is_end = isinstance(report, ObjectSeen) and report.deleted > 0
    return is_end or isinstance(report, EventSeen | RecordLost)


def _peer(rule: IdentityRule, identity: object, place: object, agent: str) -> Peer:
    """Return what one object shows, by its values in the model or in the log."""
    ids, places = (
        set() if value is None or str(value) in {"", *rule.unknown} else {str(value)}
        for value in (identity, place)
    )
    return Peer(ids, places, {agent})
