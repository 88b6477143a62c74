"""Brokers and applications of all dialects in one gateway: one MIB tree, one virtual machine, one log."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.config.files import load_configuration
from gateway.links.capture_reading import captured_files
from gateway.mapping.files import load_mappings
from gateway.mapping.rules import Mapping as MappingFile
from gateway.prometheus.objects import NAME_TAKEN
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.sources.replaying import replayed
from tests.all_dialects.alike_agent import OBJECT, THING, VALUES
from tests.all_dialects.scene import APPLICATION, QUEUE, SOURCES, Scene
from tests.analytics.conftest import SMALL
from tests.components.jmx_client import JmxClient, JmxClientError
from tests.components.open_amq import BROKER, CONFIG
from tests.components.operated_gateway import OPERATOR
from tests.components.pages import served_page
from tests.components.waiting import eventually, until, wait_until
from tests.hypothesis_profiles import PROVING

pytestmark = pytest.mark.xdist_group("all-dialects")

DRAIN = (
    'C|I="drain"|N="Tank.Drain"|M="0"|A="{\\"form\\":{\\"inputs\\":[{\\"label\\":\\"Why\\",\\"var\\":\\"why\\",'
    '\\"required\\":true}]},\\"timeout\\":8000}"'
)


@pytest.fixture
async def java(there: Scene, tmp_path: Path) -> AsyncIterator[JmxClient]:
    """A Java client that has logged in."""
    password = there.site.state.secret(f"jmx-{OPERATOR}")
    address = f"127.0.0.1:{there.jmx_port}"
    async with await JmxClient.connect(tmp_path / "client.jar", address, OPERATOR, password) as client:
        yield client


async def bean(java: JmxClient, pattern: str) -> str:
    """The only MBean of a pattern, as soon as there is one."""
    found: list[str] = []

    async def is_there() -> bool:
        found[:] = await java.names(f"amqp.gateway:{pattern},*")
        return bool(found)

    await eventually(is_there, pattern)
    (name,) = found
    return name


def test_all_are_rows_of_one_tree(there: Scene) -> None:
    kinds = dict(zip(there.walk("agSourceName").values(), there.walk("agSourceKind").values(), strict=True))
    assert kinds == SOURCES
    there.all_are("agSourceState", "synchronised")
    for column, source, names in (
        ("rmqQueueName", "rabbitmq", {QUEUE}),
        ("qpidQueueName", "qpid", {"q1", "q3", "src", "dst"}),
        ("siteCellarVatName", "cellar", {"v1"}),
        ("oamqQueueName", "openamq", {"orders"}),
        ("siteAmiTankLevel", "plant", {"42 percent"}),
        ("amiApplicationApplication", "plant", {APPLICATION}),
    ):
        (shown,) = there.column(column).items()
        assert shown[0] == source
        assert shown[1] >= names
    for table in ("rmqQueue", "qpidQueue", "siteCellarVat", "oamqQueue", "siteAmiTank"):
        there.all_are(f"{table}RowStale", "false")


async def test_names_that_are_alike_stay_apart(there: Scene, java: JmxClient) -> None:
    """Each element has its own name and value in every front end; the page counts what it leaves out."""
    elements = [(name, element) for name, values in VALUES.items() for element in values]
    columns = {}
    for name, element in elements:
        (document,) = there.documents("explain", f"{name}.{element}")
        (column,) = (one for one in document["meanings"] if (one["class"], one["kind"]) == (name, "element"))
        columns[name, element] = str(column["descriptor"])
    assert len({column.lower() for column in columns.values()}) == len(elements)
    for name, values in VALUES.items():
        assert there.shown(f"alike/{name}/{OBJECT}")["values"] == {"name": OBJECT, **values}
        for element, value in values.items():
            assert list(there.walk(columns[name, element]).values()) == [str(value)]
        package, _, of_type = name.partition(":")
        shown = await java.read(await bean(java, f"source=alike,package={package},type={of_type}"))
        numbers = {each: one.value for each, one in shown.items() if one.value in values.values()}
        assert sorted(numbers.values()) == sorted(values.values())
        assert len({each.lower() for each in numbers}) == len(values)
    logged = there.ask_log(
        """SELECT package, class, "values" FROM log
        WHERE source = 'alike' AND kind IN ('create', 'snapshot')"""
    )
    assert {f"{one['package']}:{one['class']}": json.loads(one["values"]) for one in logged} == {
        name: {"name": OBJECT, **values} for name, values in VALUES.items()
    }

    def page() -> dict[str, list[tuple[dict[str, str], float]]]:
        served = served_page(f"http://127.0.0.1:{there.page_port}/metrics/objects").text
        samples = [one for family in text_string_to_metric_families(served) for one in family.samples]
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for one in samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
        return found

    wait_until(lambda: "amqp_p1_thing_depth" in page(), "the page has them")
    of_alike = {
        name: [value for _, value in of] for name, of in page().items() if name.startswith("amqp_p1_")
    }
    assert of_alike == {"amqp_p1_thing_depth": [11], "amqp_p1_thing_depth_2": [15], "amqp_p1_thing_a_b": [13]}
    taken = {labels["class"]: value for labels, value in page()[NAME_TAKEN] if labels["what"] == "element"}
    assert taken == {THING: 2, "p1:Thing": 1, "P1:thing": 1}


async def test_all_are_mbeans_of_one_virtual_machine(java: JmxClient) -> None:
    for pattern, attribute, value in (
        (f"source=rabbitmq,type=queue,name={QUEUE}", "durable", True),
        ("source=qpid,type=queue,name=q3", "name_", "q3"),
        ("source=cellar,type=vat", "name_", "v1"),
        ("source=openamq,type=broker", "name_", "OpenAMQ 1.4c1"),
        ("source=plant,type=Tank", "state", "open"),
    ):
        name = await bean(java, pattern)

        async def is_fresh(name: str = name) -> bool:
            return (await java.read(name))["Stale"].value is False

        await eventually(is_fresh, f"{name} is fresh")
        assert (await java.read(name))[attribute].value == value


def test_a_limit_of_a_rabbitmq_is_set(there: Scene) -> None:
    """SNMP sets it by a method of the agent, named by the mapping."""
    (row,) = (
        instance.partition(".")[2]
        for instance, name in there.walk("rmqVhostName").items()
        if name == there.shop.name
    )
    there.set(f"rmqVhostMaxConnections.{row}", "=", "77")
    (shown,) = there.walk(f"rmqVhostMaxConnections.{row}").values()
    assert shown == "77 connections"


def test_a_setting_of_an_openamq_is_set(there: Scene) -> None:
    """SNMP sets it by a request of CML's own."""
    (instance,) = there.walk("oamqConfigMonitor")
    there.set(instance, "=", "9")
    (shown,) = there.walk("oamqConfigMonitor").values()
    assert shown == "9 seconds"
    assert there.peers.is_.openamq.text(CONFIG, "monitor") == "9"


