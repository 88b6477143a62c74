"""Makes the runner of each source from its settings.

The code of a kind is imported where a source of it is configured: each takes some tens of milliseconds of a
core's start, and its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

import structlog

from gateway.config.sources import Am01Source, AmiSource, CmlSource, QmfSource, Source
from gateway.inventory.instance_file import IndexNotWrittenError
from gateway.model.source_kinds import source_kind
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.service.sources.source_context import SourceContext
from gateway.service.state.restored_objects import restore_source

log = structlog.get_logger(__name__)

RETRY_SECONDS: Final = 1.0
"""Seconds after which a number for a new source is asked for again."""

RunSource = Callable[[], Coroutine[None, None, None]]
"""A function that runs a source until it is cancelled."""


def needs_last_state(settings: Source) -> bool:
    """Return whether a source needs its state at the end of the event log."""
    return receives_of_meanwhile(settings) or source_kind(settings.kind).read_whole


def receives_of_meanwhile(settings: Source) -> bool:
    """Return whether the next reports may be about the time before the start, by native ids of that time."""
    return settings.durable is not None or (isinstance(settings, AmiSource) and settings.remember)


def sets_natively(settings: Source) -> bool:
    """Return whether the objects of a source have properties that can be set without a method."""
    if isinstance(settings, Am01Source):
        return settings.get_and_set
    return source_kind(settings.kind).sets_natively


def source_or_wait(name: str, settings: Source, around: SourceContext) -> RunSource:
    """Return what `source_of` does; where the state folder takes no number of a new source, one that waits.

    The new source is not shown until then: its number would be unknown to the next core.

    Raises:
        SecretError, CommandError: as of `source_of`.
    """
    try:
        around.inventory.number_source(name)
    except IndexNotWrittenError as error:
        log.warning("source-waits", name=name, reason=str(error))
        return partial(_wait_for_number, name, around)
    return source_of(name, settings, around)


async def _wait_for_number(name: str, around: SourceContext) -> None:
    """Try again until the source has a number, and have another core start, which runs it.

    Raises:
        CommandError: ``AGAIN``, in the end.
    """
    while True:
        await asyncio.sleep(RETRY_SECONDS)
        with contextlib.suppress(IndexNotWrittenError):
            around.inventory.number_source(name)
            break
    log.info("core-starts-again", reason=f"the state folder takes the new source {name}")
    raise CommandError(ExitCode.AGAIN, "")


def source_of(name: str, settings: Source, around: SourceContext) -> RunSource:
    """Return a function that runs one source until it is cancelled.

    Raises:
        SecretError: a secret of the source cannot be read.
        CommandError: its certificates, keys, or the file of its schema, cannot be read.
    """
    source = around.inventory.add_source(
        name,
        settings.kind,
        settings.max_objects,
        sets_natively=sets_natively(settings),
        # What a delivery led to is recorded under its name, so that it can be acknowledged.
        whole=settings.durable is not None,
    )
    if needs_last_state(settings) and around.durable_context is not None:
        kind = source_kind(settings.kind)
        by_native_id = kind.native_ids_last or receives_of_meanwhile(settings)
        restore_source(source, around.durable_context.last.at_start(name), by_native_id=by_native_id)
        if not kind.restores_objects:
            around.durable_context.last.release(name)
    if isinstance(settings, AmiSource):
        from gateway.service.sources.ami import run_ami  # noqa: PLC0415  see above

        return partial(run_ami, name, settings, source, around)
    if isinstance(settings, CmlSource):
        from gateway.service.sources.cml import configured_schema, run_cml  # noqa: PLC0415

        schema = configured_schema(settings, around.folder)
        endpoint = amqp_endpoint(settings.amqp, around.folder, name, around.presented, around.logins)
        protection = around.protection(name, settings.protected)
        return partial(run_cml, name, settings, endpoint, schema, protection, source, around)
    if isinstance(settings, Am01Source):
        from gateway.service.sources.qmf import run_am01  # noqa: PLC0415

        endpoint = amqp_endpoint(settings.amqp, around.folder, name, around.presented, around.logins)
        protection = around.protection(name, settings.protected)
        return partial(run_am01, name, settings, endpoint, protection, source, around)
    if isinstance(settings, QmfSource):
        from gateway.service.sources.qmf import run_qmf  # noqa: PLC0415

        endpoint = amqp_endpoint(settings.amqp, around.folder, name, around.presented, around.logins)
        protection = around.protection(name, settings.protected, settings.durable)
        return partial(run_qmf, name, settings, endpoint, protection, source, around)
    from gateway.service.sources.rabbitmq import broker_access, run_rabbitmq  # noqa: PLC0415

    return partial(run_rabbitmq, name, settings, broker_access(name, settings, around), source, around)
