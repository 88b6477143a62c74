"""Taking policy, clients of SNMP, mappings and overrides of the configuration again, while it runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Coroutine
from typing import Final, Protocol

import structlog

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.config.secret_places import SecretError
from gateway.feed.operations import OperationAnswer, ReloadRequest
from gateway.feed.server import Reply
from gateway.inventory.classes import ClassRegistry
from gateway.mapping.errors import MappingError
from gateway.mapping.files import secret_patterns
from gateway.mapping.override_files import LoadedMappings, load_with_overrides
from gateway.model.operations import Outcome
from gateway.model.secrets import SecretRules
from gateway.policy.differences import policy_changes
from gateway.policy.rules import RoleSet
from gateway.service.diagnostics.policy_patterns import check_patterns
from gateway.service.state.running_configuration import Changes, changes, note_addresses, note_reload
from gateway.service.state.snmp_communities import read_communities
from gateway.state_folder import StateError, StateFolder
from gateway.yaml_documents import DocumentError

log = structlog.get_logger(__name__)


class ReloadTarget(Protocol):
    """The part of a core that follows a reload."""

    def change_policy(self, roles: RoleSet, receivers: Collection[str], by: str, changes: list[str]) -> None:
        """Apply roles and receivers of notifications; who requested it, and what changes, in words."""
        ...

    async def read_secrets_again(self) -> list[str]:
        """Read the secrets of sources again; return the places of those that were replaced."""
        ...

    def record_mappings(self, by: str, changes: list[str]) -> None:
        """Record that mappings or overrides were changed: who requested it, and what changes, in words."""
        ...


SECRETS_RENEWED: Final = "secrets were replaced: "
"""The beginning of the part of the text that names the places of replaced secrets."""
UNCHANGED: Final = "the gateway runs with this configuration"


class ConfigurationReload:
    """Applies changes of policy, clients, mappings and overrides; others wait for a restart of the gateway.

    The secrets of sources are read again, too. A file that is wrong changes nothing. Reloads are carried out
    one after the other. A policy is applied by the running core; other mappings are those of the next core,
    so that this one has to end. Clients of SNMP are applied by its process, which sees that the copy of the
    configuration is another one.

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
            The outcome, ``APPLIED`` or ``REFUSED``, and what was applied, or what is wrong. ``UNKNOWN`` after
            an internal error behind which a part may hold; the text then has what was applied before it.
        """
        async with self._lock:
            try:
                # Some 100 ms of work, in which the core goes on.
                running, found = await asyncio.to_thread(self._read)
                # Before it holds: a process that is restarted must not read the former one. Also where
                # nothing differs: the files of communities are read again, which no configuration contains.
                note_reload(self._running.state_folder, running)
            except (DocumentError, MappingError, SecretError, StateError, OSError, re.error) as error:
                log.warning("not-reloaded", reason="nothing was changed", wrong=str(error), by=by)
                return Outcome.REFUSED, f"nothing was changed: {error}"
            except Exception as error:
                log.exception("reload-failed", applied=[], by=by)
                return Outcome.REFUSED, f"nothing was changed: {_internal(error)}"
            texts: list[str] = []
            try:
                await self._apply(running, found, by, texts)
            except Exception as error:
                log.exception("reload-failed", applied=texts, by=by)
                texts.append(f"{_internal(error)}: whether all else was applied is not known; reload again")
                return Outcome.UNKNOWN, "; ".join(texts)
            return Outcome.APPLIED, "; ".join(texts) or UNCHANGED

    def _read(self) -> tuple[LoadedConfiguration, Changes]:
        """Return the configuration with which the core is to run, and what of it differs."""
        wanted = load_configuration(self._running.path).with_copies()
        known = load_with_overrides(wanted.mapping_files, wanted.override_files)
        if wanted.mapping_files or wanted.override_files:
            _check(known)
        check_patterns(wanted, known.mappings, known.overrides)
        if wanted.settings.snmp.enabled:
            # The core imports nothing of SNMP otherwise.
            from gateway.service.state.snmp_security import read_users  # noqa: PLC0415  see above

            # What the process of SNMP reads again: where it could not, it would take no other clients.
            state = StateFolder(self._running.state_folder)
            read_communities(wanted, state)
            read_users(state)
        return self._running.reloaded(wanted), changes(wanted, self._running)

    async def _apply(self, running: LoadedConfiguration, found: Changes, by: str, texts: list[str]) -> None:
        """Apply what differs, and add to ``texts`` what was applied."""
        if found.policy or found.clients:
            roles = running.settings.role_set
            lines = list(policy_changes(self._running.settings.role_set, roles))
            receivers = tuple(running.settings.snmp.notifications)
            self._target.change_policy(roles, receivers, by, [*found.clients, *lines])
            log.info("policy-reloaded", by=by, changes=len(lines), clients=found.clients)
        if found.policy:
            texts.append(f"the policy was applied: {len(lines)} rules of principals changed")
        if found.clients:
            texts.append(f"{len(found.clients)} changes of users, communities and receivers were applied")
        if found.mappings:
            self._target.record_mappings(by, list(found.mappings))
            log.info("mappings-reloaded", by=by, changes=found.mappings, next="the core starts again")
            self._has_other_mappings.set()
            texts.append(f"{len(found.mappings)} changes of mappings and overrides: the core starts again")
        self._running = running
        if found.waiting:
            reason = "this takes effect by a restart of the gateway only"
            log.warning("not-reloaded", reason=reason, changed=list(found.waiting), by=by)
            texts.append(f"these wait for a restart of the gateway: {', '.join(found.waiting)}")
        await asyncio.to_thread(note_addresses, running.state_folder, running)
        if places := await self._target.read_secrets_again():
            texts.append(f"{SECRETS_RENEWED}{', '.join(places)}")

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _internal(error: Exception) -> str:
    return f"an internal error of the gateway ({type(error).__name__}, see its log)"


def _check(known: LoadedMappings) -> None:
    """Use mappings and overrides as the next core does, which must not fail by what can be found now."""
    ClassRegistry(known.mappings, known.overrides)
    SecretRules(pattern for mapping in known.mappings.values() for pattern in secret_patterns(mapping))
