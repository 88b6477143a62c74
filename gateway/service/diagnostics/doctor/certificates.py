"""Findings about the certificates that the configuration names: which have expired, or are about to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cryptography import x509
from pydantic import BaseModel

from gateway.config.files import LoadedConfiguration
from gateway.config.sources import ClientTlsSettings, ListenerTls
from gateway.service.diagnostics.doctor import Finding, Level

SOON: Final = dt.timedelta(days=30)
"""The time before the end of a certificate in which it is to be renewed."""

_FILES: Final = ("certificate", "client_ca", "ca_file", "client_certificate")


def certificate_findings(loaded: LoadedConfiguration, now: dt.datetime) -> Iterator[Finding]:
    """Yield a finding about each file of certificates.

    Args:
        loaded: the configuration.
        now: the time, with a zone.
    """
    for key, path in sorted(certificate_files(loaded.settings)):
        yield _finding(key, loaded.folder / path, now)


def certificate_files(settings: object, place: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the key of each file of certificates below ``settings``, such as ``jmx.tls.certificate``."""
    if isinstance(settings, ListenerTls | ClientTlsSettings):
        for name in _FILES:
            path = getattr(settings, name, None)
            if path is not None:
                yield f"{place}.{name}", path
    entries: Mapping[str, object] = {}
    if isinstance(settings, BaseModel):
        entries = {name: getattr(settings, name) for name in type(settings).model_fields}
    elif isinstance(settings, Mapping):
        entries = {str(name): value for name, value in settings.items()}
    for name, value in entries.items():
        yield from certificate_files(value, f"{place}.{name}" if place else name)


def _finding(key: str, path: Path, now: dt.datetime) -> Finding:
    try:
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "there is no certificate in PEM in it"
        advice = "name a file that the gateway's user can read"
        return Finding("certificates", Level.PROBLEM, f"{path}: {reason}", advice, key)
    # Of several, as of a chain, the first that ends is the end of all that need it.
    end = min(each.not_valid_after_utc for each in certificates)
    begin = max(each.not_valid_before_utc for each in certificates)
    if now < begin:
        advice = "compare the clocks of this machine and of the authority"
        text = f"{path}: is valid from {begin:%Y-%m-%d %H:%M} UTC on, which is not yet"
        return Finding("certificates", Level.PROBLEM, text, advice, key)
    if end <= now:
        return Finding("certificates", Level.PROBLEM, f"{path}: expired on {end:%Y-%m-%d}", "renew it", key)
    days = (end - now).days
    text = f"{path}: expires on {end:%Y-%m-%d}, in {days} day{'' if days == 1 else 's'}"
    if end - now < SOON:
        return Finding("certificates", Level.WARNING, text, "renew it", key)
    return Finding("certificates", Level.GOOD, text, subject=key)
