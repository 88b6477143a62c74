"""Front ends that are asked what a principal sees, over their sockets, by the tools of their users.

A front end of another kind is one more class with a ``principal``, and a method that compares what it shows
with `Expected`.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from prometheus_client.parser import text_string_to_metric_families

from gateway.feed.records import Record
from gateway.model.operations import Principal
from tests.components.command_line import COMMAND, Site, amqp_gateway, environment, running
from tests.components.waiting import DEADLINE, wait_until
from tests.policy.facts import Expected, Fact
from tests.policy.world import CLASSES, SOURCES, THINGS, marker

SCRAPER: Final = "metrics:(scraper)"
_LABELS: Final = {
    str(record.schema.key): [element.name for element in record.schema.elements if element.index]
    for record in CLASSES
}
PAGE_SECONDS: Final = 60.0
_SOURCE_UP: Final = "amqp_gateway_objects_source_up"


class FrontEnd(Protocol):
    """A front end.

    Attributes:
        principal: who asks it (``front end:name``).
    """

    principal: str

    def compare(self, expected: Expected) -> int:
        """Compare everything that it shows with what is expected; return the number of questions."""


# ---- the metrics of objects -------------------------------------------------------------------------------


class Metrics:
    """The process ``objects``, scraped over its socket."""

    principal = SCRAPER

    def __init__(self, path: Path) -> None:
        self._path = path

    def compare(self, expected: Expected) -> int:
        """Compare series and sources; all numbers carry the stamp, so no page of before is taken for this."""
        wanted = expected.numbers() | expected.sources()
        page: set[Fact] = set()

        def is_there() -> bool:
            nonlocal page
            page = self._facts()
            return page == wanted

        try:
            wait_until(is_there, "the page that is expected", PAGE_SECONDS)
        except AssertionError:
            assert (page - wanted, wanted - page) == (set(), set())
        return expected.questions // 3

    def _facts(self) -> set[Fact]:
        found: set[Fact] = set()
        for family in text_string_to_metric_families(self._page()):
            for sample in family.samples:
                if sample.name == _SOURCE_UP:
                    found.add(("source", sample.labels["source"]))
                elif not sample.name.startswith("amqp_gateway_"):
                    # The help ends in the class and the element.
                    class_name, element = family.documentation.rpartition("(")[2].rstrip(")").split(" ")
                    name = "|".join(sample.labels[label] for label in _LABELS[class_name])
                    path = "/".join((sample.labels["source"], class_name, name))
                    found.add(("number", path, element, int(sample.value)))
        return found

    def _page(self) -> str:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(DEADLINE)
            asking.connect(str(self._path))
            asking.sendall(b"\n")
            octets = b"".join(iter(lambda: asking.recv(65536), b""))
        return octets.partition(b"\n")[2].decode()


@contextmanager
def metrics(site: Site) -> Iterator[Metrics]:
    """Run the process, whose configuration selects every element."""
    words = ("process", "objects", "--config", site.configuration)
    with running(*words, log=site.folder / "objects.log") as process:
        process.ready()
        yield Metrics(site.folder / "feed.objects")


# ---- the command line -------------------------------------------------------------------------------------


class CommandLine:
    """The commands of the user of these tests: one ``watch`` all the time, others now and then."""

    def __init__(self, site: Site, user: str, output: Path, process: subprocess.Popen[bytes]) -> None:
        self.principal = f"cli:{user}"
        self._user = Principal("cli", user)
        self._site = site
        self._output = output
        self._process = process
        self._lines = 0
        self._markers = 0
        self._happened: list[dict[str, Any]] = []

    def marker(self) -> Record:
        """Return a record that this user sees in any case; `compare` reads up to it."""
        self._markers += 1
        return marker(self._user, self._markers)

    def started(self, publish: Callable[[Record], None]) -> None:
        """Wait until ``watch`` shows what is published."""

        def shows() -> bool:
            assert self._process.poll() is None
            publish(self.marker())
            return bool(self._read())

        wait_until(shows, "the first line of watch")
        self._until_marker()

    def compare(self, expected: Expected) -> int:
        """Compare what ``watch`` showed of objects, events, alarms and operations."""
        happened = self._until_marker()
        created = [one for one in happened if one["kind"] == "created"]
        assert {("object", one["object"]) for one in created} == expected.objects()
        values = {("value", one["object"], *pair) for one in created for pair in one["values"].items()}
        assert values == expected.values()
        parents = {("parent", one["object"], one["parent"]) for one in created if one["parent"]}
        assert parents == expected.parents()
        assert _events_of(happened) == expected.events()
        raised = [one for one in happened if one["kind"] == "alarm"]
        assert {("alarm", one["object"]) for one in raised} == expected.alarms()
        for one in raised:
            assert one["text"] == expected.text_of_alarm(expected.thing(one["object"]))
        self._compare_operations(happened, expected)
        assert {one["kind"] for one in happened} <= {"created", "event", "alarm", "operation", "source"}
        return expected.questions

    def _compare_operations(self, happened: list[dict[str, Any]], expected: Expected) -> None:
        of_others = [one for one in happened if one["kind"] == "operation" and one["object"]]
        found: set[Fact] = {("operation", one["operation_id"], frozenset(one["values"])) for one in of_others}
        assert found == expected.operations()
        for one in of_others:
            assert one["former"].keys() == one["values"].keys()
            assert one["text"] == "" or one["values"]

    def compare_ends(self, expected: Expected) -> None:
        """Compare what ``watch`` showed of the ends of the objects and alarms."""
        happened = self._until_marker()
        deleted: set[Fact] = {("object", one["object"]) for one in happened if one["kind"] == "deleted"}
        assert deleted == expected.objects()
        cleared: set[Fact] = {("alarm", one["object"]) for one in happened if one["kind"] == "alarm"}
        assert cleared == expected.alarms()
        assert _events_of(happened) == expected.ends_of_alarms()

    def compare_commands(self, expected: Expected, hidden: str) -> None:
        """Compare ``tree``, ``source ls``, and the error of ``get`` of an object that may be hidden."""
        objects = expected.objects()
        documents = self._documents("tree", "--json")
        assert {("object", one["object"]) for one in documents} == objects
        sources = self._documents("source", "ls", "--json")
        assert {("source", one["source"]) for one in sources} == expected.sources()
        for one in sources:
            seen = [fact for fact in objects if str(fact[1]).startswith(f"{one['source']}/")]
            assert one["objects"] == len(seen)
        ended = amqp_gateway("get", hidden, "--json", "--config", self._site.configuration)
        if ("object", hidden) in objects:
            shown = json.loads(ended.output)["values"]
            assert {("value", hidden, element, value) for element, value in shown.items()} == {
                fact for fact in expected.values() if fact[1] == hidden
            }
        else:
            assert ended.output == ""
            # Of the candidates that the error names all are shown to the user.
            candidates = {("object", line.strip()) for line in ended.reported[1:]}
            assert candidates <= {("object", repr(str(fact[1]))[1:-1]) for fact in objects}

        self._compare_explanations(expected, hidden)

    def _compare_explanations(self, expected: Expected, hidden: str) -> None:
        """Compare what ``explain`` finds by the path of an object, and by the id of an operation on it."""
        for text, kind, is_shown in (
            (hidden, "object", ("object", hidden) in expected.objects()),
            (expected.operation_on(hidden), "operation", bool(expected.operations_on(hidden))),
        ):
            ended = amqp_gateway("explain", text, "--json", "--config", self._site.configuration)
            kinds = {one["kind"] for one in json.loads(ended.output)["meanings"]}
            assert kinds == ({kind} if is_shown else set())

    def _documents(self, *words: str) -> list[dict[str, Any]]:
        ended = amqp_gateway(*words, "--config", self._site.configuration)
        return [json.loads(line) for line in ended.output.splitlines()]

    def _read(self) -> list[dict[str, Any]]:
        lines = self._output.read_bytes().split(b"\n")[:-1]
        self._happened += [json.loads(line) for line in lines[self._lines :]]
        self._lines = len(lines)
        return self._happened

    def _until_marker(self) -> list[dict[str, Any]]:
        last = f"marker {self._markers}"

        def came() -> bool:
            assert self._process.poll() is None
            return any(one.get("operation_id") == last for one in self._read())

        wait_until(came, "everything that was published")
        happened, self._happened = self._happened, []
        assert happened[-1]["operation_id"] == last
        return [one for one in happened if not str(one.get("operation_id", "")).startswith("marker")]


def _events_of(happened: Iterable[Mapping[str, Any]]) -> set[Fact]:
    return {
        ("event", one["event_id"], one["text"], frozenset(one["values"]))
        for one in happened
        if one["kind"] == "event"
    }


@contextmanager
def command_line(site: Site, user: str) -> Iterator[CommandLine]:
    """Run ``watch`` of this user."""
    output = site.folder / "watched"
    words = [*COMMAND, "watch", "--json", "--config", str(site.configuration)]
    with output.open("wb") as lines, (site.folder / "watch.log").open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603  our own command
            words, env=environment(), stdin=subprocess.DEVNULL, stdout=lines, stderr=errors
        )
    try:
        yield CommandLine(site, user, output, process)
    finally:
        process.kill()
        process.wait(DEADLINE)


HIDDEN: Final = tuple(
    f"{source}/{path}"
    for source in SOURCES.values()
    for path in (
        "rabbitmq:queue//|orders",
        "rabbitmq:queue/sales|orders.eu",
        "rabbitmq:user/guest",
        f"com.example:thing/{THINGS[0]}",
        "rabbitmq:connection/client",
    )
)
"""Objects that `CommandLine.compare_commands` asks for."""
