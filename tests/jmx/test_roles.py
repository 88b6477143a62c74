"""What users of JMX see of a real RabbitMQ, by the default role and by others, at the same time."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.demo.broker import PrivateBroker
from gateway.feed.audit_rate_limiter import RECORDED_IN_FULL
from gateway.service.processes.exit_codes import ExitCode
from tests.components.alike import SURELY_DIFFERENT, in_turn, rank_sum, without_names
from tests.components.command_line import RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost, connections_of, new_virtual_host
from tests.components.waiting import DEADLINE, wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.hypothesis_profiles import PROVING
from tests.jmx_java.client_machine import SharedMachine

pytestmark = pytest.mark.xdist_group("roles by JMX")

DELEGATE = "JMImplementation:type=MBeanServerDelegate"
GATEWAY = "amqp.gateway:type=Gateway"
PRIVATE_CLASSES = ("user", "permission", "topicPermission", "connection", "channel", "consumer")
ROLES = {"jmx:limited": ["one-host"], "jmx:curious": ["one-host"], "jmx:whole": ["everything"]}
HIDDEN = 500 if PROVING else 30
LONG_ENOUGH = int(DEADLINE * 1000)


class Shown:
    """A gateway that runs, a RabbitMQ with two virtual hosts, and clients of JMX.

    Attributes:
        site: its configuration.
        gateway: its command.
        mine: the virtual host that the user ``limited`` sees.
        other: another one.
    """

    def __init__(
        self,
        site: Site,
        gateway: RunningCommand,
        port: int,
        mine: VirtualHost,
        other: VirtualHost,
        machine: Any,  # noqa: ANN401  lives in Java
    ) -> None:
        self.site = site
        self.gateway = gateway
        self.mine, self.other = mine, other
        self._port, self._machine = port, machine

    def client(self, user: str) -> Any:  # noqa: ANN401  lives in Java
        """Return a client that has logged in; it may throw what Java throws."""
        return self._machine.connect(self._port, user, self.site.state.secret(f"jmx-{user}"))

    def attacker(self, user: str) -> Any:  # noqa: ANN401  lives in Java
        """Return a client that has logged in, and asks more than it may."""
        attacks = self._machine.attacks()
        attacks.login(self._port, user, self.site.state.secret(f"jmx-{user}"))
        return attacks

    def recorded(self, kind: str, **fields: str) -> list[dict[str, Any]]:
        """Return the records of a kind in the event log that have these fields."""
        try:
            records = of_kind(read_log(self.site.state.path / "log"), kind)
        except (OSError, ValueError, IndexError):
            return []  # the log is just being written
        return [one for one in records if fields.items() <= one.items()]

    def reload(self, principals: dict[str, list[str]]) -> None:
        """Give users other roles while the gateway runs."""
        document = yaml.safe_load(self.site.configuration.read_text(encoding="utf-8"))
        document["policy"]["principals"] = principals
        self.site.configuration.write_text(yaml.safe_dump(document), encoding="utf-8")
        ended = amqp_gateway("reload", "--config", self.site.configuration)
        assert ended.code is ExitCode.OK, ended.errors

    @staticmethod
    def queue(vhost: VirtualHost, name: str) -> str:
        """Return the name of a queue's MBean, with its keys in alphabetical order."""
        return f"amqp.gateway:name={name},package=rabbitmq,parent={vhost.name},source=orders,type=queue"


def declare(vhost: VirtualHost, queue: str) -> None:
    with vhost.http() as http:
        http.put(f"queues/{vhost.path}/{queue}", json={"durable": True}).raise_for_status()


def delete(vhost: VirtualHost, queue: str) -> None:
    with vhost.http() as http:
        http.delete(f"queues/{vhost.path}/{queue}").raise_for_status()


def names(client: Any, pattern: str = "amqp.gateway:*") -> list[str]:  # noqa: ANN401  lives in Java
    return list(client.names(pattern))


