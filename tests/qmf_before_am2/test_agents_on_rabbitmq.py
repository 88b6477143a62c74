"""Agents before AM2 on a live RabbitMQ, in one gateway: walks, sets, calls, events, `source test`."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.operated_gateway import OPERATOR
from tests.components.waiting import DEADLINE, wait_until
from tests.qmf_before_am2.gateway import ASKED, WRITTEN, Cellar, cellar
from tests.snmp.set.shop import set_request, text

pytestmark = pytest.mark.xdist_group("qmf-before-am2")


@pytest.fixture(scope="module")
def there(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cellar]:
    with cellar(rabbitmq, tmp_path_factory.mktemp("cellar")) as running:
        yield running


def test_what_agents_manage_is_walked_and_goes(there: Cellar) -> None:
    there.shows("siteCellarVatName", "v1", "v1")
    there.agents.do(lambda: there.agents.is_.asked.put(2, level=7))
    there.shows("siteCellarVatName", "v1", "v1", "v2")
    assert "7 litre" in there.walk("siteCellarVatLevel").values()
    there.agents.do(lambda: there.agents.is_.asked.delete(2))
    there.shows("siteCellarVatName", "v1", "v1")


def test_what_an_agent_publishes_no_more_has_ended(there: Cellar) -> None:
    """Its records are published again with the times that they had, so that these show nothing."""
    there.agents.do(lambda: there.agents.is_.written.put(3))
    there.shows("siteCellarVatName", "v1", "v1", "v3")
    there.agents.do(lambda: there.agents.is_.written.leave_out(3))
    there.shows("siteCellarVatName", "v1", "v1")


@pytest.mark.parametrize("source", [ASKED, WRITTEN])
def test_a_method_is_called(there: Cellar, source: str) -> None:
    agent = there.agents.is_.asked if source == ASKED else there.agents.is_.written
    there.agents.do(lambda: agent.put(1, level=640))
    ended = there.command("invoke", f"{source}/vat/v1", "drain", "amount=20")
    assert (ended.code, ended.output.startswith("left  620\napplied: ")) == (ExitCode.OK, True)
    wait_until(lambda: "620 litre" in there.walk("siteCellarVatLevel").values(), "it has drained")
    there.agents.do(lambda: agent.put(1))


def test_a_property_is_set_by_snmp_where_the_agent_has_a_set(there: Cellar) -> None:
    rows = {name: f"{key.rpartition('.')[2]}.1" for key, name in there.walk("agSourceName").items()}
    written, asked = (f"siteCellarVatCapacity.{rows[source]}" for source in (WRITTEN, ASKED))
    assert there.set(written, "=", "77") == f"{written} = 77 litre\n"
    assert there.walk(written) == {written: "77 litre"}
    assert "notWritable" in there.set(asked, "=", "77")
    assert there.walk(asked) == {asked: "500 litre"}


def vat(there: Cellar, column: str, number: int = 1) -> str:
    """Return a variable of a vat of the agent that has a set."""
    (source,) = (key for key, name in there.walk("agSourceName").items() if name == WRITTEN)
    return f"siteCellarVat{column}.{source.rpartition('.')[2]}.{number}"


def test_two_properties_of_one_set_are_one_request(there: Cellar) -> None:
    agent = there.agents.is_.written
    before = len(agent.done)
    capacity, label = vat(there, "Capacity"), vat(there, "Label")
    reported = there.set(capacity, "=", "9000", label, "s", "Grüner Veltliner")
    assert reported == f"{capacity} = 9000 litre\n{label} = Grüner Veltliner\n"
    assert agent.done[before:] == [(1, {"capacity": 9000, "label": "Grüner Veltliner"})]


def test_a_set_that_comes_again_is_carried_out_once(there: Cellar) -> None:
    agent = there.agents.is_.written
    before = len(agent.done)
    community = there.site.state.secret(f"community-{OPERATOR}").encode()
    label = there.oid(vat(there, "Label"))
    asked = set_request([(label, text("again"))], community=community, request_id=4711)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as manager:
        manager.settimeout(DEADLINE)
        manager.connect(("127.0.0.1", there.site.snmp_port))
        manager.send(asked)
        manager.send(asked)
        answers = [manager.recv(65_536)]
        manager.send(asked)
        answers.append(manager.recv(65_536))
    assert answers[0] == answers[1]
    assert agent.done[before:] == [(1, {"label": "again"})]


@pytest.mark.parametrize(
    ("assignments", "status"),
    [
        ([("Capacity", "u", "9001")], "wrongValue"),
        ([("Capacity", "u", "0")], "wrongValue"),
        ([("Label", "x", "C3 28")], "wrongValue"),  # no UTF-8
        ([("Capacity", "u", "77"), ("Level", "u", "77")], "notWritable"),
        ([("Name", "s", "v2")], "notWritable"),
    ],
)
def test_what_the_schema_does_not_take_is_not_sent(
    there: Cellar, assignments: list[tuple[str, str, str]], status: str
) -> None:
    before = len(there.agents.is_.written.done)
    words = [word for column, *value in assignments for word in (vat(there, column), *value)]
    assert status in there.set(*words)
    assert len(there.agents.is_.written.done) == before


def test_two_objects_of_one_set_are_refused_and_nothing_is_sent(there: Cellar) -> None:
    agents = there.agents.is_
    there.agents.do(lambda: agents.written.put(2))
    there.shows("siteCellarVatName", "v1", "v1", "v2")
    before = len(agents.written.done)
    row = there.shown(f"{WRITTEN}/vat/v2")["row"]  # which depends on the tests before
    reported = there.set(vat(there, "Capacity"), "=", "50", vat(there, "Capacity", row), "=", "50")
    assert "inconsistentValue" in reported
    assert len(agents.written.done) == before
    there.agents.do(lambda: agents.written.delete(2))
    there.shows("siteCellarVatName", "v1", "v1")


def test_what_has_no_effect_is_reported_as_that(there: Cellar) -> None:
    agent = there.agents.is_.written
    agent.deaf.add("label")
    ended = there.command("set", f"{WRITTEN}/vat/v1", "label=unheard")
    agent.deaf.clear()
    assert ended.code is ExitCode.NOT_APPLIED
    assert agent.done[-1] == (1, {"label": "unheard"})


def test_an_event_is_a_trap(there: Cellar) -> None:
    there.agents.do(lambda: there.agents.is_.written.leak(12))

    def is_received() -> bool:
        return any(
            "rate=12" in each.values.get("agEventText", "") for each in there.agents.is_.traps.notifications()
        )

    wait_until(is_received, "a trap")


@pytest.mark.parametrize(("source", "spoken"), [(ASKED, "2008-02"), (WRITTEN, "design-notes")])
def test_a_source_is_tried(there: Cellar, source: str, spoken: str) -> None:
    ended = there.command("source", "test", source)
    assert ended.code is ExitCode.OK
    assert ended.output.splitlines()[0].endswith(f": an agent speaks {spoken}")


def test_a_rabbitmq_that_forgets_its_connections_is_found_again(
    there: Cellar, rabbitmq: PrivateBroker
) -> None:
    with rabbitmq.http() as http:
        for connection in http.get("connections").json():
            said = connection.get("client_properties", {}).get("connection_name", "")
            if connection.get("vhost") == there.vhost and said.startswith("amqp-gateway console"):
                http.delete(f"connections/{connection['name'].replace(' ', '%20').replace('>', '%3E')}")
    there.agents.do(lambda: there.agents.is_.asked.put(1, level=55))
    wait_until(lambda: "55 litre" in there.walk("siteCellarVatLevel").values(), "it hears again")
    there.are_all("synchronised")
