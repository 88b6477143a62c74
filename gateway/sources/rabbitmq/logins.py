"""Which closed connections were ever open, and which are the gateway's own. Without I/O.

RabbitMQ tells the end of every connection, also of those that never logged in, and tells neither its user
nor its virtual host then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.ownership import claims_to_be_own

MAX_LOGINS = 10_000
"""Logins under way, and connections of the gateway's own, that are remembered."""


class Logins:
    """Remembers who is logging in, and which connections are not to be told of."""

    def __init__(self) -> None:
        self._under_way: OrderedDict[str, None] = OrderedDict()
        self._own: OrderedDict[str, None] = OrderedDict()

    def began(self, connection: str) -> None:
        """A client proved who it is on this connection, or failed to: it is not open yet."""
        _remember(self._under_way, connection)

    def opened(self, connection: str, *, own: bool) -> None:
        """A connection is open; ``own``: it is the gateway's and not to be told of."""
        self._under_way.pop(connection, None)
        if own:
            _remember(self._own, connection)
        else:
            self._own.pop(connection, None)

    def closed(self, connection: str, headers: Mapping[str, Json], *, known: bool) -> bool:
        """A connection ended; whether that is worth an event.

        Args:
            connection: its name.
            headers: of the broker's event, in readable form.
            known: whether it is shown as an object.
        """
        failed = connection in self._under_way
        self._under_way.pop(connection, None)
        if connection in self._own:
            del self._own[connection]
            return False
        if known:
            return True
        # Its opening was missed, or there was none: a client that got as far as its login has told something
        # of itself before. Nobody vouches for one that says it is ours, so that it is believed here.
        properties = headers.get("client_properties")
        return not failed and bool(properties) and not claims_to_be_own(properties)

    def forget(self) -> None:
        """Events were lost: logins may have ended unseen."""
        self._under_way.clear()


def _remember(names: OrderedDict[str, None], name: str) -> None:
    names[name] = None
    names.move_to_end(name)
    if len(names) > MAX_LOGINS:
        names.popitem(last=False)