@pytest.fixture(scope="module")
def shown(
    rabbitmq: PrivateBroker,
    tmp_path_factory: pytest.TempPathFactory,
    java_machine: SharedMachine,
) -> Iterator[Shown]:
    folder, port = tmp_path_factory.mktemp("roles"), free_tcp_port()
    with contextlib.ExitStack() as stack:
        mine, other = (stack.enter_context(new_virtual_host(rabbitmq)) for _ in range(2))
        declare(mine, "orders")
        declare(other, "secret")
        site = new_site(folder)
        configure(site, rabbitmq, mine, port)
        log = Path(folder, "log")
        process = stack.enter_context(running("run", "--config", site.configuration, log=log))
        process.ready()
        made = Shown(site, process, port, mine, other, java_machine.clients())
        with contextlib.closing(made.client("whole")) as client:
            both = {made.queue(mine, "orders"), made.queue(other, "secret")}
            wait_until(lambda: both <= set(names(client)), "the queues are shown")
            for private in ("user", "permission"):
                pattern = f"amqp.gateway:type={private},*"
                wait_until(lambda: bool(names(client, pattern)), f"each {private} is shown")  # noqa: B023  at once
            # Others of the broker, which all tests share, come and go.
            wait_until(
                lambda: shows_own_connection(names(client), process, rabbitmq), "its own connection is shown"
            )
        yield made


def shows_own_connection(shown: Iterable[str], gateway: RunningCommand, broker: PrivateBroker) -> bool:
    own = connections_of(gateway.process.pid, broker)
    return any(f'name="{connection}"' in name for connection in own for name in shown)


def configure(site: Site, broker: PrivateBroker, mine: VirtualHost, port: int) -> None:
    administrator = broker.administrator
    limited = {
        "allow": [
            {"classes": ["rabbitmq:vhost"], "objects": [mine.name], "read": ["*"]},
            {
                "classes": ["rabbitmq:queue"],
                "objects": [f"{mine.name}|*"],
                "read": ["*"],
                "subscribe": ["*:*"],
                "invoke": ["purge"],
            },
        ],
        "deny": [{"classes": ["rabbitmq:queue"], "read": ["messages"]}],
    }
    site.configure(
        snmp={"enabled": False},
        sources={
            "orders": {
                "kind": "rabbitmq",
                "management": broker.management_url,
                "user": administrator.name,
                "password": site.secret(administrator.password),
                "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
                "show_own": True,
                "interval": "1s",
            }
        },
        jmx={
            "enabled": True,
            "listen": f"127.0.0.1:{port}",
            "heap": 128,
            "users": {"monitor": {}, "limited": {}, "curious": {}, "whole": {}},
        },
        policy={
            "roles": {"one-host": limited},
            "principals": ROLES,
        },
    )


@pytest.fixture
def monitor(shown: Shown) -> Iterator[Any]:
    """A client of a user with the default role."""
    with contextlib.closing(shown.client("monitor")) as client:
        yield client


@pytest.fixture
def limited(shown: Shown) -> Iterator[Any]:
    """A client of the user of one virtual host."""
    with contextlib.closing(shown.client("limited")) as client:
        yield client


@pytest.fixture
def curious(shown: Shown) -> Iterator[Any]:
    """A client of another user with the same rights, of whose attempts none was counted yet."""
    with contextlib.closing(shown.client("curious")) as client:
        yield client


@pytest.fixture
def whole(shown: Shown) -> Iterator[Any]:
    """A client of the user who sees everything."""
    with contextlib.closing(shown.client("whole")) as client:
        yield client


def test_by_default_addresses_and_users_are_not_found(shown: Shown, monitor: Any, whole: Any) -> None:  # noqa: ANN401
    everything = names(whole)
    assert any("type=connection" in name and "127.0.0.1" in name for name in everything), everything
    assert any("type=user" in name for name in everything)
    private = [name for name in everything if any(f"type={one}" in f"{name}," for one in PRIVATE_CLASSES)]
    seen = names(monitor)
    assert shown.queue(shown.other, "secret") in seen
    assert not set(private) & set(seen)
    assert not any(f"type={one}," in f"{name}," for name in seen for one in PRIVATE_CLASSES)
    assert "127.0.0.1" not in str(seen)
    assert not any(f"rabbitmq.{one}," in f"{name}," for name in seen for one in ("user", "permission"))


def test_a_user_of_one_virtual_host_sees_no_other(shown: Shown, limited: Any, whole: Any) -> None:  # noqa: ANN401
    orders, secret = shown.queue(shown.mine, "orders"), shown.queue(shown.other, "secret")
    queues = names(limited, "amqp.gateway:type=queue,*")
    assert orders in queues
    assert all(f"parent={shown.mine.name}," in name for name in queues)
    for trick in (
        f"*:name=s*,parent={shown.other.name},*",
        "*:name=secret,*",
        secret,
        "amqp.gateway:name=secre?,*",
    ):
        assert names(limited, trick) == []
        assert secret in names(whole, trick)
    missing = secret.replace("secret", "missing")
    reported = [line.replace(secret, missing) for line in limited.tryEverything(secret, "consumers")]
    assert reported == list(limited.tryEverything(missing, "consumers"))
    table = "amqp.gateway:type=Table,source=orders,class=rabbitmq.queue"
    assert secret not in str(list(limited.page(table, "consumers", "", 0)))
    assert shown.other.name in str(list(whole.page(table, "consumers", "", 0)))
    assert limited.count() < whole.count()


