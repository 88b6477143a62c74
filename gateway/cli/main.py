"""``amqp-gateway``: the group of all commands, and how each of them ends."""

from __future__ import annotations

import errno
import importlib
import os
import select
import sys

import click

from gateway.service.exit_codes import CommandError, ExitCode

COMMANDS = {
    "run": "gateway.cli.run:run",
    "check": "gateway.cli.check:check",
    "health": "gateway.cli.health:health",
    "doctor": "gateway.cli.doctor:doctor",
    "source": "gateway.cli.source:source",
    "tree": "gateway.cli.tree:tree",
    "get": "gateway.cli.get:get",
    "watch": "gateway.cli.watch:watch",
    "explain": "gateway.cli.explain:explain",
    "set": "gateway.cli.set:set_command",
    "invoke": "gateway.cli.invoke:invoke",
    "provision": "gateway.cli.provision:provision",
    "provision-cml": "gateway.cli.provision_cml:provision_cml",
    "init": "gateway.cli.init:init",
    "agent": "gateway.cli.agent:agent",
    "state": "gateway.cli.state:state",
    "log": "gateway.cli.log:log",
    "mib": "gateway.cli.mib:mib",
    "trap": "gateway.cli.trap:trap",
    "decode": "gateway.cli.decode:decode",
    "systemd": "gateway.cli.systemd:systemd",
    "demo": "gateway.cli.demo:demo",
    "analytics": "gateway.cli.analytics:analytics",
    "version": "gateway.cli.version:version",
    "process": "gateway.cli.process:process",
}
"""Where each command is. Only the one that was asked for is imported: a process of the gateway that is
started again should not first read what builds MIBs and demonstrations.
"""

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Commands(click.Group):
    """Ends every command with one line on standard error and its exit code, never with a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """In the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was asked for."""
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
            click.echo(f"amqp-gateway: {error.strerror}: make room, and run it again", err=True)
            _print_nowhere()
            ctx.exit(ExitCode.FAILED)
        return result


def _is_unread() -> bool:
    """Whether nobody reads standard output any more; then what is left for it goes nowhere."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    looked = select.poll()
    looked.register(output, 0)  # errors are told unasked
    if not any(events & (select.POLLERR | select.POLLHUP) for _, events in looked.poll(0)):
        return False
    _print_nowhere()
    return True


def _print_nowhere() -> None:
    """Let what is left for standard output go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Put AMQP management behind SNMP, JMX and an event log: RabbitMQ and QMF agents."""


if __name__ == "__main__":
    sys.exit(main())
