"""Applications that tell the gateway of themselves: who could, with what is configured."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from gateway.config.ami_source import AmiSource
from gateway.service.diagnostics.doctor.findings import Finding, Level


def applications_heard(name: str, source: AmiSource) -> Iterator[Finding]:
    """Who can speak as an application of a source."""
    host = source.listen[0]
    certified = source.tls is not None and source.tls.client_ca is not None
    if certified:
        text = "only who has a certificate of 'client_ca' is heard"
        yield Finding("believed", Level.GOOD, text, subject=name)
        if not source.own_name:
            text = "any of them can speak as any application"
            yield Finding(
                "believed", Level.NOTE, text, "'own_name: true' holds each to its certificate's name", name
            )
    elif ipaddress.ip_address(host).is_loopback:
        text = "every user of this machine can speak as any application: AMI has no passwords"
        yield Finding(
            "believed", Level.NOTE, text, "under 'tls' only holders of certificates are heard", name
        )
    else:
        text = f"whoever reaches {host} can tell anything, and is told what commands are called"
        advice = (
            "name the authority of their certificates under 'tls.client_ca', or restrict access by a firewall"
        )
        yield Finding("believed", Level.WARNING, text, advice, name)
