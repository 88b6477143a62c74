"""What is between the gateway and a management API or metrics: a forward proxy, and a login for metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.config.sources import RabbitMqSettings
from gateway.demo.broker import PrivateBroker
from gateway.links.tls import ServerTls
from gateway.service.sources.logins import Logins
from gateway.service.sources.rabbitmq_endpoints import http_reader, prometheus_reader
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint, PrometheusReader
from gateway.sources.rabbitmq.management_api import Answer, Document, OverviewRequest, Unavailable
from gateway.sources.rabbitmq.metrics_answers import TotalsSheet
from gateway.sources.rabbitmq.prometheus_samples import NotScraped, Scraped, ScrapeRequest
from gateway.sources.rabbitmq.proving_client import ManagementSession
from gateway.sources.rabbitmq.provisioning import ProvisioningError, read
from gateway.sources.rabbitmq.reading import class_readers
from gateway.sources.rabbitmq.status import failure_text
from tests.components.certificates import Authority, Certificate
from tests.components.forward_proxy import ForwardProxy
from tests.sources.rabbitmq.imitation import MAPPING
from tests.sources.rabbitmq.test_http_reader import response, server

METRICS = b'rabbitmq_identity_info{rabbitmq_node="rabbit@a",rabbitmq_cluster="a"} 1\n'


async def overview(reader: HttpReader) -> Answer:
    async with reader:
        return await reader.read(OverviewRequest())


def settings_of(management: str, folder: Path, **more: object) -> RabbitMqSettings:
    """Return settings with the secrets ``sesame`` and ``mellon``."""
    for name in ("sesame", "mellon"):
        (folder / name).write_text(name, encoding="utf-8")
    given = {"management": management, "user": "gateway", "password": {"file": "sesame"}, **more}
    return RabbitMqSettings.model_validate(given)


async def test_a_management_api_is_read_by_a_proxy(rabbitmq: PrivateBroker, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(rabbitmq.administrator.password, encoding="utf-8")
    proxy = ForwardProxy("anna:mellon")
    async with proxy.serving():
        settings = settings_of(
            rabbitmq.management_url,
            tmp_path,
            user=rabbitmq.administrator.name,
            password={"file": "password"},
            proxy={"url": proxy.url, "user": "anna", "password": {"file": "mellon"}},
        )
        assert isinstance(await overview(http_reader(settings, tmp_path)), Document)
        assert proxy.asked[-1].startswith(f"GET {rabbitmq.management_url}/api/")
        proxy.user = "bert:mellon"
        answer = await overview(http_reader(settings, tmp_path))
    assert failure_text(answer, "gateway") == (
        "the proxy demands a login: check 'user' and 'password' of 'proxy'"
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("by", ["reload", "refusal"])
async def test_the_password_of_a_proxy_is_read_again(tmp_path: Path, scheme: str, by: str) -> None:
    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        # So that the next request is on another connection, at whose begin the proxy asks for the login.
        writer.write(response(b"{}", headers="connection: close\r\n"))

    authority, proxy, logins = Authority.make(tmp_path / "authority"), ForwardProxy("anna:mellon"), Logins()
    serving = server(serve, proves=False) if scheme == "http" else tls_server(authority.confirm("rabbit"))
    async with serving as url, proxy.serving():
        own = {"url": proxy.url, "user": "anna", "password": {"file": "mellon"}}
        trusted = {"ca_file": str(authority.own.certificate)} if scheme == "https" else {}
        reader = http_reader(settings_of(url, tmp_path, proxy=own, **trusted), tmp_path, logins=logins)
        async with reader:

            async def is_refused() -> bool:
                answer = await reader.read(OverviewRequest())
                return "the proxy" in failure_text(answer, "gateway")

            assert not await is_refused()
            (tmp_path / "mellon").write_text("elbereth", encoding="utf-8")
            if by == "reload":
                assert await logins.read_again() == ["mellon"]
            proxy.user = "anna:elbereth"
            if by == "refusal":
                assert await is_refused(), "this one had the former password"
            assert not await is_refused()


async def test_a_proxy_that_is_not_there_and_one_that_refuses_a_tunnel(tmp_path: Path) -> None:
    settings = settings_of("http://rabbit.example:15672", tmp_path, proxy={"url": "http://127.0.0.1:1"})
    said = failure_text(await overview(http_reader(settings, tmp_path)), "gateway")
    assert said.startswith("the proxy http://127.0.0.1:1 leads nowhere (")
    proxy = ForwardProxy("anna:mellon")
    async with proxy.serving():
        settings = settings_of("https://rabbit.example:15671", tmp_path, proxy={"url": proxy.url})
        answer = await overview(http_reader(settings, tmp_path))
    assert proxy.asked == ["CONNECT rabbit.example:15671 HTTP/1.1"], "the proxy looks for the address"
    assert isinstance(answer, Unavailable)
    assert "407" in answer.reason


@asynccontextmanager
async def tls_server(own: Certificate) -> AsyncIterator[str]:
    """Provide the URL of a server with TLS on the loopback that answers each request with an object."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.append(task)
        with suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response(b"{}", headers="connection: close\r\n"))
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    conversations: list[asyncio.Task[None]] = []

    context = ServerTls(own.certificate, own.key).context()
    async with await asyncio.start_server(converse, "127.0.0.1", 0, ssl=context) as listening:
        yield f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        await asyncio.wait(conversations)


