"""Recorded brokers side by side in one inventory and its SNMP tables: Qpid in C++ and Java, and OpenAMQ."""

from __future__ import annotations

import pytest

from tests.mapping.recorded_schemas import JAVA, OPENAMQ, QPID, QPIDD
from tests.snmp.mib.recorded_site import Site, cml_observations, qmf_observations

pytestmark = pytest.mark.xdist_group("recorded brokers by SNMP")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("site"))
    site.watch("cpp", qmf_observations(QPIDD), kind="qmf")
    site.watch("java", qmf_observations(JAVA), kind="qmf")
    site.watch("openamq", cml_observations())
    site.show()
    return site


def test_everything_that_was_reported_has_a_column(site: Site) -> None:
    assert site.logged == []


@pytest.mark.parametrize(
    ("package", "class_name", "names"),
    [
        (QPID, "broker", {1: {"amqp-broker"}, 2: {"amqp-broker"}}),
        (QPID, "vhost", {1: {"/"}, 2: {"localhost", "test", "development"}}),
        (QPID, "queue", {1: {"q1", "q2", "q3", "src", "dst"}, 2: {"ping", "queue", "test-ping"}}),
        (QPID, "exchange", {1: {"", "amq.topic", "ex1"}, 2: {"<<default>>", "amq.topic", "test.topic"}}),
        (QPID, "system", {1: {"vm"}, 2: {"vm"}}),
        (OPENAMQ, "broker", {3: {"OpenAMQ 1.4c1"}}),
        (OPENAMQ, "exchange", {3: {"$default$", "amq.direct", "amq.topic"}}),
        (OPENAMQ, "queue", {3: {"q.cons", "q.shell"}}),
    ],
)
def test_recorded_objects_are_rows_of_one_table(
    site: Site, package: str, class_name: str, names: dict[int, set[str]]
) -> None:
    shown = site.names(package, class_name)
    assert set(shown) == set(names)
    for source, of_source in names.items():
        assert of_source <= shown[source]


def test_conditions_of_recorded_brokers_are_alarms(site: Site) -> None:
    alarms = {(one.name, one.text) for one in site.alarms()}
    assert {
        ("queueThreshold", "Queue q3 has reached its threshold: 3 messages, 39 octets"),
        ("flowStopped", "Queue q3 has stopped its publishers: it holds 4 messages"),
        ("linkWaiting", "Link to 127.0.0.1:1 is down, and tried again: Connection refused"),
    } <= alarms
    (failed,) = (text for name, text in alarms if name == "aclFileLoadFailed")
    assert failed.startswith("Rules of access could not be loaded by ?: ")


def test_names_begin_with_the_parents(site: Site) -> None:
    names = site.stable_names()
    assert {r"amqp-broker\|/|q1", r"amqp-broker\|test|ping", "OpenAMQ 1.4c1|q.cons"} <= names
