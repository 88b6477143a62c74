"""The endpoint speaks HTTP to Prometheus, and loses nothing by what others send to it."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import structlog
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_string_to_metric_families,
)
from prometheus_client.parser import text_string_to_metric_families

from gateway.links import handshakes
from gateway.links.tls import ClientTls, ServerTls, TlsRenewal
from gateway.service.metrics import endpoint, families
from gateway.service.metrics.endpoint import METRICS, MetricsEndpoint, exposed, metrics_endpoint
from gateway.service.metrics.families import Histogram, Reading
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import AccessRefused
from gateway.service.processes.supervisor import MetricsPages
from tests.components.certificates import Authority
from tests.components.waiting import DEADLINE, eventually, until


def reported() -> list[Reading]:
    lag = Histogram(families.LOOP_LAG, (0.001, 0.01), "core")
    lag.observe(0.002)
    return [
        families.SOURCE_OBJECTS.at(12, 'orders "north"\n'),
        families.SOURCE_OBJECTS.at(3, "billing"),
        families.SOURCE_MESSAGES.at(2**53, "billing"),
        *lag.readings(),
    ]


async def answer(accept: str) -> tuple[bytes, str]:
    return exposed(reported(), accept)


@pytest.fixture
async def served() -> AsyncIterator[MetricsEndpoint]:
    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: answer}) as listening:
        yield listening


@pytest.fixture
async def client(served: MetricsEndpoint) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}", trust_env=False) as asking:
        yield asking


async def raw(port: int, octets: bytes) -> bytes:
    """Return all octets that are received until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(octets)
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_prometheus_reads_the_families_with_their_samples(client: httpx.AsyncClient) -> None:
    response = await client.get("/metrics")

    assert (response.status_code, response.headers["content-type"].split(";")[0]) == (200, "text/plain")
    found = {family.name: family for family in text_string_to_metric_families(response.text)}
    assert {name: family.type for name, family in found.items()} == {
        "amqp_gateway_event_loop_lag_seconds": "histogram",
        "amqp_gateway_source_objects": "gauge",
        "amqp_gateway_source_messages": "counter",
    }
    objects = {
        sample.labels["source"]: sample.value for sample in found["amqp_gateway_source_objects"].samples
    }
    assert objects == {'orders "north"\n': 12, "billing": 3}
    (messages,) = found["amqp_gateway_source_messages"].samples
    assert (messages.name, messages.value) == ("amqp_gateway_source_messages_total", 2**53)


async def test_openmetrics_is_spoken_to_who_asks_for_it(client: httpx.AsyncClient) -> None:
    response = await client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})

    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families_reported = openmetrics_string_to_metric_families(response.text)  # type: ignore[no-untyped-call]
    assert len(list(families_reported)) == 3


async def test_one_connection_serves_scrape_after_scrape(
    client: httpx.AsyncClient, served: MetricsEndpoint
) -> None:
    bodies = {(await client.get("/metrics")).text for _ in range(3)}
    assert len(bodies) == 1
    assert len(served._connections) == 1  # noqa: SLF001  nothing else tells of it


async def test_a_head_has_no_body(client: httpx.AsyncClient) -> None:
    response = await client.head("/metrics")
    assert (response.status_code, response.text) == (200, "")
    assert int(response.headers["content-length"]) > 0


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/metrics/x", 404), ("POST", "/metrics", 405)]
)
async def test_anything_else_is_refused(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await client.request(method, path, content=b"x" if method == "POST" else b"")
    assert response.status_code == status


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:9464", ""])
async def test_on_the_loopback_only_local_names_are_answered(client: httpx.AsyncClient, host: str) -> None:
    response = await client.get("/metrics", headers={"host": host})
    assert response.status_code == 421


@pytest.mark.parametrize("host", ["localhost:9464", "LOCALHOST", "127.0.0.1", "[::1]:9464", "[::1]"])
async def test_this_machine_has_several_names(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/metrics", headers={"host": host})).status_code == 200


async def test_an_endpoint_for_others_is_asked_by_any_name() -> None:
    async with (
        MetricsEndpoint(("0.0.0.0", 0), {METRICS: answer}) as listening,  # noqa: S104  as in a container
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{listening.port}", trust_env=False) as client,
    ):
        assert (await client.get("/metrics", headers={"host": "gateway:9464"})).status_code == 200


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n", b"400"),
    ],
)
async def test_what_is_no_http_gets_that_answer_and_ends(
    served: MetricsEndpoint, octets: bytes, status: bytes
) -> None:
    assert (await raw(served.port, octets)).startswith(b"HTTP/1.1 " + status)


