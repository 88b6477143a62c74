"""The gateway as a whole: its processes under one supervisor, seen by service manager and Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from gateway.config.model import MetricsSettings
from gateway.service.lifeline import Lifeline
from gateway.service.metrics import families
from gateway.service.metrics.endpoint import MetricsEndpoint
from gateway.service.metrics.exposition import exposed
from gateway.service.service_manager import ServiceManager
from gateway.service.supervisor import ProcessPlan, Supervisor
from gateway.tasks import until_one_ends


async def run_gateway(
    plans: Sequence[ProcessPlan], metrics: MetricsSettings, lifeline: Lifeline, state_lock: int
) -> None:
    """Run the processes until SIGINT, SIGTERM, or the end of whoever started us.

    Raises:
        CommandError: one of them could not do its work from the very start, or the address of the metrics is
            taken.
    """
    manager = ServiceManager.of_environment()
    supervisor = Supervisor(plans, lifeline, state_lock, manager)
    async with AsyncExitStack() as beside:
        if metrics.enabled:

            async def answer(accept: str) -> tuple[bytes, str]:
                refused = families.METRICS_REFUSED.at(endpoint.refused)
                return exposed([*await supervisor.readings(), refused], accept)

            endpoint = MetricsEndpoint(metrics.listen, answer)
            await beside.enter_async_context(endpoint)
        await until_one_ends(supervisor.run(), manager.watch(supervisor.silent))
