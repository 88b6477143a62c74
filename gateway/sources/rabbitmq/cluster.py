"""What the agent works out itself because no single answer of the management API tells it.

It is put beside what the API tells, under the key ``gateway`` of each JSON object, where the mapping's paths
find it like anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.mapping.paths import Json
from gateway.model.values import Value
from gateway.sources.rabbitmq import queues

NOT_PERMITTED = "notPermitted"
NEEDED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "node": ("os_pid", "uptime", "mem_alarm", "disk_free_alarm", "running", "rates_mode"),
    "queue": queues.COLUMNS,
    "vhost": ("cluster_state",),
    "connection": ("user", "type", "client_properties"),
}
"""What the agent needs of a listing for its own work, whether or not the mapping shows it."""
LIMITS: Mapping[str, str] = {"max-connections": "maxConnections", "max-queues": "maxQueues"}
"""What a virtual host may be limited in, and the property that tells it."""
NO_LIMIT = -1
_MOST = 2**31 - 1
_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000


START_LATENESS = 6_000_000_000
"""Nanoseconds. RabbitMQ renews a node's uptime every 5 s, by which its start is known."""


@dataclass(slots=True)
class NodeStart:
    """A start of a node.

    Attributes:
        process: the number of the operating system's process, as text or as a number.
        time: when that was (ns, to the second), up to `START_LATENESS` too late.
    """

    process: Value | Json
    time: int


class Nodes:
    """Start times of nodes, and the cluster they form.

    Attributes:
        statistics_off: whether the broker collects no statistics for its management API, as its overview
            says (``management.disable_stats``, or ``management_metrics_collection`` not permitted).
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
        """Take the cluster's name and Erlang's version from the overview; whether it is another version.

        That is so where the broker was upgraded since the last overview.
        """
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
        """``node`` with what is worked out, and whether it has been restarted since it was last seen.

        The start time is ``sampled`` less the uptime, to the second. RabbitMQ renews the uptime every few
        seconds only, so that the earliest of such differences is the true one.
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
        if isinstance(name, str) and isinstance(uptime, int) and 0 <= uptime * _MILLISECOND <= sampled:
            start = (sampled - uptime * _MILLISECOND) // _SECOND * _SECOND
            known = self._starts.get(name)
            if known is None or known.process != process:
                restarted = known is not None
                known = self._starts[name] = NodeStart(process, start)
            known.time = min(known.time, start)
            added["start_time"] = known.time
            self._dated.add(name)
        elif isinstance(name, str):
            self._dated.discard(name)
        return {**node, "gateway": added}, restarted

    def learn_plugins(self, node: Mapping[str, Json]) -> bool:
        """Take note of the plugins of a node; whether they are others than before."""
        name, plugins = node.get("name"), node.get("enabled_plugins")
        if not isinstance(name, str) or not isinstance(plugins, list):
            return False
        enabled = frozenset(plugin for plugin in plugins if isinstance(plugin, str))
        former = self._plugins.get(name)
        self._plugins[name] = enabled
        return former is not None and former != enabled

    @property
    def without_majority(self) -> str:
        """Why changes may wait, in one line; empty while more than half of the nodes run.

        What needs a majority (all metadata of RabbitMQ 4.3 and later, quorum queues) waits in the broker
        then, and is carried out when enough nodes run again.
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
        """Whether it is known of each node that runs when it was started; one that starts does not tell."""
        return bool(self.running) and self.running <= self._dated

    @property
    def measuring(self) -> bool:
        """Whether the counters of all nodes are known, so that one that is left out has counted nothing.

        Without a node that does not run its share is missing; with the rates mode ``none`` all are.
        """
        return bool(self._measuring) and all(self._measuring.values())

    def started(self, name: str) -> int:
        """When a node was started (ns, to the second); 0 where that is not known."""
        return self._starts[name].time if name in self._starts else 0

    def is_start(self, name: str, start: NodeStart) -> bool:
        """Whether ``start`` is that of a node's present process."""
        present = self._starts.get(name)
        return (
            present is not None
            and str(present.process) == str(start.process)
            and abs(present.time - start.time) <= START_LATENESS
        )

    def is_unsettled(self, name: object, now: int, recovery: int) -> bool:
        """Whether a node does not run, or was started less than ``recovery`` ns before ``now``.

        Not where there is one node only: it answers nothing before it has recovered what it has.
        """
        if len(self._running) == 1 or not isinstance(name, str):
            return False
        start = self._starts.get(name)
        return self._running.get(name) is False or (start is not None and now - start.time < recovery)

    def retain(self, names: set[str]) -> None:
        """Forget all nodes but these."""
        self._starts = {name: start for name, start in self._starts.items() if name in names}
        self._running = {name: running for name, running in self._running.items() if name in names}
        self._plugins = {name: plugins for name, plugins in self._plugins.items() if name in names}
        self._measuring = {name: counts for name, counts in self._measuring.items() if name in names}


