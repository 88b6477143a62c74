"""``amqp-gateway``: the group of all commands, and the end of a command."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import importlib
import io
import os
import platform
import select
import signal
import sys
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError, NoSuchCommand

from gateway.cli.late_import import LateCommands, without_rich
from gateway.escapes import printable
from gateway.file_owners import TRUSTED_OWNERS, user_number
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
    "explain": "gateway.cli.explain:explain",
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
    "manual": "gateway.cli.manual:manual",
}
"""The place of each command.

Only the requested one is imported, so that a process of the gateway restarts without importing what other
commands need.
"""

WITH_TABLES = frozenset({"analytics", "audit", "log", "source"})
"""Commands that draw tables, or progress, by rich: it is hidden from the imports of the others."""

_YOUNG_OBJECTS = 10_000
"""Allocations between two garbage collections. Nearly all that a command imports and reads stays.

With the default of 700, looking through it again and again takes a tenth of the start.
"""

_NEEDS_FREEING = "duckdb"
"""A library that complains at the end of a process of what was frozen."""

_NO_OTHERS = 0o022
_WITHOUT_TEXTS = 2
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Commands(LateCommands):
    """The group of all commands. An error is one line on standard error and an exit code, no traceback."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:  # noqa: ANN401  click's signature
        """Run the program, and end the process.

        Without arguments they are those of the process, which belongs to the command: the context knows its
        number (`gateway.cli.log.give_way`).
        """
        if not args and "args" not in extra:
            extra["obj"] = os.getpid()
            _let_signals_in()
            _have_texts()
        gc.set_threshold(_YOUNG_OBJECTS)
        _open_standard_streams()
        is_own = "obj" in extra
        code: object
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except NoArgsIsHelpError as error:
            error.show()
            code = ExitCode.USAGE
        except click.UsageError as error:
            _report(_in_one_line(error))
            code = ExitCode.USAGE
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except click.Abort:  # A question was answered with no, or not at all.
            click.echo("amqp-gateway: stopped; nothing more was done", err=True)
            code = ExitCode.INTERRUPTED
        except KeyboardInterrupt:  # before any command runs
            code = ExitCode.INTERRUPTED
        except Exception as error:
            if (written := _unwritten(error)) is None and not is_own:
                raise
            code = _report_unexpected(error) if written is None else written
        if is_own and _NEEDS_FREEING not in sys.modules:
            gc.freeze()  # all that is left goes with the process: to free it takes longer than most commands
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
        """Import one command, without rich if it draws no tables."""
        with contextlib.nullcontext() if cmd_name in WITH_TABLES else without_rich():
            return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        """Run the requested command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except CommandError as error:
            if str(error):
                _report(f"amqp-gateway: {error}")
            _end_output()
            ctx.exit(error.code)
        except KeyboardInterrupt:
            ctx.exit(ExitCode.INTERRUPTED)
        except OSError as error:
            if (code := _unwritten(error)) is None:
                raise
            ctx.exit(code)
        return result


def _unwritten(error: Exception) -> ExitCode | None:
    """Return the exit code of an error of standard output, whose reader has ended, or whose disk is full.

    ``None`` for another error.
    """
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.EPIPE, errno.EBADF) and _is_unread():
        return ExitCode.NOT_READ
    if error.errno not in _NO_ROOM:
        return None
    advice = "free some space, and run the command again"
    # Without a buffer, nothing is left of what could not be written.
    if not _end_output() or getattr(sys.stdout, "write_through", False):
        advice = f"the output is cut off, whatever was done: look whether it was, else {advice}"
    _report(f"amqp-gateway: {error.strerror}: {advice}")
    return ExitCode.FAILED


def _report_unexpected(error: Exception) -> ExitCode:
    """Report an error that no command expected; return the exit code."""
    # Only now: its imports would slow down each command.
    late = importlib.import_module("gateway.cli.unexpected")
    _report(f"amqp-gateway: {late.unexpected(error, sys.argv[1:])}")
    _end_output()
    return ExitCode.FAILED


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


def _have_texts() -> None:
    """Start this program again where Python has dropped its docstrings (``-OO``), the texts of its help."""
    if sys.flags.optimize < _WITHOUT_TEXTS:
        return
    before = (sys.orig_argv, os.environ.get("PYTHONOPTIMIZE"))
    arguments = ["-O" if argument == "-OO" else argument for argument in sys.orig_argv]
    os.environ["PYTHONOPTIMIZE"] = "1"
    if before != (arguments, "1"):
        os.execv(sys.executable, arguments)  # noqa: S606  our own program


def _let_signals_in() -> None:
    """Let the ends of child processes be seen, and all signals in, whatever the starter of this process set.

    Where SIGCHLD is ignored, the exit codes of children are lost. What ``nohup`` and ``&`` set stays, for
    which SIGHUP, SIGINT and SIGQUIT are ignored.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class _Remarks(io.FileIO):
    """Standard error of a command: what cannot be written there is dropped, and ends no work.

    Its reader may have ended, its disk may be full, or it does not block and has no room.
    """

    def write(self, octets: bytes) -> int:  # type: ignore[override]  # no other buffers
        """Write bytes, or drop those that cannot be written."""
        left = memoryview(octets)
        with contextlib.suppress(OSError):
            while left and (written := super().write(left)):  # None: there is no room
                left = left[written:]
        return len(octets)


