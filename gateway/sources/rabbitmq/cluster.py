"""Nodes, virtual hosts and features of the cluster, which no single answer of the management API shows.

Each class here combines what several answers and events say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND, SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.listing import QUEUE_COLUMNS
from gateway.sources.rabbitmq.object_lives import Change, KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader

NOT_PERMITTED = "notPermitted"
NEEDED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "node": ("os_pid", "uptime", "mem_alarm", "disk_free_alarm", "running", "rates_mode"),
    "queue": QUEUE_COLUMNS,
    "vhost": ("cluster_state",),
    "connection": ("user", "type", "client_properties"),
}
"""Columns of a listing that the source itself needs, whether or not the mapping shows them."""


LIMITS: Mapping[str, str] = {"max-connections": "maxConnections", "max-queues": "maxQueues"}
"""The limits of a virtual host, and the property that shows each."""
_METADATA = ("description", "tags", "default_queue_type")
"""Properties that a virtual host gets at its creation, and keeps unless an administrator changes them."""
NO_LIMIT = -1
_MOST = 2**31 - 1


START_LATENESS = 6_000_000_000
"""Nanoseconds by which a start is taken too late at most: RabbitMQ renews a node's uptime every 5 s."""


def listing_columns(reader: ClassReader) -> tuple[str, ...]:
    """Return the columns that are requested from the management API for each object of a class."""
    needed = NEEDED_COLUMNS.get(reader.schema.key.name, ())
    return tuple(dict.fromkeys((*reader.columns, *needed)))


@dataclass(slots=True)
class NodeStart:
    """A start of a node.

    Attributes:
        process: the id of the operating system's process, as text or as a number.
        time: when it was started (ns), up to `START_LATENESS` too late and never too early.
    """

    process: Value | Json
    time: int


