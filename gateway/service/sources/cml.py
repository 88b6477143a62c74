"""A source that is a console of a broker which speaks CML, such as OpenAMQ."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from gateway.config.sources import CmlSource
from gateway.dialects.cml.console import ConsoleConfig, ConsoleSession
from gateway.dialects.cml.console_config import Budget, Intervals, Matching, ShortLived
from gateway.dialects.cml.documents import MAX_BODY
from gateway.dialects.cml.messages import SchemaReply, Spelling
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.errors import ProtocolError
from gateway.file_owners import opened
from gateway.inventory.source import SourceInventory
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.protection import Protection
from gateway.mapping.files import is_statistic
from gateway.model.observations import ClassLearned, Observation
from gateway.model.times import SECOND
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.sources.source_context import SourceContext, source_console
from gateway.service.state.cached_schemas import cml_cache, schema_of
from gateway.tasks import until_one_ends

_ASSURANCES: Final[Mapping[str, Assurance]] = {
    "config-file": Assurance.CONFIG_FILE,
    "empty-values": Assurance.EMPTY_VALUES,
    "heartbeats": Assurance.HEARTBEATS,
}
_PREFIX_OCTETS: Final = 18
_RETRY_LONGEST: Final = 30 * SECOND
"""The longest interval in nanoseconds between retries.

A server of CML that is started again does not report it, and one request in so long costs nothing.
"""


async def run_cml(
    name: str,
    settings: CmlSource,
    endpoint: AmqpEndpoint,
    schema: SchemaReply | None,
    protection: Protection | None,
    source: SourceInventory,
    around: SourceContext,
) -> None:
    """Run the source until it is cancelled; ``schema`` is from the file that its settings name, if any."""
    kept = cml_cache(around.state, name) if around.state is not None else None
    if schema is None and kept is not None:
        schema = kept.read()
    config = console_config(settings, around, schema)
    console = ConsoleSession(config)

    def observed(observations: tuple[Observation, ...]) -> None:
        around.inventory.observed(source, observations, around.clock.now())
        if kept is not None and any(isinstance(one, ClassLearned) for one in observations):
            kept.learnt()

    driver = source_console(source, console, config, around, observed)
    role = AmqpRole(
        "console", console.bindings, max_queue_length=settings.max_queue_length, protection=protection
    )
    link = AmqpLink(endpoint, role, driver, around.clock)
    if kept is None:
        await link.run()
    else:
        await until_one_ends(link.run(), kept.keep(lambda: console.schema))


def console_config(settings: CmlSource, around: SourceContext, schema: SchemaReply | None) -> ConsoleConfig:
    """Return the configuration of a console session, from the settings."""
    budget = settings.budget
    return ConsoleConfig(
        # A reply is trusted by its message id, which no peer can guess.
        message_id_prefix=f"{secrets.token_urlsafe(_PREFIX_OCTETS)}.",
        system_exchange=settings.system_exchange,
        routing_key=settings.routing_key,
        reply_exchange=settings.reply_exchange,
        notify_exchange=settings.notify_exchange or "",
        notify_key=settings.notify_key,
        trusted_users=frozenset(settings.trusted_users) if settings.trusted_users is not None else None,
        spelling=Spelling(settings.spelling),
        matching=Matching(settings.matching),
        is_statistic=partial(is_statistic, around.mappings),
        secrets=around.secrets,
        schema=schema,
        assured=frozenset(_ASSURANCES[name] for name in settings.assured),
        short_lived=ShortLived(settings.short_lived),
        budget=Budget(budget.rate, budget.in_flight, budget.share),
        intervals=Intervals({**Intervals().by_class, **settings.intervals}, settings.interval),
        longest_interval=settings.longest_interval,
        stale_after=settings.stale_after,
        request_deadline=settings.request_deadline,
        object_limit=settings.max_objects,
        retry_longest=_RETRY_LONGEST,
    )


def configured_schema(settings: CmlSource, folder: Path) -> SchemaReply | None:
    """Return the schema in the file that a source names; ``None`` where it names none.

    Raises:
        CommandError: the file cannot be read, or holds something else.
    """
    if settings.schema_file is None:
        return None
    path = folder / settings.schema_file
    try:
        with opened(path) as file:
            return schema_of(file.read(MAX_BODY + 1))
    except OSError as error:
        reason = error.strerror or str(error)
    except ProtocolError as error:
        reason = f"{error}: it is no schema-reply of CML: amqp-gateway source schema writes one"
    raise CommandError(ExitCode.CONFIGURATION, f"{path}: 'schema_file' cannot be used: {reason}")