def test_own_attempts_do_not_show_what_there_is(
    shown: Shown,
    curious: Any,  # noqa: ANN401  in Java
    whole: Any,  # noqa: ANN401
) -> None:
    """Each attempt on a hidden object is answered, reported and timed like that on an invented name."""
    hidden = [f"hidden-{number}" for number in range(HIDDEN)]
    for queue in hidden:
        declare(shown.other, queue)
    last = shown.queue(shown.other, hidden[-1])
    wait_until(lambda: last in names(whole), "the queues are shown")
    curious.listen(GATEWAY)
    answers: dict[str, set[str]] = {"hidden": set(), "absent": set()}
    took: dict[str, list[float]] = {"hidden": [], "absent": []}
    for queue in in_turn(hidden, "hidden", "absent"):
        kind, name = queue.partition("-")[0], shown.queue(shown.other, queue)
        began = time.perf_counter()
        answer = curious.tryInvoke(name, "purge", "", None)
        took[kind].append(time.perf_counter() - began)
        answers[kind].add(without_names(f"{answer} {curious.tryEverything(name, 'messages')}", queue))
    assert answers["hidden"] == answers["absent"]
    assert abs(rank_sum(took["hidden"], took["absent"])) < SURELY_DIFFERENT
    reports: dict[str, list[str]] = {"hidden": [], "absent": []}
    while sum(map(len, reports.values())) < RECORDED_IN_FULL:
        received = curious.received(LONG_ENOUGH)
        assert received, reports
        for kind in (kind for kind in reports if f"name={kind}-" in received):
            reports[kind].append(_without_queue(received))
    assert set(reports["hidden"]) == set(reports["absent"])
    lines = re.findall(r"object-gone: [^\[]*", curious.attribute(GATEWAY, "LastOperations"))
    of_kinds = [{_without_queue(line) for line in lines if f"name={kind}-" in line} for kind in reports]
    assert of_kinds[0] == of_kinds[1] != set()
    assert f"{shown.other.name}|hidden-" in whole.attribute(GATEWAY, "LastOperations"), "the true record"
    for kind, (of_hidden, of_absent) in _times(shown, curious, hidden).items():
        assert abs(rank_sum(of_hidden, of_absent)) < SURELY_DIFFERENT, kind
    for queue in hidden:
        delete(shown.other, queue)


def _times(
    shown: Shown,
    curious: Any,  # noqa: ANN401  in Java
    hidden: Sequence[str],
) -> Mapping[str, tuple[list[float], list[float]]]:
    """Return the seconds that reading and setting hidden and invented names took, in turn."""
    attempts: Mapping[str, Callable[[str], object]] = {
        "get": lambda name: curious.tryEverything(name, "messages"),
        "set": lambda name: curious.trySetAttribute(name, "maxLength", 5),
    }
    took: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in attempts}
    answers = set()
    for queue in in_turn(hidden, "hidden", "absent"):
        name = shown.queue(shown.other, queue)
        for kind, attempt in attempts.items():
            began = time.perf_counter()
            answer = attempt(name)
            took[kind][queue.startswith("absent")].append(time.perf_counter() - began)
            answers.add((kind, without_names(str(answer), queue)))
    assert len(answers) == len(attempts), answers
    return took


def _without_queue(text: str) -> str:
    return without_names(text, *re.findall(r"(?:hidden|absent)-\d+", text))


def test_a_request_that_is_refused_is_recorded_audited_an_event_and_a_line_of_the_log(shown: Shown) -> None:
    attacker = shown.attacker("whole")
    reasons = (
        "the query is refused: it has more than 1000 parts; each counts as often as the query refers to it",
        "a read of more than 4096 attributes",
    )
    answers = attacker.tryQuery(30), attacker.tryAttributes(GATEWAY, 4097)
    assert list(answers) == [f"java.io.IOException: {reason}\n" for reason in reasons]
    for reason in reasons:
        refused = {"principal": "jmx:whole", "outcome": "refused", "text": f"request: {reason}"}
        wait_until(partial(shown.recorded, "operation", **refused), "it is recorded")
        (record,) = shown.recorded("operation", **refused)
        assert (record["operation"], record["origin"]) == ("invoke", "127.0.0.1")
        assert record["audit"] > 0

    def origins() -> list[str]:
        events = [one["values"] for one in shown.recorded("event", event="accessRefused")]
        return [one["origin"] for one in events if one["principal"] == "jmx:whole"]

    wait_until(lambda: origins() == ["127.0.0.1"] * len(reasons), "each is an event")
    lines = [one for one in shown.gateway.log if one["event"] == "jmx-request-refused"]
    assert [one["reason"] for one in lines if one["user"] == "whole"] == list(reasons)


