"""Everything that a gateway leaves, searched for its secrets: they are in their own places only."""

from __future__ import annotations

import getpass
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.config.secret_places import CREDENTIALS
from gateway.demo.broker import PrivateBroker
from gateway.eventlog.query import ask
from gateway.service.processes.exit_codes import ExitCode
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import (
    MANAGEMENT_VHOST,
    UserRights,
    agent_rights,
    consuming_events,
    gateway_rights,
    watching,
)
from tests.components.certificates import Authority
from tests.components.command_line import Ended, RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.jmx_client import JmxClient, JmxClientError
from tests.components.leaks import files_below, leaks, process_facts
from tests.components.net_snmp import printed
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until

ROOT = "1.3.6.1.4.1.8072.9999.9999"
READER, WRITER, AGENT, CONSOLE = (f"{name}-{secrets.token_hex(4)}" for name in ("r", "w", "a", "c"))
VARIABLE = "ORDERS_PASSWORD"


def new_secret() -> str:
    """Return a secret that a URL, a shell and YAML would each write in another way."""
    return f"S/{secrets.token_urlsafe(12)}+&%=:{secrets.token_hex(4)}"


class Scene:
    """A gateway with a secret of every kind, and an agent."""

    def __init__(self, folder: Path, broker: PrivateBroker) -> None:
        self.site: Site = new_site(folder)
        self.broker = broker
        self.credentials = folder / "credentials"
        self.authority = Authority.make(folder / "ca")
        self.secrets = {
            name: new_secret()
            for name in (
                *("the reader's password", "the writer's password", "the agent's password"),
                *("the console's password", "the wrong password of a source", "the community of a writer"),
                *("the community of a receiver", "the password of JMX", "the authentication passphrase"),
                *("the privacy passphrase", "a community that was tried", "a password that was tried"),
            )
        }
        self.jmx_port = free_tcp_port()
        self._configure()
        for name in ("community", "jmx-monitor"):
            self.secrets[f"the secret {name}"] = self.site.state.secret(name)
        (key_line, *_) = [
            line for line in (folder / "ca" / "gateway-key.pem").read_text().splitlines() if "-" not in line
        ]
        self.secrets["a line of the private key"] = key_line

    @property
    def variables(self) -> dict[str, str]:
        """The environment by which the gateway gets two of its secrets."""
        return {VARIABLE: self.secrets["the reader's password"], CREDENTIALS: str(self.credentials)}

    @contextmanager
    def provisioned(self) -> Iterator[None]:
        """Provide the users of the broker, which other tests have, too."""
        watched = UserRights.of(("monitoring",), [watching("/"), consuming_events()])
        everything = UserRights.of(("administrator",), [watching("/"), consuming_events()])
        users = (
            ProvisionedUser(READER, self.secrets["the reader's password"], watched),
            ProvisionedUser(WRITER, self.secrets["the writer's password"], everything),
            ProvisionedUser(AGENT, self.secrets["the agent's password"], agent_rights()),
            ProvisionedUser(CONSOLE, self.secrets["the console's password"], gateway_rights()),
        )
        with self.broker.http() as client:
            try:
                provision(client, users)
                yield
            finally:
                for user in users:
                    client.delete(f"users/{user.name}")
                client.delete(f"vhost-limits/{MANAGEMENT_VHOST}/max-queues")

    def add_user(self) -> None:
        """Make the keys of a user of SNMP version 3; they are secrets, too."""
        typed = f"{self.secrets['the authentication passphrase']}\n{self.secrets['the privacy passphrase']}\n"
        line = ["snmp", "user", "add", "nms", "--config", str(self.site.configuration)]
        assert CliRunner().invoke(main, line, input=typed).exit_code == ExitCode.OK
        kept = json.loads(self.site.state.secret_path("snmp-users.json").read_text())
        for number, keys in enumerate(kept["users"]["nms"]):
            for name in ("authentication_key", "privacy_key"):
                self.secrets[f"{name} {number}"] = keys[name]
                self.secrets[f"{name} {number} as text"] = bytes.fromhex(keys[name]).decode("latin-1")

    def _configure(self) -> None:
        site, secret = self.site, self.secrets
        self.credentials.mkdir()
        (self.credentials / "writer").write_text(secret["the writer's password"])
        own = self.authority.confirm("gateway")
        amqp = f"amqp://127.0.0.1:{self.broker.ports.amqp}"
        management = {"kind": "rabbitmq", "management": self.broker.management_url, "interval": "1s"}
        agent = {"user": AGENT, "password": site.secret(secret["the agent's password"])}
        console = {"user": CONSOLE, "password": site.secret(secret["the console's password"])}
        site.configure(
            sources={
                "orders": {
                    **management,
                    "user": READER,
                    "password": {"env": VARIABLE},
                    "events": {"url": amqp},
                    "writing": {"user": WRITER, "password": {"credential": "writer"}},
                },
                "refused": {
                    **management,
                    "user": READER,
                    "password": site.secret(secret["the wrong password of a source"]),
                    "events": {"url": amqp},
                },
                "published": {"kind": "qmf", "amqp": {"url": amqp, **console}, "trusted_users": [AGENT]},
            },
            agents={
                "shop": {
                    **management,
                    **agent,
                    "publish": {"amqp": {"url": amqp, **agent}, "allowed_users": [CONSOLE], "interval": "1s"},
                }
            },
            snmp={
                "listen": [f"127.0.0.1:{site.snmp_port}"],
                "users": {"nms": {}},
                "writers": {"operator": {"community": site.secret(secret["the community of a writer"])}},
                "notifications": {
                    "noc": {
                        "address": f"127.0.0.1:{free_tcp_port()}",
                        "community": site.secret(secret["the community of a receiver"]),
                    }
                },
            },
            jmx={
                "enabled": True,
                "listen": f"127.0.0.1:{self.jmx_port}",
                "heap": 64,
                "users": {"monitor": {}, "eve": {"password": site.secret(secret["the password of JMX"])}},
            },
            metrics={
                "enabled": True,
                "listen": f"127.0.0.1:{free_tcp_port()}",
                "tls": {"certificate": str(own.certificate), "key": str(own.key)},
            },
            operations={
                "allow": [
                    {"who": [f"cli:{getpass.getuser()}", "snmp:operator"], "set": ["maxQueues"], "read": True}
                ]
            },
            captures={"orders": {}, "refused": {}, "published": {}},
        )

    def command(self, *words: str) -> Ended:
        """Run a command beside the gateway."""
        return amqp_gateway(
            *words,
            "--config",
            self.site.configuration,
            ORDERS_PASSWORD=self.variables[VARIABLE],
            CREDENTIALS_DIRECTORY=self.variables[CREDENTIALS],
        )

    def snmp(self, program: str, *words: str) -> str:
        """Return the output of a program of net-snmp, whatever it is."""
        done = printed(self.site.folder.parent / "net-snmp", program, "-t", "5", "-r", "1", *words)
        return done.stdout + done.stderr

    @contextmanager
    def running(self) -> Iterator[tuple[RunningCommand, RunningCommand]]:
        """Run the gateway and the agent."""
        configuration = self.site.configuration
        with (
            running("run", "--config", configuration, log=self.site.folder / "log", **self.variables) as own,
            running("agent", "shop", "--config", configuration, log=self.site.folder / "agent-log") as agent,
        ):
            own.ready()
            yield own, agent


