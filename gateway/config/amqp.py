"""How a broker is reached by AMQP 0-9-1, for every kind of source that speaks over it."""

from __future__ import annotations

from typing import Annotated

from gateway.config.operations import SECOND
from gateway.config.types import AmqpName, AmqpUrls, Duration, FilePath, SecretSource, between
from gateway.yaml_documents import StrictModel


class AmqpSettings(StrictModel):
    """How to reach a virtual host of a broker by AMQP 0-9-1.

    Attributes:
        url: of one node, or of several nodes of the cluster.
        heartbeat: asked for; whole seconds.
    """

    url: AmqpUrls
    vhost: AmqpName = "amqp-gateway"
    user: AmqpName
    password: SecretSource
    ca_file: FilePath | None = None
    heartbeat: Annotated[Duration, between("1s", "60s")] = 10 * SECOND