def test_a_query_is_no_oracle(shown: Shown, limited: Any, whole: Any) -> None:  # noqa: ANN401
    java_class, orders = "amqp.gateway.rabbitmq.queue", shown.queue(shown.mine, "orders")
    assert orders in list(whole.namesWhere("amqp.gateway:*", java_class, "messages", 0))
    assert list(limited.namesWhere("amqp.gateway:*", java_class, "messages", 0)) == []
    assert orders in list(limited.namesWhere("amqp.gateway:*", java_class, "consumers", 0))
    secret = shown.queue(shown.other, "secret")
    assert secret not in list(limited.namesWhere("amqp.gateway:*", java_class, "consumers", 0))


def test_listeners_receive_what_they_see(shown: Shown, limited: Any, whole: Any) -> None:  # noqa: ANN401
    for client in (limited, whole):
        client.listen(DELEGATE)
        client.listen(GATEWAY)
    for vhost in (shown.other, shown.mine):
        declare(vhost, "passing")
    mine = shown.queue(shown.mine, "passing")
    wait_until(lambda: mine in names(limited), "the queue is shown")
    for vhost in (shown.other, shown.mine):
        delete(vhost, "passing")
    collected = ""
    while f"unregistered of {DELEGATE}" not in collected:
        received = limited.received(LONG_ENOUGH)
        assert received, collected
        collected += f"{received}\n"
    assert "passing" in collected
    assert shown.other.name not in collected
    assert "queueCreated" in collected
    collected = ""
    while not (shown.other.name in collected and shown.mine.name in collected):
        received = whole.received(LONG_ENOUGH)
        assert received, collected
        collected += f"{received}\n"


def events(client: Any, event_id: str = "") -> str:  # noqa: ANN401  in Java
    """Return all events behind one: those of other tests on the broker may be more than a call returns."""
    pages, ids = "", [event_id]
    while ids:
        page = str(client.invoke(GATEWAY, "eventsSince", [ids[-1], 1000]))
        ids = re.findall(r'"eventId": "([^"]+)"', page)
        pages += page
    return pages


def test_events_of_before_are_those_that_a_user_may_read_now(shown: Shown, limited: Any, whole: Any) -> None:  # noqa: ANN401
    for vhost in (shown.mine, shown.other):
        declare(vhost, "gone")
        delete(vhost, "gone")
    deleted = "amqp.gateway.rabbitmq.queueDeleted"
    wait_until(lambda: f"{shown.other.name}|gone" in events(whole), "it is recorded that they are gone")
    assert f"{shown.mine.name}|gone" in events(whole)
    assert "amqp.gateway.rabbitmq.queueCreated" in events(whole), "though an argument is named type, too"
    wait_until(lambda: f"{shown.mine.name}|gone" in events(limited), "it is read by who may read it")
    assert deleted in events(limited)
    assert shown.other.name not in events(limited)
    assert deleted not in events(limited, f"{shown.site.state.identity}.999999.1")


def test_other_roles_hold_at_once(shown: Shown) -> None:
    secret = shown.queue(shown.other, "secret")
    declare(shown.other, "reported")

    def reported(client: Any) -> bool:  # noqa: ANN401  in Java
        return f"{shown.other.name}|reported" in events(client)

    try:
        with contextlib.closing(shown.client("limited")) as client:
            assert secret not in names(client)
            assert not reported(client)
            shown.reload({**ROLES, "jmx:limited": ["everything"]})
            wait_until(lambda: secret in names(client), "it is shown to a client that was connected")
            wait_until(lambda: reported(client), "and so is the event")
            shown.reload(ROLES)
            wait_until(lambda: secret not in names(client), "it is hidden again")
            assert not reported(client)
            orders = shown.queue(shown.mine, "orders")
            wait_until(lambda: orders in names(client), "what it may see is shown again")
            assert secret not in names(client)
    finally:
        shown.reload(ROLES)
        delete(shown.other, "reported")
