"""A command's conversation with a core of these tests, over a real socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from gateway.feed.messages import VERSION
from gateway.feed.operations import ReadFresh
from gateway.feed.records import Batch, Hello, Interest
from gateway.feed.server import FeedServer
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from gateway.service.diagnostics.feed_session import feed_session, not_reached, principal
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.view import Changed, CoreChanged, Created, ObjectKey
from tests.components.policy import UNRESTRICTED
from tests.components.shop import GATEWAY_ID, START, update
from tests.components.waiting import DEADLINE, eventually
from tests.terminal.reported import KNOWN, till

FIRST = ObjectKey(1, "shop:till", 1)


@asynccontextmanager
async def core(path: Path, *records: object, epoch: int = 1) -> AsyncIterator[FeedServer]:
    """Provide a core whose snapshot contains these records besides those that every snapshot begins with."""
    reported = (UNRESTRICTED, *KNOWN, *records)
    server = FeedServer(path, Hello(VERSION, epoch, GATEWAY_ID, START), lambda: (reported, 1))  # type: ignore[arg-type,return-value]
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def test_all_is_known_once_it_was_reported(tmp_path: Path) -> None:
    async with core(tmp_path / "feed", till(1)), feed_session(tmp_path / "feed") as session:
        assert session.view.is_whole
        assert session.view.objects[FIRST].value("sales") == 7


async def test_what_happens_is_reported_also_of_another_core(tmp_path: Path) -> None:
    path = tmp_path / "feed"
    async with asyncio.timeout(DEADLINE), core(path, till(1)) as first, feed_session(path) as session:
        async with aclosing(session.changes()) as changes:
            coming = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            first.publish(Batch(1, 2, (update(1, {3: 8}),)))
            changed = await coming
            assert isinstance(changed, Changed)

            await first.close()
            gone = await anext(changes)
            assert isinstance(gone, CoreChanged)
            assert gone.reason
            async with core(path, till(1), till(2), epoch=2):
                kinds = [type(await anext(changes)) for _ in range(3)]
                assert kinds == [Changed, Created, CoreChanged]
        assert session.core_ended


async def test_a_core_that_takes_no_operations_says_so(tmp_path: Path) -> None:
    async with core(tmp_path / "feed", till(1)), feed_session(tmp_path / "feed") as session:
        known = session.view.objects[FIRST]
        assert (await session.ask(known, ReadFresh(), SECOND)).outcome is Outcome.NOT_NOW


async def test_a_core_that_is_gone_is_asked_nothing(tmp_path: Path) -> None:
    async with core(tmp_path / "feed", till(1)) as server, feed_session(tmp_path / "feed") as session:
        known = session.view.objects[FIRST]
        await server.close()

        async def has_ended() -> bool:
            return session.core_ended

        await eventually(has_ended, "the core's end is noticed")
        assert (await session.ask(known, ReadFresh(), SECOND)).outcome is Outcome.SOURCE_DOWN


async def test_a_gateway_that_does_not_run_is_reported_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "feed"
    with pytest.raises(CommandError) as refused:
        async with feed_session(path):
            pass
    assert refused.value.code is ExitCode.UNREACHABLE
    assert str(refused.value).endswith("is `amqp-gateway run` running with this configuration?")
    assert str(path) in str(refused.value)


async def test_what_listens_there_and_is_no_core_is_no_gateway(tmp_path: Path) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_unix_server(hang_up, tmp_path / "feed"):
        with pytest.raises(CommandError) as refused:
            async with feed_session(tmp_path / "feed"):
                pass
    assert refused.value.code is ExitCode.UNREACHABLE


def test_who_asks_is_the_user_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    who = principal()
    assert (who.front_end, who.origin) == ("cli", f"process {os.getpid()}")
    monkeypatch.setenv("SUDO_USER", "alice")
    assert principal().origin.endswith(", by sudo of alice")
    monkeypatch.setenv("SUDO_USER", "a\x1b[2J")
    assert principal().origin == f"process {os.getpid()}"


async def test_a_subscriber_to_one_object_does_not_receive_very_many_others(tmp_path: Path) -> None:
    tills = [till(number) for number in range(1, 5_000)]
    interest = Interest(rows=((1, 4_321),))
    async with core(tmp_path / "feed", *tills), feed_session(tmp_path / "feed", interest) as session:
        assert ObjectKey(1, "shop:till", 4_321) in session.view.objects
        assert len(session.view.objects) < len(tills) / 2, "some went before the core knew what is wanted"


@pytest.mark.parametrize(("folder", "advised"), [("/", False), ("/proc/1", True)])
def test_another_user_is_named_only_where_a_folder_hides_what_is_in_it(
    folder: str, monkeypatch: pytest.MonkeyPatch, *, advised: bool
) -> None:
    """The folder of a socket that is not there, such as /tmp, may be of any user."""
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    lstat = Path.lstat

    def hidden(path: Path) -> os.stat_result:
        if path.name == "feed.sock" and folder == "/proc/1":
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", hidden)
    error = not_reached(Path(folder, "feed.sock"), "no such file")
    assert ("try sudo -u root" in str(error)) is advised
