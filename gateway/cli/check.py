"""``amqp-gateway check`` and ``doctor``: problems of a configuration, and of everything that it leads to.

What reaches sources and receivers is imported where it is asked for: `check` alone takes a third less time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Final

import click

from gateway.cli.clearance import require_everything
from gateway.cli.options import config_option, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.cli.reload import changes_of, differences, running_settings
from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.mapping.schema_documents import read_schemas
from gateway.service.diagnostics.checks import check_files, check_jmx, check_sources
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.kept_sockets import check_sockets
from gateway.service.processes.process_setup import configure_logs
from gateway.service.state.report import in_use

_READING_SECONDS: Final = 30.0
_NO_DIFFERENCE: Final = "the gateway runs with this configuration"


@click.command()
@config_option
@click.option(
    "--connect",
    is_flag=True,
    help="Also reach every source and see whether ports are free; ends with the first trouble's exit code.",
)
@click.option(
    "--against-running",
    is_flag=True,
    help="Also say what a reload, and a restart, of the running gateway would change; nothing is changed.",
)
@click.option(
    "--schema",
    "saved",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also compare mappings, overrides and rules of operations with a file of `schema export`.",
)
def check(config: Path | None, *, connect: bool, against_running: bool, saved: Path | None) -> None:
    """Read the configuration and say what is wrong with it, with file and line."""
    configuration = loaded(config)
    configure_logs("check")
    remarks = check_files(configuration)
    say([*remarks.secrets, *remarks.nameless])
    check_sockets(configuration, is_running=in_use(configuration.state_folder))
    say(f"{remark}: an agent may have it" for remark in remarks.patterns)
    if against_running:
        running = running_settings(configuration)
        changed = changes_of(configuration, running)
        say(differences(changed, running, configuration, applied=False) if changed else [_NO_DIFFERENCE])
    if saved is not None:
        from gateway.service.diagnostics.schema_checks import check_against  # noqa: PLC0415  see above

        with command_errors():
            say(check_against(configuration, read_schemas(saved), is_bare=False))
    elif not connect:
        say(
            f"{remark}: `check --schema FILE` or `--connect` says whether the broker has it"
            for remark in remarks.unknown
        )
    for name, source in configuration.settings.sources.items():
        click.echo(f"source {name}: {source.kind}")
    if connect:
        _reach(configuration)
    click.echo(f"{configuration.path}: good")


def _reach(configuration: LoadedConfiguration) -> None:
    """Reach every source and receiver, see whether ports are free, and compare schemas with mappings."""
    from gateway.service.diagnostics.doctor.receivers import check_receivers  # noqa: PLC0415  see above
    from gateway.service.diagnostics.schema_checks import check_against, live_schemas  # noqa: PLC0415

    asyncio.run(check_sources(configuration, lambda line: say([line])))
    asyncio.run(check_receivers(configuration, lambda line: say([line])))
    if configuration.settings.jmx.enabled:
        asyncio.run(check_jmx(configuration, lambda line: say([line])))
    if configuration.settings.overrides or configuration.settings.mappings:
        with command_errors(), at_work("reading the schemas of all sources"):
            schemas = asyncio.run(live_schemas(configuration, SystemClock(), _READING_SECONDS))
            found = check_against(configuration, schemas, is_bare=True)
        say(found)


@click.command()
@config_option
@click.option("--all", "everything", is_flag=True, help="Show also what is good.")
@json_option
def doctor(config: Path | None, *, everything: bool, as_json: bool) -> None:
    """Look for problems, on this machine and on the brokers, and say what to do about each.

    Nothing is changed. The exit code is 12 if there is a problem; warnings do not count.
    """
    from gateway.service.diagnostics.doctor.examination import examine  # noqa: PLC0415  see above

    configuration = loaded(config)
    require_everything(configuration, "doctor")
    configure_logs("doctor", logging.CRITICAL)
    counts: Counter[Level] = Counter()

    def show(finding: Finding) -> None:
        counts[finding.level] += 1
        if as_json:
            say_json(finding.as_json())
        elif everything or finding.level is not Level.GOOD:
            say(finding.lines())

    async def work() -> None:
        findings = examine(configuration)
        while True:
            with at_work("looking at configuration, machine, brokers and the running gateway"):
                finding = await anext(findings, None)
            if finding is None:
                return
            show(finding)

    asyncio.run(work())
    if not as_json:
        summary = ", ".join(f"{counts[level]} {level.value}" for level in Level if counts[level])
        click.echo(f"{sum(counts.values())} findings: {summary}")
    if counts[Level.PROBLEM]:
        raise CommandError(
            ExitCode.DIFFERENCE, f"{counts[Level.PROBLEM]} problems: the lines above say what to do"
        )
