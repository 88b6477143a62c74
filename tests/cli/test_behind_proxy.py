"""A gateway whose management API is behind a reverse proxy, below a path, as its operator sees it."""

from __future__ import annotations

import getpass
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from gateway.config.files import load_configuration
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from gateway.sources.rabbitmq.path_proof import path_of
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.changing_proxy import (
    PREFIX,
    PathChange,
    Proxy,
    Reply,
    caching,
    decoded,
    kept,
    proxy,
    unchanged,
)
from tests.components.command_line import Ended, amqp_gateway
from tests.components.waiting import wait_until

CHANGED = "a server between the gateway and the broker changes or refuses / in names"
RULE = {
    "classes": ["rabbitmq:*"],
    "set": ["pattern"],
    "invoke": ["delete", "purge"],
    "read": True,
}


@contextmanager
def gateway_behind(
    broker: PrivateBroker, folder: Path, change: PathChange
) -> Iterator[tuple[ShownGateway, Proxy]]:
    """Provide a gateway and its proxy, with queue and policy ``HOST/b`` in ``/``, and ``b`` in ``HOST``."""
    operations = {"allow": [{"who": [f"cli:{getpass.getuser()}"], **RULE}]}
    with (
        proxy(broker.ports.management, change) as between,
        running_gateway(
            broker,
            folder,
            management=between.url,
            has_jmx=False,
            snmp={"enabled": False},
            operations=operations,
        ) as gateway,
        broker.http() as http,
    ):
        for host, name in both(gateway):
            http.put(path_of("queues", host, name), json={"durable": True}).raise_for_status()
            policy = {"pattern": "^none$", "definition": {"max-length": 5}}
            http.put(path_of("policies", host, name), json=policy).raise_for_status()
        try:
            for class_name in ("queue", "policy"):
                for host, name in both(gateway):
                    _await(gateway, f"orders/{class_name}/{host}|{name}")
            yield gateway, between
        finally:
            http.delete(path_of("queues", *both(gateway)[0]))
            http.delete(path_of("policies", *both(gateway)[0]))


def _await(gateway: ShownGateway, path: str) -> None:
    wait_until(lambda: gateway.call("get", path).code is ExitCode.OK, f"{path} is shown")


def both(gateway: ShownGateway) -> list[tuple[str, str]]:
    """Return host and name of what is meant, and of what a decoded path would mean."""
    return [("/", f"{gateway.virtual_host.name}/b"), (gateway.virtual_host.name, "b")]


