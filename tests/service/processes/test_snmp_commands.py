"""Commands between their owners and the core."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from gateway.config.files import load_configuration
from gateway.config.snmp import CommandSettings, SnmpSettings, SnmpWriter
from gateway.feed.client import FeedLink
from gateway.feed.messages import VERSION
from gateway.feed.operations import InvokeMethod, OperationAnswer
from gateway.feed.records import Hello
from gateway.feed.server import FeedServer
from gateway.mapping.rules import ClassRule, Mapping, MethodArgumentRule, MethodRule
from gateway.model.operations import Outcome, Principal
from gateway.model.values import ValueType
from gateway.service.processes.snmp import Commands
from gateway.service.processes.snmp_secrets import CommandSecrets, secret_arguments
from gateway.service.state.running_configuration import note_reload, note_running, running_configuration
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import RowStatus, Submission
from gateway.snmp.fixed_mib import COMMAND_ENTRY, COMMANDS, CommandColumn, CommandScalar, OutcomeNumber
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import MibView
from gateway.snmp.written_values import Assignment
from gateway.state_folder import RUNNING_FILES
from tests.components.command_line import new_site
from tests.components.policy import UNRESTRICTED
from tests.components.scripted_operations import ScriptedOperations, nothing
from tests.components.shop import agent, hall, source
from tests.components.waiting import eventually
from tests.feed.test_server import Recorder
from tests.snmp.mib.shop import ROOT, TILL_ENTRY, Gateway, classes, till

DEADLINE = 10 * 10**9
OWNERS_ONLY = CommandSettings()
ANNA, BERT = "anna", "bert"
INDEX: Oid = (4, *b"anna", 1, *b"c")
ENTRY: Oid = (*ROOT, *COMMAND_ENTRY)
OUTCOME = (*ENTRY, CommandColumn.OUTCOME, *INDEX)


class Site:
    """The command table over a shop, connected to a feed that answers as a test says."""

    def __init__(self, path: Path, settings: CommandSettings) -> None:
        self.operations = ScriptedOperations()
        hello = Hello(VERSION, 1, "gw", 0)
        self.feed = FeedServer(path, hello, lambda: ((), 5), asked=self.operations.asked)
        self.link = FeedLink(path, Recorder())
        self.gateway = Gateway()
        self.gateway.hello()
        self.gateway.snapshot(UNRESTRICTED, source(), *classes(), agent(fresh=True), hall(), till(1))
        writers = {ANNA: SnmpWriter(), BERT: SnmpWriter()}
        self.commands = Commands(
            SnmpSettings(writers=writers, commands=settings),
            ROOT,
            self.gateway.store,
            self.gateway.projection,
            Submission(self.gateway.projection, secret_arguments(()), DEADLINE),
            self.link.ask,
            lambda: self.gateway.now,
        )
        self.gateway.projection.views.settle()

    def submit(self) -> None:
        cells = {
            CommandColumn.TARGET: ber.encode_oid((*TILL_ENTRY, RowColumn.NAME, 1, 1)),
            CommandColumn.METHOD: ber.encode_octets(b"close"),
            CommandColumn.ROW_STATUS: ber.encode_integer(RowStatus.CREATE_AND_GO),
        }
        assignments = [
            Assignment(number, (*ENTRY, column, *INDEX), value)
            for number, (column, value) in enumerate(cells.items(), 1)
        ]
        principal = Principal("snmp", ANNA, "192.0.2.1:40000")
        assert self.commands.table.test(principal, assignments) is None
        self.commands.table.commit(principal, assignments, "set")

    async def until_ended(self) -> None:
        async def has_ended() -> bool:
            return read(self.commands.view(ANNA), OUTCOME) != ber.NO_SUCH_INSTANCE

        await eventually(has_ended, "an outcome")


def read(view: MibView, name: Oid) -> bytes:
    return view.read(ber.encode_name(name))


@contextlib.asynccontextmanager
async def running(tmp_path: Path, settings: CommandSettings = OWNERS_ONLY) -> AsyncIterator[Site]:
    site = Site(tmp_path / "f.sock", settings)
    await site.feed.start()
    following = asyncio.create_task(site.link.run())

    async def is_connected() -> bool:
        return site.link.is_connected

    await eventually(is_connected, "a connection")
    try:
        yield site
    finally:
        await site.commands.close()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await site.feed.close()


async def test_what_is_submitted_reaches_the_core_and_its_answer_the_owner(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = lambda _: OperationAnswer(0, "gw.1.o7", Outcome.REFUSED, "not allowed")
        site.submit()
        await site.until_ended()
        (request,) = site.operations.requests
        assert request.principal == Principal("snmp", ANNA, "192.0.2.1:40000")
        assert (request.source, request.class_name, request.row) == (1, "shop:till", 1)
        assert request.action == InvokeMethod("close")
        assert (request.timeout, request.check_only) == (DEADLINE, False)
        refused = ber.encode_integer(OutcomeNumber.REFUSED)
        assert read(site.commands.view(ANNA), OUTCOME) == refused


async def test_a_core_that_is_not_there_is_reported_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        await site.feed.close()

        async def is_gone() -> bool:
            return not site.link.is_connected

        await eventually(is_gone, "the end of the connection")
        site.submit()
        await site.until_ended()
        assert read(site.commands.view(ANNA), OUTCOME) == ber.encode_integer(OutcomeNumber.SOURCE_DOWN)


async def test_a_core_that_ends_leaves_an_unknown_outcome(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        site.submit()
        await site.operations.until_asked(1)
        await site.feed.close()
        await site.until_ended()
        assert read(site.commands.view(ANNA), OUTCOME) == ber.encode_integer(OutcomeNumber.UNKNOWN)


async def test_the_end_of_the_process_waits_for_no_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        site.submit()
        await site.operations.until_asked(1)


async def test_a_command_is_seen_by_its_owner_only(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.submit()
        await site.until_ended()
        shown = site.gateway.store.get
        assert read(site.commands.view(BERT), OUTCOME) == ber.NO_SUCH_INSTANCE
        assert shown(OUTCOME) == ber.NO_SUCH_OBJECT
        scalar = (*ROOT, *COMMANDS, CommandScalar.COUNT, 0)
        assert read(site.commands.view(ANNA), scalar) == shown(scalar) == ber.encode_gauge32(1)
        till_name = (*TILL_ENTRY, RowColumn.NAME, 1, 1)
        assert read(site.commands.view(ANNA), till_name) == shown(till_name)


async def test_a_command_is_seen_by_all_where_that_is_configured(tmp_path: Path) -> None:
    async with running(tmp_path, CommandSettings(shown_to_all=True)) as site:
        site.submit()
        await site.until_ended()
        applied = ber.encode_integer(OutcomeNumber.APPLIED)
        for view in (site.commands.view(ANNA), site.commands.view(BERT), site.gateway.store):
            assert read(view, OUTCOME) == applied


def test_secret_arguments_are_those_of_the_mappings() -> None:
    argument = MethodArgumentRule(type=ValueType.STRING)
    secret = MethodArgumentRule(type=ValueType.STRING, secret=True)
    methods = {
        "open": MethodRule(arguments={"value": secret, "till": argument, "password": argument}),
        "close": MethodRule(arguments={"value": argument}),
    }
    mapping = Mapping(
        version=1,
        package="shop",
        module="SHOP-MIB",
        prefix="shp",
        classes={"till": ClassRule(methods=methods)},
    )
    secrets = secret_arguments([mapping])
    assert secrets.hides("shop:till", "open", "value")
    assert secrets.hides("shop:till", "open", "password")
    assert not secrets.hides("shop:till", "open", "till")
    assert not secrets.hides("shop:till", "close", "value")
    assert secrets.hides("shop:till", "", "value")
    assert secrets.hides("", "close", "value")


def test_secret_arguments_are_those_of_the_last_reload(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    file = tmp_path / "overrides.yaml"
    file.write_text("version: 1\n", encoding="utf-8")
    site.configure(overrides=["overrides.yaml"])
    loaded = load_configuration(site.configuration)
    note_running(loaded)
    secrets = CommandSecrets(running_configuration(loaded))
    assert not secrets.arguments.hides("shop:till", "open", "place")
    file.write_text("version: 1\nsecrets: ['^place$']\n", encoding="utf-8")
    assert not secrets.follow(), "a file that is edited is not read"
    note_reload(site.state.path, load_configuration(site.configuration).with_copies())
    assert secrets.follow()
    assert secrets.arguments.hides("shop:till", "open", "place")
    assert not secrets.arguments.hides("shop:till", "open", "till")
    assert not secrets.follow()
    (site.state.path / RUNNING_FILES).write_bytes(b"{")
    assert secrets.follow()
    assert secrets.arguments.hides("shop:till", "open", "till"), "what is not known may be a secret"
    note_reload(site.state.path, load_configuration(site.configuration).with_copies())
    assert secrets.follow()
    assert not secrets.arguments.hides("shop:till", "open", "till")
