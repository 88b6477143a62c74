"""``make demo-check``: one demonstration, checked from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

import click

from gateway.cli.demo import progress
from gateway.demo.demonstration import Demonstration, DemonstrationError, own_broker
from gateway.demo.install import DEMO_PACKAGES, PICTURE_PACKAGES, InstallError, ensure_demonstration
from gateway.demo.installation import RELEASES, BrokerError, debian_release
from gateway.demo.snmp_commands import SnmpCommandError
from gateway.demo.workload import WorkloadError
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import tracebacks
from tests.demo_check.check import DemonstrationCheck
from tests.demo_check.pictures import PicturesError
from tests.demo_check.promises import CheckFailedError


@click.command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Save what an operator sees there: walks, log, JConsole's pictures, the report.",
)
@click.option("--snmp-port", default=1161, show_default=True, type=click.IntRange(1, 65535))
@click.option("--jmx-port", default=9990, show_default=True, type=click.IntRange(1, 65535))
@click.option("--metrics-port", default=9464, show_default=True, type=click.IntRange(1, 65535))
@click.option(
    "--broker",
    "series",
    type=click.Choice(("3", "4", *RELEASES)),
    help="Check with this RabbitMQ instead of the one that is installed: 4 is that of Debian 13.",
)
@click.option(
    "--quick", is_flag=True, help="Let the workload go on for less long; keep no pictures of JConsole."
)
def main(
    keep: Path | None,
    snmp_port: int,
    jmx_port: int,
    metrics_port: int,
    series: str | None,
    *,
    quick: bool,
) -> None:
    """Start the demonstration, compare what it shows with broker and workload, and end it."""
    debian = debian_release(series) if series else ""
    try:
        packages = DEMO_PACKAGES if keep is None or quick else PICTURE_PACKAGES
        ensure_demonstration(packages, debian, progress)
        demonstration = Demonstration(
            progress,
            snmp_port=snmp_port,
            jmx_port=jmx_port,
            metrics_port=metrics_port,
            agent=True,
            settings=own_broker(debian),
        )
        asyncio.run(_until_stopped(demonstration, keep, quick=quick))
    except CheckFailedError as error:
        _end(str(error), ExitCode.DIFFERENCE)
    except InstallError as error:
        _end(str(error), ExitCode.NOT_INSTALLED)
    except DemonstrationError as error:
        _end(str(error), error.exit_code)
    except (BrokerError, WorkloadError, SnmpCommandError, PicturesError) as error:
        _end(str(error), ExitCode.FAILED)


def _end(text: str, code: int) -> None:
    click.echo(f"demo-check: {text}", err=True)
    sys.exit(code)


async def _until_stopped(demonstration: Demonstration, keep: Path | None, *, quick: bool) -> None:
    # That its broker raises an alarm and restarts is the check's own doing.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    checking = asyncio.create_task(_check(demonstration, keep, quick=quick))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, checking.cancel)
    try:
        await checking
    except asyncio.CancelledError:
        click.echo("  ..  stopped")
    click.echo("  ..  everything is stopped, nothing is left")


async def _check(demonstration: Demonstration, keep: Path | None, *, quick: bool) -> None:
    async with demonstration:
        try:
            await DemonstrationCheck(demonstration, click.echo, keep, quick=quick).run()
        finally:
            logs = map(demonstration.log_of, ("gateway", "agent"))
            found = "\n".join(filter(None, map(tracebacks, logs)))
            click.echo(found, err=True, nl=bool(found))
        if found:
            raise CheckFailedError("the gateway has met what it did not expect")
    if keep is not None:
        click.echo(f"  ..  what was seen is in {keep}: {', '.join(_kept(keep))}")


def _kept(folder: Path) -> list[str]:
    """The pictures, walks and the report, by name."""
    return sorted(path.name for path in folder.iterdir() if path.suffix in {".png", ".txt"})


if __name__ == "__main__":
    main()
