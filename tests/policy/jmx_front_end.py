"""JMX, asked by Java's own client as two users who are connected all the time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import Record
from gateway.jmx.names import DOMAIN, object_name
from gateway.model.operations import Outcome, Principal
from tests.components.command_line import Site, running
from tests.components.jmx_client import attribute_of
from tests.components.waiting import DEADLINE, wait_until
from tests.jmx_java.client_machine import client_machine
from tests.policy.facts import Expected, Fact
from tests.policy.world import EVENTS, SOURCES, Thing, alarm_condition, alarm_text, number_of, operation_id

USERS: Final = ("monitor", "auditor")

_GATEWAY: Final = f"{DOMAIN}:type=Gateway"
_DELEGATE: Final = "JMImplementation:type=MBeanServerDelegate"
_FIRST_MARKER: Final = 50_000_000
"""Markers have other numbers than other operations."""

_EVENT: Final = re.compile(
    r"(?P<kind>\S+) of \S+: (?P<text>(?s:.*)); \d+ at \d+; CompositeData \S+ (?P<data>(?s:.*))"
)
_LONG_ENOUGH: Final = int(DEADLINE * 1000)
_MISSING: Final = "there is no such object"


class Jmx:
    """The process ``jmx`` as one user reads it."""

    def __init__(self, user: str, client: Any) -> None:  # noqa: ANN401  lives in Java
        self.principal = f"jmx:{user}"
        self._user = Principal("jmx", user)
        self._client = client
        self._markers = 0

    def marker(self) -> Record:
        """Return a record that this user receives in any case; comparisons read up to it."""
        self._markers += 1
        place = USERS.index(self._user.name)
        return OperationRecord(
            _FIRST_MARKER + self._markers * len(USERS) + place,
            self._last_marker,
            OperationKind.READ,
            OperationState.ENDED,
            self._user,
            0,
            "",
            0,
            "",
            "",
            outcome=Outcome.APPLIED,
        )

    def compare(self, expected: Expected) -> int:
        """Compare notifications, names, attributes, tables, queries, and answers about what is hidden."""
        received = self._until_marker()
        assert _mbeans("registered", received) <= self._names_of_objects(expected)
        self._compare_events(received, expected.events())
        self._compare_operations(received, expected)
        self._compare_names(expected)
        for thing in expected.things:
            if ("object", thing.path) in expected.objects():
                self._compare_attributes(thing, expected)
        self._compare_tables(expected)
        self._compare_alarms(expected)
        self._ask_what_is_hidden(expected)
        return expected.questions

    def compare_ends(self, expected: Expected) -> None:
        """Compare what is left when all objects have ended."""
        received = self._until_marker()
        assert _mbeans("unregistered", received) <= self._names_of_objects(expected)
        self._compare_events(received, expected.ends_of_alarms())
        assert not {one for one in self._client.names(f"{DOMAIN}:*") if "name=" in one}
        for source in self._sources(expected):
            ended = {thing for thing in _shown(expected) if SOURCES[thing.source] == source}

            def is_there(source: str = source, ended: set[Thing] = ended) -> bool:
                text = self._client.attribute(_source_name(source), "RecentlyDeleted")
                listed = {one for one in expected.things if f"{one.class_name} {one.stable_name}: " in text}
                return {one.stable_name for one in listed} == {one.stable_name for one in ended}

            wait_until(is_there, f"the ends of the objects of {source}")

    # ---- notifications ------------------------------------------------------------------------------------

    def _compare_events(self, received: Iterable[str], expected: set[Fact]) -> None:
        arguments = {f"{DOMAIN}.{one.schema.key.package}.{one.schema.key.name}": one.schema for one in EVENTS}
        found: set[Fact] = set()
        for match in filter(None, map(_EVENT.fullmatch, received)):
            schema = arguments.get(match["kind"])
            if schema is not None:
                names = [argument.name for argument in schema.arguments]
                shown = [name for name in names if _item(match["data"], name) is not None]
                found.add(("event", _text(match["data"], "eventId"), match["text"], frozenset(shown)))
        assert found == expected

    def _compare_operations(self, received: Iterable[str], expected: Expected) -> None:
        found: set[Fact] = set()
        for match in filter(None, map(_EVENT.fullmatch, received)):
            if match["kind"] == f"{DOMAIN}.operation.set":
                values = re.findall(r"\w+(?==\d)", _item(match["data"], "values") or "")
                found.add(("operation", _text(match["data"], "operationId"), frozenset(values)))
                assert bool(values) or _item(match["data"], "former") is None
                assert bool(values) or " was " not in match["data"]
        assert found == expected.operations()

    # ---- MBeans -------------------------------------------------------------------------------------------

    def _compare_names(self, expected: Expected) -> None:
        tables = {(SOURCES[thing.source], thing.class_name) for thing in _shown(expected)}
        wanted = {
            _GATEWAY,
            *map(_source_name, self._sources(expected)),
            *(_table_name(*table) for table in tables),
            *self._names_of_objects(expected),
        }
        assert set(self._client.names(f"{DOMAIN}:*")) == wanted
        instances = list(self._client.instances())
        assert {one for one in instances if one.startswith(f"{DOMAIN}:")} == wanted
        assert self._client.count() == len(instances)

    def _compare_attributes(self, thing: Thing, expected: Expected) -> None:
        name = _name(thing)
        elements = expected.elements(thing)
        wanted = {attribute_of(one): _described(thing.values[one], expected) for one in elements}
        own = {"Parent": _described(thing.parent, expected), "StableName": f"{_STRING} {thing.stable_name}"}
        attributes = {attribute_of(element) for element in thing.values}
        asked = [*attributes, *own, "LastOperation"]
        found = dict(one.split("=", 1) for one in self._client.attributes(name, asked))
        last = found.pop("LastOperation")
        assert found == wanted | own
        if thing.row % 100 == 0:
            # One object of each class is enough of a look into descriptions.
            described = {line.split(" ", 1)[0] for line in self._client.info(name)}
            assert described & attributes == wanted.keys()
        operation = [fact for fact in expected.operations() if fact[1] == operation_id(thing)]
        assert (last != "null") is bool(operation)
        assert (number_of(thing) in last) is (number_of(thing) in elements and bool(operation))

    def _compare_tables(self, expected: Expected) -> None:
        seen = _shown(expected)
        for source, class_name in {(SOURCES[thing.source], thing.class_name) for thing in expected.things}:
            rows = [one for one in seen if (SOURCES[one.source], one.class_name) == (source, class_name)]
            if not rows:
                continue
            table = _table_name(source, class_name)
            *lines, following, total = self._client.page(table, "StableName", "", 0)
            assert (following, total) == ("null", str(len(rows)))
            assert len(lines) == len(rows)
            for thing in rows:
                assert sum(f"StableName={_STRING} {thing.stable_name}, Stale=" in line for line in lines) == 1
            self._compare_numbers(table, rows, expected)

    def _compare_numbers(self, table: str, rows: list[Thing], expected: Expected) -> None:
        """Compare a column of numbers, and who is found by a query for it."""
        element = number_of(rows[0])
        stamp = rows[0].values[element]
        reading = [one for one in rows if element in expected.elements(one)]
        if reading:
            *lines, _, _ = self._client.page(table, element, "", 0)
            assert sum(f"{element}=java.lang.Long {stamp}" in line for line in lines) == len(reading)
        else:
            assert "IllegalArgumentException" in self._client.tryPage(table, element, "", 0)
        java_class = f"{DOMAIN}.{rows[0].class_name.replace(':', '.')}"
        pattern = f"{DOMAIN}:source={SOURCES[rows[0].source]},*"
        found = set(self._client.namesWhere(pattern, java_class, element, stamp))
        assert found == {_name(one) for one in reading}

    def _compare_alarms(self, expected: Expected) -> None:
        for source in self._sources(expected):
            name = _source_name(source)
            queues = [
                one
                for one in expected.things
                if SOURCES[one.source] == source and one.class_name == "rabbitmq:queue"
            ]
            raised = [one for one in queues if ("alarm", one.path) in expected.alarms()]

            quoted = [one for one in raised if expected.text_of_alarm(one) == alarm_text(one)]

            def is_there(
                name: str = name,
                queues: list[Thing] = queues,
                raised: list[Thing] = raised,
                quoted: list[Thing] = quoted,
            ) -> bool:
                # The attributes of a source are pushed together, a moment after its objects and events.
                count = self._client.attribute(name, "ActiveAlarmCount")
                listed = self._client.attribute(name, "ActiveAlarms")
                return (
                    count == f"java.lang.Long {len(raised)}"
                    and [one for one in queues if f"{alarm_condition(one)}=" in listed] == raised
                    and [one for one in queues if alarm_text(one) in listed] == quoted
                )

            wait_until(is_there, f"the alarms of {source}")

    def _ask_what_is_hidden(self, expected: Expected) -> None:
        """What is hidden answers as what never was, in each way to ask for it."""
        hidden = [thing for thing in expected.things if ("object", thing.path) not in expected.objects()]
        if not hidden:
            return
        thing = hidden[expected.stamp % len(hidden)]
        name, missing = _name(thing), _name(thing, _MISSING)
        answers = [one.replace(name, missing) for one in self._client.tryEverything(name, number_of(thing))]
        assert answers == list(self._client.tryEverything(missing, number_of(thing)))
        assert not list(self._client.names(f"{name[:-2]}*,*"))

    # ---- what is expected ---------------------------------------------------------------------------------

    def _sources(self, expected: Expected) -> list[str]:
        return [str(fact[1]) for fact in expected.sources()]

    def _names_of_objects(self, expected: Expected) -> set[str]:
        return {_name(thing) for thing in _shown(expected)}

    # ---- reading ------------------------------------------------------------------------------------------

    @property
    def _last_marker(self) -> str:
        return f"marker of {self.principal} {self._markers}."

    def _until_marker(self) -> list[str]:
        collected: list[str] = []
        while not collected or self._last_marker not in collected[-1]:
            received = self._client.received(_LONG_ENOUGH)
            assert received, "no marker"
            collected.append(received)
        assert self._client.lostCount() == 0
        return collected


_STRING: Final = "java.lang.String"


def _shown(expected: Expected) -> list[Thing]:
    return [thing for thing in expected.things if ("object", thing.path) in expected.objects()]


def _name(thing: Thing, stable_name: str | None = None) -> str:
    package, _, class_name = thing.class_name.partition(":")
    name = thing.stable_name if stable_name is None else stable_name
    keys = [
        *_places(thing, name),
        ("package", package),
        ("source", SOURCES[thing.source]),
        ("type", class_name),
    ]
    return object_name(sorted(keys))


def _places(thing: Thing, name: str) -> list[tuple[str, str]]:
    """Return the keys of an ObjectName that are made of a stable name."""
    *parents, leaf = [name] if thing.parent is None else name.split("|", 1)
    return [*(("parent", parent) for parent in parents), ("name", leaf)]


def _source_name(source: str) -> str:
    return object_name((("source", source), ("type", "Source")))


def _table_name(source: str, class_name: str) -> str:
    keys = (("class", class_name.replace(":", ".")), ("source", source), ("type", "Table"))
    return object_name(keys)


def _described(value: int | str | Thing | None, expected: Expected) -> str:
    match value:
        case int():
            return f"java.lang.Long {value}"
        case str():
            return f"{_STRING} {value}"
        case Thing() if ("object", value.path) in expected.objects():
            package, _, class_name = value.class_name.partition(":")
            keys = (("source", SOURCES[value.source]), ("package", package), ("type", class_name))
            return f"javax.management.ObjectName {object_name((*keys, *_places(value, value.stable_name)))}"
    return "null"


def _mbeans(what: str, received: Iterable[str]) -> set[str]:
    """Return the names of objects that a notification of the delegate is about."""
    found = (
        line.removeprefix(f"JMX.mbean.{what} of {_DELEGATE}: ") for line in received if f".{what} of" in line
    )
    return {_canonical(name) for name in found if "name=" in name}


def _canonical(name: str) -> str:
    domain, _, keys = name.partition(":")
    return f"{domain}:{','.join(sorted(keys.split(',')))}"


def _item(data: str, name: str) -> str | None:
    """Return an item of a described CompositeData, with its class; ``None`` where it is null."""
    found = re.search(rf"[{{ ]{name}=(.*?)(?=, \w+=|\}}$)", data, re.DOTALL)
    assert found is not None, (name, data)
    return None if found[1] == "null" else found[1]


def _text(data: str, name: str) -> str:
    return (_item(data, name) or "").removeprefix(f"{_STRING} ")


@contextmanager
def jmx(site: Site, port: int, classes: Path) -> Iterator[tuple[Jmx, ...]]:
    """Run the process, and connect each user; ``classes`` has the compiled clients."""
    with (
        running("process", "jmx", "--config", site.configuration, log=site.folder / "jmx.log") as process,
        client_machine(classes) as java,
        contextlib.ExitStack() as stack,
    ):
        process.ready()
        users = []
        for user in USERS:
            client = java.connect(port, user, site.state.secret(f"jmx-{user}"))
            stack.callback(client.close)
            for name in (_DELEGATE, _GATEWAY):
                client.listen(name)
            users.append(Jmx(user, client))
        yield tuple(users)


def jmx_settings(port: int) -> dict[str, Any]:
    """Return the section of the configuration."""
    users: dict[str, dict[str, object]] = {user: {} for user in USERS}
    return {"enabled": True, "listen": f"127.0.0.1:{port}", "heap": 64, "users": users}
