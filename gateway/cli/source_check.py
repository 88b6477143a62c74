"""``amqp-gateway source test``."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from gateway.cli.options import config_option, configured_source, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.service.diagnostics.checks import check_source
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.logs import configure_logs


@click.command("test")
@click.argument("name")
@config_option
@json_option
def test_command(name: str, config: Path | None, *, as_json: bool) -> None:
    """Connect to the source NAME of the configuration, and check whether it can be used.

    Nothing is changed. The gateway need not be running.
    """
    configuration = loaded(config)
    configure_logs("source", logging.CRITICAL)
    settings = configured_source(configuration, name)
    remarks: list[str] = []
    trouble: CommandError | None = None
    with at_work(f"reaching {name}"):
        try:
            asyncio.run(check_source(settings, configuration.folder, remarks.append))
        except CommandError as error:
            trouble = error
    if as_json:
        code = ExitCode.OK if trouble is None else trouble.code
        say_json(
            {
                "source": name,
                "source_kind": settings.kind,
                "is_reached": trouble is None,
                "trouble": None if trouble is None else code.name.lower(),
                "remarks": remarks,
                "text": "" if trouble is None else str(trouble),
            }
        )
    else:
        say([*remarks, *([] if trouble is not None else [f"source {name}: reached"])])
    if trouble is not None:
        raise trouble
