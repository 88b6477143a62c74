"""Taking policy, mappings and overrides of the configuration again, while the gateway runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Protocol

import structlog

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.feed.operations import OperationAnswer, ReloadRequest
from gateway.feed.server import Reply
from gateway.inventory.classes import ClassRegistry
from gateway.mapping.files import MappingError, secret_patterns
from gateway.mapping.override_files import load_with_overrides
from gateway.model.operations import Outcome
from gateway.model.secrets import SecretRules
from gateway.policy.differences import policy_changes
from gateway.policy.rules import RoleSet
from gateway.service.state.running_configuration import Changes, changes, note_reload
from gateway.yaml_documents import DocumentError

log = structlog.get_logger(__name__)


class ReloadTarget(Protocol):
    """The part of a core that follows a reload."""

    def change_policy(self, roles: RoleSet, by: str, changes: list[str]) -> None:
        """Apply a policy: the roles, who requested it, and what changes, in words."""
        ...

    def record_mappings(self, by: str, changes: list[str]) -> None:
        """Record that mappings or overrides were changed: who requested it, and what changes, in words."""
        ...


class ConfigurationReload:
    """Applies changes of policy, mappings and overrides; other changes wait for a restart of the gateway.

    A file that is wrong changes nothing. Reloads are carried out one after the other. A policy is applied by
    the running core; other mappings are those of the next core, so that this one has to end.

    Args:
        loaded: the configuration with which the core runs.
        target: the core.
    """

    def __init__(self, loaded: LoadedConfiguration, target: ReloadTarget) -> None:
        self._running = loaded
        self._target = target
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_other_mappings = asyncio.Event()

    def requested(self, request: ReloadRequest, reply: Reply) -> None:
        """Carry out the request of a front end, and reply (`gateway.feed.server.Reload`)."""

        async def work() -> None:
            principal = request.principal
            by = f"{principal} ({principal.origin})" if principal.origin else str(principal)
            outcome, text = await self.reload(by)
            reply(OperationAnswer(request.request, "", outcome, text))

        self._start(work())

    def announced(self, by: str) -> None:
        """Carry out a request that the supervisor announces."""

        async def work() -> None:
            await self.reload(by)

        self._start(work())

    async def until_other_mappings(self) -> None:
        """Wait until the core has to end, because the next one has other mappings."""
        await self._has_other_mappings.wait()

    @property
    def has_other_mappings(self) -> bool:
        """Whether the next core has other mappings than this one."""
        return self._has_other_mappings.is_set()

    async def finish(self) -> None:
        """Carry out the requests that were taken."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reload(self, by: str) -> tuple[Outcome, str]:
        """Read the configuration, and apply what can be applied.

        Args:
            by: who requested it, one line.

        Returns:
            The outcome, ``APPLIED`` or ``REFUSED``, and what was applied, or what is wrong.
        """
        async with self._lock:
            try:
                # Some 100 ms of work, in which the core goes on.
                wanted, found = await asyncio.to_thread(self._read)
                return self._apply(wanted, found, by)
            except (DocumentError, MappingError, OSError, re.error) as error:
                log.warning("not-reloaded", reason="nothing was changed", wrong=str(error), by=by)
                return Outcome.REFUSED, f"nothing was changed: {error}"

    def _read(self) -> tuple[LoadedConfiguration, Changes]:
        wanted = load_configuration(self._running.path).with_copies()
        if wanted.mapping_files or wanted.override_files:
            _check(wanted)
        return wanted, changes(wanted, self._running)

    def _apply(self, wanted: LoadedConfiguration, found: Changes, by: str) -> tuple[Outcome, str]:
        texts = []
        if found.policy or found.mappings:
            # Before it holds: a process that is restarted must not read the former one.
            note_reload(self._running.state_folder, wanted)
        if found.policy:
            roles = wanted.settings.role_set
            lines = list(policy_changes(self._running.settings.role_set, roles))
            self._target.change_policy(roles, by, lines)
            log.info("policy-reloaded", by=by, changes=len(lines))
            texts.append(f"the policy was applied: {len(lines)} rules of principals changed")
        if found.mappings:
            self._target.record_mappings(by, list(found.mappings))
            log.info("mappings-reloaded", by=by, changes=found.mappings, next="the core starts again")
            self._has_other_mappings.set()
            texts.append(f"{len(found.mappings)} changes of mappings and overrides: the core starts again")
        if found.policy or found.mappings:
            self._running = self._running.reloaded(wanted)
        if found.waiting:
            reason = "this takes effect by a restart of the gateway only"
            log.warning("not-reloaded", reason=reason, changed=list(found.waiting), by=by)
            texts.append(f"these wait for a restart of the gateway: {', '.join(found.waiting)}")
        return Outcome.APPLIED, "; ".join(texts) or "the gateway runs with this configuration"

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _check(wanted: LoadedConfiguration) -> None:
    """Use mappings and overrides as the next core does, which must not fail by what can be found now."""
    known = load_with_overrides(wanted.mapping_files, wanted.override_files)
    ClassRegistry(known.mappings, known.overrides)
    SecretRules(pattern for mapping in known.mappings.values() for pattern in secret_patterns(mapping))
