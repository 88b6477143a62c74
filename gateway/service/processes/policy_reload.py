"""Taking the policy of the configuration's file again, while the gateway runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import structlog

from gateway.config.files import LoadedConfiguration, load_configuration, with_policy
from gateway.config.model import Configuration
from gateway.feed.operations import OperationAnswer, ReloadRequest
from gateway.feed.server import Reply
from gateway.model.operations import Outcome
from gateway.policy.differences import policy_changes
from gateway.policy.rules import RoleSet
from gateway.service.state.running_configuration import changes, note_policy, takes_effect_at_once
from gateway.yaml_documents import DocumentError

log = structlog.get_logger(__name__)

Change = Callable[[RoleSet, str, list[str]], None]
"""Makes a policy hold: the roles, who requested it, and what changes, in words."""


class PolicyReload:
    """Applies changes of the policy; other changes of the configuration wait for a restart.

    A file that is wrong changes nothing. Reloads are carried out one after the other.

    Args:
        loaded: the configuration with which the core runs.
        change: makes another policy hold.
    """

    def __init__(self, loaded: LoadedConfiguration, change: Change) -> None:
        self._loaded = loaded
        self._running = loaded.settings
        self._change = change
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

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

    async def reload(self, by: str) -> tuple[Outcome, str]:
        """Read the configuration, and apply its policy.

        Args:
            by: who requested it, one line.

        Returns:
            The outcome, ``APPLIED`` or ``REFUSED``, and what was applied, or what is wrong.
        """
        async with self._lock:
            try:
                # Some 50 ms of work, in which the core goes on.
                wanted, changed = await asyncio.to_thread(self._read)
                return self._apply(wanted, changed, by)
            except (DocumentError, OSError) as error:
                log.warning("not-reloaded", reason="the former policy stays", wrong=str(error), by=by)
                return Outcome.REFUSED, f"nothing was changed: {error}"

    def _read(self) -> tuple[Configuration, list[str]]:
        loaded = load_configuration(self._loaded.path)
        return loaded.settings, changes(loaded, self._running)

    def _apply(self, wanted: Configuration, changed: list[str], by: str) -> tuple[Outcome, str]:
        waiting = [key for key in changed if not takes_effect_at_once(key)]
        texts = []
        if len(waiting) < len(changed):
            lines = list(policy_changes(self._running.role_set, wanted.role_set))
            # Before it holds: a process that is restarted must not read by the former policy.
            note_policy(self._loaded.state_folder, wanted)
            self._change(wanted.role_set, by, lines)
            self._running = with_policy(self._running, wanted.policy, wanted.operations.allow)
            log.info("policy-reloaded", by=by, changes=len(lines))
            texts.append(f"the policy was applied: {len(lines)} rules of principals changed")
        if waiting:
            reason = "only 'policy' and 'operations.allow' take effect without a restart of the gateway"
            log.warning("not-reloaded", reason=reason, changed=waiting, by=by)
            texts.append(f"these wait for a restart of the gateway: {', '.join(waiting)}")
        return Outcome.APPLIED, "; ".join(texts) or "the gateway runs with this configuration"

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
