"""Tokens of OAuth 2 in the place of passwords, at a RabbitMQ and an issuer of the test's own."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from gateway.config.logins import LoginSettings, OAuthSettings
from gateway.config.types import SecretSource
from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.links.access_tokens import AccessToken
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble, close_soon, open_connection
from gateway.links.credentials import LoginSecret
from gateway.links.credentials_error import CredentialsError
from gateway.links.tls import ClientTls
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.sources.logins import Logins
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.management_api import Answer, Document, OverviewRequest, Unavailable
from gateway.sources.rabbitmq.management_changes import Change, Changed, Lookup
from gateway.sources.rabbitmq.status import failure_text
from tests.components.command_line import Ended, Site, amqp_gateway, new_site, running
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.token_issuer import TokenIssuer
from tests.components.waiting import eventually, until, wait_until
from tests.eventlog.reading import of_kind, read_log

SECRET = "hunter2+ü"
SHORT = 6.0
"""A lifetime in seconds, of which a test waits for some."""


def login(issuer: TokenIssuer, folder: Path, logins: Logins | None = None) -> LoginSecret:
    """Return the secret of the issuer's client, whose own secret is in the file ``secret`` of a folder."""
    if not (folder / "secret").exists():
        (folder / "secret").write_text(f"{SECRET}\n", encoding="utf-8")
    oauth = OAuthSettings(
        token_url=issuer.url,
        client_id=issuer.client,
        client_secret=SecretSource(file=Path("secret")),
        scope="rabbitmq.all other",
    )
    settings = LoginSettings(user=issuer.client, oauth=oauth)
    return (logins or Logins()).secret(settings, folder, ClientTls())


def issuer_of(lifetime: float) -> TokenIssuer:
    # RFC 6749 section 2.3.1: as in a form.
    return TokenIssuer("gateway", "hunter2%2B%C3%BC", lifetime)


@pytest.mark.each_rabbitmq(takes_long=True)
async def test_a_broker_takes_tokens_over_http_and_amqp_and_new_ones_on_open_connections(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
    tmp_path: Path,
    logged: list[structlog.typing.EventDict],
) -> None:
    issuer = issuer_of(SHORT)
    plugins = ("rabbitmq_auth_backend_oauth2",)
    broker = start_rabbitmq(replace(TEST_SETTINGS, plugins=plugins))
    await asyncio.to_thread(issuer.trust, broker)
    async with issuer.serving():
        secret = login(issuer, tmp_path)
        reading = ManagementEndpoint(broker.management_url, "gateway", secret)
        connection = await open_connection(
            AmqpEndpoint(f"amqp://127.0.0.1:{broker.ports.amqp}", "/", "gateway", secret), "test"
        )
        async with HttpReader(reading) as reader, HttpWriter(reading, reading) as writer:
            assert isinstance(await reader.read(OverviewRequest()), Document)
            who = await writer.make(Lookup("whoami"))
            assert isinstance(who, Document)
            assert isinstance(who.body, dict)
            assert who.body["name"] == "gateway"
            assert len(issuer.issued) == 1, "one token for all"
            # By then the second one was handed over, and the first one has expired.
            await until(lambda: len(issuer.issued) == 3, "the token was renewed twice, without a request")
            channel = await connection.channel()
            queue = await channel.declare_queue("orders", exclusive=True)
            assert isinstance(
                await writer.make(Change("PUT", "queues/%2F/other", {"durable": True})), Changed
            )
        await queue.delete()
        await close_soon(connection)
        wrong = AmqpEndpoint(f"amqp://127.0.0.1:{broker.ports.amqp}", "/", "gateway", login(issuer, tmp_path))
        issuer.answer = 503, b""
        with pytest.raises(LinkError, match="issues no token") as refused:
            await open_connection(wrong, "test")
        assert refused.value.trouble is Trouble.UNREACHABLE
    assert issuer.forms[0] == {"grant_type": ["client_credentials"], "scope": ["rabbitmq.all other"]}
    events = [entry["event"] for entry in logged]
    assert {"token-renewed", "token-taken"} <= set(events)
    assert "token-not-taken" not in events
    assert not [token for token in issuer.issued if token in str(logged)]


