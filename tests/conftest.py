"""Fixtures that start real components; see `tests.components`."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.demo.installation import RELEASES, debian_release
from gateway.service.processes.process_setup import tune_garbage_collection
from tests import hypothesis_profiles
from tests.components.leaks import LEAKED, as_it_is, leaked_below
from tests.components.rabbitmq import (
    INSTALLED,
    TEST_SETTINGS,
    SharedBrokers,
    VirtualHost,
    new_virtual_host,
    releases,
)
from tests.hypothesis_profiles import PROVING
from tests.jmx_java.client_machine import SharedMachine, compiled_clients
from tests.process_state import OF_SPARK, SharedFixtures, left_as_it_was, nothing_left_held

pytest_plugins = ["tests.second_run", "tests.components.command_line"]

hypothesis_profiles.load()

LONGEST_NAME = 60
"""The maximum number of characters of one parameter in a test's name."""


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment that commands under test inherit.

    Ctrl-C ends them, also where a shell started the tests in the background. Spark starts as suits few rows.
    """
    for plugin in (_SHARED, _BROKERS):
        config.pluginmanager.register(plugin)
    # It logs tracebacks on a thread of its own, of which Python 3.11 parses the lines. While pytest parses a
    # file for its report, that is an error of the interpreter (CPython's issue 106905), and ends a worker.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "components" / "spark")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that selects one release of RabbitMQ for all tests."""
    parser.addoption("--rabbitmq", choices=tuple(RELEASES), help="run tests on this RabbitMQ only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked as ``each_rabbitmq`` on each release of RabbitMQ, or on the chosen one."""
    marker = metafunc.definition.get_closest_marker("each_rabbitmq")
    if marker is not None and "rabbitmq_release" in metafunc.fixturenames:
        names = releases(**marker.kwargs, chosen=metafunc.config.getoption("rabbitmq"))
        metafunc.parametrize("rabbitmq_release", names, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of proofs; begin with long tests and groups: no worker is to be alone at the end.

    They begin in this order with ``--no-loadscope-reorder`` only: else pytest-xdist has its own.
    """
    if not PROVING:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("prove")])
        items[:] = [item for item in items if not item.get_closest_marker("prove")]
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if item.get_closest_marker("long") is not None:
        return 0
    return 1 if item.get_closest_marker("xdist_group") is not None else 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the test modules before the others, where all are collected by several workers.

    Each module is then compiled, with its assertions rewritten, by one worker rather than by all of them.
    """
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    root = session.config.rootpath
    number, workers = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
    for path in sorted((root / "tests").rglob("test_*.py"))[number::workers]:
        with contextlib.suppress(Exception):  # collection reports what is wrong
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text or body by its beginning: names travel with each report, and are printed."""
    if not isinstance(val, str | bytes) or len(val) <= LONGEST_NAME:
        return None
    text = val.decode("latin-1") if isinstance(val, bytes) else val
    return f"{argname} of {len(val)} beginning with {text[:LONGEST_NAME]}"


def pytest_collection_finish() -> None:
    """Collect garbage as a process of the gateway does: not from all tests and modules again and again."""
    tune_garbage_collection()


def pytest_unconfigure() -> None:
    """Unfreeze all objects: DuckDB complains at the end of a process of objects that are not collected."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def log_is_as_at_first() -> None:
    """Undo what a command that an earlier test called in this process configured: its level hides the log."""
    if structlog.get_config()["wrapper_class"] is not _LOGGER_AT_FIRST:
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()


_LOGGER_AT_FIRST = structlog.get_config()["wrapper_class"]


_SHARED = SharedFixtures()
_BROKERS = SharedBrokers()


@pytest.fixture(autouse=True)
def process_is_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare the process around a test, and the fixtures that are its own."""
    of_spark = OF_SPARK if "shared_spark" in request.fixturenames else ()
    with left_as_it_was(*of_spark), nothing_left_held(lambda: _SHARED.are_used(request)):
        yield
        # What fixtures returned is else referred to until the test's last report is made.
        getattr(request.node, "funcargs", {}).clear()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder for a test; at its end no secret of a gateway in it is outside of its place."""
    yield tmp_path
    assert leaked_below(tmp_path) == [], LEAKED


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Check the folders of several tests at the end of the session, as `tmp_path` does with that of one.

    Secrets of one folder are searched for in files of others only as they are: all their forms take a minute.
    """
    yield
    everything = tmp_path_factory.getbasetemp()
    found = [leak for folder in everything.iterdir() if folder.is_dir() for leak in leaked_below(folder)]
    assert [*found, *leaked_below(everything, as_it_is)] == [], LEAKED


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder that all workers of this test session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def rabbitmq_release(request: pytest.FixtureRequest) -> str:
    """Return the release for a test: one of `gateway.demo.installation.RELEASES`, or `INSTALLED`."""
    release: str = getattr(request, "param", None) or request.config.getoption("rabbitmq") or INSTALLED
    return release


@pytest.fixture(scope="session")
def rabbitmq_brokers(session_folder: Path) -> Iterator[Callable[[str], PrivateBroker]]:
    """The session's RabbitMQ of each release; they live to its end, whichever tests come when."""
    with _BROKERS.of_session(session_folder) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def rabbitmq(rabbitmq_brokers: Callable[[str], PrivateBroker], rabbitmq_release: str) -> PrivateBroker:
    """The session's RabbitMQ, with the event exchange; leave it running, and as it was found."""
    return rabbitmq_brokers(rabbitmq_release)


@pytest.fixture
def virtual_host(rabbitmq: PrivateBroker) -> Iterator[VirtualHost]:
    """A virtual host of the session's RabbitMQ for this test alone."""
    with new_virtual_host(rabbitmq) as vhost:
        yield vhost


@pytest.fixture(scope="session")
def rabbitmq_settings(rabbitmq_release: str) -> BrokerSettings:
    """Settings for a `PrivateBroker` of the release that a test runs on."""
    return replace(TEST_SETTINGS, debian=debian_release(rabbitmq_release))


@pytest.fixture
def start_rabbitmq(rabbitmq_settings: BrokerSettings) -> Iterator[Callable[[BrokerSettings], PrivateBroker]]:
    """Provide a function that starts a RabbitMQ with the given settings; it ends with the test."""
    debian = rabbitmq_settings.debian
    with ExitStack() as brokers:
        yield lambda settings: brokers.enter_context(PrivateBroker(settings=replace(settings, debian=debian)))


@pytest.fixture
def own_rabbitmq(start_rabbitmq: Callable[[BrokerSettings], PrivateBroker]) -> PrivateBroker:
    """A RabbitMQ for this test alone: to be killed, alarmed, or counted on."""
    return start_rabbitmq(TEST_SETTINGS)


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the compiled classes of Java clients (``tests/jmx_java/java``)."""
    return compiled_clients(tmp_path_factory.mktemp("java-clients"))


@pytest.fixture(scope="session")
def java_machine(java_classes: Path) -> Iterator[SharedMachine]:
    """The virtual machine of Java clients that tests share; it starts when a test asks for clients."""
    shared = SharedMachine(java_classes)
    yield shared
    shared.end()


@pytest.fixture
def java_client(java_machine: SharedMachine) -> Any:  # noqa: ANN401  lives in Java
    """Return the Java class ``Client``, in a virtual machine that answers."""
    return java_machine.clients()


@pytest.fixture(scope="session", autouse=True)
def folder_of_indexes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set the folder of `ServedRabbitMq`: a worker ends without finalizers, and no file may stay."""
    os.environ["AMQP_GATEWAY_TEST_INDEXES"] = str(tmp_path_factory.mktemp("indexes"))
