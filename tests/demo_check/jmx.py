"""The promises about JMX, checked with a plain Java client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from gateway.demo.snmp_commands import SnmpCommands
from tests.components.jmx_client import JmxClient, JmxClientError, ReadAttribute, attribute_of
from tests.demo_check.comparison import AtRest, Facts, View, differences, without_incarnation
from tests.demo_check.promises import Promises

JAVA_CLASSES = {
    "Stale": "java.lang.Boolean",
    "SampleTime": "java.util.Date",
    "vhost": "javax.management.ObjectName",
    "name_": "java.lang.String",
    "durable": "java.lang.Boolean",
    "arguments": "javax.management.openmbean.TabularDataSupport",
    "messages": "java.lang.Long",
    "consumers": "java.lang.Long",
    "consumerCapacity": "java.lang.Double",
    "messagesPublished": "java.lang.Long",
}
"""The Java classes of attributes of a busy queue."""

QUEUES = "rmqQueue"
"""The prefix of the columns of queues in SNMP."""

Beans = dict[str, Mapping[str, ReadAttribute]]
"""MBeans by name, each with its attributes."""


class JmxPromises:
    """The check of JMX against the broker and against SNMP.

    Args:
        promises: waits and reports.
        client: logged in.
        snmp: shows the same objects.
        numbers: of the sources in SNMP, by name.
    """

    def __init__(
        self,
        promises: Promises,
        client: JmxClient,
        snmp: SnmpCommands,
        numbers: Mapping[str, int],
    ) -> None:
        self._promises = promises
        self._client = client
        self._snmp = snmp
        self._numbers = numbers

    async def agree_with_broker(self, views: Mapping[str, AtRest]) -> None:
        """Check that Java has the same facts in every view of the broker with which SNMP is compared."""
        for name, at_rest in views.items():
            for source in (SOURCE, AGENT_SOURCE):
                await self._agrees(name, at_rest, source)

    async def _agrees(self, name: str, at_rest: AtRest, source: str) -> None:
        view = at_rest.view

        async def problems() -> list[str]:
            beans = await self._beans(source, view.table)
            return await asyncio.to_thread(at_rest.differences, self._facts(beans, view))

        await self._promises.until_none(f"JMX: {name} ({source})", problems)

    async def _beans(self, source: str, prefix: str) -> Beans:
        """The MBeans of a source and class; one that goes while we look is left out."""
        type_ = prefix.removeprefix("rmq").lower()
        beans: Beans = {}
        for name in await self._client.names(f"amqp.gateway:source={source},package=rabbitmq,type={type_},*"):
            try:
                beans[name] = await self._client.read(name)
            except JmxClientError as error:
                if "InstanceNotFoundException" not in str(error):
                    raise
        return beans

    @staticmethod
    def _facts(beans: Beans, view: View) -> Facts:
        """Return the facts of a view, by stable name, as SNMP would write them."""
        facts: Facts = {}
        for attributes in beans.values():
            if not attributes["Stale"].value:
                name = without_incarnation(attributes["StableName"].value)
                facts[name] = {
                    fact: _text(attributes[attribute_of(column[0].lower() + column[1:])].value)
                    for fact, column in view.columns.items()
                }
        return facts

    async def has_the_rows_of_snmp(self, prefix: str) -> None:
        """Check that each row is an MBean of the same stable name and row number, and each MBean a row."""

        async def problems() -> list[str]:
            rows: Facts = {
                index: {"name": cells[f"{prefix}RowFullName"]}
                for index, cells in self._snmp.walk(f"{prefix}Table").items()
            }
            beans: Facts = {}
            for source in (SOURCE, AGENT_SOURCE):
                for attributes in (await self._beans(source, prefix)).values():
                    index = f"{self._numbers[source]}.{attributes['Row'].value}"
                    beans[index] = {"name": attributes["StableName"].value}
            return differences(rows, beans)

        await self._promises.until_none(f"JMX and SNMP have the same objects ({prefix})", problems)

    async def has_the_right_java_types(self, queue: str) -> None:
        """The attributes of the queue whose stable name is given are of the right Java classes."""

        async def problems() -> list[str]:
            lines: list[str] = []
            for name, attributes in (await self._beans(SOURCE, QUEUES)).items():
                if attributes["StableName"].value == queue:
                    return [
                        f"{name}: {attribute} is a {attributes[attribute].java_class}, should be a {expected}"
                        for attribute, expected in JAVA_CLASSES.items()
                        if attributes[attribute].java_class != expected
                    ]
                lines.append(f"{name} is not {queue}")
            return lines or ["there are no queues"]

        await self._promises.until_none("JMX: attributes are of the right Java classes", problems)

    async def shows_a_stopped_agent_as_stale(self) -> None:
        """Check that the agent's MBeans, and no others, are stale after its process has ended."""

        async def problems() -> list[str]:
            return [
                f"{name} is {'stale' if attributes['Stale'].value else 'shown as current'}"
                for source in (SOURCE, AGENT_SOURCE)
                for name, attributes in (await self._beans(source, QUEUES)).items()
                if attributes["Stale"].value != (source == AGENT_SOURCE)
            ]

        await self._promises.until_none("JMX: and its MBeans, and no others", problems)


def _text(value: object) -> str:
    """A value as SNMP's tools print it; empty for an absent one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
