"""The gateway as a whole: its processes under one supervisor, seen by service manager and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from gateway.config.model import MetricsSettings
from gateway.service.metrics import families
from gateway.service.metrics.endpoint import METRICS, OBJECTS, Answer, MetricsEndpoint, ask_process
from gateway.service.metrics.exposition import exposed
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.service_manager import ServiceManager
from gateway.service.processes.supervisor import ProcessPlan, Supervisor
from gateway.tasks import until_one_ends


async def run_gateway(
    plans: Sequence[ProcessPlan],
    metrics: MetricsSettings,
    objects: Path | None,
    lifeline: Lifeline,
    state_lock: int,
    waiting: Callable[[], Sequence[str]],
) -> None:
    """Run the processes until SIGINT, SIGTERM, or the end of whoever started us.

    Args:
        plans: the processes.
        metrics: how they are served.
        objects: the socket of the process that tells metrics of objects; ``None`` where there is none.
        lifeline: to whoever started us.
        state_lock: descriptor of the state folder's lock.
        waiting: what of the configuration was changed since it was read.

    Raises:
        CommandError: one of them could not do its work from the very start, or the address of the metrics is
            taken.
    """
    manager = ServiceManager.of_environment()
    supervisor = Supervisor(plans, lifeline, state_lock, manager, waiting)
    async with AsyncExitStack() as beside:
        if metrics.enabled:

            async def answer(accept: str) -> tuple[bytes, str]:
                refused = families.METRICS_REFUSED.at(endpoint.refused)
                return exposed([*await supervisor.readings(), refused], accept)

            pages: dict[bytes, Answer] = {METRICS: answer}
            if objects is not None:
                pages[OBJECTS] = partial(ask_process, objects)
            endpoint = MetricsEndpoint(metrics.listen, pages)
            await beside.enter_async_context(endpoint)
        await until_one_ends(supervisor.run(), manager.watch(supervisor.silent))
