"""Roles at the command line: which rule decides, and a policy that changes while the gateway runs."""

from __future__ import annotations

import getpass
import json
import signal
import time
from collections.abc import Iterator
from typing import Any, Final

import psutil
import pytest
import yaml

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.alike import SURELY_DIFFERENT, in_turn, rank_sum, rank_sum_of_kinds, without_names
from tests.components.command_line import Site, amqp_gateway
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING

pytestmark = pytest.mark.xdist_group("gateway with roles")

HIDDEN: Final = 500 if PROVING else 6
USER = f"cli:{getpass.getuser()}"
POLICY: dict[str, Any] = {
    "roles": {
        "operating": {
            "includes": ["monitoring"],
            "allow": [{"classes": ["rabbitmq:queue"], "objects": ["shop|*"], "invoke": ["purge", "de*"]}],
            "deny": [{"classes": ["rabbitmq:policy"], "read": ["*"]}],
        }
    },
    "principals": {"jmx:operator": ["operating"], "snmp:*": []},
}


@pytest.fixture
def configured(site: Site) -> Site:
    """A configuration with a role, the source ``b``, and the agent ``shop``."""
    account = {"user": "gateway", "password": site.secret("secret")}
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:15672", **account}
    publish = {"amqp": {"url": "amqp://127.0.0.1", **account}, "allowed_users": ["gateway"]}
    agents = {"shop": {**source, "publish": publish}}
    site.configure(
        sources={"b": source}, agents=agents, jmx={"users": {"operator": {}, "monitor": {}}}, policy=POLICY
    )
    return site


def call(site: Site, *arguments: str) -> tuple[ExitCode, str]:
    """Run a command of roles; return its exit code and the lines for people."""
    ended = amqp_gateway("role", *arguments, "--config", site.configuration)
    return ended.code, ended.output or "\n".join(ended.reported)


def test_principals_are_listed_with_their_roles(configured: Site) -> None:
    code, output = call(configured, "list")
    assert code is ExitCode.OK
    assert [line.split() for line in output.splitlines()[:2]] == [
        ["snmp:(reader)", "no", "role:", "reads", "nothing"],
        ["jmx:operator", "operating"],
    ]
    assert output.splitlines()[-1] == "roles: monitoring, everything, operating"


def test_a_role_is_shown_in_words(configured: Site) -> None:
    code, output = call(configured, "show", "operating")
    assert code is ExitCode.OK
    denied, allowed, included = output.splitlines()
    assert denied == "deny rule 1 of the role operating: may not read *, of classes rabbitmq:policy"
    assert allowed.partition(": ")[2] == "may invoke purge de*, of classes rabbitmq:queue, objects shop|*"
    assert included == "and the rules of the role monitoring"
    code, errors = call(configured, "show", "nothing")
    assert (code, "there are: monitoring, everything, operating" in errors) == (ExitCode.NOT_FOUND, True)


@pytest.mark.parametrize(
    ("principal", "operation", "path", "code", "text"),
    [
        (
            "jmx:operator",
            "invoke:purge",
            "b/rabbitmq:queue/shop|orders",
            ExitCode.OK,
            "allowed by allow rule 1 of the role operating: ",
        ),
        (
            "jmx:operator",
            "invoke:delete",
            "b/rabbitmq:queue/shop|orders",
            ExitCode.REFUSED,
            "the rules let jmx:operator call methods by pattern, and delete cannot be undone",
        ),
        (
            "jmx:operator",
            "read:pattern",
            "b/rabbitmq:policy/shop|limits",
            ExitCode.REFUSED,
            "deny rule 1 of the role operating denies jmx:operator to read pattern",
        ),
        (
            "jmx:monitor",
            "read:peerHost",
            "b/rabbitmq:connection/127.0.0.1:1 -> 127.0.0.1:2",
            ExitCode.REFUSED,
            "by pattern, and it is private",
        ),
        (
            "jmx:operator",
            "read:definition",
            "b/rabbitmq:operatorPolicy/shop|limits",
            ExitCode.OK,
            "allowed by the built-in role monitoring: ",
        ),
        (
            "jmx:monitor",
            "read:tls",
            "b/rabbitmq:connection/127.0.0.1:1 -> 127.0.0.1:2",
            ExitCode.REFUSED,
            "JMX does not show the object: the rules let jmx:monitor read name by pattern, and it is private",
        ),
        (
            "jmx:monitor",
            "subscribe:rabbitmq:queueDeleted",
            "b/rabbitmq:queue/shop|orders",
            ExitCode.OK,
            "allowed by the built-in role monitoring: ",
        ),
        (
            "snmp:(reader)",
            "read:messages",
            "b/rabbitmq:queue/shop|orders",
            ExitCode.REFUSED,
            "no rule lets snmp:(reader) read messages",
        ),
        (
            "qmf:stranger",
            "invoke:delete",
            "shop/rabbitmq:queue/shop|orders",
            ExitCode.REFUSED,
            "no rule lets qmf:stranger call delete",
        ),
        (
            "qmf:gateway",
            "invoke:delete",
            "shop/rabbitmq:queue/shop|orders",
            ExitCode.OK,
            "allowed: no key of policy.principals restricts what this user under allowed_users calls",
        ),
        (
            "jmx:operator",
            "write:vhost",
            "b/openamq.org.server:config/x",
            ExitCode.REFUSED,
            "no rule lets jmx:operator set vhost",
        ),
    ],
)
def test_the_rule_that_decides_is_named(
    configured: Site, principal: str, operation: str, path: str, code: ExitCode, text: str
) -> None:
    ended, output = call(configured, "explain", principal, operation, path)
    assert ended is code
    assert text in output


