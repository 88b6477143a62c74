"""Unix sockets at a path: long paths, abandoned sockets, other users, a file that is in the way."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gateway.local_sockets import (
    MAX_PATH_OCTETS,
    SocketServer,
    bound_listener,
    connected,
    file_at,
    trouble_at,
)
from tests.components.waiting import wait_until

LONG = Path("a" * 100) / ("b" * 200) / "feed.sock"
OTHER = 65534
"""The number of another user."""

for_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


async def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"here")
    writer.close()


@pytest.mark.parametrize("name", [Path("feed.sock"), LONG], ids=["short", "long"])
async def test_a_path_of_any_length_is_listened_on_and_reached(tmp_path: Path, name: Path) -> None:
    path = tmp_path / name
    server = SocketServer(path, say)
    await server.start()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    reader, writer = await connected(path, 100)
    assert await reader.read() == b"here"
    writer.close()
    await writer.wait_closed()
    server.close()
    assert not path.exists()


async def test_a_name_that_alone_is_too_long_is_said(tmp_path: Path) -> None:
    path = tmp_path / ("a" * MAX_PATH_OCTETS)
    assert trouble_at(path) == "the name of a socket has at most 85 bytes, this one 107"
    with pytest.raises(OSError, match="at most 85 bytes, this one 107"):
        bound_listener(path)


async def test_what_is_connected_stays_when_the_server_moves_to_another_socket(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    path = tmp_path / "f.sock"
    server = SocketServer(path, echo)
    await server.start()
    reader, writer = await connected(path, 100)
    path.unlink()
    server.move(bound_listener(path))
    again, other = await connected_at_last(path)
    for each, ways in ((writer, reader), (other, again)):
        each.write(b"here\n")
        assert await ways.readline() == b"here\n"
        each.close()
        await each.wait_closed()
        assert await ways.read() == b""
    server.close()


async def connected_at_last(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket that listens from the next turn of the loop on."""
    while True:
        try:
            return await connected(path, 100)
        except ConnectionRefusedError:
            await asyncio.sleep(0)


def test_a_socket_on_which_nothing_listens_any_more_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(path))
        with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))
        before = file_at(path)
        with bound_listener(path):
            assert file_at(path) not in {None, before}


def test_the_file_of_an_open_socket_is_known_by_a_number_that_no_other_has(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(path))
        file = file_at(path)
        os.utime(path)
        path.chmod(0o660)
        assert file_at(path) == file is not None
        for _ in range(100):
            path.unlink()
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(path))
                assert file_at(path) != file


def test_a_socket_in_use_and_a_file_are_left_as_they_are(tmp_path: Path) -> None:
    used, file = tmp_path / "used.sock", tmp_path / "notes.txt"
    file.write_text("of the user")
    with bound_listener(used) as first:
        first.listen()
        for path, reason in ((used, "another process listens there"), (file, "that is no socket")):
            with pytest.raises(OSError, match=reason):
                bound_listener(path)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(used))
        assert file.read_text() == "of the user"
        assert trouble_at(file) == "something is there that is no socket"
        assert trouble_at(used) == "another process listens there"
        assert trouble_at(used, ours=file_at(used)) == ""
    assert trouble_at(used) == "", "on which nothing listens any more"


_LISTENER = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
listener = socket.socket(fileno=int(sys.argv[2]))
listener.listen()
print("listens", flush=True)
while True:
    listener.accept()[0].send(b"secret")
"""


@for_root
async def test_a_process_of_another_user_at_the_path_is_not_listened_to(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"
    with bound_listener(path) as listener:
        words = [sys.executable, "-c", _LISTENER, str(OTHER), str(listener.fileno())]
        other = subprocess.Popen(words, pass_fds=[listener.fileno()], stdout=subprocess.PIPE)  # noqa: ASYNC220, S603  of this test
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"listens\n"
        with pytest.raises(PermissionError, match="a process of another user listens there"):
            await connected(path, 100)
        other.kill()
    wait_until(lambda: other.poll() is not None, "it has ended")


@for_root
def test_a_folder_that_the_user_cannot_write_is_said_before_the_start() -> None:
    assert trouble_as_other("/run/of-root/feed.sock") == "this user cannot write in /run\n"


@for_root
def test_a_socket_of_another_user_is_said_before_the_start() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        with bound_listener(Path(folder) / "f.sock"):
            assert trouble_as_other(f"{folder}/f.sock") == "a socket of another user is there\n"


def trouble_as_other(path: str) -> str:
    asking = "import os, sys; from pathlib import Path; from gateway.local_sockets import trouble_at\n"
    asking += "os.setuid(int(sys.argv[1])); print(trouble_at(Path(sys.argv[2])))"
    words = [sys.executable, "-c", asking, str(OTHER), path]
    said = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603  of this test
    return said.stdout
