"""DuckDB as the gateway uses it: in memory, within limits, offline, and reading what it is shown only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
"""What we need is built in; nothing is ever fetched, and no file of the user's is read."""


@contextmanager
def database(
    readable: Path, *, memory_mebibytes: int, threads: int, scratch: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database that ends with the block.

    It can use files below ``readable`` and those of ``scratch``; its settings cannot be changed any more, and
    times are in UTC.

    Args:
        readable: a folder; also DuckDB's ``COPY`` can write there.
        memory_mebibytes: for data; the process takes some 100 MiB more.
        threads: at most.
        scratch: a folder for what does not fit into memory; default: a new one that goes with the block.
    """
    with ExitStack() as stack:
        if scratch is None:
            scratch = Path(stack.enter_context(TemporaryDirectory(prefix="amqp-gateway-")))
        opened = stack.enter_context(duckdb.connect(":memory:", config=_OFFLINE))
        opened.execute("SET TimeZone = 'UTC'")
        opened.execute(f"SET threads = {threads:d}")
        opened.execute(f"SET memory_limit = '{memory_mebibytes:d}MiB'")
        opened.execute("SET temp_directory = $1", [str(scratch)])
        folders = sorted(
            {str(folder) for given in (readable, scratch) for folder in (given, given.resolve())}
        )
        opened.execute("SET allowed_directories = $1", [folders])
        opened.execute("SET enable_external_access = false")
        opened.execute("SET lock_configuration = true")
        yield opened
