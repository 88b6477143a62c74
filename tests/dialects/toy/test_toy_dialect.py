"""A dialect of three words, added as docs/development.md says: driven, captured, replayed and run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock import SystemClock
from gateway.dialects.errors import ProtocolError
from gateway.dialects.session import Delivery, EventNotTakenError, LinkDown, LinkUp, Listening, TimerExpired
from gateway.links.capture import CapturedSession
from gateway.links.replay import replay
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import AgentLost, ObjectSeen, Observation, SourceState, SourceStateSeen
from gateway.model.operations import Answer, ObjectFetch, Outcome
from gateway.model.times import SECOND
from gateway.service.processes.exit_codes import ExitCode
from tests.components.background import background
from tests.components.command_line import Site, new_site
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import wait_until
from tests.dialects.toy.console import LAMP, ToyConsole, read, write
from tests.dialects.toy.installation import ROOT, ToyGateway, changed_files
from tests.links.captures import START, Seen, capture_file, reading


def seen(name: str, at: int, *, lit: bool) -> ObjectSeen:
    return ObjectSeen(LAMP.key, "toy", name, at, 0, 0, (name,), (lit,))


@given(st.dictionaries(st.text("abc ", min_size=1), st.booleans()))
def test_what_is_written_is_read(lamps: dict[str, bool]) -> None:
    assert read(write(lamps)) == lamps


@given(st.binary())
def test_any_bytes_are_lamps_or_one_error(body: bytes) -> None:
    try:
        read(body)
    except ProtocolError:
        return


def test_a_toy_dialect_is_captured_and_replayed(tmp_path: Path) -> None:
    session = CapturedSession(ToyConsole(), capture_file(tmp_path / "toys.jsonl"))
    session.handle(LinkUp("q"), START)
    session.handle(Delivery("toys", "q", b"hall on\ncellar off"), START + 1)
    session.handle(TimerExpired(), START + SECOND)
    session.handle(LinkDown("it broke"), START + 2 * SECOND)

    again = Seen()
    outcome = replay(reading(tmp_path / "toys.jsonl"), ToyConsole(), again)

    assert (outcome.events, outcome.same, outcome.different) == (4, 2, 0)
    assert [one for one in again.observations if isinstance(one, ObjectSeen)] == [
        seen("hall", START + 1, lit=True),
        seen("cellar", START + 1, lit=False),
    ]
    assert again.observations[-2:] == [AgentLost("toy"), SourceStateSeen(SourceState.DOWN, "it broke")]


async def test_a_toy_dialect_is_driven() -> None:
    observed: list[Observation] = []
    answers: list[Answer] = []
    driver = MessageDriver("toys", ToyConsole(), observed.extend, SystemClock(), Counter(), answers.append)
    driver.handle(LinkUp("q"))
    assert (await driver.next_send()).body == b"lamps?"
    driver.deliver(Delivery("toys", "q", b"hall on"))
    driver.handle(ObjectFetch(7, LAMP.key, "toy", "hall", 2**62))
    driver.stop()
    assert [one.native_id for one in observed if isinstance(one, ObjectSeen)] == ["hall"]
    assert [(one.token, one.outcome) for one in answers] == [(7, Outcome.NOT_NOW)]


def test_an_event_of_another_transport_is_refused() -> None:
    with pytest.raises(EventNotTakenError, match="ToyConsole takes no Listening"):
        ToyConsole().handle(Listening(), START)


@asynccontextmanager
async def hall(url: str, lamps: dict[str, bool]) -> AsyncIterator[dict[str, bool]]:
    """Answer questions about these lamps, which the test may change, until the end of the block."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        toys = await channel.declare_exchange("toys", aio_pika.ExchangeType.TOPIC, durable=True)
        questions = await channel.declare_queue(exclusive=True)
        await questions.bind(toys, "lamps")

        async def answer(question: AbstractIncomingMessage) -> None:
            await toys.publish(aio_pika.Message(write(lamps)), question.reply_to or "")

        await questions.consume(answer, no_ack=True)
        yield lamps


def of_hall(virtual_host: VirtualHost) -> Callable[[], AbstractAsyncContextManager[dict[str, bool]]]:
    return lambda: hall(virtual_host.amqp_url(), {"hall": True, "cellar": False})


def toy_site(folder: Path, virtual_host: VirtualHost) -> Site:
    """Return a configuration with a source of the toy dialect."""
    site, broker = new_site(folder), virtual_host.broker
    amqp = {
        "url": f"amqp://127.0.0.1:{broker.ports.amqp}",
        "vhost": virtual_host.name,
        "user": broker.administrator.name,
        "password": site.secret(broker.administrator.password),
    }
    site.configure(sources={"house": {"kind": "toy", "amqp": amqp}}, log={"compact": False})
    return site


def test_the_gateway_runs_a_dialect_that_was_added_by_the_list(
    tmp_path: Path, virtual_host: VirtualHost
) -> None:
    toy, site = ToyGateway(tmp_path / "copy"), toy_site(tmp_path, virtual_host)

    def run(*words: str | Path) -> str:
        done = toy.command(*words, "--config", site.configuration)
        assert done.code is ExitCode.OK, done.errors
        return done.output

    def value(lamp: str) -> object:
        done = toy.command("get", f"house/lamp/{lamp}", "--json", "--config", site.configuration)
        return json.loads(done.output)["values"]["lit"] if done.code is ExitCode.OK else done.code

    with background(of_hall(virtual_host)) as there:
        assert "source house: reached" in run("check", "--connect")
        run("source", "capture", "house", "--for", "3s", "--out", tmp_path / "house.jsonl")
        assert "lamp" in run("source", "replay", tmp_path / "house.jsonl")
        (tmp_path / "body").write_bytes(write({"hall": True}))
        assert "hall: true" in toy.command("decode", "--dialect", "toy", tmp_path / "body").output
        with toy.running("run", "--config", site.configuration, log=tmp_path / "log.txt") as gateway:
            gateway.ready()
            wait_until(lambda: value("hall") is True, "the lamp in the hall is lit")
            assert value("cellar") is False
            there.is_["cellar"] = True
            wait_until(lambda: value("cellar") is True, "the lamp in the cellar is lit, too")
            del there.is_["hall"]
            wait_until(lambda: value("hall") is ExitCode.NOT_FOUND, "the lamp in the hall is gone")


def test_the_list_names_every_file() -> None:
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    steps = page.partition("## Adding a dialect")[2].partition("\n## ")[0].replace("NAME", "toy")
    named = set(re.findall(r"`([\w/.]+)`", steps))
    assert {path for path in changed_files() if not path.endswith("__init__.py")} <= named