async def test_a_request_with_a_body_is_the_last_on_its_connection(served: MetricsEndpoint) -> None:
    asked = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\nx"
    assert (await raw(served.port, asked)).startswith(b"HTTP/1.1 200")


async def test_idle_connections_give_way_and_are_counted() -> None:
    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: answer}, connections=2) as listening:
        with structlog.testing.capture_logs() as logs:
            silent = [await asyncio.open_connection("127.0.0.1", listening.port) for _ in range(2)]
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{listening.port}", trust_env=False
            ) as one:
                assert (await one.get("/metrics")).status_code == 200
                assert await silent[0][0].read() == b"", "the first one gave way"
                async with httpx.AsyncClient(trust_env=False) as another:
                    asked = await another.get(f"http://127.0.0.1:{listening.port}/metrics")
                    assert asked.status_code == 200
                assert await silent[1][0].read() == b"", "and the second one"
                assert (await one.get("/metrics")).status_code == 200
        assert listening.refused == 2
        assert [line["what"] for line in logs if line["event"] == "metrics-connections-full"] == [
            "another one gave way"
        ] * 2
        for _, writer in silent:
            writer.close()


async def test_clients_that_ask_and_read_nothing_lock_out_no_one_and_delay_no_end() -> None:
    async def long(_: str) -> tuple[bytes, str]:
        return b"a line\n" * (1 << 20), "text/plain"

    async with asyncio.timeout(DEADLINE):
        async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: long}, connections=2) as listening:
            stalled = [await asyncio.open_connection("127.0.0.1", listening.port) for _ in range(2)]
            for reader, writer in stalled:
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert await reader.read(4) == b"HTTP", (
                    "its answer is written, and is longer than all buffers"
                )
            async with httpx.AsyncClient(trust_env=False) as another:
                asked = await another.get(f"http://127.0.0.1:{listening.port}/metrics")
                assert (asked.status_code, len(asked.content)) == (200, 7 << 20)
            assert listening.refused == 1, "the first of them gave way"
        for _, writer in stalled:
            writer.close()


async def test_a_client_that_reads_slowly_gets_the_end_of_its_answer() -> None:
    """What its kernel has no room for yet, though the last part was written and the connection is closed."""
    octets = 48 << 10  # less than the transport holds without waiting

    async def page(_: str) -> tuple[bytes, str]:
        return b"x" * octets, "text/plain"

    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: page}) as listening:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.connect(("127.0.0.1", listening.port))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            received = await asyncio.to_thread(_all_of, client)
    assert len(received.partition(b"\r\n\r\n")[2]) == octets


def _all_of(client: socket.socket) -> bytes:
    received = b""
    while part := client.recv(512):
        received += part
    return received


async def test_connections_that_are_answered_do_not_give_way() -> None:
    asked, going_on = asyncio.Event(), asyncio.Event()

    async def slow(accept: str) -> tuple[bytes, str]:
        asked.set()
        await going_on.wait()
        return await answer(accept)

    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: slow}, connections=1) as listening:
        page = f"http://127.0.0.1:{listening.port}/metrics"
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            httpx.AsyncClient(trust_env=False) as another,
        ):
            first = asyncio.create_task(client.get(page))
            await asked.wait()
            with pytest.raises(httpx.HTTPError):
                await another.get(page)
            going_on.set()
            assert (await first).status_code == 200


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("br;q=1, gzip;q=0.5", True), ("gzip;q=0.0", False), ("identity", False), ("", False)],
)
async def test_a_long_page_is_compressed_for_who_accepts_that(*, accepted: str, compressed: bool) -> None:
    async def long(_: str) -> tuple[bytes, str]:
        return b"a line\n" * 1000, "text/plain"

    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: long}) as listening:
        headers = (
            f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAccept-Encoding: {accepted}"
        )
        head, _, body = (await raw(listening.port, f"{headers}\r\n\r\n".encode())).partition(b"\r\n\r\n")
    assert (b"content-encoding: gzip" in head.lower()) is compressed
    assert (gzip.decompress(body) if compressed else body) == b"a line\n" * 1000


async def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "IDLE_SECONDS", 0.05)
    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: answer}) as listening:
        assert await raw(listening.port, b"GET /metr") == b""


async def test_a_taken_address_says_what_to_do(served: MetricsEndpoint) -> None:
    with pytest.raises(CommandError) as raised:
        async with MetricsEndpoint(("127.0.0.1", served.port), {METRICS: answer}):
            pass
    assert raised.value.code is ExitCode.ADDRESS_IN_USE
    assert "metrics.listen" in str(raised.value)


