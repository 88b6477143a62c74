"""Passwords that are replaced while a RabbitMQ is read: by a refusal, and by a reload."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from gateway.config.secret_places import SecretError
from gateway.config.types import SecretSource
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble, close_soon, open_connection
from gateway.links.credentials import LoginSecret
from gateway.service.sources.logins import Logins
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.management_api import Document, OverviewRequest, Refused
from gateway.sources.rabbitmq.management_changes import Change, Changed
from tests.components.rabbitmq import VirtualHost

FORMER, PRESENT = "hunter2-hunter2", "hunter2-hunter2-2"
"""Passwords, which no log may have (`tests.links.conftest`)."""
PLACE = SecretSource(file=Path("password"))


@dataclass(frozen=True, slots=True)
class Rotated:
    """A user of a broker, and the file with its password."""

    virtual_host: VirtualHost
    name: str
    folder: Path

    def change_broker(self, password: str) -> None:
        with self.virtual_host.http() as client:
            body = {"password": password, "tags": "administrator"}
            client.put(f"users/{self.name}", json=body).raise_for_status()

    def change_file(self, password: str) -> None:
        new = self.folder / "password.new"
        new.write_text(f"{password}\n", encoding="utf-8")
        new.replace(self.folder / "password")

    def management(self, secret: LoginSecret) -> ManagementEndpoint:
        return ManagementEndpoint(self.virtual_host.broker.management_url, self.name, secret)

    async def opens(self, secret: LoginSecret) -> bool:
        """Return whether a connection opens over AMQP; it is closed again."""
        url = f"amqp://127.0.0.1:{self.virtual_host.broker.ports.amqp}"
        endpoint = AmqpEndpoint(url, self.virtual_host.name, self.name, secret)
        try:
            connection = await open_connection(endpoint, "test")
        except LinkError as error:
            if error.trouble is not Trouble.REFUSED_CREDENTIALS:
                raise
            return False
        await close_soon(connection)
        return True


@pytest.fixture
def rotated(virtual_host: VirtualHost, tmp_path: Path) -> Iterator[Rotated]:
    user = Rotated(virtual_host, f"rotated-{secrets.token_hex(4)}", tmp_path)
    user.change_broker(FORMER)
    user.change_file(FORMER)
    with virtual_host.http() as client:
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        client.put(f"permissions/{virtual_host.path}/{user.name}", json=everything).raise_for_status()
        yield user
        client.delete(f"users/{user.name}").raise_for_status()


async def test_a_refused_password_is_read_again(
    rotated: Rotated, logged: list[structlog.typing.EventDict]
) -> None:
    """Nothing fails in between: the refused request is sent again, also one that changes the broker."""
    secret = Logins().password(PLACE, rotated.folder)
    endpoint = rotated.management(secret)
    async with HttpReader(endpoint) as reader, HttpWriter(endpoint, endpoint) as writer:
        assert isinstance(await reader.read(OverviewRequest()), Document)
        rotated.change_file(PRESENT)
        assert await rotated.opens(secret), "the former one is used until it is refused"
        rotated.change_broker(PRESENT)
        target = f"queues/{rotated.virtual_host.path}/orders"
        assert isinstance(await writer.make(Change("PUT", target, {"durable": True})), Changed)
        assert isinstance(await reader.read(OverviewRequest()), Document)
    assert [entry["place"] for entry in logged if entry["event"] == "secret-renewed"] == ["password"]


async def test_over_amqp_too_and_what_cannot_be_read_changes_nothing(
    rotated: Rotated, logged: list[structlog.typing.EventDict]
) -> None:
    secret = Logins().password(PLACE, rotated.folder)
    rotated.change_broker(PRESENT)
    assert not await rotated.opens(secret)
    (rotated.folder / "password").unlink()
    assert not await rotated.opens(secret)
    assert not await rotated.opens(secret)
    async with HttpReader(rotated.management(secret)) as reader:
        assert isinstance(await reader.read(OverviewRequest()), Refused)
    rotated.change_file(PRESENT)
    assert await rotated.opens(secret)
    assert [entry["event"] for entry in logged if entry["event"].startswith("secret-")] == [
        "secret-not-read",
        "secret-renewed",
    ]


async def test_a_reload_reads_all_secrets_again(rotated: Rotated) -> None:
    """Also one that is not refused yet: both passwords may be right for a while."""
    logins = Logins()
    secret = logins.password(PLACE, rotated.folder)
    assert logins.password(PLACE, rotated.folder) is secret, "whatever uses it"
    assert await logins.read_again() == []
    rotated.change_file(PRESENT)
    assert await logins.read_again() == ["password"]
    assert await secret.current() == PRESENT


def test_a_secret_that_is_missing_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="the secret cannot be read: No such file"):
        Logins().password(PLACE, tmp_path)
