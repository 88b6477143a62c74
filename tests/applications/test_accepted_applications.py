"""The authentication of applications by the gateway."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import yaml

from gateway.service.processes.exit_codes import ExitCode
from tests.applications.plant import Plant, new_plant
from tests.components.ami_application import connected
from tests.components.certificates import Authority, Certificate
from tests.components.command_line import amqp_gateway
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


def permit(plant: Plant, objects: list[str]) -> None:
    """Write the role of a peer, which may publish tanks and valves of these names, into the configuration."""
    file = plant.site.configuration
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    rules = [
        {"classes": ["ami-relay:application"], "objects": ["pump-7"], "publish": True},
        {"classes": ["ami:Tank"], "objects": ["pump-7|*"], "publish": True},
        {"classes": ["ami:Valve"], "objects": objects, "publish": True},
    ]
    document["policy"] = {
        "roles": {"pumps": {"allow": rules}},
        "principals": {"*": ["everything"], "ami:site-4": ["pumps"]},
    }
    file.write_text(yaml.safe_dump(document), encoding="utf-8")


def refusals(plant: Plant) -> list[dict[str, Any]]:
    """Return the records of what peers may not publish."""
    sql = (
        "SELECT principal, origin, outcome, text FROM log WHERE kind = 'operation' "
        "AND starts_with(principal, 'ami:') ORDER BY seq"
    )
    return list(plant.ask_log(sql))


def test_a_certificate_publishes_what_its_roles_permit_in_whatever_name(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "tls")
    gateway = authority.confirm("gateway")
    tls = {
        "certificate": str(gateway.certificate),
        "key": str(gateway.key),
        "client_ca": str(authority.own.certificate),
    }
    plant = new_plant(tmp_path, tls=tls)
    permit(plant, ["pump-7|v1"])
    site, other = (client(authority, authority.confirm(name)) for name in ("site-4", "pump-7"))
    with plant.running():
        wait_until(lambda: plant.source().get("state") == "synchronised", "it listens")
        with connected(plant.port, other) as stranger:
            # Neither the name that it claims nor that of its own certificate is a right.
            stranger.say('L|I="pump-7"')
            stranger.receives(r'\|S=1\|M="no role lets ami:pump-7 publish ami-relay:application pump-7"')
        with connected(plant.port, site) as application:
            application.say('L|I="silo"')
            application.receives(r'\|S=1\|M="no role lets ami:site-4 publish ami-relay:application silo"')
            application.log_in("pump-7")
            application.say('O|T="Tank"|I="t1"|level=1', 'O|T="Valve"|I="v1"|open=true')
            for _ in range(2):
                application.receives(r"\|S=0")
            application.say('O|T="Valve"|I="v2"|open=true')
            application.receives(r'\|S=1\|M="no role lets ami:site-4 publish ami:Valve pump-7\|v2"')
            wait_until(lambda: plant.values("ami:Valve/pump-7|v1"), "what is permitted is shown")
            assert not plant.values("ami:Valve/pump-7|v2")

            permit(plant, ["pump-7|v2"])
            ended = amqp_gateway("reload", "--config", plant.site.configuration)
            assert ended.code is ExitCode.OK, ended.errors
            assert (
                "ami:site-4: now may publish objects, of classes ami:Valve, objects pump-7|v2" in ended.output
            )
            application.say('O|T="Valve"|I="v2"|open=true')
            application.receives(r"\|S=0")
            application.say('O|T="Valve"|I="v1"|open=false')
            application.receives(r"\|S=1")
        wait_until(lambda: len(refusals(plant)) == 4, "each refusal is recorded")
        assert [(one["principal"], one["text"].partition(" publish ")[2]) for one in refusals(plant)] == [
            ("ami:pump-7", "ami-relay:application pump-7"),
            ("ami:site-4", "ami-relay:application silo"),
            ("ami:site-4", "ami:Valve pump-7|v2"),
            ("ami:site-4", "ami:Valve pump-7|v1"),
        ]
        assert {(one["origin"], one["outcome"]) for one in refusals(plant)} == {("127.0.0.1", "refused")}
        events = "SELECT text FROM log WHERE kind = 'event' AND event = 'accessRefused'"
        wait_until(lambda: len(plant.ask_log(events)) == 4, "and is an event")
    question = ("ami:site-4", "publish", "plant/ami:Valve/pump-7|v1")
    ended = amqp_gateway("role", "explain", *question, "--config", plant.site.configuration)
    assert ended.code is ExitCode.REFUSED
    assert "it takes one with publish: true" in ended.errors
