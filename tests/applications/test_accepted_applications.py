"""The authentication of applications by the gateway."""

from __future__ import annotations

import ssl
from pathlib import Path

from tests.applications.plant import Plant, new_plant
from tests.components.ami_application import connected
from tests.components.certificates import Authority, Certificate
from tests.components.waiting import wait_until


def client(authority: Authority, own: Certificate | None = None) -> ssl.SSLContext:
    """Return the TLS context of an application, with its own certificate if one is given."""
    context = ssl.create_default_context(cafile=authority.own.certificate)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


def is_answered(plant: Plant, context: ssl.SSLContext) -> bool:
    """Return whether a login is answered, over TLS; the connection may be ended at any time."""
    try:
        with connected(plant.port, context) as stranger:
            stranger.say('L|I="pump-7"')
            return stranger.receive() != ""
    except OSError:
        return False


def test_with_certificates_each_speaks_for_itself(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "tls")
    gateway = authority.confirm("gateway")
    tls = {
        "certificate": str(gateway.certificate),
        "key": str(gateway.key),
        "client_ca": str(authority.own.certificate),
    }
    plant = new_plant(tmp_path, tls=tls, own_name=True)
    pump = client(authority, authority.confirm("pump-7"))
    with plant.running("process", "core"):
        wait_until(lambda: plant.source().get("state") == "synchronised", "it listens")
        with connected(plant.port, pump) as application:
            application.say('L|I="silo"')
            application.receives(r'\|S=1\|M=".*certificate')
            application.log_in("pump-7")
            application.say('O|T="Tank"|I="t1"|level=1')
            application.receives(r"\|S=0")
        assert not is_answered(plant, client(authority))
        shown = plant.values("ami-relay:application/pump-7")
        assert shown["values"]["certificate"] == "pump-7"
        assert not plant.values("ami-relay:application/silo")