class VirtualHosts:
    """Which virtual hosts' contents may be read, and what state to show of each.

    A monitoring user sees all virtual hosts in their listing, but the contents of those only in which it has
    a permission; the listings of contents leave out the others without a word.
    """

    def __init__(self) -> None:
        self._permitted: dict[str, bool] = {}
        self._refused: set[str] = set()
        self._doubted: set[str] = set()
        self._cluster_states: dict[str, str] = {}
        self._limits: Mapping[str, Mapping[str, Json]] | None = None
        self._limits_unread: set[str] = set()  # whose limits were not read since they came

    def completed(self, vhost: Mapping[str, Json]) -> Mapping[str, Json]:
        """``vhost`` with its state and its limits worked out."""
        name = vhost.get("name")
        if not isinstance(name, str):
            return vhost
        self._cluster_states[name] = _cluster_state(vhost.get("cluster_state"))
        return {**vhost, "gateway": {"state": self.state(name), **self.limits(name)}}

    def learn_limits(self, limits: Mapping[str, Mapping[str, Json]] | None) -> None:
        """Take the limits of all virtual hosts that have any; ``None`` where they may not be read."""
        self._limits = limits
        self._limits_unread.clear()

    def limits(self, name: str) -> dict[str, int]:
        """The limits of a virtual host, -1 for one that it does not have; none where they are not known."""
        if self._limits is None or name in self._limits_unread:
            return {}
        told = self._limits.get(name, {})
        # RabbitMQ takes any negative number for no limit, and shows it.
        limits = ((limit, told.get(limit, NO_LIMIT)) for limit in LIMITS)
        return {
            limit: max(NO_LIMIT, value)
            for limit, value in limits
            if isinstance(value, int) and not isinstance(value, bool) and value <= _MOST
        }

    def state(self, name: str) -> str | None:
        """What to show as the state of a virtual host; ``None`` while it is not known."""
        permitted = self._permitted.get(name)
        if permitted is None:
            return None
        return (self._cluster_states.get(name) or None) if permitted else NOT_PERMITTED

    def permitted(self, name: str) -> bool | None:
        """Whether its contents may be read; ``None`` while that is not known."""
        return self._permitted.get(name)

    def doubt(self, name: str) -> None:
        """It is being found out whether its contents may (still) be read."""
        self._doubted.add(name)

    def undoubt(self, name: str) -> None:
        """It could not be found out."""
        self._doubted.discard(name)

    def hides(self, name: str) -> bool:
        """Whether what is missing in a listing may be there all the same, because it may not be read."""
        return name in self._doubted or name in self._refused

    @property
    def doubted(self) -> bool:
        """Whether anything is still to be found out."""
        return bool(self._doubted)

    def learn(self, name: str, *, permitted: bool) -> bool:
        """Take note of whether its contents may be read; whether that is news."""
        self._doubted.discard(name)
        news = self._permitted.get(name) is not permitted
        self._permitted[name] = permitted
        (self._refused.discard if permitted else self._refused.add)(name)
        return news

    def forget(self, name: str) -> None:
        """The virtual host is gone, or another of that name has come: its permissions and limits are new."""
        if self._limits is not None:
            self._limits_unread.add(name)
        self._permitted.pop(name, None)
        self._refused.discard(name)
        self._doubted.discard(name)
        self._cluster_states.pop(name, None)

    @property
    def refused(self) -> frozenset[str]:
        """The virtual hosts whose contents may not be read."""
        return frozenset(self._refused)

    @property
    def not_permitted(self) -> int:
        """How many virtual hosts' contents may not be read."""
        return len(self._refused)


def _cluster_state(states: Json) -> str:
    """One state out of those on each node; empty where the answer tells none."""
    if not isinstance(states, Mapping) or not states:
        return ""
    running = sum(state == "running" for state in states.values())
    if running == len(states):
        return "running"
    return "partlyRunning" if running else "stopped"