@pytest.mark.parametrize("asked", ["vhosts?columns=name", "permissions/{host}/{user}"])
def test_a_virtual_host_that_ends_meanwhile_is_left_out(
    asked: str, rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    user = f"gateway-{secrets.token_hex(4)}"
    host = f"test-{secrets.token_hex(6)}"
    with proxy(rabbitmq.ports.management, kept) as between, rabbitmq.http() as http:
        http.put(f"vhosts/{host}").raise_for_status()
        after = f"/api/{asked.format(host=host, user=user)}"

        def ends(path: str, reply: Reply) -> Reply:
            if path.startswith(after):
                with rabbitmq.http() as another:  # in the proxy's own thread
                    another.delete(f"vhosts/{host}")
            return reply

        between.answer = ends
        ended = quickstart(rabbitmq, tmp_path, between.url, "--gateway-user", user)
        assert ended.code is ExitCode.OK, ended
        assert http.get(f"vhosts/{host}").status_code == httpx.codes.NOT_FOUND
        assert http.get(path_of("permissions", "/", user)).status_code == httpx.codes.OK
        http.delete(path_of("users", user))


def test_where_paths_are_decoded_nothing_is_deleted_or_declared_gone(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with gateway_behind(rabbitmq, tmp_path, decoded) as (gateway, between), rabbitmq.http() as http:
        host, name = both(gateway)[0]
        for class_name in ("queue", "policy"):
            path = f"orders/{class_name}/{host}|{name}"
            for command in (("invoke", path, "delete"), ("invoke", path, "delete", "--check")):
                ended = gateway.call(*command)
                assert ended.code is ExitCode.REMOTE_FAILURE, ended
                assert f"not sent: {CHANGED}" in ended.errors
            fresh = gateway.call("get", "--fresh", path)
            assert fresh.code is ExitCode.REMOTE_FAILURE, fresh
            assert CHANGED in fresh.errors
            assert gateway.call("get", path).code is ExitCode.OK
        assert CHANGED in gateway.call("invoke", f"orders/queue/{host}|{name}", "purge").errors
        assert CHANGED in gateway.call("set", f"orders/policy/{host}|{name}", "pattern=^a$").errors
        assert {method for method, _ in between.seen} == {"GET"}
        for one in both(gateway):
            assert http.get(path_of("queues", *one)).status_code == httpx.codes.OK
            assert http.get(path_of("policies", *one)).json()["pattern"] == "^none$"

        # What has a path is asked for and changed, and everything is listed.
        assert gateway.output("get", "--fresh", gateway.path("first"))
        gateway.output("invoke", gateway.path("first"), "delete")
        (source,) = gateway.documents("source", "ls")
        assert source["state"] == "synchronised"
        assert CHANGED in source["detail"]
        checked = gateway.output("check", "--connect")
        assert CHANGED in checked
        assert "let the proxy forward paths as they are" in checked
        findings = [json.loads(line) for line in gateway.call("doctor", "--json").output.splitlines()]
        assert "warning" in {one["level"] for one in findings if CHANGED in one["text"]}


def test_below_a_path_that_is_kept_everything_works_and_no_rule_or_cache_makes_a_false_fact(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with gateway_behind(rabbitmq, tmp_path, kept) as (gateway, between):
        everything_works(gateway)
        a_rule_for_some_paths_or_a_cache_makes_no_false_fact(gateway, between)
        pauses_are_kept(gateway, between)  # the last one is long


def everything_works(gateway: ShownGateway) -> None:
    host, name = both(gateway)[0]
    gateway.output("set", f"orders/policy/{host}|{name}", "pattern=^a$")
    assert "names" not in gateway.documents("source", "ls")[0]["detail"]
    assert CHANGED not in gateway.output("check", "--connect")
    for class_name in ("queue", "policy"):
        path = f"orders/{class_name}/{host}|{name}"
        assert gateway.output("get", "--fresh", path)
        assert "applied: operation" in gateway.output("invoke", path, "delete")
    # The default exchange, which has an empty name, has a path of its own.
    assert gateway.output("get", "--fresh", "orders/exchange//|")
    assert gateway.call("get", "orders/exchange//|").code is ExitCode.OK


def pauses_are_kept(gateway: ShownGateway, between: Proxy) -> None:
    between.limited, between.retry_after = 4, 1
    assert gateway.output("get", "--fresh", gateway.path("first"))
    between.limited, between.retry_after = 4, 60
    for command in (
        ("get", "--fresh", gateway.path("first")),
        ("invoke", gateway.path("first"), "purge"),
    ):
        refused = gateway.call(*command)
        assert "a proxy in front of it, demands a pause" in refused.errors, refused


def a_rule_for_some_paths_or_a_cache_makes_no_false_fact(gateway: ShownGateway, between: Proxy) -> None:
    broker, host = gateway.virtual_host.broker, gateway.virtual_host.name
    with broker.http() as http:
        queue, policy = f"orders/queue/{host}|b", f"orders/policy/{host}|b"
        between.change = lambda path: re.sub("/(queues|policies)/[^/]+", r"/\1/none", path)
        for path in (queue, policy):
            fresh = gateway.call("get", "--fresh", path)
            assert fresh.code is ExitCode.REMOTE_FAILURE, fresh
            assert "and lists it: does a proxy in front of it change paths or answers?" in fresh.errors
            assert gateway.call("get", path).code is ExitCode.OK
        between.change = kept
        not_there = 404, b'{"message": "no route matched"}'
        between.answer = lambda path, reply: not_there if "/queues/" in path else reply
        fresh = gateway.call("get", "--fresh", queue)
        assert (fresh.code, gateway.call("get", queue).code) == (ExitCode.REMOTE_FAILURE, ExitCode.OK)
        assert gateway.call("invoke", queue, "delete").code is ExitCode.REMOTE_FAILURE

        between.answer = caching()
        gateway.output("set", policy, "pattern=^a$")
        gateway.output("set", policy, "pattern=^c$")
        assert http.get(path_of("policies", host, "b")).json()["pattern"] == "^c$"
        between.answer = unchanged

        # Between the last reading and the request another user sets something else.
        other = Credentials.generate(f"other-{host}")
        http.put(path_of("users", other.name), json={"password": other.password, "tags": "administrator"})

        def set_by_other() -> None:
            with broker.http(other) as client:
                body = {"pattern": "^c$", "definition": {"max-length": 5}, "priority": 9}
                client.put(path_of("policies", host, "b"), json=body).raise_for_status()

        between.before_put = set_by_other
        done = gateway.output("set", policy, "pattern=^d$")
        between.before_put = str
        http.delete(path_of("users", other.name))
        assert f"what user '{other.name}' had just set was overwritten: priority" in done, done
        between.answer = caching()
        gateway.output("invoke", queue, "delete")
        http.put(path_of("queues", host, "later"), json={"durable": True}).raise_for_status()
        _await(gateway, f"orders/queue/{host}|later")
        between.answer = unchanged


def quickstart(broker: PrivateBroker, folder: Path, url: str, *more: str) -> Ended:
    password = folder / "password"
    password.write_text(broker.administrator.password)
    login = ("--user", broker.administrator.name, "--password-file", password)
    made = ("--folder", folder / "made", "--yes", "--no-run")
    return amqp_gateway("quickstart", url, *login, *made, *more)


def test_a_broker_below_a_path_is_prepared(rabbitmq: PrivateBroker, tmp_path: Path) -> None:
    user = f"gateway-{secrets.token_hex(4)}"
    with proxy(rabbitmq.ports.management, kept) as between, rabbitmq.http() as http:
        ended = quickstart(rabbitmq, tmp_path, between.url, "--gateway-user", user)
        assert ended.code is ExitCode.OK, ended
        configuration = tmp_path / "made/gateway.yaml"
        settings = load_configuration(configuration).settings.sources["rabbitmq"].model_dump()
        assert settings["management"] == (between.url,)
        assert between.url.endswith(PREFIX)
        assert settings["events"]["url"] == (f"amqp://127.0.0.1:{rabbitmq.ports.amqp}",)
        assert {method for method, _ in between.seen} == {"GET", "PUT"}
        assert http.get(path_of("permissions", "/", user)).status_code == httpx.codes.OK
        checked = amqp_gateway("check", "--connect", "--config", configuration)
        assert checked.code is ExitCode.OK, checked
        doctor = amqp_gateway("doctor", "--json", "--config", configuration)
        levels = {line["check"]: line["level"] for line in map(json.loads, doctor.output.splitlines())}
        assert levels["source"] == "good", doctor.output
        http.delete(path_of("users", user))


def test_where_paths_are_decoded_nothing_is_prepared(rabbitmq: PrivateBroker, tmp_path: Path) -> None:
    user = f"gateway-{secrets.token_hex(4)}"
    with proxy(rabbitmq.ports.management, decoded) as between:
        ended = quickstart(rabbitmq, tmp_path, between.url, "--gateway-user", user)
        assert ended.code is ExitCode.CONFIGURATION
        assert f"not sent: {CHANGED}" in ended.errors
        assert {method for method, _ in between.seen} == {"GET"}
