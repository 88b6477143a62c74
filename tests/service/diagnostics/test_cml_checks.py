"""The findings about a source of kind cml before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.config.sources import CmlSource
from gateway.dialects.cml.codec import write_message
from gateway.dialects.cml.messages import InspectReply, Message, SchemaReply, Spelling, Status
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.service.diagnostics.checks import check_source
from gateway.service.diagnostics.source_checks import ask_schema
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.cached_schemas import schema_document
from tests.components.amqp_peer import AmqpPeer, Reply, Request, silence
from tests.components.open_amq import open_amq, recorded_schema, serving
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost


def _source(port: int, folder: Path, **more: Any) -> CmlSource:  # noqa: ANN401  of a configuration
    path = folder / "password"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text("super", encoding="utf-8")
    amqp = {"url": f"amqp://127.0.0.1:{port}", "user": "super", "password": {"file": "password"}}
    amqp |= more.pop("amqp", {})
    return CmlSource.model_validate({"kind": "cml", "amqp": amqp, **more})


async def _reported(source: CmlSource, folder: Path) -> list[str]:
    reported: list[str] = []
    await check_source("orders", source, folder, reported.append)
    return reported


async def _refused(source: CmlSource, folder: Path) -> tuple[ExitCode, str]:
    with pytest.raises(CommandError) as caught:
        await _reported(source, folder)
    return caught.value.code, str(caught.value)


def _says(message: Message) -> Any:  # noqa: ANN401  a script of the peer
    def script(request: Request) -> Iterable[Reply]:
        yield Reply(request.properties.reply_to or "", write_message(message, Spelling.OPENAMQ))

    return script


async def test_an_openamq_reports_its_schema(tmp_path: Path) -> None:
    async with open_amq() as (_, peer):
        schema, private = await _reported(_source(peer.port, tmp_path), tmp_path)
        assert not peer.complaints
        assert [request.mandatory for request in peer.requests] == [True]
    assert schema.endswith("(virtual host '/', user 'super'): openamq.org/server 1.0, 9 classes")
    assert private == "connections and private queues are not shown ('short_lived')"


async def test_another_schema_than_the_file_has_is_said(tmp_path: Path) -> None:
    other = SchemaReply(Status.OK, "openamq.org/server", "0.9", recorded_schema().classes)
    (tmp_path / "schema.xml").write_text(schema_document(other), encoding="utf-8")
    async with open_amq() as (_, peer):
        source = _source(peer.port, tmp_path, schema_file="schema.xml", short_lived="second-listing")
        _, differs = await _reported(source, tmp_path)
        (tmp_path / "schema.xml").write_text(schema_document(recorded_schema()), encoding="utf-8")
        assert len(await _reported(source, tmp_path)) == 1
    assert differs.startswith("'schema_file' has openamq.org/server 0.9: the broker's own is used")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No such file or directory"),
        ("<cml><schema-reply status='noaccess'/></cml>", "expected a schema-reply with classes"),
        ("nothing", "expected nothing but blanks outside the root"),
    ],
)
async def test_a_schema_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: str | None, complaint: str
) -> None:
    path = tmp_path / "schema.xml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    code, reported = await _refused(_source(1, tmp_path, schema_file="schema.xml"), tmp_path)
    assert code is ExitCode.CONFIGURATION
    assert reported.startswith(f"{path}: 'schema_file' cannot be used: ")
    assert complaint in reported


async def test_a_broker_that_is_away_is_unreachable(tmp_path: Path) -> None:
    code, reported = await _refused(_source(free_tcp_port(), tmp_path), tmp_path)
    assert (code, "nothing listens there" in reported) == (ExitCode.UNREACHABLE, True)


async def test_a_server_that_is_silent_is_unreachable(tmp_path: Path) -> None:
    async with AmqpPeer(silence) as peer:
        code, reported = await _refused(_source(peer.port, tmp_path, request_deadline="1s"), tmp_path)
    assert code is ExitCode.UNREACHABLE
    assert reported.endswith("no answer to a schema-request within 1 s: is a server of CML running there?")


async def test_a_user_without_rights_is_reported_so(tmp_path: Path) -> None:
    async with AmqpPeer(_says(SchemaReply(Status.NO_ACCESS))) as peer:
        code, reported = await _refused(_source(peer.port, tmp_path), tmp_path)
    assert code is ExitCode.FORBIDDEN
    assert reported.endswith("user 'super' may not see the schema: give it a user that may read")


async def test_what_answers_with_something_else_is_no_server_of_cml(tmp_path: Path) -> None:
    async with AmqpPeer(_says(InspectReply(Status.NOT_FOUND))) as peer:
        code, reported = await _refused(_source(peer.port, tmp_path), tmp_path)
    assert code is ExitCode.FAILED
    assert reported.endswith("it does not send its schema: is this a server of CML?")


async def test_what_answers_with_no_document_is_no_server_of_cml(tmp_path: Path) -> None:
    def script(request: Request) -> Iterable[Reply]:
        yield Reply(request.properties.reply_to or "", b"hello")

    async with AmqpPeer(script) as peer:
        code, reported = await _refused(_source(peer.port, tmp_path), tmp_path)
    assert (code, "what it answers is no CML" in reported) == (ExitCode.FAILED, True)


async def test_what_a_rabbitmq_lacks_is_said_with_what_makes_it(
    tmp_path: Path, virtual_host: VirtualHost
) -> None:
    broker = virtual_host.broker
    (tmp_path / "password").write_text(broker.administrator.password, encoding="utf-8")
    (tmp_path / "password").chmod(0o600)
    amqp = {"vhost": virtual_host.name, "user": broker.administrator.name}
    source = _source(broker.ports.amqp, tmp_path, amqp=amqp)
    code, reported = await _refused(source, tmp_path)
    assert (code, "no exchange 'amq.notify'" in reported) == (ExitCode.MISSING, True)
    assert reported.endswith("amqp-gateway provision-cml makes what is missing on a RabbitMQ")

    named = {"system_exchange": "shop.system", "notify_exchange": None}
    source = _source(broker.ports.amqp, tmp_path, amqp=amqp, **named)
    code, reported = await _refused(source, tmp_path)
    assert (code, "no exchange 'shop.system'" in reported) == (ExitCode.MISSING, True)

    with virtual_host.http() as http:
        http.put(f"exchanges/{virtual_host.path}/shop.system", json={"type": "direct"}).raise_for_status()
    code, reported = await _refused(source, tmp_path)
    assert code is ExitCode.MISSING
    assert (
        "no server receives requests to shop.system with the key amq.console: no queue is bound there"
        in reported
    )

    user = broker.administrator
    endpoint = AmqpEndpoint(
        f"amqp://127.0.0.1:{broker.ports.amqp}", virtual_host.name, user.name, SecretStr(user.password)
    )
    async with serving(endpoint, system_exchange="shop.system"):
        assert await ask_schema(endpoint, source) == recorded_schema()
