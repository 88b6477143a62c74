"""What an event of the broker is, where its name does not say it, and whether it says anything new.

- Setting an operator policy raises ``parameter.set`` and then ``policy.set``, which looks like that of a
  policy. It is ``operator.policy.set`` here.
- Clearing the last limit of a virtual host raises ``parameter.set`` with an empty value. It is
  ``parameter.cleared`` here.
- Clearing a global parameter of RabbitMQ 3.10 raises ``parameter.set`` without a value. It is
  ``parameter.cleared``, too.
- A shovel or federation link that fails over and over says so each time, and its removal is raised twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from gateway.mapping.paths import Json

OPERATOR_POLICY_SET: Final = "operator.policy.set"
MAX_REMEMBERED: Final = 10_000
"""Operator policies that are being set, and shovels and links, that are remembered."""

_OPERATOR_POLICY: Final = "operator_policy"
_VHOST_LIMITS: Final = "vhost-limits"
_GLOBAL: Final = "global"
_STATES: Final = {
    "shovel.worker.status": "shovel",
    "shovel.worker.removed": "shovel",
    "federation.link.status": "federation",
    "federation.link.removed": "federation",
}
REMOVALS: Final = frozenset(event for event in _STATES if event.endswith(".removed"))
"""They tell the end of what a parameter made, and come after that of the parameter itself."""
_PASSING: Final = "starting"
_WHICH: Final = ("vhost", "name", "upstream", "exchange", "queue", "id")


class EventKinds:
    """Tells kinds of events apart by those before them."""

    def __init__(self) -> None:
        self._operator_policies: OrderedDict[tuple[Json, ...], Json] = OrderedDict()
        self._states: OrderedDict[tuple[Json, ...], Json] = OrderedDict()

    def kind(self, event: str, headers: Mapping[str, Json]) -> str:
        """The kind of an event with this routing key; call it once for each event, in order."""
        which = (_text(headers.get("vhost")), _text(headers.get("name")))
        if event == "parameter.set" and headers.get("component") == _OPERATOR_POLICY:
            value = headers.get("value")
            pattern = value.get("pattern") if isinstance(value, Mapping) else None
            _remember(self._operator_policies, which, _text(pattern))
        elif event == "parameter.set" and headers.get("component") == _VHOST_LIMITS:
            return event if headers.get("value") else "parameter.cleared"
        elif event == "parameter.set" and headers.get("component") == _GLOBAL:
            return event if "value" in headers else "parameter.cleared"
        elif event == "policy.set" and self._operator_policies.get(which, ...) == _text(
            headers.get("pattern")
        ):
            del self._operator_policies[which]
            return OPERATOR_POLICY_SET
        return event

    def repeats(self, event: str, headers: Mapping[str, Json]) -> bool:
        """Whether an event says of a shovel or federation link what was last said of it.

        That it starts again is no state of its own: it starts after each failure.
        """
        family = _STATES.get(event)
        if family is None:
            return False
        state = headers.get("status") if event.endswith(".status") else "removed"
        if state == _PASSING:
            return True
        which = (family, *(_text(headers.get(key)) for key in _WHICH))
        repeated = self._states.get(which) == _text(state)
        _remember(self._states, which, _text(state))
        return repeated

    def forget(self) -> None:
        """Events were lost."""
        self._operator_policies.clear()
        self._states.clear()


def completed_headers(event: str, headers: dict[str, Json]) -> dict[str, Json]:
    """Headers with what names the runtime parameter that a shovel or federation link was made by."""
    match _STATES.get(event):
        case "shovel":
            return {**headers, "component": "shovel"}
        case "federation":
            return {**headers, "component": "federation-upstream", "name": headers.get("upstream")}
    return headers


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _remember(table: OrderedDict[tuple[Json, ...], Json], key: tuple[Json, ...], value: Json) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > MAX_REMEMBERED:
        table.popitem(last=False)
