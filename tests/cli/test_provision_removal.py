"""``amqp-gateway provision --remove`` on a real broker: it leaves what was there before, or says why not."""

from __future__ import annotations

import json
import os
import pty
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest
import yaml

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import ExitCode
from tests.cli.test_provision import Operator, printed, refused
from tests.components.command_line import COMMAND, Ended, environment, new_site, running
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import DEADLINE, wait_until
from tests.outcomes.relay import Relay

pytestmark = pytest.mark.xdist_group("quiet broker")

EVENTS, CONSOLE = "amqp-gateway.events.rabbitmq", "amqp-gateway.console.rabbitmq-agent"
"""Queues of durable subscriptions, as the configuration that is printed names its sources."""

KEPT = {"x-expires": 3_600_000, "x-max-length": 100, "x-overflow": "drop-head"}


@pytest.fixture
def operator(quiet_rabbitmq: PrivateBroker, tmp_path: Path) -> Iterator[Operator]:
    """Provide an operator; when the test has ended, the broker is as it was before."""
    with new_virtual_host(quiet_rabbitmq) as watched:
        new = Operator(quiet_rabbitmq, watched, tmp_path, secrets.token_hex(4))
        yield new
        with quiet_rabbitmq.http() as http:
            paths = [f"users/{new.gateway}", f"users/{new.agent}", f"vhosts/{new.vhost}"]
            for path in [*paths, f"queues/%2F/{EVENTS}"]:
                http.delete(path)


def definitions(broker: PrivateBroker, *, by_rabbitmqctl: bool = False) -> dict[str, Any]:
    """All that the broker keeps: users, virtual hosts, rights, parameters, policies, queues, exchanges."""
    if by_rabbitmqctl:
        found = json.loads(
            broker.rabbitmqctl("--silent", "export_definitions", "-", "--format", "json", timeout=DEADLINE)
        )
    else:
        with broker.http() as http:
            found = http.get("definitions").raise_for_status().json()
    assert {"users", "vhosts", "permissions", "policies", "queues", "exchanges", "bindings"} <= found.keys()
    return {
        kind: sorted(map(json.dumps, value)) if isinstance(value, list) else value
        for kind, value in found.items()
    }


def removed(ended: Ended) -> list[str]:
    """Return the output of a removal that succeeded."""
    assert (ended.code, ended.errors) == (ExitCode.OK, ""), ended.output
    return ended.output.splitlines()


def in_the_way(ended: Ended) -> list[str]:
    """Return the reasons why nothing was removed."""
    code, line = refused(ended)
    assert code is ExitCode.CONFIGURATION
    assert line.endswith("in the way: nothing is removed")
    start = "in the way: "
    return [line.removeprefix(start) for line in ended.output.splitlines() if line.startswith(start)]


def no_connections(broker: PrivateBroker) -> None:
    """Wait until the management API has noticed that all have gone."""
    with broker.http() as http:
        wait_until(lambda: http.get("connections").json() == [], "no connection is left")


def run_with_durable_subscriptions(operator: Operator, printed_configuration: dict[str, Any]) -> None:
    """Run a gateway's core with durable subscriptions: it leaves its queues."""
    sources = printed_configuration["sources"]
    for source in sources.values():
        source["durable"] = {}
    operator.folder.joinpath("gateway").mkdir()
    site = new_site(operator.folder / "gateway")
    site.configure(sources=sources)
    command = ("process", "core", "--config", site.configuration)
    with running(*command, log=operator.folder / "core.log") as core, operator.broker.http() as http:
        core.ready()
        queues = [f"queues/%2F/{EVENTS}", f"queues/{operator.vhost}/{CONSOLE}"]
        wait_until(lambda: all(http.get(path).is_success for path in queues), "both queues are there")
        assert core.terminate().code is ExitCode.OK
    no_connections(operator.broker)


def test_afterwards_the_broker_is_as_it_was_before(operator: Operator) -> None:
    before = definitions(operator.broker, by_rabbitmqctl=True)
    run_with_durable_subscriptions(operator, printed(operator.provision())[1])
    between = definitions(operator.broker)
    assert EVENTS in str(between["queues"])
    assert CONSOLE in str(between["queues"])

    said = removed(operator.provision("--remove", "--yes"))

    assert definitions(operator.broker, by_rabbitmqctl=True) == before
    todo = [line.removeprefix("to do: ") for line in said if line.startswith("to do: ")]
    assert [line.partition(" (")[0] for line in todo] == [
        f"delete the virtual host {operator.vhost}, with the exchange qpid.management, the queue {CONSOLE}",
        f"delete the queue {EVENTS}",
        f"delete the user {operator.gateway} with its tags and rights",
        f"delete the user {operator.agent} with its tags and rights",
    ]
    assert [line for line in said if line.startswith("done: ")] == [f"done: {line}" for line in todo]
    assert said[-2:] == [
        f"left: {operator.password_file(user)}: the password of {user}; delete it, or keep it for another"
        " provision"
        for user in (operator.gateway, operator.agent)
    ]
    assert (
        removed(operator.provision("--remove", "--yes"))[0]
        == "nothing: the broker has nothing that these options set up"
    )
    assert definitions(operator.broker, by_rabbitmqctl=True) == before