def test_readings_of_families_that_are_not_known_are_left_out() -> None:
    body, _ = exposed([Reading("amqp_gateway_of_tomorrow", "", (), 1), families.FEED_WAITING.at(0)], "")
    assert [family.name for family in text_string_to_metric_families(body.decode())] == [
        "amqp_gateway_feed_waiting_records"
    ]


async def test_with_tls_and_authorities_of_clients_only_who_has_a_certificate_reads(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    server, reader = authority.confirm("server"), authority.confirm("prometheus")
    tls = ServerTls(server.certificate, server.key, authority.own.certificate)
    known = ClientTls(authority.own.certificate, reader.certificate, reader.key)
    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: answer}, TlsRenewal(tls)) as listening:
        url = f"https://127.0.0.1:{listening.port}/metrics"
        async with httpx.AsyncClient(verify=known.context(), trust_env=False) as client:
            assert (await client.get(url)).status_code == 200
        stranger = ClientTls(authority.own.certificate)
        async with httpx.AsyncClient(verify=stranger.context(), trust_env=False) as client:
            with pytest.raises(httpx.TransportError):
                await client.get(url)
        assert await raw(listening.port, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n") == b""


async def test_who_is_refused_by_tls_is_reported_counted_and_logged_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "WAIT_SECONDS", 0.001)
    monkeypatch.setattr(endpoint, "FAILURE_LINES", 3)
    authority = Authority.make(tmp_path)
    server = authority.confirm("server")
    files = (server.certificate, server.key)
    pages = MetricsPages(("127.0.0.1", 0), None, files, authority.own.certificate)
    refused: list[AccessRefused] = []

    async def readings() -> list[Reading]:
        return []

    with structlog.testing.capture_logs() as logged:
        async with metrics_endpoint(pages, readings, refused.append) as listening:
            for _ in range(5):
                assert await raw(listening.port, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n") == b""
            await until(
                lambda: families.METRICS_HANDSHAKES.at(5, "no_tls") in set(listening.readings()),
                "the failures are counted",
            )
    assert [(each.front_end, each.address, each.attempts) for each in refused] == [
        ("metrics", "127.0.0.1", 1),
        ("metrics", "127.0.0.1", 4),
    ]
    assert refused[0].reason.startswith("TLS on the endpoint of metrics: the client does not speak TLS: ")
    lines = [line for line in logged if line["event"] == "metrics-handshake-failed"]
    assert len(lines) == 3


async def test_a_renewed_certificate_is_presented_to_new_connections(tmp_path: Path) -> None:
    authority, other = Authority.make(tmp_path), Authority.make(tmp_path / "other")
    server, renewed = authority.confirm("server"), other.confirm("renewed")
    tls = TlsRenewal(ServerTls(server.certificate, server.key), patient=True)
    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: answer}, tls, look_seconds=0.01) as listening:
        url = f"https://127.0.0.1:{listening.port}/metrics"

        async def is_presented_by(known: Authority) -> bool:
            context = ClientTls(known.own.certificate).context()
            try:
                async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                    return (await client.get(url)).status_code == 200
            except httpx.ConnectError:
                return False

        assert await is_presented_by(authority)
        shutil.copyfile(renewed.certificate, server.certificate)
        shutil.copyfile(renewed.key, server.key)
        await eventually(lambda: is_presented_by(other), "the renewed certificate is presented")


async def test_handshakes_that_do_not_end_give_way(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    server = authority.confirm("server")
    context = TlsRenewal(ServerTls(server.certificate, server.key))
    async with MetricsEndpoint(("127.0.0.1", 0), {METRICS: answer}, context, connections=2) as listening:
        silent = [await asyncio.open_connection("127.0.0.1", listening.port) for _ in range(3)]

        async def is_answered() -> bool:
            try:
                async with httpx.AsyncClient(
                    verify=ClientTls(authority.own.certificate).context(), trust_env=False
                ) as client:
                    answered = await client.get(f"https://127.0.0.1:{listening.port}/metrics")
                    return answered.status_code == 200
            except httpx.TransportError:
                return False

        await eventually(is_answered, "their places are free again")
        for _, writer in silent:
            writer.close()


def test_a_file_of_tls_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    missing = MetricsPages(("127.0.0.1", 0), None, (tmp_path / "cert.pem", tmp_path / "key.pem"))

    async def readings() -> list[Reading]:
        return []

    with pytest.raises(CommandError, match=r"cert.pem.*No such file") as raised:
        metrics_endpoint(missing, readings, lambda _: None)
    assert raised.value.code is ExitCode.CONFIGURATION
