"""A source is captured beside the running gateway, and replayed without anything."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway
from tests.cli.test_page import fields, table
from tests.components.changing_proxy import failing, kept, proxy
from tests.components.command_line import COMMAND, Ended, Site, amqp_gateway, environment
from tests.components.waiting import DEADLINE, wait_until


@contextmanager
def capturing(shown: ShownGateway, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command, until it ends or the test does."""
    words = ["source", "capture", "orders", "--config", shown.site.configuration, "--out", file, "--json"]
    with subprocess.Popen(  # noqa: S603  our own command
        [*COMMAND, *map(str, words)], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def replayed(file: Path, *words: str) -> Any:  # noqa: ANN401  whatever JSON has
    """Return the last document of a replay; an empty one where there is no such file yet."""
    ended = amqp_gateway("source", "replay", file, "--json", *words)
    return json.loads(ended.output.splitlines()[-1]) if ended.output else {}


def is_reported(file: Path, queue: str) -> bool:
    reported = replayed(file, "--tree")
    return reported.get("state") == "synchronised" and any(
        one["leaf_name"] == queue for one in reported["tree"]
    )


@pytest.mark.xdist_group("shown gateway")
def test_what_is_captured_says_the_same_again(shown_gateway: ShownGateway, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    with capturing(shown_gateway, file) as process:
        wait_until(lambda: is_reported(file, "first"), "the queue that was there is captured")
        shown_gateway.declare("meanwhile")
        wait_until(lambda: is_reported(file, "meanwhile"), "a queue that came is captured")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == ExitCode.OK, errors
    assert b"they may contain passwords and other secrets" in errors
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    reported = json.loads(output)
    assert (reported["file"], reported["state"]) == (str(file), "synchronised")
    assert reported.keys() == fields(table("document")["source capture"])

    ended = amqp_gateway("source", "replay", file, "--tree", "--watch", "--json")
    *happened, again = map(json.loads, ended.output.splitlines())

    assert ended.code is ExitCode.OK, ended.errors
    assert again.keys() == fields(table("document")["source replay"])
    assert (again["different"], again["differences"], again["passed_over"]) == (0, [], 0)
    assert again["same"] > 5
    assert (again["source_kind"], again["dialect"]) == ("rabbitmq", "rabbitmq")
    assert sum(again["objects"].values()) == reported["objects"]
    assert again["events"]["rabbitmq:queueCreated"] >= 1
    (created,) = (one for one in happened if one["kind"] == "created" and one["name"].endswith("|meanwhile"))
    assert created["time"] <= again["to"]

    own = shown_gateway.virtual_host.name

    def names(documents: list[Any]) -> set[tuple[str, str]]:
        """Return the names in the virtual host of the test: others come and go on the broker."""
        reported = {(one["class"], one["name"]) for one in documents if one["name"].startswith(own)}
        return {(class_name, name) for class_name, name in reported if class_name != "rabbitmq:connection"}

    assert names(again["tree"]) == names(shown_gateway.documents("tree"))
    assert ("rabbitmq:queue", f"{own}|meanwhile") in names(again["tree"])


def command(site: Site, *words: str | Path) -> Ended:
    return amqp_gateway(*words, AMQP_GATEWAY_CONFIG=str(site.configuration))


def test_a_source_that_is_not_there(site: Site) -> None:
    ended = command(site, "source", "capture", "orders")
    assert ended.code is ExitCode.CONFIGURATION
    (reported,) = ended.reported
    assert reported.endswith("no source 'orders' under 'sources'; there are: none")


def dead_source(site: Site) -> None:
    site.configure(
        sources={
            "orders": {
                "kind": "rabbitmq",
                "management": "http://127.0.0.1:9",
                "user": "gateway",
                "password": site.secret("hidden"),
            }
        }
    )


def test_a_source_that_cannot_be_reached_leaves_no_file(site: Site) -> None:
    dead_source(site)
    ended = command(site, "source", "capture", "orders", "--out", site.folder / "orders.jsonl")
    assert ended.code is ExitCode.UNREACHABLE
    assert not (site.folder / "orders.jsonl").exists()


@pytest.mark.xdist_group("shown gateway")
def test_a_capture_ends_when_a_replay_has_what_it_needs(shown_gateway: ShownGateway, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    until = ("--until-synchronised", "--for", f"{DEADLINE:g}s")

    ended = command(shown_gateway.site, "source", "capture", "orders", *until, "--out", file)

    assert ended.code is ExitCode.OK, ended.errors
    assert replayed(file)["state"] == "synchronised"


def test_a_source_that_is_not_read_in_time_has_an_exit_code_of_its_own(
    rabbitmq: PrivateBroker, site: Site
) -> None:
    file, user = site.folder / "orders.jsonl", rabbitmq.administrator
    with proxy(rabbitmq.ports.management, kept) as between:
        between.answer = failing("queues")
        login = {"user": user.name, "password": site.secret(user.password)}
        site.configure(sources={"orders": {"kind": "rabbitmq", "management": between.url, **login}})

        until = ("--until-synchronised", "--for", "5s")
        ended = command(site, "source", "capture", "orders", *until, "--out", file)

    assert ended.code is ExitCode.NOT_SYNCHRONISED, ended.errors
    assert ended.reported[-1].startswith("amqp-gateway: orders was not synchronised at the end: ")


def test_a_file_that_is_there_is_not_touched(site: Site) -> None:
    dead_source(site)
    file = site.folder / "orders.jsonl"
    file.write_text("precious", encoding="ascii")
    ended = command(site, "source", "capture", "orders", "--out", file)
    assert ended.code is ExitCode.USAGE
    assert file.read_text(encoding="ascii") == "precious"


HEAD = {
    "capture": 1,
    "source": "field",
    "dialect": "am2",
    "received": "to-console",
    "sent": "to-agent",
    "part": 1,
    "ns": 1_800_000_000 * 10**9,
    "kind": "qmf",
    "settings": {"believe_anyone": True},
}
CONNECTED = {"ns": HEAD["ns"], "event": "connected", "reply_to": "q"}
UNREADABLE = {"ns": HEAD["ns"], "dir": "to-console", "exchange": "x", "routing_key": "k", "body_b64": "AAAA"}


def test_what_is_said_otherwise_now_ends_with_a_difference(tmp_path: Path) -> None:
    """The captured console sent nothing when it was connected, and received an unreadable message."""
    file = tmp_path / "field.jsonl"
    file.write_text(
        "".join(f"{json.dumps(line)}\n" for line in (HEAD, CONNECTED, UNREADABLE)), encoding="ascii"
    )

    ended = amqp_gateway("source", "replay", file)

    assert ended.code is ExitCode.DIFFERENCE
    *_, remarked, then, now = ended.output.splitlines()
    assert remarked.startswith("line 3: protocol-error: x/k from '': ")
    assert (then, now) == ("line 2: then nothing", "        now  broker: BrokerRequest sequence=1")
    assert ended.reported == ["amqp-gateway: once the session sends something else than the captured one"]


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "field.jsonl").write_text("{}\n", encoding="ascii")
    ended = amqp_gateway("source", "replay", tmp_path / "field.jsonl")
    said = "line 1: 'capture' is not 1: this is not a capture, or a newer one"
    assert (ended.code, ended.reported) == (
        ExitCode.WRONG_VALUE,
        [f"amqp-gateway: {tmp_path / 'field.jsonl'}: {said}"],
    )


def test_a_capture_that_is_not_there(tmp_path: Path) -> None:
    ended = amqp_gateway("source", "replay", tmp_path / "none.jsonl")
    assert (ended.code, ended.reported) == (
        ExitCode.NOT_FOUND,
        [f"amqp-gateway: {tmp_path / 'none.jsonl'}: No such file or directory"],
    )
