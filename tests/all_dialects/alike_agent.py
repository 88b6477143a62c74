"""An agent of QMF whose classes and elements have names that differ by the case of letters or a mark only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import Values, ValueType
from tests.components.agent_on_link import CLOCK, AgentOnLink

THING: Final = "p1:thing"
OBJECT: Final = "t1"
"""The name of the object of each class."""

_PROPERTIES: Final = ("depth", "Depth", "a-b", "a.b")
VALUES: Final[Mapping[str, Mapping[str, int]]] = {
    # The statistic called depth, too, has this name behind the source.
    THING: {**{name: place for place, name in enumerate(_PROPERTIES, 11)}, "depth_2": 15},
    "p1:Thing": {"depth": 21},
    "P1:thing": {"depth": 31},
}
"""The values of the objects, all different, by class and by the name of the element."""


def _schema(class_name: str) -> ClassSchema:
    package, _, name = class_name.partition(":")
    properties = _PROPERTIES if class_name == THING else ("depth",)
    return ClassSchema(
        ClassKey(package, name),
        (
            Element("name", ValueType.STRING, index=True),
            *(Element(each, ValueType.U32) for each in properties),
        ),
        (Element("depth", ValueType.U32),) if class_name == THING else (),
    )


class AlikeAgent(AgentOnLink):
    """The agent, on a RabbitMQ."""

    def __init__(self, broker: PrivateBroker, virtual_host: str) -> None:
        config = AgentConfig(uuid4(), 1, frozenset({broker.administrator.name}), publish_interval=SECOND)
        session = AgentSession(config, map(_schema, VALUES))
        super().__init__(session)
        self._where = (broker, virtual_host)
        for number, (class_name, values) in enumerate(VALUES.items(), 1):
            key = session.class_key(*class_name.split(":"))
            numbers: Values = tuple(values.values())
            statistics = numbers[len(_PROPERTIES) :]
            properties = (OBJECT, *numbers[: len(_PROPERTIES)])
            now = CLOCK.now()
            session.put(ManagedObject(key, number, now, properties, statistics, now))

    async def run(self) -> None:
        """Run until cancelled."""
        await self.speak(*self._where)