async def test_a_gateway_reads_changes_and_receives_events_by_tokens(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker], tmp_path: Path
) -> None:
    """Also when its first token has expired. No password of the broker is in its configuration."""
    issuer = TokenIssuer("gateway", "hunter2", SHORT)
    broker = start_rabbitmq(replace(TEST_SETTINGS, plugins=("rabbitmq_auth_backend_oauth2",)))
    await asyncio.to_thread(issuer.trust, broker)
    site = new_site(tmp_path)
    async with issuer.serving():
        client = {"client_id": issuer.client, "client_secret": site.secret(issuer.secret)}
        account = {"user": issuer.client, "oauth": {"token_url": issuer.url, **client}}
        source = {
            "kind": "rabbitmq",
            "management": broker.management_url,
            "interval": "1s",
            "budget": 0.5,
            "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
            "writing": account,
            **account,
        }
        rule = {"who": [f"cli:{getpass.getuser()}"], "invoke": ["purge"]}
        site.configure(sources={"orders": source}, operations={"allow": [rule]})
        await asyncio.to_thread(_uses_tokens, site, broker, issuer)


def _uses_tokens(site: Site, broker: PrivateBroker, issuer: TokenIssuer) -> None:
    def command(*words: str) -> Ended:
        return amqp_gateway(words[0], "--config", site.configuration, *words[1:])

    def events() -> set[object]:
        return {one["event"] for one in of_kind(read_log(site.state.path / "log"), "event")}

    def used(queue: str, until_issued: int) -> None:
        """Make a queue that is shown and purged; go on when there are so many tokens."""
        with broker.http() as http:
            http.put(f"queues/%2F/{queue}", json={"durable": True}).raise_for_status()
        path = f"orders/rabbitmq:queue//|{queue}"
        wait_until(lambda: command("get", path).code is ExitCode.OK, "it is shown")
        purged = command("invoke", path, "purge")
        assert purged.code is ExitCode.OK, purged.errors
        wait_until(lambda: len(issuer.issued) >= until_issued, "tokens are renewed")

    checked = command("check", "--connect")
    assert checked.code is ExitCode.OK, checked.errors
    with running("run", "--config", site.configuration, log=site.folder / "output") as gateway:
        gateway.ready()
        for queue in ("first", "second"):
            used(queue, until_issued=len(issuer.issued) + 3)
        wait_until(lambda: "queueCreated" in events(), "events are received")
        issued = len(issuer.issued)
        reloaded = command("reload")
        assert reloaded.code is ExitCode.OK, reloaded.errors
        assert len(issuer.issued) > issued, "a reload gets a new one"
        log = gateway.log
    taken = [one["event"] for one in log]
    assert "token-taken" in taken, "the open connection has a new one"
    assert "token-not-taken" not in taken
    assert not [token for token in issuer.issued if token in str(log)]


async def reading_without_broker(secret: LoginSecret) -> Answer:
    """Return the answer to a reading of a management API that is not there."""
    async with HttpReader(ManagementEndpoint("http://127.0.0.1:1", "gateway", secret)) as reader:
        return await reader.read(OverviewRequest())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            (401, b'{"error": "invalid_client"}'),
            "refuses client 'gateway' (invalid_client, status 401): check",
        ),
        (
            (400, b'{"error": "invalid_scope"}'),
            "refuses the scope 'rabbitmq.all other' (invalid_scope, status",
        ),
        ((302, b""), "leads elsewhere (status 302): give the other URL as 'token_url'"),
        ((500, b"<html>"), "issues no token (status 500): check 'token_url'"),
        ((200, b"<html>"), "answers without a bearer token: check 'token_url'"),
        ((200, b'{"access_token": "a\\r\\nx: b"}'), "answers without a bearer token: check 'token_url'"),
        ((200, b'{"access_token": "a", "token_type": "mac"}'), "answers without a bearer token"),
        ((200, b'{"access_token": "a", "expires_in": -1}'), "issues tokens without a lifetime"),
        ((200, b" " * 70_000), "answers with more than 65536 bytes"),
    ],
)
async def test_why_there_is_no_token(tmp_path: Path, answer: tuple[int, bytes], text: str) -> None:
    issuer = issuer_of(SHORT)
    issuer.answer = answer
    async with issuer.serving():
        found = await reading_without_broker(login(issuer, tmp_path))
    assert isinstance(found, Unavailable)
    said = failure_text(found, "gateway")
    assert said.startswith(f"the token endpoint {issuer.url} {text}")
    assert SECRET not in said


