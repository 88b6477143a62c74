"""Imports put off until they are needed: of commands, and of rich.

structlog and httpx import rich wherever it is installed: to draw tracebacks, and for a command line of their
own, which imports pygments too. The gateway's processes need neither. Rich takes 5 MB of each, and a quarter
of the time of its start.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click


class LateCommands(click.Group):
    """A group that imports each command only when it is needed, so that one does not slow down the others.

    Args:
        late: the place of each such command, by name: ``module:attribute``.
        settings: the other arguments of `click.Group`.
    """

    def __init__(self, *, late: Mapping[str, str], **settings: Any) -> None:  # noqa: ANN401  as click has them
        super().__init__(**settings)
        self._late = late

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *self._late]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, and import it if its import was put off."""
        if cmd_name not in self._late:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._late[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@contextlib.contextmanager
def without_rich() -> Iterator[None]:
    """Hide rich from imports within the block; it can be imported afterwards.

    The command line of httpx is hidden for good: a source imports httpx when it starts.
    """
    # The import system: a module that is None is not found.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    is_hidden = "rich" not in sys.modules
    if is_hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if is_hidden:
            del sys.modules["rich"]