@pytest.mark.parametrize(
    ("target", "answer"), [("parameters", {}), ("parameters", [1]), ("vhosts/VHOST", {"description": "x"})]
)
def test_nothing_is_removed_after_an_answer_that_shows_nothing(
    operator: Operator, target: str, answer: Json
) -> None:
    printed(operator.provision())
    before = operator.state()
    with (
        Relay(operator.broker.ports.management) as relay,
        relay.showing(target.replace("VHOST", operator.vhost), answer),
    ):
        management = f"http://127.0.0.1:{relay.port}"
        ended = operator.provision("--remove", "--yes", management=management)
    assert ended.code is not ExitCode.OK
    assert "is no listing" in ended.errors or "answers with something else" in ended.errors
    assert operator.state() == before


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("connections", [{"name": "one", "user": {}, "vhost": "VHOST"}]),
        ("queues/VHOST", [{"name": []}]),
        ("vhosts/VHOST/permissions", [{"user": ["gateway"]}]),
    ],
)
def test_a_name_that_is_no_text_is_that_of_another(operator: Operator, target: str, answer: Json) -> None:
    printed(operator.provision())
    before = operator.state()
    named = json.loads(json.dumps(answer).replace("VHOST", operator.vhost))
    with (
        Relay(operator.broker.ports.management) as relay,
        relay.showing(target.replace("VHOST", operator.vhost), named),
    ):
        management = f"http://127.0.0.1:{relay.port}"
        ended = operator.provision("--remove", "--yes", management=management)
    assert "one thing is in the way: nothing is removed" in ended.errors
    assert operator.state() == before


def test_what_provision_may_not_mend_it_warns_of(operator: Operator) -> None:
    """Here: the broker that most tests share must have no user who can forge senders."""
    elsewhere = operator.watched.name  # the exchange is in / alone
    with operator.broker.http() as http:
        http.put("users/mallory", json={"password": "x", "tags": "impersonator"}).raise_for_status()
        said, _ = printed(operator.provision("--event-vhost", elsewhere))
        http.delete("users/mallory").raise_for_status()

    forger, events = [line for line in said if line.startswith("careful: ")]
    assert "user 'mallory' carries the tag 'impersonator'" in forger
    assert (
        f"no exchange amq.rabbitmq.event in {elsewhere}: enable the plugin rabbitmq_event_exchange" in events
    )


def test_a_removal_of_half_goes_on_where_it_ended(operator: Operator) -> None:
    before = definitions(operator.broker)
    printed(operator.provision())
    with operator.broker.http() as http:
        http.delete(f"vhosts/{operator.vhost}").raise_for_status()
        http.delete(f"users/{operator.gateway}").raise_for_status()

    said = removed(operator.provision("--remove", "--yes"))

    assert [line.partition(" with")[0] for line in said if line.startswith("done")] == [
        f"done: delete the user {operator.agent}"
    ]
    assert definitions(operator.broker) == before


def test_without_an_agent_only_the_user_goes(operator: Operator) -> None:
    before = definitions(operator.broker)
    printed(operator.provision("--agent-user", ""))
    removed(operator.provision("--agent-user", "", "--remove", "--yes"))
    assert definitions(operator.broker) == before


def test_a_virtual_host_that_was_there_before_stays(operator: Operator) -> None:
    broker = operator.broker
    with broker.http() as http, new_virtual_host(broker) as older:
        permission = f"permissions/{older.path}/{broker.administrator.name}"
        http.delete(permission).raise_for_status()
        http.put(f"queues/{older.path}/others", json={"durable": True})
        before = definitions(broker)
        printed(operator.provision("--vhost", older.name))

        said = removed(operator.provision("--vhost", older.name, "--remove", "--yes"))

        assert definitions(broker) == before
        assert f"done: delete the exchange qpid.management in {older.name}" in said
        assert (
            f"left: the virtual host {older.name}: provision did not make it, or its description is another"
            in said
        )


# -- asking


