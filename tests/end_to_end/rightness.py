"""The conditions that must hold again after every fault, and those that must have held all the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import httpx
import psutil

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from gateway.demo.snmp_commands import PrintedNotification, SnmpCommandError
from gateway.eventlog.segment import due
from gateway.snmp.syntax import MAX_TEXT_OCTETS
from gateway.sources.rabbitmq.status import ADMINISTRATORS_ONLY, WITHIN_BUDGET
from tests.components.jmx_client import JmxClient, JmxClientError
from tests.demo_check.comparison import without_incarnation
from tests.end_to_end.observer import Observer
from tests.end_to_end.witness import GATEWAY_BEAN, Witness
from tests.hypothesis_profiles import PROVING

RIGHT_SECONDS = 150.0
LOOK_AGAIN_SECONDS = 0.1 if PROVING else 0.3

OWN_QUEUES = [
    "amqp-gateway.agent",
    "amqp-gateway.console",
    "amqp-gateway.events",
    "amqp-gateway.events",
    "amqp-gateway.manager.qpid",
]
"""The queues of gateway and agent on the broker while they run, one for each purpose: most of each name."""

DETAILS = {SOURCE: ADMINISTRATORS_ONLY, AGENT_SOURCE: ""}
"""The details of sources when all is right: the gateway has the least rights here, and no writing account."""

CLASSES = {
    "rmqVhost": "rabbitmq:vhost",
    "rmqQueue": "rabbitmq:queue",
    "rmqExchange": "rabbitmq:exchange",
    "rmqNode": "rabbitmq:node",
}
"""The classes with durable objects, by the prefixes of their tables."""


Row = tuple[str, str, str]
"""Source, class and stable name."""


@dataclass(frozen=True, slots=True)
class Identities:
    """The identities of durable objects: row numbers in SNMP, ObjectNames in JMX."""

    rows: dict[Row, str]
    object_names: frozenset[str]


class Rightness:
    """The wait until all is right, and the report of what is not.

    Args:
        observer: asks SNMP.
        witness: asks JMX and the broker, and has observed everything.
        mend: restarts the parts that a failed test has left stopped or dead.
    """

    def __init__(self, observer: Observer, witness: Witness, mend: Callable[[], Awaitable[None]]) -> None:
        self._observer = observer
        self._witness = witness
        self._mend = mend
        self.identities = Identities({}, frozenset())
        self._is_right = False

    async def learn(self) -> None:
        """Wait until all is right for the first time; note all names, which must never change."""
        await self._witness.marker.declared.wait()
        await self.again()
        self.identities = Identities(await self._rows(), await self._object_names())
        assert len(self.identities.rows) == len(self.identities.object_names) > 80

    async def at_first(self) -> None:
        """Wait until all is right, unless the test before has done so: it may have failed in its middle."""
        if not self._is_right:
            await self._mend()
            self._witness.lies = []
            await self.again()
        self._is_right = False

    async def again(self) -> float:
        """Wait until all is right; return the number of seconds that took."""
        begun = time.monotonic()
        problems = ["not asked yet"]
        while problems:
            try:
                problems = await self._problems()
            except (SnmpCommandError, JmxClientError, httpx.HTTPError, KeyError) as error:
                problems = [f"nobody answers: {error!r}"]
            if problems and time.monotonic() - begun > RIGHT_SECONDS:
                self._witness.lies = []
                raise AssertionError(self._complaint(problems))
            await asyncio.sleep(LOOK_AGAIN_SECONDS if problems else 0)
        lies, self._witness.lies = self._witness.lies, []
        assert not lies, "\n".join(lies[:20])
        self._is_right = True
        return time.monotonic() - begun

    async def _problems(self) -> list[str]:
        """Return what is not right now; cheap questions come first."""
        parts: list[Callable[[], Coroutine[None, None, list[str]]]] = [
            self._processes,
            self._sources_of_snmp,
            self._sources_of_jmx,
            self._left_overs,
            self._alarms,
            self._existence,
            self._names,
        ]
        for part in parts:
            if problems := await part():
                return problems
        return []

    async def _processes(self) -> list[str]:
        """Return the error of a compactor that does not run although a segment waits, else nothing."""
        if not due(self._observer.demonstration.log_folder):
            return []
        try:
            self._observer.process("compactor")
        except (AssertionError, psutil.Error) as error:
            return [str(error)]
        return []

    async def _sources_of_snmp(self) -> list[str]:
        sources = await self._observer.sources()
        problems = [f"SNMP has the sources {sorted(sources)}"] if len(sources) != 2 else []
        for name, cells in sources.items():
            good = {
                "agSourceState": "synchronised",
                "agSourceStaleRows": "0",
            }
            problems += [
                f"{key} of {name} is {cells[key]!r}" for key, value in good.items() if cells[key] != value
            ]
            # On a machine that is busy, classes are read seldom: that is said, and right, and may be so long
            # that SNMP cuts what is said behind it.
            detail, usual = cells["agSourceDetail"], DETAILS.get(name, "")
            parts = detail.split("; ")
            if len(detail) == MAX_TEXT_OCTETS:
                parts, usual = parts[:-1], ""
            if "; ".join(part for part in parts if not part.endswith(WITHIN_BUDGET)) != usual:
                problems.append(f"of {name} it is said: {detail}")
            problems += [f"{name} has no rows"] if int(cells["agSourceRows"]) == 0 else []
        return problems

    async def _sources_of_jmx(self) -> list[str]:
        problems: list[str] = []
        gateway = await self._client.read(GATEWAY_BEAN)
        in_use = await self._witness.truth.deprecated_in_use()
        if not gateway["FeedConnected"].value:
            problems.append("JMX has no feed")
        for source in (SOURCE, AGENT_SOURCE):
            attributes = await self._client.read(f"amqp.gateway:type=Source,source={source}")
            good = {"State": "synchronised", "StaleObjects": 0, "Stale": False}
            problems += [
                f"{key} of {source} is {attributes[key].value!r} in JMX"
                for key, value in good.items()
                if attributes[key].value != value
            ]
            alarms = attributes["ActiveAlarmCount"].value
            if not isinstance(alarms, int) or alarms > len(in_use):
                problems.append(
                    f"{source} has {alarms!r} alarms in JMX; deprecated features in use: {in_use}"
                )
        return problems

    async def _left_overs(self) -> list[str]:
        names = await self._witness.truth.own_queues()
        queues = sorted(name.rsplit(".", 1)[0] for name in names)
        return [] if queues == OWN_QUEUES else [f"on the broker there are {queues}"]

    async def _alarms(self) -> list[str]:
        """Return the alarms that stand, except those of deprecated features that are in use on the broker."""
        in_use = await self._witness.truth.deprecated_in_use()
        texts = [
            cells.get("agAlarmText", "") for cells in (await self._observer.walk("agAlarmTable")).values()
        ]
        problems = [
            f"the alarm stands: {text}"
            for text in texts
            if not any(text.startswith(f"Deprecated feature {name} is in use") for name in in_use)
        ]
        return problems + [
            f"no trap told that it ended: {condition}"
            for condition in standing(await self.traps())
            if not any(
                f'deprecatedFeatureInUse rabbitmq:deprecatedFeature "{name}' in condition for name in in_use
            )
        ]

    async def _existence(self) -> list[str]:
        """Return the queues of the broker without a row of each source, and the rows without a queue."""
        expected = await self._witness.truth.queues()
        shown: dict[str, set[str]] = {source: set() for source in await self._numbers()}
        for index, cells in (await self._observer.walk("rmqQueueTable")).items():
            shown[index.split(".")[0]].add(without_incarnation(cells["rmqQueueRowFullName"]))
        return [
            f"source {source}: {name!r} is {'not shown' if name in expected else 'not on the broker'}"
            for source, names in shown.items()
            for name in sorted(names ^ expected)
        ]

    async def _names(self) -> list[str]:
        """Return the durable objects whose names have changed; none before their names were noted."""
        if not self.identities.rows:
            return []
        rows, object_names = await self._rows(), await self._object_names()
        expected = self.identities
        return [
            *[
                f"the row of {key} was {expected.rows.get(key)}, is {rows.get(key)}"
                for key in sorted(expected.rows.keys() | rows.keys())
                if expected.rows.get(key) != rows.get(key)
            ],
            *[
                f"{name} is {'missing' if name in expected.object_names else 'new'}"
                for name in sorted(expected.object_names ^ object_names)
            ],
        ]

    async def _rows(self) -> dict[Row, str]:
        names = await self._numbers()
        rows: dict[Row, str] = {}
        for prefix, class_name in CLASSES.items():
            for index, cells in (await self._observer.walk(f"{prefix}Table")).items():
                # A row that began or ended during the walk lacks columns; durable objects do neither.
                full_name = cells.get(f"{prefix}RowFullName")
                if full_name is not None and cells.get(f"{prefix}RowLifetime") == "durable":
                    source, row = index.split(".")
                    rows[names[source], class_name, full_name] = row
        return rows

    async def _numbers(self) -> dict[str, str]:
        """Return the names of the sources by their numbers."""
        table = await self._observer.walk("agSourceTable")
        return {number: cells["agSourceName"] for number, cells in table.items()}

    async def _object_names(self) -> frozenset[str]:
        """Return the ObjectNames of durable objects, which have no ``id``."""
        names: list[str] = []
        for class_name in CLASSES.values():
            names += await self._client.names(f"amqp.gateway:type={class_name.partition(':')[2]},*")
        return frozenset(name for name in names if ",id=" not in name)

    @property
    def _client(self) -> JmxClient:
        if self._witness.client is None:
            raise JmxClientError("there is no client now")
        return self._witness.client

    @property
    def notifications(self) -> list[dict[str, Any]]:
        """All notifications that Java clients received."""
        return self._witness.notifications

    async def traps(self) -> list[PrintedNotification]:
        """Return all notifications that snmptrapd has printed."""
        receiver = self._observer.demonstration.traps
        assert receiver is not None
        return await asyncio.to_thread(receiver.notifications)

    def _complaint(self, problems: list[str]) -> str:
        demonstration = self._observer.demonstration
        logs = [f"--- {name}\n{demonstration.log_of(name)[-4000:]}" for name in ("gateway", "agent")]
        listed = "\n".join([*problems[:20], *self._witness.lies[:20]])
        return f"not right after {RIGHT_SECONDS:.0f} s:\n{listed}\n" + "\n".join(logs)


def standing(traps: list[PrintedNotification]) -> set[str]:
    """Return the conditions that last according to these traps."""
    trusted: set[str] = set()
    for trap in traps:
        condition = f"{trap.values.get('agEventSource')}: {trap.values.get('agEventCondition')}"
        if trap.values.get("agEventState") == "raised":
            trusted.add(condition)
        elif trap.values.get("agEventState") == "cleared":
            trusted.discard(condition)
    return trusted
