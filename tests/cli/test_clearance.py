"""Commands of a user whose roles do not permit everything: less is shown, and what shows all is refused."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from gateway.eventlog.compaction import Compactor
from gateway.eventlog.logged_events import LoggedClass
from gateway.eventlog.record import AnyRecord
from gateway.eventlog.segment import LogIdentity, compactable, identity_path
from gateway.feed.records import ClassRecord
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind
from gateway.model.values import ValueType
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.eventlog.logs import LOG_ID, segment, update

ME = f"cli:{getpass.getuser()}"
QUEUE = LoggedClass(
    ClassRecord(
        1,
        ClassSchema(
            ClassKey("rabbitmq", "queue"),
            (Element("name", ValueType.STRING, index=True),),
            (
                Element("messages", ValueType.U64),
                Element("published", ValueType.U64, kind=Kind.COUNTER),
                Element("consumerUtilisation", ValueType.U32),
            ),
        ),
        "name",
        "",
    ),
    0,
)
SCHEMA = QUEUE.schema_record("2026-11-20T08:00:00.000000Z")
NO_THIRD = {"deny": [{"objects": ["/|queue-3"], "read": ["*"]}, {"read": ["published"]}]}


def restricted(site: Site, **role: object) -> None:
    """Configure the user of this test with a role that reads everything but for what ``role`` denies."""
    allow = [{"read": ["*"], "subscribe": ["*:*"]}]
    site.configure(
        log={"folder": "log"},
        policy={"roles": {"some": {"allow": allow, **role}}, "principals": {ME: ["some"]}},
    )


@pytest.fixture
def log(site: Site) -> Path:
    """Records 1 to 30 in the lake, 31 to 60 in the open segment; each begins with the schema."""
    folder = site.folder / "log"
    parts: list[list[AnyRecord]] = [[SCHEMA, *map(update, range(first, first + 29))] for first in (2, 32)]
    segment(folder, 1, parts[0])
    segment(folder, 31, parts[1], is_open=True)
    identity = LogIdentity(version=1, log_id=LOG_ID, next_seq=61)
    identity_path(folder).write_text(identity.text(), encoding="utf-8")
    with Compactor(folder) as compactor:
        compactor.compact(compactable(folder, standing=True)[0])
    return folder


def command(site: Site, *arguments: str | Path) -> Ended:
    name, below, *rest = arguments
    return amqp_gateway(name, below, "--config", site.configuration, *rest)


def test_the_tail_of_the_log_is_what_the_user_may_read(site: Site, log: Path) -> None:
    assert log.is_dir()
    restricted(site, **NO_THIRD)
    ended = command(site, "log", "tail", "-n", "40", "--json")
    assert ended.code is ExitCode.OK, ended.errors
    lines = [json.loads(line) for line in ended.output.splitlines()]
    # As many as were asked for, of segment and lake, as if there were no others.
    expected = [seq for seq in (*range(2, 31), *range(32, 61)) if seq % 7 != 3][-40:]
    assert [line["seq"] for line in lines] == expected
    assert {name for line in lines for name in line["values"]} == {"messages"}
    assert not [line for line in lines if "deltas" in line]


def test_a_selection_finds_nothing_by_what_is_hidden(site: Site, log: Path) -> None:
    assert log.is_dir()
    restricted(site, **NO_THIRD)
    for name in ("/|queue-3", "orders/rabbitmq:queue/3"):
        ended = command(site, "log", "tail", "--all", "--object", name)
        assert (ended.code, ended.output) == (ExitCode.OK, "")
    assert "queue-2" in command(site, "log", "tail", "--object", "/|queue-2").output


def test_a_log_that_is_named_by_its_folder_is_read_by_the_same_roles(site: Site, log: Path) -> None:
    restricted(site, **NO_THIRD)
    ended = amqp_gateway("log", "tail", "--folder", log, "-n", "100", folder=site.folder)
    assert "queue-2" in ended.output
    assert "queue-3" not in ended.output
    ended = amqp_gateway("log", "query", "--folder", log, "SELECT 1", folder=site.folder)
    assert (ended.code, ended.output) == (ExitCode.REFUSED, "")


def test_what_shows_everything_is_refused_and_says_which_role_permits_it(site: Site, log: Path) -> None:
    restricted(site)
    (site.folder / "body").write_bytes(b"")
    for arguments in (
        ("log", "query", "SELECT 1"),
        ("log", "verify"),
        ("log", "compact"),
        ("audit", "verify"),
        ("analytics", "report"),
        ("analytics", "run", "--output", site.folder / "tables"),
        ("analytics", "report", "--log", log),
        ("state", "show"),
        ("state", "backup", site.folder / "backup"),
        ("source", "replay", site.folder / "body"),
    ):
        ended = command(site, *arguments)
        assert (ended.code, ended.output) == (ExitCode.REFUSED, ""), arguments
        (line,) = ended.reported
        assert f"{ME} may not read everything (roles: some): it takes the role everything" in line
    assert not (site.folder / "backup").exists()
    for words in (("doctor", "--config", site.configuration), ("decode", "--dialect", "cml", "body")):
        assert amqp_gateway(*words, folder=site.folder).code is ExitCode.REFUSED


def test_a_role_that_adds_up_to_everything_permits_everything(site: Site, log: Path) -> None:
    assert log.is_dir()
    site.configure(
        log={"folder": "log"}, policy={"principals": {"cli:*": ["monitoring"], ME: ["everything"]}}
    )
    assert command(site, "log", "query", "SELECT 1").code is ExitCode.OK
    assert command(site, "log", "verify").code is ExitCode.OK


def test_names_of_the_log_explain_what_is_read(site: Site, log: Path) -> None:
    assert log.is_dir()
    restricted(site, **NO_THIRD)
    for name, code in (("/|queue-2", ExitCode.OK), ("/|queue-3", ExitCode.UNREACHABLE)):
        ended = amqp_gateway("explain", name, "--config", site.configuration)
        assert (ended.code, "queue-" in ended.output) == (code, code is ExitCode.OK), ended
        assert "published" not in ended.output
