"""What a test may leave behind in its process: nothing that another test would meet.

The state is compared around each test, after all fixtures that it does not share with others have ended. The
model is ``regrtest --fail-env-changed`` of CPython. So is what it holds: threads, child processes, open
descriptors. What belongs to a fixture that several tests share cannot be told from what belongs to one of
them: where a test uses such a fixture, only the state is compared (but for `SHARED_WITHOUT_HOLDINGS`).
"""

from __future__ import annotations

import contextlib
import gc
import locale
import logging
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from py4j.clientserver import ClientServerConnection
from py4j.java_gateway import GatewayConnection

from tests.components.forked_commands import own_descriptors
from tests.components.waiting import wait_until

_LIMITS: Final = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
_SIGNALS: Final = tuple(
    one for one in signal.Signals if one not in {signal.SIGKILL, signal.SIGSTOP, signal.SIGALRM}
)
"""Not those that have no handler, and that of pytest-timeout."""
_OF_PYTEST: Final = frozenset({"PYTEST_CURRENT_TEST"})
"""Variables that pytest itself sets for each phase of a test."""

State = Mapping[str, object]
Holdings = Mapping[tuple[str, int], str]
"""Threads, child processes and descriptors with their numbers, and what each is."""

SHARED_WITHOUT_HOLDINGS: Final = frozenset(
    {
        *("tmp_path_factory", "session_folder", "folder_of_indexes", "no_secret_is_left", "java_classes"),
        *("rabbitmq", "rabbitmq_brokers", "rabbitmq_release", "rabbitmq_settings"),
        "another_rabbitmq",  # nor does this one hold a connection
        *("event_loop_policy", "_session_scoped_runner", "pair_users"),
    }
)
"""Fixtures of longer life than a test of which this process holds nothing that a test could change."""
OF_SPARK: Final = (
    "handler of SIGINT",
    "sys.path",
    "variable PYSPARK_",
    "variable SPARK_",
    "variable PYTHONSAFEPATH",
)
"""The parts of the state that PySpark sets when a session starts; its fixture restores them at its end."""
_OF_OTHERS: Final = (
    "asyncio_",  # the executor of pytest's own loop, which ends after all fixtures of a test
    "execnet",
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",  # see tests/components/forked_commands.py
    "gateway/demo/keeper.py",  # of a broker that lives to the end of all tests, and is started on demand
    "/indexes0/",  # of `tests.components.served_rabbitmq`: closed when they are collected
    "/matplotlib/",  # its fonts
    "anon_inode:",
    "/dev/",
)
"""Parts of what a holding is that others begin for all tests when the first one needs it."""
_PY4J_PORTS: Final[set[int]] = set()
"""The ports of virtual machines of which Python may at any time let go what it had of them."""
_END_SECONDS: Final = 60.0
"""The maximum time in which what a test ended has to be gone, on a busy machine."""

MAX_PLACES: Final = 10_000
"""The maximum number of places for which `Openings` knows the test."""
_CONNECTED: Final = re.compile(r"fd=(\d+),[^>]* raddr=(\('[^']*', \d+)")
_NAMED: Final = re.compile(r"name='([^']+)'")


def _noting_port(connect: Callable[[Any], None]) -> Callable[[Any], None]:
    def noted(connection: Any) -> None:  # noqa: ANN401  of either kind
        _PY4J_PORTS.add(connection.port)
        connect(connection)

    return noted


# To Spark, to a bridge of JMX, or to the clients of the tests.
GatewayConnection.start = _noting_port(GatewayConnection.start)
ClientServerConnection.connect_to_java_server = _noting_port(ClientServerConnection.connect_to_java_server)


