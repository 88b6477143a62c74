"""Outcomes of setting an OpenAMQ's settings, compared in SNMP, the command line and the event log."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pytest

from gateway.dialects.cml.messages import Status
from gateway.dialects.session import Delivery, Effect, ModifyAsked
from gateway.service.processes.exit_codes import ExitCode
from tests.components.amqp_peer import AmqpPeer
from tests.components.background import in_background
from tests.components.command_line import Ended, Site, new_site
from tests.components.open_amq import CONFIG, OpenAmq
from tests.components.operated_gateway import OPERATOR, OperatedGateway
from tests.components.waiting import wait_until
from tests.outcomes.scene import running_gateway

pytestmark = pytest.mark.xdist_group("an OpenAMQ that is set")

SETTINGS: Final = "openamq.org.server:config/OpenAMQ 1.4c1|amq_server.cfg"
NOTICE: Final = "To activate the new port setting, restart the broker"
OUTCOME: Final = (
    f"{NOTICE}; port: after a restart of the broker clients, and the gateway, find nothing at the former port"
)
"""The notice, and what the mapping knows of the effect."""
LARGEST_BATCH: Final = 2_097_152


class WillfulOpenAmq(OpenAmq):
    """A broker that answers "ok" to every request, as the original does.

    Attributes:
        requests: the values of each request to set something.
        is_mute: whether it carries requests out and does not answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, object]] = []
        self.is_mute = False

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a delivery, and carry out its request at once."""
        effects: list[Effect] = []
        for effect in self.session.handle(delivery, now):
            effects += self._modify(effect, now) if isinstance(effect, ModifyAsked) else [effect]
        return effects

    def _modify(self, asked: ModifyAsked, now: int) -> list[Effect]:
        self.requests.append(dict(asked.values))
        for name, value in asked.values.items():
            if name not in self.deaf:
                kept = min(value, LARGEST_BATCH) if isinstance(value, int) else value
                self.change(asked.number, **{name: str(kept)})
        notice = NOTICE if "port" in asked.values else ""
        answer = self.session.done(asked.handle, Status.OK, now, notice)
        return [] if self.is_mute else answer


@asynccontextmanager
async def willful_open_amq() -> AsyncIterator[tuple[WillfulOpenAmq, AmqpPeer]]:
    broker = WillfulOpenAmq()
    async with AmqpPeer(broker.script) as peer:
        yield broker, peer


@dataclass(frozen=True, slots=True)
class Scene(OperatedGateway):
    """A gateway that watches an OpenAMQ, and a manager."""

    modules: ClassVar = ("AMQP-GATEWAY-OPENAMQ-MIB",)
    site: Site
    broker: WillfulOpenAmq

    def settings(self, *settings: str) -> Ended:
        """Set elements of the broker's settings at the command line."""
        return self.command("set", f"openamq/{SETTINGS}", *settings)

    def logged(self, text: str, state: str = "ended") -> dict[str, Any]:
        """Return the last record of the operation whose id is in ``text``, as soon as there is one."""
        (operation_id,) = re.findall(r"[0-9a-f-]{36}\.\d+\.o\d+", text)
        found: list[dict[str, Any]] = []

        def is_reported() -> bool:
            sql = "SELECT outcome, text, former, found FROM log WHERE operation_id = $id AND state = $state"
            found[:] = self.ask_log(sql, id=operation_id, state=state)
            return bool(found)

        wait_until(is_reported, f"{operation_id} is logged as {state}")
        return found[-1]


def at(column: str, kind: str, value: str) -> tuple[str, str, str]:
    """Return a variable of the only settings, with a value in net-snmp's notation."""
    return f"{column}.1.1", kind, value


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    site = new_site(tmp_path_factory.mktemp("openamq"))
    with in_background(willful_open_amq) as (broker, peer):
        amqp = {"url": f"amqp://127.0.0.1:{peer.port}", "user": "super", "password": site.secret("super")}
        who = [f"cli:{getpass.getuser()}", f"snmp:{OPERATOR}"]
        rule = {"who": who, "set": ["*", "port", "listen", "vhost"], "read": True}
        site.configure(
            sources={"openamq": {"kind": "cml", "amqp": amqp, "request_deadline": "2s"}},
            snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "writers": {OPERATOR: {}}},
            operations={"allow": [rule], "deadline": "3s"},
        )
        with running_gateway(site):
            there = Scene(site, broker)
            there.are_all("synchronised")
            yield there


