"""Runs every command once, each in a fork of this process, and prints how it ended: one line of JSON each.

The process has imported what they need, so that some seventy commands take seconds. It is run by the tests
on machines that lack something (`tests.components.hosts`), whose folder and mounts all commands have. Its
arguments are groups of `LEFT_OUT` that are run all the same.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import click

from gateway.cli.main import main
from gateway.config.places import ENVIRONMENT_VARIABLE
from gateway.shipped_files import shipped_folder

LEFT_OUT = frozenset({"analytics", "process", "supervise"})
"""Commands of which only the help is shown: parts of others, or those that start Spark."""
_BROKER: Final = "http://127.0.0.1:9"
STARTED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "agent": (("shop",), "broker-not-reached"),
    "run": ((), "gateway-ready"),
    # It reads a broker that is not there, in the place of one that it would start.
    "demo": (("--management", _BROKER, "--user", "x", "--password-file", ENVIRONMENT_VARIABLE), ""),
}
"""The arguments of commands that run until they are ended, and what they print before they are ended here.

A variable of the environment among them stands for its value.
"""

FEWER: Final[Mapping[str, tuple[str, ...]]] = {
    "mib lint": (str(shipped_folder("mibs") / "AMQP-GATEWAY-AMI-MIB.mib"),),
}
"""Arguments by which a command does with a part, in a tenth of the time, what it would do with all."""

_SECONDS = 60.0
_VALUES = {"dialect": "cml", "TRAP": "x"}


def commands() -> Iterator[list[str]]:
    """Yield the words of each command, with a word for each required argument and option."""
    yield from _below(main, click.Context(main, info_name="amqp-gateway"), [])


def _below(command: click.Command, context: click.Context, words: list[str]) -> Iterator[list[str]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _below(below, click.Context(below, info_name=name, parent=context), [*words, name])
        return
    yield [*words, "--help"]
    if words[0] in LEFT_OUT.difference(sys.argv[1:]) or words[0] in STARTED:
        return
    for parameter in command.params:
        if parameter.required:
            option = [] if isinstance(parameter, click.Argument) else [max(parameter.opts, key=len)]
            words = [*words, *option, _value(parameter)]
    yield [*words, *FEWER.get(" ".join(words), ())]


def _value(parameter: click.Parameter) -> str:
    if isinstance(parameter.type, click.Choice):
        return str(next(iter(parameter.type.choices)))
    return _BROKER if "management" in (parameter.name or "") else "x"


def _run(words: list[str], last: str = "") -> tuple[int, str]:
    """Run one command; return its exit code, negative for a signal, and all that it printed.

    Args:
        words: the command line.
        last: what it prints before it is sent SIGTERM; empty for a command that ends by itself.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _become(words, writing)
    os.close(writing)
    printed, until = bytearray(), time.monotonic() + _SECONDS
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        if not (part := os.read(reading, 1 << 16)):
            break
        printed += part
        if last and last.encode() in printed:
            last = ""
            os.kill(child, signal.SIGTERM)
    else:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), printed.decode("utf-8", "replace")


def _become(words: list[str], output: int) -> None:
    """Run the command in the fork, as ``python -m`` does."""
    code = 70
    try:
        for number in (1, 2):
            os.dup2(output, number)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), "utf-8")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "wb", closefd=False), "utf-8", line_buffering=True)
        sys.argv = ["gateway.cli.main", *words]
        # This is executed again where Python drops its texts.
        sys.orig_argv = [sys.executable, "-P", "-m", "gateway.cli.main", *words]
        del sys.modules["gateway.cli.main"]  # it is to be ``__main__``
        runpy.run_module("gateway.cli.main", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        if (error := sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]) is not None:
            sys.excepthook(type(error), error, error.__traceback__)
        os._exit(code)


def _report(words: list[str], last: str = "") -> None:
    code, printed = _run(words, last)
    print(json.dumps({"words": words, "code": code, "printed": printed}), flush=True)  # noqa: T201


if __name__ == "__main__":
    for each in commands():
        _report(each)
    for name, (arguments, until) in STARTED.items():
        _report([name, *(os.environ.get(word, word) for word in arguments)], until)