async def test_a_certificate_that_is_not_trusted_is_said_also_by_commands_and_a_tunnel_keeps_tls(
    tmp_path: Path,
) -> None:
    authority, proxy = Authority.make(tmp_path / "authority"), ForwardProxy()
    async with tls_server(authority.confirm("rabbit")) as url, proxy.serving():
        said = failure_text(await overview(http_reader(settings_of(url, tmp_path), tmp_path)), "gateway")
        assert said.startswith(f"{url}: TLS failed (")
        assert "its certificate is not trusted: give that of its authority, or of a self-signed one" in said
        with (
            ManagementSession(f"{url}/api/", trust_env=False) as session,
            pytest.raises(ProvisioningError, match="is not trusted: give that of its authority"),
        ):
            await asyncio.to_thread(read, session, "overview")
        trusted = {"ca_file": str(authority.own.certificate), "proxy": {"url": proxy.url}}
        assert await overview(http_reader(settings_of(url, tmp_path, **trusted), tmp_path)) == Document({})
    assert {line.split()[0] for line in proxy.asked} == {"CONNECT"}


async def test_the_path_of_the_api_does_not_belong_into_the_url(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(rabbitmq.administrator.password, encoding="utf-8")
    url = f"{rabbitmq.management_url}/api"
    user = {"user": rabbitmq.administrator.name, "password": {"file": "password"}}
    answer = await overview(http_reader(settings_of(url, tmp_path, **user), tmp_path))
    said = failure_text(answer, "gateway")
    assert said == f"the URL {url} ends in /api, which the gateway adds itself: leave it out"


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = ForwardProxy()
    async with proxy.serving():
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        endpoint = ManagementEndpoint("http://127.0.0.1:1", "gateway", SecretStr("sesame"))
        assert isinstance(await overview(HttpReader(endpoint)), Unavailable)
    assert proxy.asked == []


async def scraped(reader: PrometheusReader, url: str) -> Scraped | NotScraped:
    async with reader:
        sheet = TotalsSheet(class_readers(MAPPING)["protocol"])
        return await reader.scrape(ScrapeRequest(url, ()), sheet, {})


async def test_metrics_are_read_with_a_login_where_one_is_configured(tmp_path: Path) -> None:
    """As RabbitMQ 4.3 demands it with ``prometheus.authentication``; both by Basic and by Bearer."""
    heads: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        known = b"Basic Z2F0ZXdheTpzZXNhbWU=" in head or b"Basic c2NyYXBlcjptZWxsb24=" in head
        writer.write(response(METRICS, "200 OK" if known else "401 Unauthorized"))

    async with server(serve) as url:

        async def with_login(login: object) -> Scraped | NotScraped:
            settings = settings_of(url, tmp_path, prometheus_login=login)
            return await scraped(prometheus_reader(settings, tmp_path), url)

        assert await with_login(None) == NotScraped(
            "a login is demanded (status 401): name a user in 'prometheus_login'"
        )
        assert isinstance(await with_login("source"), Scraped)
        assert isinstance(await with_login({"user": "scraper", "password": {"file": "mellon"}}), Scraped)
        assert await with_login({"user": "scraper", "password": {"file": "sesame"}}) == NotScraped(
            "a login is demanded (status 401): check 'prometheus_login'"
        )
    assert b"authorization" not in heads[0].lower()


async def test_metrics_are_read_by_the_proxy_too(tmp_path: Path) -> None:
    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(METRICS))

    proxy = ForwardProxy()
    async with proxy.serving(), server(serve) as url:
        settings = settings_of(url, tmp_path, proxy={"url": proxy.url})
        assert isinstance(await scraped(prometheus_reader(settings, tmp_path), url), Scraped)
    assert proxy.asked[0].startswith(f"GET {url}/")