def test_what_is_set_is_found_and_the_brokers_notice_is_reported(scene: Scene) -> None:
    scene.broker.change(CONFIG, port="5672", monitor="0")
    ended = scene.settings("port=6673", "monitor=60")
    assert ended.code is ExitCode.OK, ended.errors
    assert ended.output.splitlines()[:2] == ["port: 5672 -> 6673", "monitor: 0 seconds -> 60 seconds"]
    assert ended.output.rstrip().endswith(f"({OUTCOME})")
    assert scene.broker.requests[-1] == {"port": "6673", "monitor": 60}
    record = scene.logged(ended.output)
    assert (record["outcome"], record["text"]) == ("applied", OUTCOME)
    assert json.loads(record["former"]) == {"port": "5672", "monitor": 0}


def test_variables_of_one_set_are_one_request(scene: Scene) -> None:
    requests = len(scene.broker.requests)
    reported = scene.set(*at("oamqConfigPort", "s", "7673"), *at("oamqConfigMonitor", "u", "61"))
    assert reported == "oamqConfigPort.1.1 = 7673\noamqConfigMonitor.1.1 = 61 seconds\n"
    assert scene.broker.requests[requests:] == [{"port": "7673", "monitor": 61}]
    assert OUTCOME in scene.walk("agOperationText").values()


def test_what_the_broker_ignores_was_not_applied(scene: Scene) -> None:
    scene.broker.deaf.add("dump_state")
    ended = scene.settings("dump_state=7")
    assert ended.code is ExitCode.NOT_APPLIED
    assert "not-applied: reported as done, but dump_state is what it was before" in ended.errors
    reported = scene.set(*at("oamqConfigDumpState", "u", "7"))
    assert "commitFailed" in reported


def test_what_the_broker_puts_within_its_bounds_was_applied_differently(scene: Scene) -> None:
    scene.broker.change(CONFIG, batching="32768")
    ended = scene.settings("batching=2147483647")
    assert ended.code is ExitCode.NOT_APPLIED
    record = scene.logged(ended.errors)
    assert (record["outcome"], json.loads(record["found"])) == (
        "applied-differently",
        {"batching": LARGEST_BATCH},
    )


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("listen=" + "x" * 256, ExitCode.WRONG_VALUE),
        ("monitor=4294967296", ExitCode.WRONG_VALUE),
        ("monitor=-1", ExitCode.WRONG_VALUE),
        ("auto_crash=1", ExitCode.REFUSED),
        ("name=x", ExitCode.REFUSED),
    ],
)
def test_what_openamq_would_cut_or_should_not_be_reported_is_refused(
    scene: Scene, setting: str, code: ExitCode
) -> None:
    requests = len(scene.broker.requests)
    ended = scene.settings("keep_logs=true", setting)
    assert ended.code is code, ended.errors
    assert len(scene.broker.requests) == requests


@pytest.mark.parametrize(
    ("variables", "status"),
    [
        (at("oamqConfigPort", "s", "") + at("oamqConfigMonitor", "u", "62"), "wrongValue"),
        (at("oamqConfigMonitor", "u", "62") + at("oamqConfigListen", "s", "a\tb"), "wrongValue"),
        (("oamqConfigName.1.1", "s", "x"), "notWritable"),
    ],
)
def test_what_only_cml_cannot_carry_is_refused_in_the_test_phase(
    scene: Scene, variables: tuple[str, ...], status: str
) -> None:
    requests = len(scene.broker.requests)
    reported = scene.set(*variables)
    assert status in reported, reported
    assert len(scene.broker.requests) == requests


def test_what_was_read_is_written_back_and_nothing_is_sent(scene: Scene) -> None:
    """An unchanged empty text, which CML cannot carry, is not sent either."""
    scene.broker.change(CONFIG, listen="", port="5672")
    wait_until(
        lambda: scene.command("get", "--fresh", f"openamq/{SETTINGS}").code is ExitCode.OK, "it is read"
    )
    requests = len(scene.broker.requests)
    reported = scene.set(*at("oamqConfigListen", "s", ""), *at("oamqConfigPort", "s", "5672"))
    assert "Error" not in reported
    assert len(scene.broker.requests) == requests


def test_what_is_not_answered_is_unknown_until_the_object_reports(scene: Scene) -> None:
    scene.broker.is_mute = True
    ended = scene.settings("queue_timeout=17")
    scene.broker.is_mute = False
    assert ended.code is ExitCode.UNKNOWN_OUTCOME
    assert scene.logged(ended.errors, "settled")["outcome"] == "applied"
    assert scene.broker.text(CONFIG, "queue_timeout") == "17"
