"""A gateway whose users of JMX have certificates: what each reads by its roles, and what is recorded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gateway.service.processes.exit_codes import ExitCode
from tests.applications.plant import SOURCE, Plant, new_plant
from tests.components.certificates import Authority, Certificate
from tests.components.command_line import amqp_gateway
from tests.components.waiting import wait_until
from tests.jmx_java.tls.conftest import CertificateClients, compile_clients

pytestmark = pytest.mark.xdist_group("plant of certified readers")

TANK, VALVE = (
    f'amqp.gateway:name="pump-7|{name}",package=ami,source={SOURCE},type={kind}'
    for name, kind in (("t1", "Tank"), ("v1", "Valve"))
)
"""As Java lists them, with their keys in alphabetical order."""


@dataclass
class Certified:
    """A plant that serves JMX by TLS, and clients with certificates."""

    plant: Plant
    authority: Authority
    clients: CertificateClients

    def configure(self, users: dict[str, dict[str, str]], principals: dict[str, list[str]]) -> None:
        """Write users and their roles into the configuration."""
        file = self.plant.site.configuration
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        gateway = self.authority.confirm("gateway")
        document["jmx"] |= {
            "users": {"monitor": {}, **users},
            "heap": 64,
            "tls": {
                "certificate": str(gateway.certificate),
                "key": str(gateway.key),
                "client_ca": str(self.authority.own.certificate),
            },
        }
        document["snmp"] = {"enabled": False}
        document["policy"] = {
            "roles": {"tanks": {"allow": [{"classes": ["ami:Tank"], "read": ["*"]}]}},
            "principals": {"cli:*": ["everything"], **principals},
        }
        file.write_text(yaml.safe_dump(document), encoding="utf-8")

    def names(self, own: Certificate) -> list[str]:
        """Return the names of the MBeans of applications that the holder of a certificate sees."""
        pattern = f"amqp.gateway:source={SOURCE},package=ami,*"
        return asyncio.run(self.clients(own, "names", self.plant.jmx_port, pattern))

    def sees(self, own: Certificate) -> list[str]:
        """Return the same as soon as there are any; each question starts a virtual machine."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = self.names(own)
            return bool(found)

        wait_until(is_there, "the user sees something")
        return found

    def logged(self, sql: str) -> list[dict[str, object]]:
        """Return records of the event log, as soon as there are any."""
        found: list[dict[str, object]] = []

        def is_there() -> bool:
            found[:] = self.plant.ask_log(sql)
            return bool(found)

        wait_until(is_there, sql)
        return found


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    authority = Authority.make(tmp_path / "tls")
    compile_clients(tmp_path / "java")
    clients = CertificateClients(tmp_path / "java", tmp_path, authority)
    plant = new_plant(tmp_path, jmx=True)
    return Certified(plant, authority, clients)


@pytest.mark.long
def test_a_user_with_a_certificate_has_its_roles_and_is_recorded(certified: Certified) -> None:
    holder, stranger = certified.authority.confirm("keeper"), certified.authority.confirm("stranger")
    users = {"keeper": {"subject": "CN=keeper"}}
    certified.configure(users, {"jmx:keeper": ["tanks"]})
    with certified.plant.running(), certified.plant.application("pump-7") as application:
        application.say('O|T="Tank"|I="t1"|level=1', 'O|T="Valve"|I="v1"|open=true')
        assert certified.sees(holder) == [TANK]

        # A reload applies roles at once, and says that users wait for a restart.
        certified.configure({"keeper": {"subject": "CN=another"}}, {"jmx:keeper": ["everything"]})
        ended = amqp_gateway("reload", "--config", certified.plant.site.configuration)
        assert ended.code is ExitCode.DIFFERENCE
        text = "jmx.users.keeper.subject was changed: it takes effect when the gateway is restarted"
        assert text in ended.output
        wait_until(lambda: VALVE in certified.names(holder), "the user sees everything")

        (answer,) = asyncio.run(certified.clients(stranger, "login", certified.plant.jmx_port, "-"))
        assert "no user has the certificate CN=stranger" in answer
        (login,) = certified.logged("SELECT DISTINCT principal, origin FROM log WHERE kind = 'login'")
        assert login == {"principal": "jmx:keeper", "origin": "127.0.0.1"}
        (attempt, *_) = certified.logged(
            "SELECT principal, origin, outcome, text FROM log WHERE kind = 'operation'"
        )
        assert (attempt["principal"], attempt["origin"]) == ("jmx:(unknown)", "127.0.0.1")
        assert attempt["outcome"] == "refused"
        assert "no user has the certificate CN=stranger" in str(attempt["text"])
        (event, *_) = certified.logged(
            "SELECT text FROM log WHERE kind = 'event' AND event = 'accessRefused'"
        )
        assert "127.0.0.1" in str(event)

    with certified.plant.running("process", "jmx"):
        (answer,) = asyncio.run(certified.clients(holder, "login", certified.plant.jmx_port, "-"))
        assert "no user has the certificate CN=keeper" in answer


def test_a_subject_that_cannot_be_used_is_found_by_check_and_at_the_start(certified: Certified) -> None:
    users = {"keeper": {"subject": "CN=keeper, O=Example"}}
    certified.configure(users, {})
    for command in ("check", "run"):
        ended = amqp_gateway(command, "--config", certified.plant.site.configuration)
        assert ended.code is ExitCode.CONFIGURATION
        assert "jmx.users.keeper.subject: is no distinguished name of RFC 4514" in ended.errors
