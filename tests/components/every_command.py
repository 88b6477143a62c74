"""Runs every command once, each in a fork of this process, and prints how it ended: one line of JSON each.

The process has imported what they need, so that some seventy commands take seconds. It is run by the tests
on machines that lack something (`tests.components.hosts`), whose folder and mounts all commands have.
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
from collections.abc import Iterator
from contextlib import suppress

import click

from gateway.cli.main import main

LEFT_OUT = frozenset({"agent", "analytics", "demo", "process", "quickstart", "run", "supervise", "watch"})
"""Commands of which only the help is shown: they run until they are ended, or start or install much."""

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
    if words[0] in LEFT_OUT:
        return
    for parameter in command.params:
        if parameter.required:
            option = [] if isinstance(parameter, click.Argument) else [max(parameter.opts, key=len)]
            words = [*words, *option, _value(parameter)]
    yield words


def _value(parameter: click.Parameter) -> str:
    if isinstance(parameter.type, click.Choice):
        return str(next(iter(parameter.type.choices)))
    return "http://127.0.0.1:9" if "management" in (parameter.name or "") else "x"


def _run(words: list[str]) -> tuple[int, str]:
    """Run one command; return its exit code, negative for a signal, and all that it printed."""
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


if __name__ == "__main__":
    for each in commands():
        code, printed = _run(each)
        print(json.dumps({"words": each, "code": code, "printed": printed}), flush=True)  # noqa: T201
