"""The files of certificates of a configuration are looked at; one that expires is an alarm of the gateway."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.files import load_configuration
from gateway.inventory.certificates import CertificateExpiry
from gateway.links.tls import PresentedCertificates
from gateway.model.times import DAY, SECOND, since_epoch
from gateway.service.certificates import CertificateFileError, CertificateWatch, validity_of
from gateway.service.processes.agent import configuration_of
from gateway.service.processes.exit_codes import ExitCode
from tests.components.certificates import Authority, Certificate
from tests.components.command_line import RunningCommand, new_site, running
from tests.components.net_snmp import printed
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until


class Judge:
    """Takes what a watch found."""

    def __init__(self) -> None:
        self.found: dict[str, CertificateExpiry] = {}
        self.not_known: list[str] = []

    def __call__(self, found: list[CertificateExpiry], not_known: list[str]) -> None:
        self.found = {each.name: each for each in found}
        self.not_known = sorted(not_known)


async def test_each_file_is_found_once_with_all_its_keys(tmp_path: Path) -> None:
    site, authority = new_site(tmp_path), Authority.make(tmp_path / "ca")
    own, presented, judge = authority.confirm("gateway"), PresentedCertificates(), Judge()
    tls = {"certificate": str(own.certificate), "key": str(own.key), "client_ca": "none.pem"}
    broker = {
        "kind": "rabbitmq",
        "management": ["https://a.example:15671", "https://b.example:15671"],
        "user": "gateway",
        "password": site.secret("sesame"),
        "ca_file": str(authority.own.certificate),
    }
    site.configure(sources={"orders": broker}, metrics={"enabled": True, "tls": tls}, jmx={"tls": tls})
    watch = CertificateWatch(load_configuration(site.configuration), presented, judge)
    presented.noting("sources.orders.management")("a.example", 1_800_000_000)
    with structlog.testing.capture_logs() as logged:
        for _ in range(2):
            await watch.look()
    now = since_epoch(dt.datetime.now(tz=dt.UTC))
    assert judge.found.keys() == {
        str(own.certificate),
        str(authority.own.certificate),
        "presented by a.example (sources.orders.management)",
    }
    assert judge.found[str(own.certificate)].keys == ("jmx.tls.certificate", "metrics.tls.certificate")
    assert DAY < judge.found[str(own.certificate)].ends - now < 2 * DAY
    missing = str(tmp_path / "none.pem")
    assert judge.not_known == [missing, "presented by b.example (sources.orders.management)"]
    assert [(line["event"], line["path"]) for line in logged] == [("certificate-not-read", missing)]
    presented.noting("sources.orders.management")("b.example", 1_700_000_000)
    await watch.look()
    ends = {reading.labels: reading.value for reading in watch.readings()}
    assert ends.keys() == {
        ("jmx.tls.certificate",),
        ("metrics.tls.certificate",),
        ("sources.orders.ca_file",),
        ("sources.orders.management",),
    }
    assert ends["sources.orders.management",] == 1_700_000_000, "of several the first that ends"
    assert ends["jmx.tls.certificate",] == judge.found[str(own.certificate)].ends / SECOND


async def test_an_agent_looks_at_the_files_that_it_uses(tmp_path: Path) -> None:
    site, authority = new_site(tmp_path), Authority.make(tmp_path / "ca")
    reading, publishing, judge = authority.confirm("reading"), authority.confirm("publishing"), Judge()
    account = {"user": "agent", "password": site.secret("sesame")}

    def files(own: Certificate) -> dict[str, str]:
        return {"client_certificate": str(own.certificate), "client_key": str(own.key)}

    amqp = {"url": "amqps://broker.example", **account, **files(publishing)}
    agent = {
        "kind": "rabbitmq",
        "management": "https://broker.example:15671",
        "publish": {"amqp": amqp, "allowed_users": ["gateway"]},
        **account,
        **files(reading),
    }
    site.configure(agents={"shop": agent}, jmx={"tls": {"certificate": "gateway.pem", "key": "key.pem"}})
    loaded = load_configuration(site.configuration)
    served = {"shop": loaded.settings.agents["shop"].publish}
    await CertificateWatch(configuration_of(loaded, "shop"), PresentedCertificates(), judge, served).look()
    assert {name: each.keys for name, each in judge.found.items()} == {
        str(reading.certificate): ("sources.shop.client_certificate",),
        str(publishing.certificate): ("agents.shop.publish.amqp.client_certificate",),
    }
    judge = Judge()
    await CertificateWatch(loaded, PresentedCertificates(), judge).look()
    assert judge.not_known == [str(tmp_path / "gateway.pem")]


def test_a_file_without_end_is_not_read_to_it() -> None:
    with pytest.raises(CertificateFileError, match="is no regular file"):
        validity_of(Path("/dev/zero"))


@given(st.binary(max_size=300), st.integers(0, 10_000))
def test_any_octets_have_a_validity_or_one_error(octets: bytes, position: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, good = Path(folder) / "certificate.pem", made_certificate()
        position %= len(good)
        for content in (octets, good[:position] + octets + good[position:], good[:position]):
            path.write_bytes(content)
            with contextlib.suppress(CertificateFileError):
                validity = validity_of(path)
                assert isinstance(validity.begins, int)
                assert isinstance(validity.ends, int)


@functools.cache
def made_certificate() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return Authority.make(Path(folder)).own.certificate.read_bytes()


def test_a_running_gateway_has_an_alarm_until_the_certificate_is_renewed(tmp_path: Path) -> None:
    site, authority = new_site(tmp_path), Authority.make(tmp_path / "ca")
    own = authority.confirm("gateway", days=5)
    tls = {"certificate": str(own.certificate), "key": str(own.key)}
    site.configure(
        sources={},
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]},
        metrics={"enabled": True, "listen": f"127.0.0.1:{free_tcp_port()}", "tls": tls},
    )
    community = (tmp_path / "state" / "secrets" / "community").read_text("utf-8").strip()

    def walked() -> str:
        words = ("-v2c", "-c", community, "-Oa", f"127.0.0.1:{site.snmp_port}", ROOT)
        return printed(tmp_path / "net-snmp", "snmpwalk", *words).stdout

    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        wait_until(lambda: "certificateExpiring" in walked(), "the alarm is shown by SNMP")
        (line,) = reported(gateway)
        assert (line["level"], line["process"]) == ("warning", "core")
        assert line["text"].startswith("certificate expires on ")
        assert gateway.terminate().code is ExitCode.OK
    renewed = authority.confirm("renewed", days=90)
    shutil.copyfile(renewed.certificate, own.certificate)
    shutil.copyfile(renewed.key, own.key)
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        wait_until(lambda: reported(gateway), "the alarm of before is over")
        assert reported(gateway)[0]["text"].startswith("renewed, or not used any more, after ")
        wait_until(lambda: walked() and "certificateExpiring" not in walked(), "SNMP shows no alarm")
        assert gateway.terminate().code is ExitCode.OK


def reported(gateway: RunningCommand) -> list[dict[str, Any]]:
    return [line for line in gateway.log if line["event"] == "certificate-expiry"]


ROOT = "1.3.6.1.4.1.8072.9999.9999"