@pytest.mark.parametrize(
    ("principal", "operation", "path", "doubt"),
    [
        ("jmx:oprator", "read:messages", "b/rabbitmq:queue/a", "the configuration has no jmx:oprator; "),
        ("jxm:operator", "read:messages", "b/rabbitmq:queue/a", "there is no front end jxm; "),
        ("jmx:operator", "read:messages", "a/rabbitmq:queue/a", "the configuration has no source a"),
        ("jmx:operator", "read:mesages", "b/rabbitmq:queue/a", "element mesages of rabbitmq:queue"),
        ("jmx:operator", "invoke:prge", "b/rabbitmq:queue/a", "method prge of rabbitmq:queue"),
        ("jmx:operator", "read:messages", "b/rabbitmq:quue/a", "class rabbitmq:quue"),
        ("jmx:operator", "subscribe:rabbitmq:queueGone", "b", "event rabbitmq:queueGone"),
    ],
)
def test_a_name_that_may_be_misspelt_is_reported(
    configured: Site, principal: str, operation: str, path: str, doubt: str
) -> None:
    ended = amqp_gateway("role", "explain", principal, operation, path, "--config", configured.configuration)
    assert doubt in ended.reported[0]


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("read:messages", "b/rabbitmq:queue/a"),
        ("subscribe:rabbitmq:memoryAlarm", "b"),
        ("subscribe:gateway:sourceDown", "gateway"),
        ("read:what", "b/some.package:thing/a"),
    ],
)
def test_where_nothing_looks_misspelt_the_answer_is_all(configured: Site, operation: str, path: str) -> None:
    command = ("role", "explain", "jmx:monitor", operation, path, "--config", configured.configuration)
    assert amqp_gateway(*command).reported == []


def test_an_explanation_as_json(configured: Site) -> None:
    code, output = call(
        configured, "explain", "jmx:operator", "invoke:purge", "b/rabbitmq:queue/shop|a/b", "--json"
    )
    assert code is ExitCode.OK
    document = json.loads(output)
    assert (document["allowed"], document["roles"]) == (True, ["operating"])
    assert document["rule"]["place"] == "allow rule 1 of the role operating"


