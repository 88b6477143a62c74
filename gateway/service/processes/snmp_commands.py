"""The command table of the SNMP process: what is configured of it, and its way to the core."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from gateway.config.snmp import SnmpSettings
from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.mapping.files import secret_patterns
from gateway.mapping.rules import Mapping
from gateway.model.secrets import SecretRules
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import SecretArguments, Submission
from gateway.snmp.commands.table import CommandLimits, CommandRows, CommandTable, JoinedView
from gateway.snmp.projection import Projection
from gateway.snmp.store import MibView, Store

Ask = Callable[[OperationRequest], Awaitable[OperationAnswer]]
"""`gateway.feed.client.FeedLink.ask`."""


class Commands:
    """The table, who sees what of it, and the operations that are under way.

    Args:
        settings: of SNMP; each writer in them may have commands.
        root: of all object identifiers.
        store: what everybody who can read sees.
        projection: knows the objects on which methods are called.
        submission: makes operations of commands.
        ask: asks the core.
        clock: now, in nanoseconds since 1970-01-01 UTC.

    Attributes:
        table: takes part in SETs, gets records of operations, and wants a tick a second.
    """

    def __init__(
        self,
        settings: SnmpSettings,
        root: Oid,
        store: Store,
        projection: Projection,
        submission: Submission,
        ask: Ask,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._ask = ask
        self._asking: set[asyncio.Task[None]] = set()
        common = CommandRows(store, root, projection.pointer) if settings.commands.shown_to_all else None
        self._rows: dict[str, CommandRows] = {}
        self._own: dict[str, Store] = {}
        for writer in settings.writers:
            if common is None:
                self._own[writer] = Store()
            self._rows[writer] = common or CommandRows(self._own[writer], root, projection.pointer)
        self.table = CommandTable(
            root,
            CommandLimits(settings.commands.quota, settings.commands.keep),
            submission,
            self._rows.__getitem__,
            self._submit,
            clock,
        )
        self.table.serve(store)

    def view(self, writer: str) -> MibView:
        """What a writer can read."""
        own = self._own.get(writer)
        return self._store if own is None else JoinedView(self._store, own)

    async def close(self) -> None:
        """Wait for no answer any more; what was asked for goes on in the core."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _submit(self, number: int, request: OperationRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_out(number, request))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _carry_out(self, number: int, request: OperationRequest) -> None:
        self.table.answered(number, await self._ask(request))


def secret_arguments(mappings: Iterable[Mapping]) -> SecretArguments:
    """What no owner is shown the value of."""
    mappings = tuple(mappings)
    return SecretArguments(
        SecretRules(pattern for mapping in mappings for pattern in secret_patterns(mapping)),
        (
            (f"{mapping.package}:{class_name}", method_name, name)
            for mapping in mappings
            for class_name, rule in mapping.classes.items()
            for method_name, method in rule.methods.items()
            for name, argument in method.arguments.items()
            if argument.secret
        ),
    )
