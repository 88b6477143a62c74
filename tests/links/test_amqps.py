"""A link over TLS to a real RabbitMQ."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from gateway.dialects.session import Send
from gateway.links.tls import ClientTls, PresentedCertificates, presented_name
from tests.components.certificates import Authority
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost
from tests.links.broker_side import client, published
from tests.links.recording import endpoint_of, linked, role


@contextlib.asynccontextmanager
async def tls_listener(
    vhost: VirtualHost, authority: Authority, name: str, *further: str
) -> AsyncIterator[int]:
    """Provide a port on which the broker accepts TLS, with a certificate for ``name``.

    Args:
        vhost: of the broker.
        authority: signs the certificate, and is trusted by the broker.
        name: the name in the certificate.
        further: further options of Erlang's ``ssl``.
    """
    port = free_tcp_port()
    own = authority.confirm(name)
    files = {"certfile": own.certificate, "keyfile": own.key, "cacertfile": authority.own.certificate}
    options = ",".join([*(f'{{{option},"{path}"}}' for option, path in files.items()), *further])
    listener = f'{{"127.0.0.1",{port},inet}}'
    start = f"[] = [E || {{error, E}} <- [rabbit_networking:start_ssl_listener({listener}, [{options}], 1)]]."
    stop = f"rabbit_networking:stop_tcp_listener({listener})."
    await asyncio.to_thread(vhost.broker.rabbitmqctl, "eval", start)
    try:
        yield port
    finally:
        await asyncio.to_thread(vhost.broker.rabbitmqctl, "eval", stop)


async def test_messages_pass_both_ways(virtual_host: VirtualHost, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    async with tls_listener(virtual_host, authority, "rabbit") as port:
        endpoint = replace(
            endpoint_of(virtual_host.broker, virtual_host.name),
            url=f"amqps://127.0.0.1:{port}",
            tls=ClientTls(authority.own.certificate),
        )
        async with linked(endpoint, role("amq.topic")) as link, client(virtual_host) as channel:
            reply_to = await link.up()
            await published(channel, Send("amq.direct", reply_to, b"there"))
            link.send(Send("amq.topic", "key", b"and back"))
            deliveries = await link.received(2)

        assert {delivery.body for delivery in deliveries} == {b"there", b"and back"}

        stranger = Authority.make(tmp_path / "stranger")
        async with linked(replace(endpoint, tls=ClientTls(stranger.own.certificate)), role()) as link:
            said = await link.down()
        assert "TLS failed" in said
        assert "check 'ca_file'" in said


async def test_a_broker_that_demands_a_certificate_gets_that_of_the_gateway(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    authority = Authority.make(tmp_path)
    own, stranger = authority.confirm("gateway"), Authority.make(tmp_path / "stranger").confirm("gateway")
    strict = ("{verify,verify_peer}", "{fail_if_no_peer_cert,true}")
    async with tls_listener(virtual_host, authority, "rabbit", *strict) as port:
        endpoint = replace(
            endpoint_of(virtual_host.broker, virtual_host.name), url=f"amqps://127.0.0.1:{port}"
        )
        trusted = ClientTls(authority.own.certificate, own.certificate, own.key)
        async with linked(replace(endpoint, tls=trusted), role()) as link:
            await link.up()

        without = ClientTls(authority.own.certificate)
        async with linked(replace(endpoint, tls=without), role()) as link:
            assert "'client_certificate'" in await link.down()

        # The files are replaced: by some that cannot be used, which changes nothing, then by a stranger's.
        presented = PresentedCertificates()
        renewed = replace(trusted, note=presented.noting("sources.orders.amqp.url"))
        files = (own.certificate.read_bytes(), own.key.read_bytes())
        async with linked(replace(endpoint, tls=renewed), role()) as link:
            await link.up()
        own.key.write_text("no key", encoding="ascii")
        async with linked(replace(endpoint, tls=renewed), role()) as link:
            await link.up()
        for place, made in ((own.certificate, stranger.certificate), (own.key, stranger.key)):
            shutil.copyfile(made, place)
        async with linked(replace(endpoint, tls=renewed), role()) as link:
            await link.down()
        for place, octets in zip((own.certificate, own.key), files, strict=True):
            place.write_bytes(octets)
        async with linked(replace(endpoint, tls=renewed), role()) as link:
            await link.up()
        assert presented.ends().keys() == {presented_name("127.0.0.1", "sources.orders.amqp.url")}

        unknown = ClientTls(authority.own.certificate, stranger.certificate, stranger.key)
        async with linked(replace(endpoint, tls=unknown), role()) as link:
            said = await link.down()
        # The broker closes the connection, perhaps before its reason is read.
        assert "TLS failed" in said or "reset" in said