@pytest.mark.parametrize(
    ("policy", "line", "message"),
    [
        ({"principals": {"jmx:monitor": ["watching"]}}, "watching", "there is no role 'watching'"),
        ({"principals": {"jmx:nobody": ["monitoring"]}}, "", "'jmx:nobody' is not known"),
        ({"roles": {"a": {"allow": [{"objects": ["x"]}]}}}, "objects", "name something"),
        ({"roles": {"a": {"includes": ["a"]}}}, "includes", "'a' includes itself"),
        ({"roles": {"everything": {}}}, "everything", "is built in"),
        ({"roles": {"a": {"deny": [{"read": ["x"], "private": True}]}}}, "a:", "leave 'private' out"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_its_line(
    site: Site, policy: dict[str, Any], line: str, message: str
) -> None:
    site.configure(policy=policy)
    ended = amqp_gateway("check", "--config", site.configuration)
    assert ended.code is ExitCode.CONFIGURATION
    assert message in ended.errors
    if line:
        number = int(ended.errors.partition(f"{site.configuration}:")[2].partition(":")[0])
        lines = site.configuration.read_text(encoding="utf-8").splitlines()
        assert line in "\n".join(lines[number - 1 : number + 1])


@pytest.fixture(scope="module")
def gateway(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownGateway]:
    """A gateway of a broker, by whose rules nothing may be changed."""
    with running_gateway(rabbitmq, tmp_path_factory.mktemp("roles"), has_jmx=False, operations={}) as shown:
        copy = shown.site.folder / "copy.yaml"
        copy.write_text(shown.site.configuration.read_text(encoding="utf-8"), encoding="utf-8")
        yield shown


def written(gateway: ShownGateway, **sections: Any) -> None:  # noqa: ANN401  any section
    """Write the configuration with which the gateway was started, with other sections.

    Nothing is left of the sections that an earlier test wrote: roles, a wrong policy, or what waits for a
    restart.
    """
    document = yaml.safe_load((gateway.site.folder / "copy.yaml").read_text(encoding="utf-8"))
    document.update(sections)
    gateway.site.configuration.write_text(yaml.safe_dump(document), encoding="utf-8")


def purges(gateway: ShownGateway) -> ExitCode:
    """Return how a purge ends, by a copy of the configuration: the file may be wrong."""
    copy = gateway.site.folder / "copy.yaml"
    return amqp_gateway("invoke", gateway.path("first"), "purge", "--config", copy).code


def core_of(gateway: ShownGateway) -> psutil.Process:
    children = psutil.Process(gateway.command.process.pid).children()
    return next(child for child in children if " process core " in " ".join(child.cmdline()))


def starts_of_core(gateway: ShownGateway) -> int:
    return [record["event"] for record in gateway.command.log].count("core-ready")


def source_of(gateway: ShownGateway) -> dict[str, Any]:
    (source,) = gateway.documents("source", "ls")
    return dict(source)


def test_a_policy_changes_while_the_gateway_runs(gateway: ShownGateway) -> None:
    rule = {"who": [USER], "classes": ["rabbitmq:queue"], "invoke": ["purge"]}
    written(gateway, operations={"allow": []})
    gateway.output("reload")
    assert purges(gateway) is ExitCode.REFUSED

    written(gateway, operations={"allow": [rule]}, history={"events": 1000})
    line = f"{USER}: now may invoke purge, of classes rabbitmq:queue"
    against = gateway.output("check", "--against-running").splitlines()
    assert line in against
    assert "history.events was changed: it takes effect when the gateway is restarted" in against
    assert purges(gateway) is ExitCode.REFUSED, "nothing was applied yet"

    wait_until(lambda: source_of(gateway)["state"] == "synchronised", "the source is read")
    since, starts = source_of(gateway)["since"], starts_of_core(gateway)
    reloaded = gateway.call("reload")
    assert reloaded.code is ExitCode.DIFFERENCE, "one change waits for a restart"
    assert line in reloaded.output.splitlines()
    assert purges(gateway) is ExitCode.OK
    assert (source_of(gateway)["since"], starts_of_core(gateway)) == (since, starts), "it kept its session"

    core_of(gateway).kill()
    wait_until(lambda: starts_of_core(gateway) > starts, "the core is started again")
    wait_until(lambda: purges(gateway) is ExitCode.OK, "the policy still holds")

    def recorded() -> str:
        # By default it shows the first thousand, which may be events of other tests at the broker.
        words = ("log", "query", "--last", "10min", "--kind", "event", "--limit", "0")
        return amqp_gateway(*words, "--config", gateway.site.configuration).output

    wait_until(lambda: "policyChanged" in recorded(), "the change is recorded")
    assert f"{USER} (process " in recorded()
    verified = amqp_gateway("audit", "verify", "--config", str(gateway.site.configuration))
    assert verified.code is ExitCode.OK, verified.errors
    sql = "SELECT principal, state FROM log WHERE kind = 'audit' AND state = 'policy'"
    audited = amqp_gateway("log", "query", "--config", str(gateway.site.configuration), sql)
    assert f"{USER} (process " in audited.output


def test_a_wrong_file_changes_nothing_and_sighup_applies_a_right_one(gateway: ShownGateway) -> None:
    rule = {"who": [USER], "classes": ["rabbitmq:queue"], "invoke": ["purge"]}
    written(gateway, operations={"allow": [rule]})
    gateway.output("reload")
    assert purges(gateway) is ExitCode.OK

    written(gateway, operations={"allow": [{**rule, "invoke": ["delete"]}]}, policy={"roles": {"a": 1}})
    assert gateway.call("reload").code is ExitCode.CONFIGURATION
    gateway.command.process.send_signal(signal.SIGHUP)
    wait_until(
        lambda: any("policy.roles.a" in record.get("wrong", "") for record in gateway.command.log),
        "the log says what is wrong",
    )
    assert purges(gateway) is ExitCode.OK

    written(gateway, operations={"allow": []}, policy={})
    gateway.command.process.send_signal(signal.SIGHUP)
    wait_until(lambda: purges(gateway) is ExitCode.REFUSED, "nothing is permitted any more")


def test_a_policy_file_is_read_again_and_a_wrong_one_is_refused(gateway: ShownGateway) -> None:
    file = gateway.site.configuration.parent / "operators.yaml"
    rule = {"classes": ["rabbitmq:queue"], "read": ["*"], "invoke": ["purge"]}

    def roles_are(principals: dict[str, list[str]]) -> None:
        roles = {"purging": {"allow": [rule]}}
        file.write_text(yaml.safe_dump({"version": 1, "roles": roles, "principals": principals}))

    roles_are({USER: ["purging"]})
    written(gateway, operations={"allow": []}, policy={"files": [file.name]})
    gateway.output("reload")
    assert purges(gateway) is ExitCode.OK

    roles_are({USER: ["selling"]})
    refused = gateway.call("reload")
    assert refused.code is ExitCode.CONFIGURATION
    assert f"{file}:" in refused.errors
    assert "there is no role 'selling'" in refused.errors
    assert purges(gateway) is ExitCode.OK

    roles_are({})
    assert f"{USER}: no longer" in gateway.output("check", "--against-running")
    gateway.command.process.send_signal(signal.SIGHUP)
    wait_until(lambda: purges(gateway) is ExitCode.REFUSED, "nothing is permitted any more")


def test_roles_that_show_no_names_are_reported(site: Site) -> None:
    role = {"allow": [{"classes": ["rabbitmq:queue"], "read": ["messages", "name"]}]}
    site.configure(
        jmx={"users": {"operator": {}}},
        policy={"roles": {"depths": role}, "principals": {"jmx:operator": ["depths"]}},
    )
    checked = amqp_gateway("check", "--config", site.configuration)
    assert checked.code is ExitCode.OK
    assert "policy: jmx:operator reads elements of rabbitmq:queue, but not vhost," in checked.output


ATTEMPTS: Final = (
    ("get",),
    ("get", "--fresh"),
    ("invoke", "purge"),
    ("invoke", "purge", "--check"),
    ("set", "maxLength=5"),
    ("explain",),
)
"""Commands about an object, whose name follows the first word."""


def test_own_attempts_do_not_show_what_there_is(gateway: ShownGateway) -> None:
    """Each attempt on a hidden object is answered, recorded and timed like that on an invented name."""
    rule = {
        "classes": ["rabbitmq:queue"],
        "objects": [f"{gateway.virtual_host.name}|first"],  # others have one, too
        "read": ["*"],
        "invoke": ["purge"],
        "write": ["*"],
    }
    hidden = [f"hidden-{number}" for number in range(HIDDEN)]
    for queue in hidden:
        gateway.declare(queue)
    written(gateway, operations={"allow": []}, policy={})
    gateway.output("reload")
    wait_until(lambda: gateway.call("get", gateway.path(hidden[-1])).code is ExitCode.OK, "they are shown")
    written(gateway, policy={"roles": {"one": {"allow": [rule]}}, "principals": {USER: ["one"]}})
    gateway.output("reload")
    assert purges(gateway) is ExitCode.OK
    answers: dict[str, set[tuple[object, ...]]] = {"hidden": set(), "absent": set()}
    took: dict[str, dict[str, list[float]]] = {"hidden": {}, "absent": {}}
    for queue in in_turn(hidden, "hidden", "absent"):
        kind = queue.partition("-")[0]
        for words in ATTEMPTS:
            began = time.perf_counter()
            ended = gateway.call(words[0], gateway.path(queue), *words[1:])
            took[kind].setdefault(" ".join(words), []).append(time.perf_counter() - began)
            texts = (without_names(text, queue) for text in (ended.output, ended.errors))
            answers[kind].add((words, ended.code, *texts))
    assert answers["hidden"] == answers["absent"]
    # Of few values of each kind, all kinds together differ more than the limit if each of them differs.
    pairs = [(times, took["absent"][attempt]) for attempt, times in took["hidden"].items()]
    assert abs(rank_sum_of_kinds(pairs)) < SURELY_DIFFERENT
    if PROVING:
        for (one, other), attempt in zip(pairs, took["hidden"], strict=True):
            assert abs(rank_sum(one, other)) < SURELY_DIFFERENT, attempt
