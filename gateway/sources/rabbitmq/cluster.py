"""Nodes, virtual hosts and features of the cluster, which no single answer of the management API shows.

Each class here combines what several answers and events say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.mapping.paths import Json, integer_at, text_at
from gateway.model.observations import STALE_AFTER
from gateway.model.times import MILLISECOND, SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.broker_identity import Identity
from gateway.sources.rabbitmq.forwarders import FORWARDER_COLUMNS
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.listing import QUEUE_COLUMNS
from gateway.sources.rabbitmq.management_api import DetailRequest
from gateway.sources.rabbitmq.node_details import NodeDetails
from gateway.sources.rabbitmq.object_lives import Change, KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader

NOT_PERMITTED = "notPermitted"
NEEDED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "node": ("os_pid", "uptime", "mem_alarm", "disk_free_alarm", "running", "rates_mode"),
    "queue": QUEUE_COLUMNS,
    "vhost": ("cluster_state",),
    "connection": ("user", "type", "protocol", "client_properties"),
    "consumer": ("channel_details.node",),
    **dict.fromkeys(("streamConsumer", "streamPublisher"), ("connection_details.node",)),
    **FORWARDER_COLUMNS,
}
"""Columns of a listing that the source itself needs, whether or not the mapping shows them."""


LIMITS: Mapping[str, str] = {"max-connections": "maxConnections", "max-queues": "maxQueues"}
"""The limits of a virtual host, and the property that shows each."""
_METADATA = ("description", "tags", "default_queue_type")
"""Properties that a virtual host gets at its creation, and keeps unless an administrator changes them."""
NO_LIMIT = -1
_MOST = 2**31 - 1


START_LATENESS = 6 * SECOND
"""Nanoseconds by which a start is taken too late at most, as long as nothing else is known: RabbitMQ renews a
node's uptime every 5 s (``collect_statistics_interval``)."""
RECOVERY_LASTS = 5 * SECOND
"""Nanoseconds for which a node that accepts clients may go on to report what it recovered: each of its queues
does so by itself, once all have been recovered, which takes its time on a busy machine."""
STARTING_AT_LONGEST = 120 * SECOND
"""Nanoseconds that a node may take from its start until it accepts clients."""
_LONGEST_RENEWAL = 61 * SECOND
"""The same for the decision whether a process is still the same: the interval may be configured."""
_OLDEST_READING = 300 * SECOND
"""The same if the process ran for longer than this before the gateway's start: no doubt is left then."""


def listing_columns(reader: ClassReader) -> tuple[str, ...]:
    """Return the columns that are requested from the management API for each object of a class."""
    needed = NEEDED_COLUMNS.get(reader.schema.key.name, ())
    return tuple(dict.fromkeys((*reader.columns, *needed)))


@dataclass(slots=True)
class NodeStart:
    """A start of a node.

    Attributes:
        process: the id of the operating system's process, as text or as a number.
        time: when it was started (ns), as late as the uptime was old, and never too early.
        seen: when it was first seen to run (ns).
        after: when the node's former process was last seen to run (ns); 0 if none was.
    """

    process: Value | Json
    time: int
    seen: int = 0
    after: int = 0

    @property
    def uptime(self) -> int:
        """How long it had run when it was seen (ns)."""
        return self.seen - self.time


def _process_of(node: Mapping[str, Json]) -> str | None:
    """Return the process of a node, a number as text; ``None`` if none can be read."""
    text = str(node.get("os_pid"))
    return text if text.isascii() and text.isdigit() else None


def _with_process(node: Mapping[str, Json], start: NodeStart) -> Mapping[str, Json]:
    return node if start.process is None else {**node, "os_pid": str(start.process)}