@pytest.mark.long
async def test_nothing_that_a_gateway_leaves_has_a_secret(rabbitmq: PrivateBroker, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    scene = Scene(folder, rabbitmq)
    scene.add_user()
    outputs: list[tuple[str, bytes]] = []

    def note(what: str, text: str) -> str:
        outputs.append((what, text.encode()))
        return text

    def run(*words: str) -> Ended:
        ended = scene.command(*words)
        note(f"output of {words}", ended.output + ended.errors)
        return ended

    with scene.provisioned(), scene.running() as (gateway, agent):
        wait_until(lambda: '"published"' in run("source", "ls", "--json").output, "the sources are known")

        def states() -> dict[str, str]:
            lines = run("source", "ls", "--json").output.splitlines()
            return {each["source"]: each["state"] for each in map(json.loads, lines)}

        wait_until(
            lambda: (
                states()
                == {"orders": "synchronised", "published": "synchronised", "refused": states().get("refused")}
            ),
            "two sources are synchronised",
        )
        assert states()["refused"] != "synchronised"
        await operate(scene, note)
        for words in (
            ("doctor", "--all", "--json"),
            ("check", "--connect"),
            ("show", "config"),
            ("tree", "--json"),
            ("set", f"orders/vhost/{MANAGEMENT_VHOST}", "maxQueues=2000"),
            ("set", f"orders/vhost/{MANAGEMENT_VHOST}", "description=refused"),
            ("state", "backup", "--without-secrets", str(folder / "backup.tar")),
            ("log", "compact"),
        ):
            run(*words)
        outputs += process_facts(gateway.process.pid)
        outputs += process_facts(agent.process.pid)
        assert gateway.terminate().code is ExitCode.OK
        assert agent.terminate().code is ExitCode.OK
    with ask(scene.site.state.path / "log", "SELECT to_json(log) FROM log") as answer:
        rows = [str(row[0]) for row in answer.rows]
    assert any("accessRefused" in row for row in rows)
    note("event log", "\n".join(rows))

    places = [
        *folder.glob("secret-*"),
        scene.credentials,
        scene.authority.folder,
        scene.site.state.path / "secrets",
    ]
    found = leaks(scene.secrets, [*outputs, *files_below(folder, places)])
    # The variable that the configuration names is in the environment of our own processes, and of no other.
    assert {line for line in found if not line.startswith("environ of python")} == set()
    assert found
    assert all(line.endswith("the reader's password") for line in found)
    assert (folder / "log").read_bytes()
    captured = list((scene.site.state.path / "captures").iterdir())
    assert len(captured) >= 3


async def operate(scene: Scene, note: object) -> None:
    """Log in rightly and wrongly by SNMP and JMX."""
    assert callable(note)
    agent, secret = f"127.0.0.1:{scene.site.snmp_port}", scene.secrets
    community = secret["the secret community"]
    walked = note("walk", scene.snmp("snmpwalk", "-v2c", "-c", community, agent, ROOT))
    assert "orders" in walked
    note("wrong", scene.snmp("snmpget", "-v2c", "-c", secret["a community that was tried"], agent, ROOT))
    note(
        "set", scene.snmp("snmpset", "-v2c", "-c", secret["the community of a writer"], agent, ROOT, "i", "1")
    )
    keys = ("-a", "SHA-256", "-x", "AES", "-X", secret["the privacy passphrase"])
    user = ("-v3", "-u", "nms", "-l", "authPriv", *keys)
    right = (*user, "-A", secret["the authentication passphrase"])
    assert "orders" in note("version 3", scene.snmp("snmpwalk", *right, agent, f"{ROOT}.1"))
    note("wrong user", scene.snmp("snmpget", *user, "-A", secret["a password that was tried"], agent, ROOT))
    jar, address = scene.site.folder.parent / "client.jar", f"127.0.0.1:{scene.jmx_port}"
    async with await JmxClient.connect(jar, address, "eve", secret["the password of JMX"]) as client:
        note("JMX", repr(await client.names("*:*")))
    for name in ("eve", "nobody"):
        with pytest.raises(JmxClientError) as raised:
            await JmxClient.connect(jar, address, name, secret["a password that was tried"])
        note("JMX refusal", str(raised.value))
