"""The common beginning of the stories of the source: a broker with a queue and a connection, read once."""

from __future__ import annotations

from gateway.dialects.session import LinkUp
from gateway.model.times import MILLISECOND
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from tests.sources.rabbitmq.imitation import EPOCH, World

CONNECTED_AT = EPOCH // MILLISECOND - 50_000


def world(*, events: bool = True, **config: object) -> World:
    """Return a world in which everything was read once, with the queue ``orders`` and a connection."""
    new = World(RabbitMqSourceConfig(user="gateway", **config))  # type: ignore[arg-type]
    new.broker.add_queue("orders", messages=3)
    new.broker.add_connection("peer -> us", CONNECTED_AT)
    if events:
        new.source_does(new.source.handle(LinkUp(""), new.now))
    new.run(12)
    return new