def test_a_property_of_an_am01_agent_is_set(there: Scene) -> None:
    """SNMP sets it by our own layout of set, at a peer that is configured for it."""
    (instance,) = there.walk("siteCellarVatCapacity")
    cellar = there.peers.is_.cellar
    before = len(cellar.done)
    there.set(instance, "=", "120")
    assert list(there.walk("siteCellarVatCapacity").values()) == ["120 litre"]
    assert cellar.done[before:] == [(1, {"capacity": 120})]


async def test_settings_are_made_by_java(there: Scene, java: JmxClient) -> None:
    """Java uses a method of an agent, a request of CML's for several settings, and set of an AM01 agent."""
    openamq = there.peers.is_.openamq
    config = await bean(java, "source=openamq,type=config")
    before = len(openamq.done)
    wanted = {"monitor": 11, "queue_timeout": 17}
    assert sorted(await java.set_all(config, wanted)) == sorted(wanted)
    assert {name: value for _, name, value in openamq.done[before:]} == wanted
    shown = await java.read(config)
    assert {name: shown[name].value for name in wanted} == wanted

    vat = await bean(java, "source=cellar,type=vat")
    await java.set(vat, "capacity", 130)
    assert there.peers.is_.cellar.done[-1] == (1, {"capacity": 130})
    assert (await java.read(vat))["capacity"].value == 130

    vhost = await bean(java, f"source=rabbitmq,type=vhost,name={there.shop.name}")
    await java.set(vhost, "maxQueues", 88)
    assert (await java.read(vhost))["maxQueues"].value == 88


