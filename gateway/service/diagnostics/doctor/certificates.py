"""Findings about the certificates that the configuration names: which have expired, or are about to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

from gateway.config.files import LoadedConfiguration
from gateway.config.transport_security import certificate_files, sent_in_plain_text
from gateway.model.times import DAY, since_epoch, utc_time
from gateway.service.certificates import CertificateFileError, validity_of
from gateway.service.diagnostics.doctor import Finding, Level


def certificate_findings(loaded: LoadedConfiguration, now: dt.datetime) -> Iterator[Finding]:
    """Yield a finding about each file of certificates.

    Args:
        loaded: the configuration.
        now: the time, with a zone.
    """
    warn_before = loaded.settings.certificates.warn_before
    for key, path in sorted(certificate_files(loaded.settings)):
        yield _finding(key, loaded.folder / path, since_epoch(now), warn_before)


def _finding(key: str, path: Path, now: int, warn_before: int) -> Finding:
    try:
        validity = validity_of(path)
    except CertificateFileError as error:
        advice = (
            "name a file that the gateway's user can read; a running gateway uses the former one until then"
        )
        return Finding("certificates", Level.PROBLEM, f"{path}: {error}", advice, key)
    if now < validity.begins:
        advice = "compare the clocks of this machine and of the authority"
        text = f"{path}: is valid from {utc_time(validity.begins, 0)} on, which is not yet"
        return Finding("certificates", Level.PROBLEM, text, advice, key)
    left, day = validity.ends - now, (utc_time(validity.ends, 0) or "?").partition("T")[0]
    if left <= 0:
        return Finding("certificates", Level.PROBLEM, f"{path}: expired on {day}", "renew it", key)
    days = left // DAY
    text = f"{path}: expires on {day}, in {days} day{'' if days == 1 else 's'}"
    if left < warn_before:
        return Finding("certificates", Level.WARNING, text, "renew it", key)
    return Finding("certificates", Level.GOOD, text, subject=key)


def plain_text_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield a finding about everything that is exchanged beyond this machine without protection."""
    found = list(sent_in_plain_text(loaded.settings))
    for each in found:
        yield Finding("transport", Level.WARNING, each.text, each.advice, each.key)
    if not found:
        yield Finding("transport", Level.GOOD, "nothing is sent beyond this machine in plain text")