class Nodes:
    """The start times of nodes, and the cluster that they form.

    Attributes:
        statistics_off: whether the broker collects no statistics for its management API, as its overview says
            (``management.disable_stats``, or ``management_metrics_collection`` not permitted).
    """

    def __init__(self) -> None:
        self._running: dict[str, bool] = {}
        self._starts: dict[str, NodeStart] = {}
        self._dated: set[str] = set()
        self._plugins: dict[str, frozenset[str]] = {}
        self._overview: dict[str, Json] = {}
        self._version: Json = None
        self._measuring: dict[str, bool] = {}
        self.statistics_off = False

    def learn_overview(self, overview: Json) -> bool:
        """Take cluster name and versions from the overview; return whether the broker was upgraded."""
        if not isinstance(overview, Mapping):
            return False
        self.statistics_off = overview.get("disable_stats") is True
        former = self._version
        self._version = overview.get("rabbitmq_version")
        self._overview = {key: overview.get(key) for key in ("cluster_name", "erlang_version")}
        return former is not None and former != self._version

    def completed(
        self, node: Mapping[str, Json], sampled: int, metadata_store: str = ""
    ) -> tuple[Mapping[str, Json], bool]:
        """Return ``node`` with computed fields, and whether it was restarted since it was last seen.

        The start time is ``sampled`` less the uptime. RabbitMQ renews the uptime every few seconds only, so
        the earliest of such differences is the true one. It is shown to the second, so that it changes less;
        a node that was killed and started within one second is known to have started after that.
        """
        name, uptime, process = (node.get(key) for key in ("name", "uptime", "os_pid"))
        if isinstance(name, str):
            counts = node.get("rates_mode") not in {None, "none"}
            self._measuring[name] = counts and node.get("running") is True
        added: dict[str, Json] = dict(self._overview)
        if isinstance(name, str):
            self._running[name] = node.get("running") is True
        if metadata_store:
            added["metadata_store"] = metadata_store
        restarted = False
        if isinstance(name, str) and isinstance(uptime, int) and 0 <= uptime * MILLISECOND <= sampled:
            start = sampled - uptime * MILLISECOND
            known = self._starts.get(name)
            if known is None or known.process != process:
                restarted = known is not None
                known = self._starts[name] = NodeStart(process, start)
            known.time = min(known.time, start)
            added["start_time"] = known.time // SECOND * SECOND
            self._dated.add(name)
        elif isinstance(name, str):
            self._dated.discard(name)
        return {**node, "gateway": added}, restarted

    def learn_plugins(self, node: Mapping[str, Json]) -> bool:
        """Take the plugins of a node; return whether they have changed."""
        name, plugins = node.get("name"), node.get("enabled_plugins")
        if not isinstance(name, str) or not isinstance(plugins, list):
            return False
        enabled = frozenset(plugin for plugin in plugins if isinstance(plugin, str))
        former = self._plugins.get(name)
        self._plugins[name] = enabled
        return former is not None and former != enabled

    @property
    def without_majority(self) -> str:
        """The reason why changes may wait, in one line; empty while more than half of the nodes run.

        Otherwise changes that need a majority (all metadata of RabbitMQ 4.3 and later, quorum queues) wait in
        the broker, and are carried out when enough nodes run again.
        """
        stopped = [name for name, running in self._running.items() if not running]
        if 2 * len(stopped) < len(self._running) or not stopped:
            return ""
        return (
            f"{len(stopped)} of {len(self._running)} nodes do not run: changes may wait until a majority"
            " runs, and are carried out then"
        )

    @property
    def running(self) -> set[str]:
        """The nodes that run, by their listing."""
        return {name for name, running in self._running.items() if running}

    @property
    def names(self) -> set[str]:
        """The nodes that are known to have started."""
        return set(self._starts)

    @property
    def are_dated(self) -> bool:
        """Whether the start of every running node is known; one that starts does not report it yet."""
        return bool(self.running) and self.running <= self._dated

    @property
    def measuring(self) -> bool:
        """Whether the counters of all nodes are known, so that an absent counter means zero.

        The share of a node that does not run is missing; with the rates mode ``none`` all are.
        """
        return bool(self._measuring) and all(self._measuring.values())

    def started(self, name: str) -> int:
        """Return when a node was started (ns, never too early); 0 if unknown."""
        return self._starts[name].time if name in self._starts else 0

    def is_start(self, name: str, start: NodeStart) -> bool:
        """Return whether ``start`` is that of a node's present process."""
        present = self._starts.get(name)
        return (
            present is not None
            and str(present.process) == str(start.process)
            and abs(present.time - start.time) <= START_LATENESS + SECOND  # one of them may be rounded
        )

    def is_unsettled(self, name: object, now: int, recovery: int) -> bool:
        """Return whether a node does not run, or was started less than ``recovery`` ns before ``now``.

        It is false for a single node: that answers nothing before it has recovered its objects.
        """
        if len(self._running) == 1 or not isinstance(name, str):
            return False
        start = self._starts.get(name)
        return self._running.get(name) is False or (start is not None and now - start.time < recovery)

    def retain(self, names: set[str]) -> None:
        """Forget all other nodes."""
        self._starts = {name: start for name, start in self._starts.items() if name in names}
        self._running = {name: running for name, running in self._running.items() if name in names}
        self._plugins = {name: plugins for name, plugins in self._plugins.items() if name in names}
        self._measuring = {name: counts for name, counts in self._measuring.items() if name in names}


