"""How the gateway introduces itself to brokers: its product, its version and the source it works for.

``product`` is how its connections are known again as the gateway's own, whatever its version and source.
"""

from __future__ import annotations

from aiormq.abc import FieldTable

from gateway.shipped_files import version

PRODUCT = "amqp-gateway"


def client_properties(connection_name: str, source: str = "") -> FieldTable:
    """The client properties of an AMQP 0-9-1 connection (section 1.4.2.2, ``connection.start-ok``).

    Args:
        connection_name: shown by the broker's tools as the connection's name.
        source: name of the source or agent that the connection is for; empty where it is for none.
    """
    properties: FieldTable = {
        "connection_name": connection_name,
        "product": PRODUCT,
        "version": version(),
        "information": "AMQP management gateway",
    }
    return {**properties, "source": source} if source else properties


def user_agent(source: str = "") -> str:
    """The ``User-Agent`` of HTTP requests (RFC 9110 section 10.1.5).

    Args:
        source: as of `client_properties`.
    """
    product = f"{PRODUCT}/{version()}"
    return f"{product} (source {source})" if source else product
