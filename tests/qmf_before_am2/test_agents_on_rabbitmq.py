"""Agents before AM2 on a live RabbitMQ, in one gateway: walked, set, called, heard, tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.service.exit_codes import ExitCode
from tests.components.waiting import wait_until
from tests.qmf_before_am2.gateway import ASKED, WRITTEN, Cellar, cellar

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
            if (
                connection.get("client_properties", {})
                .get("connection_name", "")
                .startswith("amqp-gateway console")
            ):
                http.delete(f"connections/{connection['name'].replace(' ', '%20').replace('>', '%3E')}")
    there.agents.do(lambda: there.agents.is_.asked.put(1, level=55))
    wait_until(lambda: "55 litre" in there.walk("siteCellarVatLevel").values(), "it hears again")
    there.are_all("synchronised")