async def test_an_issuer_that_is_not_there_is_asked_after_pauses(tmp_path: Path) -> None:
    issuer = issuer_of(SHORT)
    issuer.url = "http://127.0.0.1:1/token"
    secret = login(issuer, tmp_path)
    with pytest.raises(CredentialsError, match="is not reached") as first:
        await secret.current()
    with pytest.raises(CredentialsError) as second:
        await secret.current()
    assert str(second.value) == str(first.value)
    assert first.value.passing


async def test_callers_within_the_pause_have_an_error_each_and_nothing_is_sent(tmp_path: Path) -> None:
    """One that is raised again and again has the traceback of every time."""
    issuer = issuer_of(SHORT)
    issuer.answer = 503, b""
    async with issuer.serving():
        secret = login(issuer, tmp_path)
        errors = []
        for _ in range(50):
            with pytest.raises(CredentialsError, match="status 503") as refused:
                await secret.current()
            errors.append(refused.value)
    assert len(set(map(id, errors))) == len(errors)
    assert len(issuer.forms) < 10


@pytest.mark.parametrize("lifetime", ["9" * 400, "1e400", "3600", '"3600"'])
async def test_a_token_of_any_lifetime_is_used(tmp_path: Path, lifetime: str) -> None:
    issuer = issuer_of(SHORT)
    issuer.answer = 200, b'{"access_token": "a", "expires_in": %s}' % lifetime.encode()
    async with issuer.serving():
        assert await login(issuer, tmp_path).current() == "a"


async def test_a_reload_asks_all_issuers_at_the_same_time(tmp_path: Path) -> None:
    """Each that does not answer takes 20 s, and a command waits for half a minute."""
    both, logins = asyncio.Barrier(2), Logins()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"+other")  # the end of the form
        await both.wait()
        body = b'{"access_token": "a"}'
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = "http://{}:{}".format(*server.sockets[0].getsockname())
    async with server:
        for name in ("one", "two"):
            issuer = issuer_of(SHORT)
            issuer.url = f"{url}/{name}"
            login(issuer, tmp_path, logins)
        assert await logins.read_again() == [f"token of gateway ({url}/{name})" for name in ("one", "two")]


async def test_the_former_token_is_used_until_it_expires(tmp_path: Path) -> None:
    issuer = issuer_of(4.0)
    async with issuer.serving():
        secret = login(issuer, tmp_path)
        token = await secret.current()
        issuer.answer = 503, b""
        asked = len(issuer.forms)

        async def refused() -> bool:
            try:
                assert await secret.current() == token
            except CredentialsError as error:
                assert "status 503" in str(error)  # noqa: PT017  at some time
                return True
            return False

        await eventually(refused, "the token has expired")
        assert len(issuer.forms) > asked
        issuer.answer = None

        async def renewed() -> bool:
            with suppress(CredentialsError):
                return await secret.current() != token
            return False

        await eventually(renewed, "another token is issued")


async def test_the_secret_of_the_client_is_read_again_when_it_is_refused_and_by_a_reload(
    tmp_path: Path,
) -> None:
    issuer, logins = issuer_of(3600.0), Logins()
    async with issuer.serving():
        secret = login(issuer, tmp_path, logins)
        assert isinstance(secret, AccessToken)
        issuer.secret = "hunter3"
        (tmp_path / "secret").write_text("hunter3\n", encoding="utf-8")
        first = await secret.current()
        assert issuer.refused == 1, "then it was read again"
        issuer.secret = "other"
        (tmp_path / "secret").write_text("other\n", encoding="utf-8")
        place = f"token of gateway ({issuer.url})"
        assert await logins.read_again() == ["secret", place]
        second = await secret.current()
        assert first != second
        issuer.secret = "third"
        (tmp_path / "secret").write_text("third\n", encoding="utf-8")
        assert await secret.other_than(first) == second, "another connection has the new one already"
        assert await secret.other_than(second) is None, "a young token is not replaced at once"
        assert await secret.read_again() == place
        assert issuer.refused == 1
        assert await secret.current() not in {first, second}
