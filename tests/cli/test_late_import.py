"""Processes and commands import only what they need; rich, which takes 5 MB of memory, few of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.main import COMMANDS, WITH_TABLES
from gateway.cli.process import PROCESSES
from gateway.config.files import load_configuration
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.state.running_configuration import note_running
from tests.components.command_line import environment, new_site

COMMAND = "from gateway.cli.main import main; main.get_command(None, {name!r})"
ALL_WITHOUT_TABLES = "; ".join(
    [
        "from gateway.cli.main import main",
        *(f"main.get_command(None, {name!r})" for name in sorted(COMMANDS.keys() - WITH_TABLES)),
    ]
)
PROCESS = """
import importlib
import gateway.cli.main
from gateway.cli.late_import import without_rich
with without_rich():
    importlib.import_module("gateway.service.processes.process_setup"), importlib.import_module({name!r})
"""
CHECK = "\nimport sys; assert 'structlog' in sys.modules; assert 'rich' not in sys.modules; import rich"

IMPORTED = """
import json, sys
names = {name for name, module in sys.modules.items() if getattr(module, "__file__", None)}
packages = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"gateway"}
print(json.dumps(sorted(name for name in packages if not name.startswith("_"))))
"""
MODULES = """
import json, sys
print(json.dumps(list(sys.modules)))
"""
RUN = """
from gateway.cli.main import main
try:
    main({words!r})
except SystemExit as end:
    assert end.code == {code}, end
"""
ALL = {"click", "msgspec", "structlog", "typing_extensions"}
CONFIGURED = ALL | {"annotated_types", "pydantic", "pydantic_core", "typing_inspection", "yaml"}
"""The packages of a process that reads the configuration."""

AMQP = {"aio_pika", "aiormq", "pamqp", "yarl", "multidict", "propcache", "idna"}
PACKAGES = {
    "core": CONFIGURED | AMQP | {"cryptography"},
    "snmp": CONFIGURED,
    "jmx": CONFIGURED | {"py4j"},
    "objects": CONFIGURED | {"h11", "prometheus_client"},
    "compactor": CONFIGURED | {"duckdb"},
}
"""The packages of others that a process may import, when it starts with any configuration."""

KINDS = {
    "rabbitmq": "gateway.sources.rabbitmq.source",
    "qmf": "gateway.dialects.qmf.messages",
    "cml": "gateway.dialects.cml.messages",
    "ami": "gateway.dialects.ami.relay",
}
"""The kinds of sources, and a module that a core imports only for each."""


@pytest.mark.parametrize(
    "script",
    [
        ALL_WITHOUT_TABLES,
        *(
            pytest.param(
                PROCESS.format(name=place.partition(":")[0]),
                marks=[] if name == "snmp" else [pytest.mark.prove],
            )
            for name, place in PROCESSES.items()
        ),
    ],
)
def test_rich_is_not_imported(script: str) -> None:
    """It can be imported later. That no process has it, the sets of packages below show, too."""
    subprocess.run([sys.executable, "-c", script + CHECK], check=True, env=environment())  # noqa: S603  our own


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_a_process_imports_only_the_packages_that_it_needs(name: str) -> None:
    module = PROCESSES[name].partition(":")[0]

    assert imported_by(PROCESS.format(name=module)) <= PACKAGES[name]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_core_imports_only_the_kinds_of_sources_that_are_configured(kind: str) -> None:
    core = PROCESS.format(name="gateway.service.processes.core")
    imported = output_of(core + f"\nimport gateway.service.sources.{kind}\n" + MODULES)

    assert {name for name, module in KINDS.items() if module in imported} == {kind}
    assert ("httpx" in imported) is (kind == "rabbitmq")
    assert "rich" not in imported
    assert not imported & {"gateway.serving.qmf", "gateway.links.capture"}, "no source is served or captured"


def test_an_agent_imports_no_front_end_that_it_does_not_have() -> None:
    imported = output_of(PROCESS.format(name="gateway.service.processes.agent") + MODULES)

    assert not [name for name in imported if name.startswith(("gateway.jmx.", "gateway.snmp.v3."))]


@pytest.mark.parametrize("name", ["compactor", "jmx", "objects", "snmp"])
def test_a_front_end_builds_no_model_of_a_mapping(name: str) -> None:
    assert "gateway.mapping.rules" not in output_of(
        PROCESS.format(name=PROCESSES[name].partition(":")[0]) + MODULES
    )


def test_a_check_imports_nothing_that_reaches_a_source() -> None:
    imported = output_of(COMMAND.format(name="check") + MODULES)

    assert not imported & {"gateway.service.sources.standalone", "gateway.dialects.ami.relay"}


def test_a_command_seldom_looks_for_garbage_while_it_starts() -> None:
    before = "import gateway.cli.main, gc; before = gc.get_stats()[0]['collections']\n"
    few = "\nassert gc.get_stats()[0]['collections'] - before < 20, gc.get_stats()"
    script = before + RUN.format(words=["get", "--help"], code=ExitCode.OK.value) + few
    subprocess.run([sys.executable, "-c", script], check=True, env=environment(), stdout=subprocess.DEVNULL)  # noqa: S603


def test_a_command_does_not_free_one_by_one_what_it_has_when_it_ends() -> None:
    script = """
import atexit, gc, sys
from gateway.cli.main import main
atexit.register(lambda: print(gc.get_freeze_count() > 5_000))
sys.argv[1:] = ["version"]
main()
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, env=environment(), stdout=subprocess.PIPE, text=True)  # noqa: S603  our own
    assert done.stdout.splitlines()[1:] == ["True"]


def test_the_supervisor_imports_nothing_that_reads_a_configuration() -> None:
    assert imported_by(COMMAND.format(name="supervise")) <= ALL


def test_commands_that_are_run_by_the_hundred_import_no_library_of_a_protocol() -> None:
    commands = "; ".join(COMMAND.format(name=name) for name in ("get", "health", "tree", "set", "invoke"))
    assert imported_by(commands) <= CONFIGURED


@pytest.mark.parametrize(
    ("words", "packages"),
    [(("health",), {"click", "msgspec", "typing_extensions"}), (("get", "rabbitmq/queue//|orders"), ALL)],
)
def test_a_short_command_builds_no_model_of_a_configuration_that_runs(
    tmp_path: Path, words: tuple[str, ...], packages: set[str]
) -> None:
    site = new_site(tmp_path)
    (tmp_path / "community").write_text("orders", encoding="utf-8")
    site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "community": {"file": "community"}})
    note_running(load_configuration(site.configuration))
    script = RUN.format(words=[*words, "--config", str(site.configuration)], code=ExitCode.UNREACHABLE.value)
    assert imported_by(script) <= packages


def imported_by(script: str) -> set[str]:
    """The packages of others that are in memory after ``script``."""
    return output_of(script + IMPORTED)


def output_of(script: str) -> set[str]:
    """The list that ``script`` prints."""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, env=environment(), stdout=subprocess.PIPE)  # noqa: S603  our own
    return set(json.loads(done.stdout))