async def test_what_an_openamq_cannot_carry_is_refused_to_java(there: Scene, java: JmxClient) -> None:
    config = await bean(java, "source=openamq,type=config")
    before = len(there.peers.is_.openamq.done)
    for attribute, value in (("port", ""), ("port", "5" * 256), ("monitor", -1), ("monitor", 2**32)):
        with pytest.raises(JmxClientError) as caught:
            await java.set(config, attribute, value)
        assert caught.value.thrown[0].java_class == "javax.management.InvalidAttributeValueException"
    assert len(there.peers.is_.openamq.done) == before


def test_what_an_openamq_cannot_carry_is_refused_before_anything_begins(there: Scene) -> None:
    """This also applies to a source that is captured, as all are here."""
    (monitor,) = there.walk("oamqConfigMonitor")
    before = len(there.peers.is_.openamq.done)
    refused = there.set(monitor, "=", "12", monitor.replace("Monitor", "Port"), "s", "a\tb")
    assert "wrongValue" in refused, refused
    assert len(there.peers.is_.openamq.done) == before


async def test_what_a_dialect_cannot_set_is_refused(java: JmxClient) -> None:
    for pattern, attribute in (
        ("source=qpid,type=queue,name=q3", "durable"),
        ("source=plant,type=Tank", "state"),
    ):
        with pytest.raises(JmxClientError) as caught:
            await java.set(await bean(java, pattern), attribute, "x")
        assert caught.value.thrown[0].java_class == "javax.management.AttributeNotFoundException"


async def test_methods_are_called_by_java(there: Scene, java: JmxClient) -> None:
    with there.shop.http() as http:
        body = {"properties": {}, "routing_key": QUEUE, "payload": "x", "payload_encoding": "string"}
        http.post(f"exchanges/{there.shop.path}/amq.default/publish", json=body).raise_for_status()
    await java.invoke(await bean(java, f"source=rabbitmq,type=queue,name={QUEUE}"), "purge")
    await java.invoke(await bean(java, "source=qpid,type=broker"), "echo", 5, "hello")
    await java.invoke(await bean(java, "source=cellar,type=vat"), "drain", 10, "cleaning")
    broker = await bean(java, "source=openamq,type=broker")
    await java.invoke(broker, "lock", True)

    assert there.peers.is_.qpid.called == ["echo"]
    assert there.peers.is_.cellar.done[-1] == (1, ("drain", (10, "cleaning")))
    assert (await java.read(broker))["locked"].value is True  # it was read again before the answer
    assert (BROKER, "lock", (True,)) in there.peers.is_.openamq.done
    called = {"rabbitmq", "qpid", "cellar", "openamq"}
    there.until_all_logged(called, "kind = 'operation' AND outcome = 'applied'")


def test_a_command_of_an_application_is_called(there: Scene) -> None:
    there.application.say(DRAIN)
    there.application.receives(r"\|S=0")

    def answer() -> None:
        request = there.application.receives(r'E.*\|I="([^"]+)".*\|why="cleaning"')[1]
        there.application.say(f'R|I="{request}"|S=0|M="drained"')

    calling = ("invoke", f"plant/ami-relay:application/{APPLICATION}", "drain", "why=cleaning")
    wait_until(lambda: there.command(*calling, "--check").code is ExitCode.OK, "the command is known")
    answering = threading.Thread(target=answer)
    answering.start()
    drained = there.command(*calling)
    answering.join()
    assert drained.code is ExitCode.OK, drained.errors
    assert "drained" in drained.output


async def test_an_mbean_goes_on_with_its_listeners_while_its_class_grows(
    there: Scene, java: JmxClient
) -> None:
    tank = await bean(java, "source=plant,type=Tank")
    await java.listen(tank)
    await java.listen("JMImplementation:type=MBeanServerDelegate")
    others: list[object] = []

    async def is_shown(attribute: str, value: str) -> bool:
        shown = await java.read(tank)
        others.append((shown["level"].value, shown["Stale"].value))
        return attribute in shown and shown[attribute].value == value

    for key in ("colour", "maker"):
        there.application.say(f'O|T="Tank"|I="t1"|{key}="red"')
        await eventually(partial(is_shown, key, "red"), f"the attribute {key}")
    there.application.say('O|T="Tank"|I="t1"|maker="blue"')
    await eventually(partial(is_shown, "maker", "blue"), "a change of an attribute that was added")
    assert set(others) == {(42, False)}

    def received() -> list[str]:
        of_tank = (one for one in java.notifications if tank in {one["source"], one.get("mbean")})
        return [str(one["notification"]) for one in of_tank]

    # The delegate, which says what is registered and unregistered, has nothing to say of it.
    expected = ["jmx.mbean.info.changed", "jmx.mbean.info.changed", "jmx.attribute.change"]
    await until(lambda: len(received()) >= len(expected), "all notifications")
    assert received() == expected