class Nodes:
    """The start times of nodes, and the cluster that they form.

    Attributes:
        identity: which broker it is.
        memory: what nodes use their memory for.
        former: the starts of nodes that were known before the gateway's start.
        former_until: when those were known last (ns).
        statistics_off: whether the broker collects no statistics for its management API, as its overview says
            (``management.disable_stats``, or ``management_metrics_collection`` not permitted).
    """

    def __init__(self) -> None:
        self._running: dict[str, bool] = {}
        self._starts: dict[str, NodeStart] = {}
        self._uptimes: dict[str, tuple[int, int]] = {}  # the last one of each, and when it was read (ns)
        self._renewals: dict[str, int] = {}  # the shortest time (ns) between two uptimes of each
        self._dated: set[str] = set()
        self._doubts: dict[str, NodeStart] = {}  # other processes that one document of each shows
        self._listed: dict[str, int] = {}  # when each was read last (ns)
        self._stood_still: dict[str, int] = {}  # the same, as one that does not run, or starts or stops
        self._plugins: dict[str, frozenset[str]] = {}
        self._partitions: dict[str, list[Json]] = {}
        self._overview: dict[str, Json] = {}
        self._listeners: dict[str, list[Json]] = {}
        self._version: Json = None
        self._measuring: dict[str, bool] = {}
        self.former: dict[str, NodeStart] = {}
        self.former_until = 0
        self.statistics_off = False
        self.identity = Identity()
        self.details = NodeDetails()

    def learn_overview(self, overview: Json) -> bool:
        """Take cluster name and versions from the overview; return whether the broker was upgraded."""
        if not isinstance(overview, Mapping):
            return False
        self.statistics_off = overview.get("disable_stats") is True
        former = self._version
        self._version = overview.get("rabbitmq_version")
        self._overview = {key: overview.get(key) for key in ("cluster_name", "erlang_version")}
        self._listeners = _listeners_in(overview)
        return former is not None and former != self._version

    def completed(
        self, node: Mapping[str, Json], sampled: int, metadata_store: str = ""
    ) -> tuple[Mapping[str, Json], bool]:
        """Return ``node`` with computed fields, and whether it was restarted since it was last seen.

        The start time is ``sampled`` less the uptime. RabbitMQ renews the uptime every few seconds only, so
        the earliest of such differences is the true one. It is shown to the second, so that it changes less;
        a node that was killed and started within one second is known to have started after that.

        A node runs on while its process is the same and its uptime grows: in a container each process has the
        same id. It is shown with its known process until another one is certain. In its first seconds a node
        reports neither: it is shown with those of its run before, which the event log must not forget until
        then, for no longer than a value that is not read again is fresh.

        Partitions that a document of a running node leaves out are what they were: none would end an alarm.
        """
        name, process, uptime = node.get("name"), _process_of(node), integer_at(node, "uptime")
        added: dict[str, Json] = dict(self._overview)
        if metadata_store:
            added["metadata_store"] = metadata_store
        if not isinstance(name, str):
            return {**node, "gateway": added}, False
        if name in self._listeners:
            added["listeners"] = self._listeners[name]
        is_running = self._running[name] = node.get("running") is True
        self._measuring[name] = is_running and text_at(node, "rates_mode") not in {"", "none"}
        self._listed[name] = sampled
        if uptime is not None and 0 <= uptime * MILLISECOND <= sampled:
            restarted = self._timed(name, process, uptime * MILLISECOND, sampled)
            start = self._starts.get(name) or self.former[name]
            added["start_time"] = start.time // SECOND * SECOND
            node = _with_process(node, start)
            (self._dated.add if name in self._starts else self._dated.discard)(name)
            if restarted:
                self.details.forget(name)
                self._partitions.pop(name, None)
            added |= self.details.of(name, sampled)
            if name in self._listeners and not any(map(_uses_tls, self._listeners[name])):
                added["certificates_expiring"] = False  # its check names listeners with TLS only
            return {**self._with_partitions(name, node), "gateway": added}, restarted
        self._dated.discard(name)
        if not is_running or (name in self._starts and not self.statistics_off):
            self._stood_still[name] = sampled
        last = None if process is not None else self._last_run(name, sampled)
        if last is not None and is_running and not self.statistics_off:
            added["start_time"] = last.time // SECOND * SECOND
            node = _with_process(node, last)
        return {**self._with_partitions(name, node), "gateway": added}, False

    def _with_partitions(self, name: str, node: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return a node with its partitions, or those of its last document that has some, while it runs."""
        partitions = node.get("partitions")
        if isinstance(partitions, list):
            self._partitions[name] = partitions
        elif not self._running[name]:
            self._partitions.pop(name, None)
        elif name in self._partitions:
            return {**node, "partitions": self._partitions[name]}
        return node

    def _last_run(self, name: str, sampled: int) -> NodeStart | None:
        """Return the last run of a node that reports none; ``None`` if that was read too long ago."""
        start, read_at = self.former.get(name), self.former_until
        if name in self._starts:
            start, (_, read_at) = self._starts[name], self._uptimes[name]
        return start if sampled - read_at <= STALE_AFTER else None

    def _timed(self, name: str, process: str | None, uptime: int, sampled: int) -> bool:
        """Take the uptime (ns) of a node at ``sampled``; return whether it was restarted meanwhile."""
        known, read = self._starts.get(name), NodeStart(process, sampled - uptime, sampled)
        former, read_at = self._uptimes.get(name, (uptime, sampled))
        is_another = self._is_another(name, read, former, read_at)
        if is_another is None:
            return False
        self._uptimes[name] = uptime, sampled
        if known is None:
            self._starts[name] = read
            return False
        if is_another:
            self._starts[name] = NodeStart(read.process, read.time, sampled, read_at)
            return True
        if uptime > former:
            renewal = uptime - former
            self._renewals[name] = min(renewal, self._renewals.get(name, renewal))
        known.process, known.time = read.process, min(known.time, read.time)
        return False

    def _is_another(self, name: str, read: NodeStart, former: int, read_at: int) -> bool | None:
        """Return whether a document shows another process than the known one; ``None`` if it may do so.

        One odd value is no proof. Process and uptime together are, and one of them in two documents, or after
        the node was seen not to run. The start is none by itself: it moves when this machine's clock is set.
        Only after a start of the gateway it stands for the uptime, of which none is known from before. An
        uptime that is too long is doubtful, too: after it the true one would be less.

        Args:
            name: the node.
            read: what the document shows; it gets the known process if it shows none.
            former: the last uptime (ns), if one was read.
            read_at: when that was read (ns).
        """
        known, doubt = self._starts.get(name) or self.former.get(name), self._doubts.pop(name, None)
        if known is None:
            return False
        if read.process is None:
            read.process = known.process
        is_other = known.process is not None and str(known.process) != str(read.process)
        is_earlier = read.time < known.time - self._renewals.get(name, _LONGEST_RENEWAL) - SECOND
        is_later = self._is_later(name, read, known)
        has_fallen = read.uptime < former if name in self._starts else is_later
        if not (is_other or has_fallen or is_earlier):
            return False
        is_consistent = is_other and (has_fallen or is_later)
        stood_still = self._stood_still.get(name, 0) > read_at
        is_seen_twice = doubt is not None and doubt.process == read.process and doubt.uptime <= read.uptime
        if is_consistent or stood_still or is_seen_twice:
            return is_other or has_fallen
        self._doubts[name] = read
        return None

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

    def questions(self, now: int) -> Iterator[DetailRequest]:
        """Return what is to be asked now for details of nodes."""
        has_tls = any(_uses_tls(one) for texts in self._listeners.values() for one in texts)
        return self.details.to_ask(self.running, now, has_tls=has_tls)

    @property
    def running(self) -> set[str]:
        """The nodes that run, by their listing."""
        return {name for name, running in self._running.items() if running}

    @property
    def listed(self) -> set[str]:
        """All nodes, also those that do not run; empty before they were listed."""
        return set(self._running)

    @property
    def dated(self) -> set[str]:
        """The nodes that run, and of which it is known since when."""
        return self.running & self._dated

    @property
    def names(self) -> set[str]:
        """The nodes that are known to have started."""
        return set(self._starts)

    @property
    def are_dated(self) -> bool:
        """Whether the start of every running node is known; one that starts does not report it yet."""
        return bool(self.running) and self.running <= self._dated - self.in_doubt

    @property
    def in_doubt(self) -> set[str]:
        """The nodes that run, and of which the next document must show whether they were restarted."""
        return self.running & self._doubts.keys()

    @property
    def starting(self) -> list[int]:
        """When each node was listed (ns) that runs, and does not say any more, or yet again, since when."""
        if self.statistics_off:
            return []
        undated = self.running - self._dated | self.in_doubt
        return [self._listed[name] for name in undated if name in self._starts or name in self.former]

    @property
    def measuring(self) -> bool:
        """Whether the counters of all nodes are known, so that an absent counter means zero.

        The share of a node that does not run is missing; with the rates mode ``none`` all are.
        """
        return bool(self._measuring) and all(self._measuring.values())

    def started(self, name: str) -> int:
        """Return when a node was started (ns, never too early); 0 if unknown."""
        return self._starts[name].time if name in self._starts else 0

    def started_after(self, name: str) -> int:
        """Return when a node was started (ns), as far as that is certain: never too late; 0 if unknown.

        A start is as exact as the uptime that it was found by.
        """
        start = self._starts.get(name)
        if start is None:
            return 0
        return max(start.after, start.time - self._renewals.get(name, START_LATENESS) - SECOND)

    def ran_at(self, name: str, time: int) -> bool:
        """Return whether a node was seen to run at ``time`` (ns), or before, in its present process."""
        start = self._starts.get(name)
        return start is not None and start.seen <= time

    def is_start(self, name: str, start: NodeStart) -> bool:
        """Return whether ``start``, of an earlier run of the gateway, is that of a node's present process."""
        present = self._starts.get(name)
        return (
            present is not None
            and not present.after
            and str(present.process) == str(start.process)
            and not self._is_later(name, present, start)
        )

    def _is_later(self, name: str, present: NodeStart, former: NodeStart) -> bool:
        """Return whether a start is another one than that of an earlier run of the gateway, by its time."""
        return (
            present.time - former.time > self._renewals.get(name, _LONGEST_RENEWAL) + SECOND
            # One that was started since was so after the last reading, as old as that may have been.
            and present.time >= self.former_until - _OLDEST_READING
        )

    def is_unsettled(self, name: object, now: int, recovery: int, since: int = 0) -> bool:
        """Return whether a node does not run, or was started less than ``recovery`` ns before ``now``.

        A node may start in the process in which it stopped (``rabbitmqctl stop_app``, ``pause_minority``).
        One that was not listed ``since`` a time (ns) is unsettled, too: it may have stopped. A single node
        never is: that answers nothing before it has recovered its objects.
        """
        if len(self._running or self.former) == 1 or not isinstance(name, str):
            return False
        listed = self._listed.get(name, since if self._running else 0)
        if self._running.get(name) is False or listed < since:
            return True
        last = max(self.started(name), self._stood_still.get(name, 0))
        return last > 0 and now - last < recovery

    def retain(self, names: set[str]) -> None:
        """Forget all other nodes."""
        self.details.retain(names)
        self._starts = {name: start for name, start in self._starts.items() if name in names}
        self._uptimes = {name: uptime for name, uptime in self._uptimes.items() if name in names}
        self._doubts = {name: start for name, start in self._doubts.items() if name in names}
        self._running = {name: running for name, running in self._running.items() if name in names}
        self._plugins = {name: plugins for name, plugins in self._plugins.items() if name in names}
        self._partitions = {name: others for name, others in self._partitions.items() if name in names}
        self._measuring = {name: counts for name, counts in self._measuring.items() if name in names}
        for times in (self._listed, self._stood_still):
            for name in times.keys() - names:
                del times[name]


MAX_LISTENERS: Final = 100
"""Maximum number of listeners of a node that are shown."""


def _listeners_in(overview: Mapping[str, Json]) -> dict[str, list[Json]]:
    """Return the listeners in an overview by node, as texts: ``amqp/ssl [::]:5671``."""
    found: dict[str, list[Json]] = {}
    listed = overview.get("listeners")
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, Mapping):
            continue
        node, protocol, address, port = (one.get(key) for key in ("node", "protocol", "ip_address", "port"))
        if isinstance(node, str) and isinstance(address, str):
            host = f"[{address}]" if ":" in address else address
            found.setdefault(node, []).append(f"{protocol} {host}:{port}")
    return {node: [*sorted(map(str, texts))[:MAX_LISTENERS]] for node, texts in found.items()}