def _open_standard_streams() -> None:
    """Open the standard streams that were closed, so that no file or socket becomes one of them.

    Writing to standard output still fails, as `gateway.cli.printing.once_done` expects; standard error never
    does, whatever it is.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    errors = sys.__stderr__
    if errors is not None and sys.stderr is errors:  # else a program around this one reads it
        output = _Remarks(2, "w", closefd=False)
        sys.stderr = io.TextIOWrapper(output, errors.encoding, "backslashreplace", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a terminal's encoding lacks is displayed as what does not print is, and ends no command.
        sys.stdout.reconfigure(errors="backslashreplace")


def _is_unread() -> bool:
    """Return whether standard output is closed, here or by its reader; if so, discard the rest of it."""
    try:
        output = sys.stdout.fileno()
        is_closed = fcntl.fcntl(output, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except (OSError, ValueError):
        return False
    looked = select.poll()
    looked.register(output, 0)  # poll reports errors without being asked to
    is_left = any(events & (select.POLLERR | select.POLLHUP) for _, events in looked.poll(0))
    if is_closed or is_left:
        _print_nowhere()
    return is_closed or is_left


def _report(line: str) -> None:
    """Print an error on standard error, if that can be written; its lines are as it has them."""
    try:
        click.echo("\n".join(map(printable, line.split("\n"))), err=True)
    except OSError:
        _print_nowhere(sys.stderr.fileno())


def _end_output() -> bool:
    """Write what is left for standard output; return whether it could be written."""
    try:
        sys.stdout.flush()
    except OSError:
        _print_nowhere()
        return False
    return True


def _print_nowhere(descriptor: int = 1) -> None:
    """Discard what is left for standard output, or for another descriptor."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@click.group(cls=Commands, late=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=DISTRIBUTION, prog_name="amqp-gateway", message="%(prog)s %(version)s")
@click.option(
    "--trust-owner",
    "owners",
    metavar="NAME",
    multiple=True,
    help=f"Trust the files of this user, too, as those of the user who runs this and of root. "
    f"Default: ${TRUSTED_OWNERS}, with commas between names.",
)
def main(owners: tuple[str, ...]) -> None:
    """Manage AMQP brokers and agents through SNMP, JMX and an event log.

    The gateway reads RabbitMQ, QMF agents (AM2 and its predecessor AM01), OpenAMQ (CML), and applications
    that speak 3forge's AMI.
    """
    # Others write into no folder that is made with the usual mode, whatever the caller permits.
    os.umask(os.umask(_NO_OTHERS) | _NO_OTHERS)
    if owners:
        os.environ[TRUSTED_OWNERS] = ",".join(owners)
    for name in filter(None, os.environ.get(TRUSTED_OWNERS, "").split(",")):
        try:
            user_number(name)
        except KeyError:
            text = f"--trust-owner: there is no user {name!r} on this machine"
            raise click.UsageError(text) from None


@click.command()
def version() -> None:
    """Show the version of the gateway."""
    click.echo(f"amqp-gateway {installed_version()}, Python {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    sys.exit(main())