def _declare(there: Scene) -> None:
    with there.shop.http() as http:
        http.put(f"queues/{there.shop.path}/told", json={}).raise_for_status()


def _publish(there: Scene) -> None:
    there.peers.do(lambda: there.peers.is_.qpid.publish("queueDeclare"))


def _leak(there: Scene) -> None:
    there.peers.do(lambda: there.peers.is_.cellar.leak(rate=3))


def _notify(there: Scene) -> None:
    there.peers.do(lambda: there.peers.is_.notify("disk is nearly full"))


def _alert(there: Scene) -> None:
    there.application.say('A|I="a1"|L=3|T="Leak"')


EVENTS: dict[str, tuple[Callable[[Scene], None], str, str]] = {
    "rabbitmq": (_declare, "queueCreated", "told"),
    "qpid": (_publish, "queueDeclare", "guest@QPID"),
    "cellar": (_leak, "vat.leak", ""),
    "openamq": (_notify, "notify", "disk is nearly full"),
    "plant": (_alert, "alert", "a1"),
}
"""The function that causes an event of each source, the event's name, and a part of its text."""


@pytest.mark.parametrize("source", EVENTS)
def test_an_event_of_each(there: Scene, source: str) -> None:
    happens, event, text = EVENTS[source]
    happens(there)
    there.until_logged(source, event, text)

    def is_received() -> bool:
        return any(
            each.values.get("agEventSource") == source and text in each.values.get("agEventText", "")
            for each in there.peers.is_.traps.notifications()
        )

    wait_until(is_received, "a notification")


def test_one_log_has_all(there: Scene) -> None:
    there.until_all_logged(SOURCES.keys(), "kind IN ('create', 'snapshot')")


@pytest.mark.prove
def test_sparks_report_counts_all(there: Scene) -> None:
    for source, (happens, event, text) in EVENTS.items():
        happens(there)
        there.until_logged(source, event, text)
    small = [f"--conf={key}={value}" for key, value in SMALL.items()]
    words = ("--json", "--master=local[2]", "--last=1h", "--top=200")  # other tests are told of, too
    report = there.command("analytics", "report", *words, *small)
    assert report.code is ExitCode.OK, report.errors
    tables = json.loads(report.output)["tables"]
    synchronised = {row["source"] for row in tables["sources"] if row["state"] == "synchronised"}
    assert synchronised == SOURCES.keys()
    beside = {row["source"]: row["dialect"] for row in tables["overview"] if row["source"]}
    assert beside == SOURCES
    assert {row["source"] for row in tables["queues"]} >= {"openamq"}
    reported = {(row["source"], row["event"]): row["events"] for row in tables["events"]}
    assert {(source, event) for source, (_, event, _) in EVENTS.items()} <= reported.keys()


def test_what_each_said_is_captured_and_says_the_same_again(there: Scene) -> None:
    """The replay needs no peers, also after a restart, with earlier schemas and an event that was kept."""
    if PROVING:  # what was said before is replayed after the restart, too
        replay_all(there)
    there.end()
    _publish(there)
    there.start()
    assert [path.name for path in captured_files(capture_of(there, "openamq"))] == [
        "openamq.jsonl.1",
        "openamq.jsonl",
    ]
    replay_all(there)


def capture_of(there: Scene, source: str) -> Path:
    return there.site.state.path / "captures" / f"{source}.jsonl"


def replay_all(there: Scene) -> None:
    mappings = load_mappings(load_configuration(there.site.configuration).mapping_files)
    for source in SOURCES:
        # A peer that a busy machine kept silent is being read again while the capture grows.
        wait_until(partial(ends_synchronised, there, source, mappings), f"the replay of {source} is whole")


def ends_synchronised(there: Scene, source: str, mappings: Mapping[str, MappingFile]) -> bool:
    """Replay the capture as it is now: every input must have the captured effect, whatever the state is."""
    with replayed(capture_of(there, source), mappings, lambda _change, _view, _now: None) as again:
        assert again.outcome.differences == []
        (reported,) = again.view.sources.values()
        assert (reported.name, reported.kind) == (source, SOURCES[source])
        return (
            reported.state.value == "synchronised" and bool(again.view.objects) and again.outcome.events > 1
        )