def _uses_tls(listener: Json) -> bool:
    """Return whether a listener, as `_listeners_in` returns it, has a certificate."""
    text = str(listener)
    return text.startswith("https") or "/ssl " in text


class VirtualHosts:
    """Knows which virtual hosts' contents may be read, and the state and limits of each.

    The listing of virtual hosts shows a monitoring user all of them. But the listings of contents silently
    omit those in which the user has no permission.

    Attributes:
        limits_wanted: limits have to be read at once, because those of a virtual host became unknown.
        limits_read_at: when their last reading began (ns); 0 while they are unknown.
    """

    def __init__(self) -> None:
        self._permitted: dict[str, bool] = {}
        self._refused: set[str] = set()
        self._questioned: set[str] = set()
        self._rights_changed: dict[str, int] = {}  # when an event last reported that
        self._missed: dict[str, int] = {}  # that answered 404, and when
        self._listed_since: set[str] = set()  # those of them that a later listing has shown
        self._cluster_states: dict[str, str] = {}
        self._limits: Mapping[str, Mapping[str, Json] | None] | None = None
        self._limits_unread: set[str] = set()  # whose limits were not read since their creation
        self._metadata: dict[str, tuple[Json, ...]] = {}
        self.limits_wanted = False
        self.limits_read_at = 0

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

    def learn_limits(self, limits: Mapping[str, Mapping[str, Json] | None] | None, read_at: int = 0) -> None:
        """Take the limits of all virtual hosts that have any, ``None`` for some that cannot be read.

        Args:
            limits: the limits by virtual host; ``None`` if they may not be read.
            read_at: when that reading began (ns).
        """
        self._limits = limits
        self.limits_read_at = read_at if limits is not None else 0
        self._limits_unread.clear()
        self.limits_wanted = False

    def limits(self, name: str) -> dict[str, int]:
        """Return the limits of a virtual host, -1 for one that is not set; empty if they are unknown."""
        if self._limits is None or name in self._limits_unread:
            return {}
        limits = self._limits.get(name, {})
        if limits is None:
            return {}
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

    def reconsider(self, name: str, now: int) -> None:
        """Take an event that the user has another right there, or none any more: the broker is asked again.

        Until it answers, what it did not permit before counts as unknown: the events of what is made there
        follow at once.
        """
        if self._permitted.get(name) is False:
            del self._permitted[name]
        self._rights_changed[name] = now
        self.question(name)

    def is_outdated(self, name: str, asked: int) -> bool:
        """Return whether the user's rights have changed since the broker was asked (ns)."""
        return asked < self._rights_changed.get(name, 0)

    def give_up(self, name: str) -> None:
        """Note that the question could not be sent."""
        self._questioned.discard(name)

    def missed(self, name: str, now: int) -> bool:
        """Note that the broker answered 404 to the question; return whether it may not be read.

        It may as well have ended: its event, and those of its contents before, may be late. So it may not be
        read if a listing that was requested after an earlier 404 has shown it.
        """
        self._questioned.discard(name)
        self._missed.setdefault(name, now)
        return name in self._listed_since

    def listed(self, names: Iterable[str], asked: int) -> list[str]:
        """Take a listing requested at ``asked`` (ns); return those that it shows after they answered 404."""
        found = sorted(one for one in names if one in self._missed and self._missed[one] <= asked)
        self._listed_since.update(found)
        return found

    def hides(self, name: str) -> bool:
        """Return whether listings may lack its contents, because they may not be read."""
        return name in self._questioned or name in self._refused or name in self._missed

    @property
    def questioned(self) -> bool:
        """Whether a question waits for its answer."""
        return bool(self._questioned)

    def learn(self, name: str, *, permitted: bool) -> bool:
        """Take whether its contents may be read; return whether that has changed."""
        self._questioned.discard(name)
        self._forget_missed(name)
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
        self._rights_changed.pop(name, None)
        self._forget_missed(name)
        self._cluster_states.pop(name, None)
        self._metadata.pop(name, None)

    def _forget_missed(self, name: str) -> None:
        self._missed.pop(name, None)
        self._listed_since.discard(name)

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

    def hides(self, known: KnownObject, now: int, asked: int = 0) -> bool:
        """Return whether answers may lack an object although it exists.

        RabbitMQ 3.10 answers 404 to a request for one queue whose node does not run. So the node must have
        been seen to run since the first of these answers was requested.

        Args:
            known: the object.
            now: the time (ns).
            asked: when an answer was requested that lacks it, if no listing has lacked it before (ns).
        """
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
        node, since = self._property(queue, "node"), known.missed or asked
        return is_listed_as_down or self._nodes.is_unsettled(node, now, RECOVERY, since)

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
        """Return a node of a listing that began at ``began``, with the alarms that events reported since.

        An alarm of a running node that the listing leaves out is what it was.
        """
        name = node.get("name")
        raised: dict[str, Json] = {}
        for element, resource in _LISTED.items():
            known = self._alarms.get((name, resource)) if isinstance(name, str) else None
            left_out = node.get("running") is True and not isinstance(node.get(element), bool)
            if known is not None and (left_out or known.noticed > began - LAG):
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