class Openings:
    """The tests in which files were opened, and sockets connected, for those that are never closed.

    They are collected, and a failure then, in any later test: until then none has their descriptors.
    """

    def __init__(self) -> None:
        self._tests: dict[str, str] = {}

    def begin(self) -> None:
        """Observe what is opened from now on, to the end of this process."""
        sys.addaudithook(self._observe)

    def _observe(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            place = str(arguments[0])
        elif event == "socket.connect" and isinstance(arguments[1], tuple):
            place = _of_socket(arguments[0].fileno(), str(arguments[1][:2]).removesuffix(")"))  # type: ignore[attr-defined]
        else:
            return
        self._tests.pop(place, None)
        self._tests[place] = os.environ.get("PYTEST_CURRENT_TEST", "no test")
        if len(self._tests) > MAX_PLACES:
            del self._tests[next(iter(self._tests))]

    def of(self, warning: str) -> list[str]:
        """Return lines with the tests in which the resources in the text of a warning were opened last."""
        connected = [_of_socket(*found) for found in _CONNECTED.findall(warning)]
        places = dict.fromkeys([*connected, *_NAMED.findall(warning)])
        return [
            f"{place} was opened last in {self._tests[place]}" for place in places if place in self._tests
        ]


def _of_socket(descriptor: int | str, peer: str) -> str:
    return f"the socket {descriptor} to {peer})"


def process_state() -> State:
    """Return the state of this process, by the name of what it is."""
    return {
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "umask": _umask(),
        "current folder": Path.cwd(),
        "time zone": time.tzname,
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion limit": sys.getrecursionlimit(),
        "sys.path": tuple(sys.path),
        "exception hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook),
        "handlers of the root logger": tuple(logging.getLogger().handlers),
        **{f"limit {name}": resource.getrlimit(number) for name, number in _LIMITS.items()},
        **{f"handler of {one.name}": signal.getsignal(one) for one in _SIGNALS},
        **{f"variable {name}": value for name, value in os.environ.items() if name not in _OF_PYTEST},
    }


def _umask() -> str:
    """Return the umask without setting it: other threads may make files just then."""
    status = _read("/proc/self/status")
    begin = status.index(b"Umask")
    return status[begin : status.index(b"\n", begin)].decode("ascii")


def _read(path: str) -> bytes:
    """Return what a file of the kernel contains: each test reads some, and `pathlib` takes thrice as long."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  see above
        return file.read()


def differences(before: State, after: State) -> list[str]:
    """Return a line for each part of the state that is not as it was."""
    return [
        f"{name}: {before.get(name, 'absent')!r} became {after.get(name, 'absent')!r}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


@contextlib.contextmanager
def left_as_it_was(*excepted: str) -> Iterator[None]:
    """Fail if the process is not left as it was entered; parts that begin as ``excepted`` are not compared.

    Raises:
        AssertionError: it is not; the text names each difference.
    """
    before = process_state()
    yield
    left = [line for line in differences(before, process_state()) if not line.startswith(excepted)]
    assert not left, "the test left behind:\n" + "\n".join(left)


class SharedPartEndedError(AssertionError):
    """What several tests share has ended: a test fails before its setup, and the next one gets a new part."""


class SharedFixtures:
    """A pytest plugin that knows the fixtures of longer life than a test that have been set up.

    It ends all of them where one is broken. pytest has no function for that, but ends them when told that no
    test follows.
    """

    def __init__(self) -> None:
        self._living: set[str] = set()
        self._is_one_broken = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Note that one begins."""
        if fixturedef.scope != "function" and fixturedef.argname not in SHARED_WITHOUT_HOLDINGS:
            self._living.add(fixturedef.argname)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Note that one has ended."""
        if fixturedef.scope != "function":
            self._living.discard(fixturedef.argname)

    def are_used(self, request: pytest.FixtureRequest) -> bool:
        """Return whether a test uses one of them."""
        return not self._living.isdisjoint(request.fixturenames)

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        """Note that a test met a broken one."""
        if call.excinfo is not None and isinstance(call.excinfo.value, SharedPartEndedError):
            self._is_one_broken = True

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """After a test that met a broken one, end all, also the session's: the next test makes them."""
        try:
            return (yield)
        finally:
            if self._is_one_broken:
                self._is_one_broken = False
                _end_all_fixtures(item)


def _end_all_fixtures(item: pytest.Item) -> None:
    plugins = item.config.pluginmanager
    others = plugins.get_plugins() - {plugins.get_plugin("runner")}
    plugins.subset_hook_caller("pytest_runtest_teardown", others)(item=item, nextitem=None)


def holdings() -> Holdings:
    """Return what this process holds."""
    held = {("thread", one.native_id or 0): one.name for one in threading.enumerate()}
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208  as `_read`
        with contextlib.suppress(OSError):  # the thread has just ended
            for child in _read(f"/proc/self/task/{task}/children").split():
                words = _read(f"/proc/{int(child)}/cmdline").split(b"\0")
                held["child process", int(child)] = b" ".join(words).decode(errors="replace")
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):  # it was that of the folder itself
            held["descriptor", int(number)] = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
    return held


@contextlib.contextmanager
def nothing_left_held(is_shared: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Fail if the process goes on to hold what was begun within the block, unless it ``is_shared``.

    Raises:
        AssertionError: it does; the text names each thread, child process and descriptor.
    """
    before = holdings()
    yield
    if is_shared():
        return
    # A collection of all that a worker has takes a tenth of a second, and most of what a test made is young.
    for generation in range(3):
        if not _begun(before):
            return
        gc.collect(generation)
    if any(_may_end(kind, what) for (kind, _), what in _begun(before).items()):
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not _begun(before), "what was begun has ended", _END_SECONDS)
    left = [f"{kind} {number}: {what}" for (kind, number), what in _begun(before).items()]
    assert not left, "the test goes on to hold:\n" + "\n".join(left)


def _may_end(kind: str, what: str) -> bool:
    """Return whether it may be just ending, unlike a file that nobody closes."""
    return kind != "descriptor" or what.startswith(("socket:", "pipe:"))


def _begun(before: Holdings) -> Holdings:
    of_others = own_descriptors()
    begun = {
        (kind, number): what
        for (kind, number), what in holdings().items()
        if before.get((kind, number)) != what
        and not any(part in what for part in _OF_OTHERS)
        and not (kind == "descriptor" and number in of_others)
    }
    return _without_py4j(begun) if any(what.startswith("socket:") for what in begun.values()) else begun


def _without_py4j(begun: Holdings) -> Holdings:
    """Say of sockets what they connect, and leave out those of Py4J, which opens one whenever it needs it."""
    alone = {psutil.CONN_LISTEN, psutil.CONN_CLOSE, psutil.CONN_NONE}
    peers = {one.fd: one.raddr for one in psutil.Process().net_connections("tcp") if one.status not in alone}
    return {
        (kind, number): f"{what} to {peers[number]}" if number in peers else what
        for (kind, number), what in begun.items()
        if not (kind == "descriptor" and number in peers and peers[number].port in _PY4J_PORTS)
    }
