"""A running gateway: clients that TLS refuses at AMI or the metrics are in the audit, with their address."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.links.tls import ClientTls
from gateway.service.metrics import families
from gateway.service.processes.exit_codes import ExitCode
from tests.components.certificates import Authority
from tests.components.command_line import RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.eventlog.reading import of_kind, read_log

SOURCE = "apps"


@dataclass
class Guarded:
    """The running gateway, whose listeners demand certificates of one authority."""

    site: Site
    authority: Authority
    gateway: RunningCommand
    ami: int
    metrics: int

    def connect(self, port: int, context: ssl.SSLContext | None) -> None:
        """Connect as a client, send a line, and read to the end."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 60) as plain:
            secured = plain if context is None else context.wrap_socket(plain, server_hostname="127.0.0.1")
            with secured:
                secured.sendall(b'L|I="pump-7"\n\n')
                while secured.recv(4096):
                    pass

    def refused(self, principal: str) -> list[dict[str, Any]]:
        """Return the records of refused logins of a principal."""
        try:
            records = of_kind(read_log(self.site.state.path / "log"), "operation")
        except (OSError, ValueError, IndexError):
            return []  # the log is just being written
        return [each for each in records if each.get("principal") == principal]

    def page(self) -> str:
        own = self.authority.confirm("prometheus")
        known = ClientTls(self.authority.own.certificate, own.certificate, own.key)
        url = f"https://127.0.0.1:{self.metrics}/metrics"
        return httpx.get(url, verify=known.context(), trust_env=False, timeout=60).text

    def counted(self, family: str) -> dict[str, float]:
        """Return the values of a counter by reason."""
        found = {each.name: each for each in text_string_to_metric_families(self.page())}
        samples = found[family.removesuffix("_total")].samples
        return {each.labels["reason"]: each.value for each in samples if each.value}


def ports_that_listen() -> set[int]:
    found = psutil.net_connections("tcp")
    return {one.laddr.port for one in found if one.laddr and one.status == psutil.CONN_LISTEN}


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Guarded]:
    site, authority = new_site(tmp_path), Authority.make(tmp_path / "ca")
    own = authority.confirm("gateway")
    tls = {
        "certificate": str(own.certificate),
        "key": str(own.key),
        "client_ca": str(authority.own.certificate),
    }
    ami, metrics = free_tcp_port(), free_tcp_port()
    site.configure(
        sources={SOURCE: {"kind": "ami", "listen": f"127.0.0.1:{ami}", "tls": tls, "logins": ["pump-7"]}},
        metrics={"enabled": True, "listen": f"127.0.0.1:{metrics}", "tls": tls},
        snmp={"enabled": False},
        log={"min_free": 0, "commit_interval": "1ms", "compact": False},
    )
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        # Not by a client, which would be counted.
        wait_until(lambda: {ami, metrics} <= ports_that_listen(), "both listen")
        yield Guarded(site, authority, gateway, ami, metrics)
        assert gateway.terminate().code is ExitCode.OK
    verified = amqp_gateway("audit", "verify", "--config", site.configuration)
    assert verified.code is ExitCode.OK, verified


def test_refused_clients_are_recorded_audited_counted_and_an_event(there: Guarded) -> None:
    uncertified = ssl.create_default_context(cafile=there.authority.own.certificate)
    for port, principal, listener in (
        (there.ami, "ami:(unknown)", f"the listener of {SOURCE}"),
        (there.metrics, "metrics:(unknown)", "the endpoint of metrics"),
    ):
        there.connect(port, uncertified)
        wait_until(partial(there.refused, principal), f"{principal} is recorded")
        (record, *_) = there.refused(principal)
        assert (record["operation"], record["outcome"], record["origin"]) == ("read", "refused", "127.0.0.1")
        assert record["text"] == f"TLS on {listener}: the client presented no certificate"
        assert record["audit"] > 1, "it is audited"
    events = of_kind(read_log(there.site.state.path / "log"), "event")
    refused = [each["values"] for each in events if each["event"] == "accessRefused"]
    assert [(each["principal"], each["origin"]) for each in refused] == [
        ("ami:(unknown)", "127.0.0.1"),
        ("metrics:(unknown)", "127.0.0.1"),
    ]
    there.connect(there.ami, None)
    wait_until(
        lambda: there.counted(families.SOURCE_HANDSHAKES.name) == {"no_certificate": 1, "no_tls": 1},
        "the failures of AMI are counted",
    )
    assert there.counted(families.METRICS_HANDSHAKES.name) == {"no_certificate": 1}


def test_an_application_that_may_not_log_in_is_recorded(there: Guarded) -> None:
    own = there.authority.confirm("pump-8")
    known = ClientTls(there.authority.own.certificate, own.certificate, own.key).context()
    with (
        socket.create_connection(("127.0.0.1", there.ami), 60) as plain,
        known.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        secured.sendall(b'L|I="pump-8"\n')
        assert b"may not log in here" in secured.recv(4096)
    wait_until(lambda: there.refused("ami:(unknown)"), "the login is recorded")
    (record,) = there.refused("ami:(unknown)")
    text = "'pump-8' with the certificate of 'pump-8': this application may not log in here"
    assert (record["origin"], record["text"]) == ("127.0.0.1", f"login at {SOURCE}: {text}")


def test_a_client_of_the_metrics_that_is_refused_while_no_core_runs_is_recorded_later(there: Guarded) -> None:
    def logged(event: str) -> list[dict[str, Any]]:
        return [record for record in there.gateway.log if record["event"] == event]

    wait_until(lambda: logged("gateway-ready"), "all processes are ready")
    os.kill(logged("gateway-ready")[0]["processes"]["core"], signal.SIGKILL)
    wait_until(lambda: logged("process-died"), "the core is missed")
    there.connect(there.metrics, None)
    wait_until(lambda: there.refused("metrics:(unknown)"), "it is recorded by the next core")
