"""Commands that ask the running gateway, while it does not run."""

from __future__ import annotations

import json

import pytest

from gateway.service.processes.exit_codes import ExitCode
from gateway.starts import STARTS
from tests.components.certificates import Authority
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.components.ports import free_tcp_port
from tests.eventlog.logs import segment, update

QUEUE = "orders/rabbitmq:queue/3"


def command(site: Site, *words: str) -> Ended:
    return amqp_gateway(*words, AMQP_GATEWAY_CONFIG=str(site.configuration))


@pytest.mark.parametrize("words", [["tree"], ["get", "x"], ["watch"], ["set", "x", "a=1"], ["explain", "x"]])
def test_it_is_said_where_the_gateway_was_looked_for_and_what_to_do(site: Site, words: list[str]) -> None:
    ended = command(site, *words)
    (reported,) = ended.reported
    where = f"amqp-gateway: the gateway cannot be reached at {site.folder / 'feed.sock'}: "
    assert (
        reported
        == f"{where}No such file or directory: is `amqp-gateway run` running with this configuration?"
    )
    assert (ended.code, ended.output) == (ExitCode.UNREACHABLE, "")


def test_what_the_event_log_knows_is_explained_all_the_same(site: Site) -> None:
    segment(site.state.path / "log", 1, [update(number) for number in range(20)])
    ended = command(site, "explain", QUEUE, "--json")
    assert ended.code is ExitCode.OK
    (meaning,) = json.loads(ended.output)["meanings"]
    assert (meaning["kind"], meaning["object_id"]) == ("record", QUEUE)
    assert ended.reported == ["the gateway is not running: this is from the event log"]


def test_a_source_without_tls_is_asked_wherever_keys_of_tls_cannot_be_logged(site: Site) -> None:
    source = {"kind": "rabbitmq", "management": f"http://127.0.0.1:{free_tcp_port()}", "user": "reader"}
    site.configure(sources={"orders": {**source, "password": site.secret("secret")}})
    words = ("--connect", "--config", site.configuration)
    checked = amqp_gateway("check", *words, SSLKEYLOGFILE="/proc/none/keys")
    assert checked.code is ExitCode.UNREACHABLE, "which is all that is wrong"
    assert "keys" not in checked.errors


def test_metrics_with_tls_say_where_keys_of_tls_cannot_be_logged(site: Site) -> None:
    own = Authority.make(site.folder).confirm("gateway")
    words = ["--config", "x", "--copy", "x", "--process", "core", "--state-lock", "0"]
    words += ["--state", str(site.state.path)]
    metrics = ["127.0.0.1", free_tcp_port(), 4, own.certificate, own.key]
    options = [word for each in metrics for word in ("--metrics", str(each))]
    ended = amqp_gateway("supervise", *words, *options, SSLKEYLOGFILE="/proc/none/keys")
    assert ended.code is ExitCode.CONFIGURATION
    (reported,) = ended.reported
    assert reported.startswith("amqp-gateway: metrics: /proc/none/keys cannot be written")


def test_where_numbers_of_starts_cannot_be_read_no_gateway_starts(site: Site) -> None:
    site.configure()
    (site.state.path / STARTS).write_text('{"core": "7"}')
    for word in ("run", "doctor"):
        ended = amqp_gateway(word, "--config", site.configuration)
        place = f"{site.state.path}/starts: should have numbers from 0 to 2147483647: restore a backup"
        assert place in ended.errors + ended.output, word
        assert ended.code is (ExitCode.STATE if word == "run" else ExitCode.DIFFERENCE)
