"""SNMP, asked by net-snmp's commands as two principals: the community that reads, and that of a writer."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import COMMANDS, HEALTH, LOG, TARGET_ENTRY
from gateway.snmp.oid_registry import DEFAULT_ROOT, OidRegistry, path_of_registry, read_registry
from gateway.snmp.tables.applications import APPLICATION_ENTRY
from tests.components.command_line import Site, running
from tests.components.net_snmp import printed
from tests.components.shipped_mappings import shipped_registries
from tests.components.waiting import wait_until
from tests.policy.evaluator import Evaluator
from tests.policy.snmp_view import Instances, Shown, SnmpView

WRITER: Final = "anna"
PRINCIPALS: Final = {"snmp:(reader)": "community", f"snmp:{WRITER}": f"community-{WRITER}"}
"""Each principal, and the secret of the state folder that is its community."""

_OPEN: Final[tuple[Oid, ...]] = (
    (1, 3, 6, 1, 2, 1, 1),  # system
    (1, 3, 6, 1, 2, 1, 11),  # snmp
    (1, 3, 6, 1, 6, 3, 1),  # SNMPv2-MIB
    (1, 3, 6, 1, 6, 3, 10),  # snmpEngine
    (1, 3, 6, 1, 6, 3, 11),  # snmpMPDStats
    (1, 3, 6, 1, 6, 3, 12, 1, 4),  # snmpUnavailableContexts
    (1, 3, 6, 1, 6, 3, 12, 1, 5),  # snmpUnknownContexts
    (1, 3, 6, 1, 6, 3, 15, 1, 1),  # usmStats
    *((*DEFAULT_ROOT, *oid) for oid in (HEALTH, LOG, TARGET_ENTRY, COMMANDS)),
)
"""What everybody sees, according to docs/mibs.md; there are no commands in this test."""

_OF_ALL: Final[tuple[Oid, ...]] = ((1, 3, 6, 1, 2, 1, 92), (1, 3, 6, 1, 6, 3))
"""What only those see who see everything: NOTIFICATION-LOG-MIB, and receivers of notifications."""

_LINE: Final = re.compile(r"^\.(?P<name>[0-9.]+) = (?P<value>(?s:.*?))(?=^\.[0-9]|\Z)", re.MULTILINE)
_SECONDS: Final = 60.0
_HIDDEN_ASKED: Final = 12
_MAX_DIFFERENCES: Final = 40


class Snmp:
    """The process ``snmp`` as one principal reads it."""

    def __init__(self, site: Site, principal: str) -> None:
        self.principal = principal
        self._site = site
        self._community = site.state.secret(PRINCIPALS[principal])
        self._registries: Sequence[OidRegistry] = ()

    def compare(self, evaluator: Evaluator, stamp: int) -> int:
        """Compare a walk of everything, and the answers to questions about what is hidden."""
        view = self._view(evaluator, stamp)
        walked = self._compare(view, view.begun())
        self._ask_what_is_hidden(walked, view, random.Random(stamp))  # noqa: S311  no secret
        return view.questions

    def compare_ends(self, evaluator: Evaluator, stamp: int, first: int) -> None:
        """Compare a walk when all objects and alarms have ended; ``first`` is the number of the first end."""
        view = self._view(evaluator, stamp)
        self._compare(view, view.ended(first))

    def _view(self, evaluator: Evaluator, stamp: int) -> SnmpView:
        if not self._registries:
            path = path_of_registry(self._site.state.path, "provisional")
            wait_until(path.exists, "the registry of the site")
            self._registries = (*shipped_registries(), read_registry(path))
        return SnmpView(evaluator, self.principal, stamp, self._registries, DEFAULT_ROOT)

    def _compare(self, view: SnmpView, wanted: Instances) -> list[Oid]:
        walked: Instances = {}
        compared: Instances = {}

        def is_there() -> bool:
            nonlocal walked, compared
            walked = self._asked("snmpbulkwalk", "-Cr50", ".1.3")
            compared = view.without_markers(dict(self._compared(view, walked)))
            # Not even for a moment there is more.
            early = {one for one in compared.keys() - wanted.keys() if view.is_of_this_policy(one)}
            assert not early, sorted(early)
            return _are_equal(compared, wanted) and _applications(walked) <= view.applications()

        try:
            wait_until(is_there, "the instances that are expected", _SECONDS)
        except AssertionError as error:
            error.add_note(f"{self.principal}\n{_differences(compared, wanted)}")
            raise
        return sorted(walked)

    def _compared(self, view: SnmpView, walked: Instances) -> Iterator[tuple[Oid, Shown]]:
        """Leave out what everybody sees, and, for those who see everything, what is about the gateway."""
        open_to_it = (*_OPEN, *_OF_ALL) if view.sees_everything else _OPEN
        for name, value in walked.items():
            if not any(name[: len(prefix)] == prefix for prefix in (*open_to_it, APPLICATION_ENTRY)):
                yield name, value

    def _ask_what_is_hidden(self, walked: list[Oid], view: SnmpView, chosen: random.Random) -> None:
        """GET and GETNEXT of instances that another principal may see answer as if there were none."""
        hidden = sorted(view.of_everything().keys() - set(walked))
        if not hidden:
            return
        asked = chosen.sample(hidden, k=min(_HIDDEN_ASKED, len(hidden)))
        words = [_dotted(name) for name in asked]
        got = self._texts("snmpget", *words)
        assert set(got) == set(asked)
        assert all(text.startswith("No Such ") for text in got.values()), got
        following = [next((name for name in walked if name > one), None) for one in asked]
        if None not in following:
            assert list(self._texts("snmpgetnext", *words)) == list(dict.fromkeys(following))

    # ---- net-snmp -----------------------------------------------------------------------------------------

    def _asked(self, command: str, *words: str) -> Instances:
        return {name: _value(text) for name, text in self._texts(command, *words).items()}

    def _texts(self, command: str, *words: str) -> dict[Oid, str]:
        options, names = [one for one in words if one[0] == "-"], [one for one in words if one[0] != "-"]
        access = ("-v2c", "-c", self._community, "-t", "30", "-r", "3", "-m", "", "-Onex", "-Ih")
        agent = f"127.0.0.1:{self._site.snmp_port}"
        done = printed(self._site.folder / "snmp", command, *access, *options, agent, *names)
        assert done.returncode == 0, done.stderr
        return {
            tuple(map(int, found["name"].split("."))): found["value"].strip()
            for found in _LINE.finditer(done.stdout)
        }


def _applications(walked: Instances) -> set[int]:
    """Return the indexes of applTable, which is brought up to date now and then."""
    return {name[-1] for name in walked if name[: len(APPLICATION_ENTRY)] == APPLICATION_ENTRY}


def _value(text: str) -> Shown:
    if text in {'""', ""}:
        return b""
    kind, _, value = text.partition(": ")
    match kind:
        case "Hex-STRING":
            return bytes.fromhex(value)
        case "STRING":
            return value.strip('"').encode()
        case "OID":
            return tuple(map(int, value.strip(".").split(".")))
        case "INTEGER" | "Gauge32" | "Counter32" | "Counter64":
            return int(value)
    return None


def _dotted(name: Oid) -> str:
    return f".{'.'.join(map(str, name))}"


def _are_equal(found: Instances, wanted: Instances) -> bool:
    return found.keys() == wanted.keys() and all(
        value is None or found[name] == value for name, value in wanted.items()
    )


def _differences(found: Instances, wanted: Instances) -> str:
    lines = [
        f"{_dotted(name)}: {found.get(name, 'no instance')}, expected {wanted.get(name, 'no instance')}"
        for name in sorted(found.keys() | wanted.keys())
        if (name in found) is not (name in wanted) or wanted[name] not in {None, found[name]}
    ]
    return "\n".join(lines[:_MAX_DIFFERENCES])


@contextmanager
def snmp(site: Site) -> Iterator[tuple[Snmp, ...]]:
    """Run the process; return it as each principal reads it. The configuration has the writer."""
    with running("process", "snmp", "--config", site.configuration, log=site.folder / "snmp.log") as process:
        process.ready()
        yield tuple(Snmp(site, principal) for principal in PRINCIPALS)
