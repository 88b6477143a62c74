"""Logging of every process: structured, one event a line, on standard error."""

from __future__ import annotations

import logging
import os
import sys

import structlog


def configure_logs(process: str, level: int = logging.INFO) -> None:
    """Log to standard error: readable on a terminal, else one JSON object a line.

    Args:
        process: part of every line: ``core``, ``snmp``, ...
        level: what is told at least; a command that says itself what is wrong wants nothing less than
            ``logging.CRITICAL``.
    """
    renderer: structlog.typing.Processor
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(colors=not os.environ.get("NO_COLOR"))  # no-color.org
    else:
        renderer = structlog.processors.JSONRenderer(sort_keys=True)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # A line and its end in one write: all processes share standard error.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    structlog.contextvars.bind_contextvars(process=process)
    # The links tell in one line what these libraries tell in a traceback.
    for library in ("aio_pika", "aiormq", "httpx", "httpcore", "asyncio", "py4j"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
