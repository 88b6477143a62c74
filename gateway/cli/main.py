"""``amqp-gateway``: the group of all commands, and the end of a command."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import select
import sys
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError, NoSuchCommand

from gateway.cli.late_import import LateCommands, without_rich
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.shipped_files import DISTRIBUTION
from gateway.shipped_files import version as installed_version

_RUNNING = {
    "run": "gateway.cli.run:run",
    "check": "gateway.cli.check:check",
    "reload": "gateway.cli.reload:reload",
    "health": "gateway.cli.health:health",
    "doctor": "gateway.cli.check:doctor",
    "agent": "gateway.cli.agent:agent",
}
_LOOKING = {
    "show": "gateway.cli.show:show",
    "source": "gateway.cli.source:source",
    "schema": "gateway.cli.schema:schema",
    "tree": "gateway.cli.look:tree",
    "get": "gateway.cli.look:get",
    "watch": "gateway.cli.look:watch",
    "explain": "gateway.cli.look:explain",
}
_ROLES = {
    "role": "gateway.cli.role:role",
}
_CHANGING = {
    "set": "gateway.cli.change:set_command",
    "invoke": "gateway.cli.change:invoke",
}
_SETTING_UP = {
    "demo": "gateway.cli.demo:demo",
    "quickstart": "gateway.cli.quickstart:quickstart",
    "provision": "gateway.cli.provision:provision",
    "provision-cml": "gateway.cli.provision_cml:provision_cml",
    "init": "gateway.cli.state:init",
    "systemd": "gateway.cli.systemd:systemd",
    "keys": "gateway.cli.keys:keys",
    "state": "gateway.cli.state:state",
}
_SNMP = {
    "snmp": "gateway.cli.snmp:snmp",
    "mib": "gateway.cli.mib:mib",
    "template": "gateway.cli.template:template",
    "trap": "gateway.cli.trap:trap",
}
_JMX = {
    "jmx": "gateway.cli.jmx:jmx",
}
_LOG = {
    "log": "gateway.cli.log:log",
    "audit": "gateway.cli.audit:audit",
    "analytics": "gateway.cli.analytics:analytics",
    "decode": "gateway.cli.decode:decode",
}
GROUPS = {
    "Set up": _SETTING_UP,
    "Run": _RUNNING,
    "Look": _LOOKING,
    "Change": _CHANGING,
    "Roles": _ROLES,
    "SNMP": _SNMP,
    "JMX": _JMX,
    "Event log and protocols": _LOG,
    "Other": {"version": "gateway.cli.main:version"},
}
"""The commands as the help shows them, in the order in which a new user needs them."""

COMMANDS = {
    **{name: place for commands in GROUPS.values() for name, place in commands.items()},
    "process": "gateway.cli.process:process",
    "supervise": "gateway.cli.supervise:supervise",
}
"""The place of each command.

Only the requested one is imported, so that a process of the gateway restarts without importing what other
commands need.
"""

LONG_LIVED = frozenset({"supervise", "agent"})
"""Commands that run until they are ended."""

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Commands(LateCommands):
    """The group of all commands. An error is one line on standard error and an exit code, no traceback."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:  # noqa: ANN401  click's signature
        """Run the program, and end the process."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except NoArgsIsHelpError as error:
            error.show()
            code = ExitCode.USAGE
        except click.UsageError as error:
            click.echo(_in_one_line(error), err=True)
            code = ExitCode.USAGE
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except click.Abort:  # A question was answered with no, or not at all.
            click.echo("amqp-gateway: stopped; nothing more was done", err=True)
            code = ExitCode.INTERRUPTED
        except BrokenPipeError:
            if not _is_unread():
                raise
            code = ExitCode.NOT_READ
        sys.exit(code if isinstance(code, int) else ExitCode.OK)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups."""
        widest = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            rows = [
                (name.ljust(widest), command.get_short_help_str(formatter.width - widest - 6))
                for name, command in commands
                if command is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; those that live long without rich."""
        with without_rich() if cmd_name in LONG_LIVED else contextlib.nullcontext():
            return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        """Run the requested command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except CommandError as error:
            if str(error):
                click.echo(f"amqp-gateway: {error}", err=True)
            ctx.exit(error.code)
        except KeyboardInterrupt:
            ctx.exit(ExitCode.INTERRUPTED)
        except BrokenPipeError:
            if not _is_unread():
                raise
            ctx.exit(ExitCode.NOT_READ)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            click.echo(
                f"amqp-gateway: {error.strerror}: free some space, and run the command again", err=True
            )
            _print_nowhere()
            ctx.exit(ExitCode.FAILED)
        return result


def _in_one_line(error: click.UsageError) -> str:
    """Return the error of the command line, and the command that describes the right one."""
    context = error.ctx
    if context is None:
        return f"amqp-gateway: {error.format_message()}"
    if isinstance(error, NoSuchCommand) and isinstance(context.command, click.Group):
        # Commands that are imported late are not among those that click compares with.
        error = NoSuchCommand(error.command_name, None, context.command.list_commands(context), context)
    message = " ".join(error.format_message().split())
    message += "" if message.endswith((".", "?", "?)")) else "."
    root = context.find_root().command_path
    return f"amqp-gateway: {message} See amqp-gateway{context.command_path.removeprefix(root)} --help"


def _is_unread() -> bool:
    """Return whether the reader of standard output has ended; if so, discard the rest of the output."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    looked = select.poll()
    looked.register(output, 0)  # poll reports errors without being asked to
    if not any(events & (select.POLLERR | select.POLLHUP) for _, events in looked.poll(0)):
        return False
    _print_nowhere()
    return True


def _print_nowhere() -> None:
    """Discard what is left for standard output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(cls=Commands, late=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=DISTRIBUTION, prog_name="amqp-gateway", message="%(prog)s %(version)s")
def main() -> None:
    """Manage AMQP brokers and agents through SNMP, JMX and an event log.

    The gateway reads RabbitMQ, QMF agents (AM2 and its predecessor AM01), OpenAMQ (CML), and applications
    that speak 3forge's AMI.
    """


@click.command()
def version() -> None:
    """Show the version of the gateway."""
    click.echo(f"amqp-gateway {installed_version()}, Python {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    sys.exit(main())