class VirtualHosts:
    """Knows which virtual hosts' contents may be read, and the state and limits of each.

    The listing of virtual hosts shows a monitoring user all of them. But the listings of contents silently
    omit those in which the user has no permission.

    Attributes:
        limits_wanted: limits have to be read at once, because those of a virtual host became unknown.
    """

    def __init__(self) -> None:
        self._permitted: dict[str, bool] = {}
        self._refused: set[str] = set()
        self._questioned: set[str] = set()
        self._missed: set[str] = set()
        self._cluster_states: dict[str, str] = {}
        self._limits: Mapping[str, Mapping[str, Json]] | None = None
        self._limits_unread: set[str] = set()  # whose limits were not read since their creation
        self._metadata: dict[str, tuple[Json, ...]] = {}
        self.limits_wanted = False

    def completed(self, vhost: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return ``vhost`` with its state and its limits."""
        name = vhost.get("name")
        if not isinstance(name, str):
            return vhost
        self._cluster_states[name] = _cluster_state(vhost.get("cluster_state"))
        # Nothing in a listing says when a virtual host was created. If its metadata are others, another one
        # may have the name, which has limits of its own.
        metadata = tuple(vhost.get(key) for key in _METADATA)
        if self._metadata.setdefault(name, metadata) != metadata:
            self._metadata[name] = metadata
            self._limits_unread.add(name)
            self.limits_wanted = True
        return {**vhost, "gateway": {"state": self.state(name), **self.limits(name)}}

    def learn_limits(self, limits: Mapping[str, Mapping[str, Json]] | None) -> None:
        """Take the limits of all virtual hosts that have any; ``None`` if they may not be read."""
        self._limits = limits
        self._limits_unread.clear()
        self.limits_wanted = False

    def limits(self, name: str) -> dict[str, int]:
        """Return the limits of a virtual host, -1 for one that is not set; empty if they are unknown."""
        if self._limits is None or name in self._limits_unread:
            return {}
        limits = self._limits.get(name, {})
        # RabbitMQ accepts any negative number for no limit, and shows it.
        shown = ((limit, limits.get(limit, NO_LIMIT)) for limit in LIMITS)
        return {
            limit: max(NO_LIMIT, value)
            for limit, value in shown
            if isinstance(value, int) and not isinstance(value, bool) and value <= _MOST
        }

    def state(self, name: str) -> str | None:
        """Return the state of a virtual host; ``None`` while it is unknown."""
        permitted = self._permitted.get(name)
        if permitted is None:
            return None
        return (self._cluster_states.get(name) or None) if permitted else NOT_PERMITTED

    def permitted(self, name: str) -> bool | None:
        """Return whether its contents may be read; ``None`` while that is unknown."""
        return self._permitted.get(name)

    def question(self, name: str) -> None:
        """Note that the broker is asked whether its contents may (still) be read."""
        self._questioned.add(name)

    def give_up(self, name: str) -> None:
        """Note that the question could not be sent."""
        self._questioned.discard(name)

    def missed(self, name: str) -> bool:
        """Note that the broker answered 404; return whether that is the first time since another answer."""
        first = name not in self._missed
        self._missed.add(name)
        return first

    def hides(self, name: str) -> bool:
        """Return whether listings may lack its contents, because they may not be read."""
        return name in self._questioned or name in self._refused

    @property
    def questioned(self) -> bool:
        """Whether a question waits for its answer."""
        return bool(self._questioned)

    def learn(self, name: str, *, permitted: bool) -> bool:
        """Take whether its contents may be read; return whether that has changed."""
        self._questioned.discard(name)
        if permitted:
            self._missed.discard(name)
        news = self._permitted.get(name) is not permitted
        self._permitted[name] = permitted
        (self._refused.discard if permitted else self._refused.add)(name)
        return news

    def forget(self, name: str) -> None:
        """Drop permissions and limits: the virtual host ended, or another one has its name."""
        if self._limits is not None:
            self._limits_unread.add(name)
        self._permitted.pop(name, None)
        self._refused.discard(name)
        self._questioned.discard(name)
        self._missed.discard(name)
        self._cluster_states.pop(name, None)
        self._metadata.pop(name, None)

    @property
    def refused(self) -> frozenset[str]:
        """The virtual hosts whose contents may not be read."""
        return frozenset(self._refused)

    @property
    def not_permitted(self) -> int:
        """The number of virtual hosts whose contents may not be read."""
        return len(self._refused)


def _cluster_state(states: Json) -> str:
    """Return one state for the states on each node; empty if the answer has none."""
    if not isinstance(states, Mapping) or not states:
        return ""
    running = sum(state == "running" for state in states.values())
    if running == len(states):
        return "running"
    return "partlyRunning" if running else "stopped"


FEATURE_FLAG: Final = "featureFlag"
DEPRECATED_FEATURE: Final = "deprecatedFeature"
KHEPRI: Final = "khepri"
MNESIA: Final = "mnesia"
_KHEPRI_FLAG: Final = "khepri_db"


class Features:
    """Knows which deprecated features are in use, and where definitions are stored.

    Attributes:
        metadata_store: `KHEPRI` or `MNESIA`; empty while the feature flags were not read.
    """

    def __init__(self) -> None:
        self.metadata_store = ""
        self._khepri = False
        self._used: frozenset[str] | None = None

    def listed_flag(self, flag: Mapping[str, Json]) -> None:
        """Take a feature flag from the listing in progress."""
        if flag.get("name") == _KHEPRI_FLAG:
            self._khepri = flag.get("state") == "enabled"

    def flags_listed(self) -> None:
        """Take the end of a listing of feature flags; brokers before 3.13 have none of that name."""
        self.metadata_store = KHEPRI if self._khepri else MNESIA
        self._khepri = False

    def completed(self, feature: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return a deprecated feature with whether it is in use, if that is known."""
        name = feature.get("name")
        if not isinstance(name, str):
            return feature
        return {**feature, "gateway": {"in_use": self.is_used(name)}}

    def is_used(self, name: str) -> bool | None:
        """Return whether a deprecated feature is in use; ``None`` if unknown."""
        return None if self._used is None else name in self._used

    def learn_used(self, answer: Json) -> None:
        """Take ``GET /api/deprecated-features/used``; anything but a list means that it is unknown."""
        if not isinstance(answer, list):
            self._used = None
            return
        names = (feature.get("name") for feature in answer if isinstance(feature, Mapping))
        self._used = frozenset(name for name in names if isinstance(name, str))


RECOVERY: Final = 60 * SECOND
"""Nanoseconds from the start of a node within which it may still be recovering its objects."""
DOWN: Final = "down"

_INTERNAL_USER: Final = "rmq-internal"
"""The user whom events name if no client requested the end of an object."""
_ACTING_USER: Final = "user_who_performed_action"


class NodeFailures:
    """Distinguishes objects that are unreachable with their node from objects that ended.

    RabbitMQ 3.10 reports the end of each durable classic queue, and of its bindings, when the node of the
    queue goes down. Afterwards it lists the queue as down, and its bindings not at all. While a node of a
    cluster starts, the others list its objects neither as running nor as down. All of them are back,
    unchanged, when the node is. Objects that were deleted unnoticed meanwhile are shown until then, without
    statistics and without a state.

    Args:
        readers: the reader of each class.
        known: the objects.
        nodes: which nodes run, and since when.
    """

    def __init__(self, readers: Mapping[str, ClassReader], known: KnownObjects, nodes: Nodes) -> None:
        self._readers = readers
        self._known = known
        self._nodes = nodes

    def went_out_of_reach(self, name: ObjectName, headers: Mapping[str, Json]) -> list[Change] | None:
        """Return the changes after an event of the end of an object that lives on; ``None`` if it did end.

        Args:
            name: the object of which the event reports the end.
            headers: the headers of the event.
        """
        known = self._known.get(name)
        if known is None or not self._is_kept(known):
            return None
        match name.class_name:
            case "queue" if _ACTING_USER not in headers and headers.get("user") == _INTERNAL_USER:
                return self._without_values(known, DOWN, known.sampled)
            case "binding" if headers.get(_ACTING_USER) == _INTERNAL_USER:
                return []  # it ended with its queue
        return None

    def hides(self, known: KnownObject, now: int) -> bool:
        """Return whether listings may lack an object although it exists."""
        match known.name.class_name:
            case "queue":
                queue: KnownObject | None = known
            case "binding":
                queue = self._queue_of(known)
            case _:
                return False
        if queue is None or not self._is_kept(known):
            return False
        is_listed_as_down = queue is not known and self._property(queue, "state") == DOWN
        return is_listed_as_down or self._nodes.is_unsettled(self._property(queue, "node"), now, RECOVERY)

    def missed(self, seen: set[ObjectName], now: int) -> list[Change]:
        """Remove the values of queues that a listing lacked, and that may live on."""
        missed = [known for known in self._known.of_class("queue") if known.name not in seen and known.listed]
        return [
            change
            for known in missed
            if self.hides(known, now)
            for change in self._without_values(known, None, now)
        ]

    def _without_values(self, queue: KnownObject, state: str | None, now: int) -> list[Change]:
        unmeasured = self._known.without_statistics(queue.name, now)
        left = self._known.get(queue.name) or queue
        return [*unmeasured, *self._known.with_property(left, "state", state)]

    def _queue_of(self, binding: KnownObject) -> KnownObject | None:
        kind, name = (self._property(binding, element) for element in ("destinationType", "destination"))
        if kind != "queue" or not isinstance(name, str):
            return None
        return self._known.get(ObjectName("queue", (binding.name.parts[0], name)))

    def _is_kept(self, known: KnownObject) -> bool:
        """Return whether it is a queue or binding that outlives the process of its node."""
        if known.name.class_name not in {"queue", "binding"}:
            return False
        exclusive = known.name.class_name == "queue" and self._property(known, "exclusive") is True
        return self._property(known, "durable") is True and not exclusive

    def _property(self, known: KnownObject, element: str) -> Value | None:
        return known.properties[self._readers[known.name.class_name].schema.positions[element]]


ALARM_EVENTS: Mapping[str, bool] = {"alarm.set": True, "alarm.cleared": False}
LAG = 15 * SECOND
"""Nanoseconds for which a listing that contradicts an event, or a blocked connection, is ignored."""
_LISTED = {"mem_alarm": "memory", "disk_free_alarm": "disk"}

ELEMENTS: Mapping[str, str] = {"memory": "memoryAlarm", "disk": "diskFreeAlarm"}
"""The property of class ``node`` for each resource that alarms are about."""


@dataclass(frozen=True, slots=True)
class _Alarm:
    raised: bool
    noticed: int


class ResourceAlarms:
    """The alarms of all nodes.

    The broker takes no messages while any node's memory or disk alarm is raised. Events report that at once.
    Listings, which lag behind, report what was missed. A connection that the broker blocks reports it if
    neither did.
    """

    def __init__(self) -> None:
        self._alarms: dict[tuple[str, str], _Alarm] = {}
        self._blocked_at = 0

    @property
    def blocked(self) -> bool:
        """Whether messages published over AMQP wait until an alarm is cleared."""
        return bool(self._blocked_at) or any(alarm.raised for alarm in self._alarms.values())

    def event(self, event: str, headers: Mapping[str, Json], time: int) -> None:
        """Apply an event that an alarm was set or cleared.

        Args:
            event: the routing key.
            headers: the headers.
            time: when that was, or when it was noticed (ns): listings of later than `LAG` after it are right.
        """
        node, resource = headers.get("node"), headers.get("source")
        if event in ALARM_EVENTS and isinstance(node, str) and isinstance(resource, str):
            self._alarms[node, resource] = _Alarm(ALARM_EVENTS[event], time)
            if not ALARM_EVENTS[event]:
                self._blocked_at = 0

    def completed(self, node: Mapping[str, Json], began: int) -> Mapping[str, Json]:
        """Return a node of a listing that began at ``began``, with the alarms that events reported since."""
        name = node.get("name")
        raised: dict[str, Json] = {}
        for element, resource in _LISTED.items():
            known = self._alarms.get((name, resource)) if isinstance(name, str) else None
            if known is not None and known.noticed > began - LAG:
                raised[element] = known.raised
        return {**node, **raised} if raised else node

    def listed(self, node: Mapping[str, Json], began: int) -> None:
        """Apply a node of a listing that began at ``began``."""
        name = node.get("name")
        if not isinstance(name, str):
            return
        for element, resource in _LISTED.items():
            raised, known = node.get(element), self._alarms.get((name, resource))
            if isinstance(raised, bool) and (known is None or known.noticed <= began - LAG):
                self._alarms[name, resource] = _Alarm(raised, known.noticed if known else 0)

    def finished(self, names: set[str], began: int) -> None:
        """Apply the end of a listing of all nodes: others are gone, and a blocked connection is outdated."""
        self._alarms = {key: alarm for key, alarm in self._alarms.items() if key[0] in names}
        if self._blocked_at <= began - LAG:
            self._blocked_at = 0

    def connection_blocked(self, now: int) -> None:
        """Note that the broker blocks a connection of the gateway."""
        self._blocked_at = now
