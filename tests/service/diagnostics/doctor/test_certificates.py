"""Certificates that have expired, or are about to, are findings."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.service.diagnostics.doctor import Level
from gateway.service.diagnostics.doctor.certificates import certificate_findings, plain_text_findings
from tests.components.certificates import Authority
from tests.components.command_line import new_site


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedConfiguration:
    """Return a configuration with certificates that are valid for two days, their authority's for 30."""
    site, authority = new_site(tmp_path), Authority.make(tmp_path / "ca")
    own = authority.confirm("gateway")
    broker = {
        "kind": "rabbitmq",
        "management": "https://broker.example.org:15671",
        "user": "gateway",
        "password": site.secret("sesame"),
        "ca_file": str(authority.own.certificate),
        "client_certificate": str(own.certificate),
        "client_key": str(own.key),
    }
    tls = {"certificate": str(own.certificate), "key": str(own.key), "client_ca": "none.pem"}
    site.configure(sources={"orders": broker}, jmx={"enabled": True, "tls": tls})
    return load_configuration(site.configuration)


def found(loaded: LoadedConfiguration, days: float) -> dict[str, tuple[Level, str]]:
    now = dt.datetime.now(tz=dt.UTC) + dt.timedelta(days=days, minutes=1)
    return {each.subject: (each.level, each.text) for each in certificate_findings(loaded, now)}


def test_each_file_is_named_by_its_key(loaded: LoadedConfiguration) -> None:
    findings = found(loaded, 0)
    assert list(findings) == [
        "jmx.tls.certificate",
        "jmx.tls.client_ca",
        "sources.orders.ca_file",
        "sources.orders.client_certificate",
    ]
    level, text = findings["jmx.tls.client_ca"]
    assert level is Level.PROBLEM
    assert text.endswith("none.pem: No such file or directory")


@pytest.mark.parametrize(
    ("days", "level", "part"),
    [
        (0, Level.WARNING, ", in 1 day"),
        (3, Level.PROBLEM, ": expired on "),
        (-1, Level.PROBLEM, ", which is not yet"),
    ],
)
def test_the_time_decides(loaded: LoadedConfiguration, days: float, level: Level, part: str) -> None:
    reported = found(loaded, days)["sources.orders.client_certificate"]
    assert reported[0] is level
    assert part in reported[1]


def test_a_file_without_certificates(loaded: LoadedConfiguration) -> None:
    (loaded.folder / "none.pem").write_text("no certificate", encoding="ascii")
    assert found(loaded, 0)["jmx.tls.client_ca"] == (
        Level.PROBLEM,
        f"{loaded.folder / 'none.pem'}: there is no certificate in PEM in it",
    )


def test_what_is_sent_in_plain_text_is_a_warning(tmp_path: Path, loaded: LoadedConfiguration) -> None:
    (finding,) = plain_text_findings(loaded)
    assert finding.level is Level.GOOD
    (tmp_path / "other").mkdir()
    site = new_site(tmp_path / "other", state=False)
    site.configure(metrics={"enabled": True, "listen": "0.0.0.0:9464"})
    (finding,) = plain_text_findings(load_configuration(site.configuration))
    assert (finding.check, finding.level, finding.subject) == ("transport", Level.WARNING, "metrics.listen")
    assert finding.advice == "write metrics.tls with client_ca"