def test_a_dry_run_changes_nothing(operator: Operator) -> None:
    printed(operator.provision())
    before = definitions(operator.broker)
    said = removed(operator.provision("--remove", "--dry-run"))
    assert said[0].startswith(f"to do: delete the virtual host {operator.vhost}, with the exchange")
    assert said[-1] == "dry run: nothing is removed"
    assert definitions(operator.broker) == before


def test_without_a_terminal_yes_must_be_given(operator: Operator) -> None:
    printed(operator.provision())
    before = definitions(operator.broker)
    ended = operator.provision("--remove")
    assert refused(ended) == (
        ExitCode.USAGE,
        "there is no terminal to ask at: give --yes to remove without asking",
    )
    assert definitions(operator.broker) == before


@pytest.mark.parametrize(("answer", "code"), [("n", ExitCode.FAILED), ("y", ExitCode.OK)])
def test_it_asks_on_a_terminal(operator: Operator, answer: str, code: ExitCode) -> None:
    before = definitions(operator.broker)
    printed(operator.provision())
    made = definitions(operator.broker)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(  # noqa: S603  our own command
            [*COMMAND, *operator.arguments("--remove")],
            cwd=operator.folder,
            env=environment(),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, done.stderr
    assert "Remove this? [y/N]" in done.stderr
    assert definitions(operator.broker) == (before if answer == "y" else made)


@pytest.mark.parametrize("option", [("--yes",), ("--kept-queue", "amqp-gateway.events.orders")])
def test_options_of_the_removal_alone(operator: Operator, option: tuple[str, ...]) -> None:
    ended = operator.provision(*option)
    assert ended.code is ExitCode.USAGE
    assert "--kept-queue and --yes belong to --remove" in ended.reported[-1]


# -- what is not ours, or is used


async def ignored(_: aio_pika.abc.AbstractIncomingMessage) -> None:
    """Receive a message without acknowledging it."""


@asynccontextmanager
async def connected(
    operator: Operator, user: Credentials, vhost: str
) -> AsyncIterator[aio_pika.abc.AbstractConnection]:
    """Provide a user's connection; wait until the management API has it, and finally until it has none."""
    connection = await aio_pika.connect(operator.broker.amqp_url(user, vhost))
    with operator.broker.http() as http:
        wait_until(lambda: len(http.get("connections").json()) == 1, "the connection is known")
        try:
            yield connection
        finally:
            await connection.close()
            wait_until(lambda: http.get("connections").json() == [], "it has gone")


async def test_a_gateway_that_runs_is_in_the_way(operator: Operator) -> None:
    printed(operator.provision())
    password = operator.password_file(operator.gateway).read_text(encoding="utf-8").strip()
    before = definitions(operator.broker)
    async with connected(operator, Credentials(operator.gateway, password), operator.vhost):
        (line,) = in_the_way(operator.provision("--remove", "--yes"))
    assert line.startswith(f"the user {operator.gateway} is in use: 127.0.0.1:")
    assert line.endswith("stop gateway and agents, and wait until the broker knows it")
    assert definitions(operator.broker) == before


async def test_a_stranger_in_the_virtual_host_is_in_the_way(operator: Operator) -> None:
    printed(operator.provision())
    before = definitions(operator.broker)
    async with connected(operator, operator.broker.administrator, operator.vhost):
        (line,) = in_the_way(operator.provision("--remove", "--yes"))
    assert line.startswith(f"the virtual host {operator.vhost} is in use: 127.0.0.1:")
    assert definitions(operator.broker) == before


async def test_a_kept_queue_that_is_consumed_is_in_the_way(operator: Operator) -> None:
    printed(operator.provision())
    with operator.broker.http() as http:
        declared = {"durable": True, "arguments": KEPT}
        http.put(f"queues/%2F/{EVENTS}", json=declared).raise_for_status()
        async with connected(operator, operator.broker.administrator, "/") as connection:
            queue = await (await connection.channel()).get_queue(EVENTS)
            await queue.consume(ignored)
            wait_until(
                lambda: http.get(f"queues/%2F/{EVENTS}").json().get("consumers") == 1, "it is consumed"
            )
            (line,) = in_the_way(operator.provision("--remove", "--yes"))
    assert line == f"the queue {EVENTS} in / is in use: it has a consumer; stop that gateway first"


def test_what_others_have_in_the_virtual_host_is_in_the_way(operator: Operator) -> None:
    printed(operator.provision())
    at = operator.vhost
    with operator.broker.http() as http:
        http.put(f"users/others-{operator.mark}", json={"password": "x", "tags": ""})
        things: dict[str, dict[str, Any]] = {
            f"queues/{at}/theirs": {"durable": True},
            f"exchanges/{at}/theirs": {"type": "fanout"},
            f"policies/{at}/theirs": {"pattern": ".*", "definition": {"max-length": 5}},
            f"permissions/{at}/others-{operator.mark}": {"configure": "", "write": "", "read": ""},
        }
        for path, body in things.items():
            http.put(path, json=body).raise_for_status()
        before = definitions(operator.broker)

        lines = in_the_way(operator.provision("--remove", "--yes"))

        assert sorted(lines) == [
            f"the exchange theirs in {at} is not ours",
            f"the policy theirs in {at} is not ours",
            f"the queue theirs in {at} is not ours",
            f"the user others-{operator.mark} has rights in {at}",
        ]
        assert definitions(operator.broker) == before
        http.delete(f"users/others-{operator.mark}").raise_for_status()


def test_another_gateways_queues_stay_until_they_are_named(operator: Operator) -> None:
    before = definitions(operator.broker)
    printed(operator.provision())
    console, events = "amqp-gateway.console.shop", "amqp-gateway.events.shop"
    with operator.broker.http() as http:
        for path in (f"queues/{operator.vhost}/{console}", f"queues/%2F/{events}"):
            http.put(path, json={"durable": True, "arguments": KEPT}).raise_for_status()

    ended = operator.provision("--remove", "--yes")

    may_be = "may be another gateway's: name it with --kept-queue"
    assert in_the_way(ended) == [
        f"the queue {console} in {operator.vhost} {may_be} {console} if it is of this one"
    ]
    assert f"left: the queue {events} in / {may_be} {events} if it is of this one" in ended.output
    named = ("--kept-queue", console, "--kept-queue", events)
    said = removed(operator.provision("--remove", "--yes", *named))
    assert f"done: delete the queue {events} (0 messages in it) in /" in said
    assert definitions(operator.broker) == before


def test_a_queue_that_only_has_the_name_is_in_the_way(operator: Operator) -> None:
    with operator.broker.http() as http:
        http.put(f"queues/%2F/{EVENTS}", json={"durable": True}).raise_for_status()
    (line,) = in_the_way(operator.provision("--remove", "--yes"))
    assert line == (
        f"the queue {EVENTS} in / is not that of a durable subscription: it has no expiry, or no bound"
    )


def test_a_user_whose_password_is_not_ours_is_in_the_way(operator: Operator) -> None:
    printed(operator.provision())
    operator.password_file(operator.agent).write_text("another\n", encoding="utf-8")
    operator.password_file(operator.gateway).unlink()
    lines = in_the_way(operator.provision("--remove", "--yes"))
    assert [line.partition(" is there, and its password is not")[0] for line in lines] == [
        f"the user {operator.gateway}",
        f"the user {operator.agent}",
    ]


def test_a_user_who_serves_others_too_is_in_the_way(operator: Operator) -> None:
    printed(operator.provision())
    password = operator.password_file(operator.gateway).read_text(encoding="utf-8").strip()
    with operator.broker.http() as http, new_virtual_host(operator.broker) as theirs:
        more = {"password": password, "tags": "monitoring,policymaker"}
        http.put(f"users/{operator.gateway}", json=more).raise_for_status()
        rights = {"configure": "", "write": ".*", "read": ""}
        for vhost in (theirs.path, operator.watched.path):
            http.put(f"permissions/{vhost}/{operator.gateway}", json=rights).raise_for_status()

        lines = in_the_way(operator.provision("--remove", "--yes"))

        tags, *permissions = lines
        user = f"the user {operator.gateway}"
        assert tags == f"{user} carries tags that are not of provision: policymaker"
        assert sorted(line.partition(", which")[0].partition(" than")[0] for line in permissions) == sorted(
            [f"{user} has rights in {theirs.name}", f"{user} has other rights in {operator.watched.name}"]
        )


def test_an_exchange_that_has_bindings_is_in_the_way(operator: Operator) -> None:
    with operator.broker.http() as http, new_virtual_host(operator.broker) as older:
        printed(operator.provision("--vhost", older.name))
        http.put(f"queues/{older.path}/theirs", json={"durable": True}).raise_for_status()
        binding = f"bindings/{older.path}/e/qpid.management/q/theirs"
        http.post(binding, json={"routing_key": "#"}).raise_for_status()
        (line,) = in_the_way(operator.provision("--vhost", older.name, "--remove", "--yes"))
        assert line == f"the exchange qpid.management in {older.name} is in use: theirs is bound to it"


def test_the_configuration_that_is_printed_names_the_sources_whose_queues_are_known(
    operator: Operator,
) -> None:
    sources = yaml.safe_load(operator.provision("--dry-run").output)["sources"]
    assert {EVENTS.rpartition(".")[2], CONSOLE.rpartition(".")[2]} == set(sources)
