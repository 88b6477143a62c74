"""Records of the event log by the name of an event, operation or object that the running gateway has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from gateway.eventlog.query import TABLE, LogReadError, QueryError, ask, line_of_row
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.documents import Document

MAX_RECORDS: Final = 20

# The last of each object; every event and each state of an operation.
_QUERY: Final = f"""
    SELECT * FROM {TABLE}
    WHERE event_id = $name OR operation_id = $name
       OR object_id = $name OR native_id = $name OR object_name = $name
    QUALIFY kind IN ('event', 'operation')
         OR row_number() OVER (PARTITION BY object_id ORDER BY ingest_ts DESC, seq DESC) = 1
    ORDER BY ingest_ts DESC
    LIMIT {MAX_RECORDS}
"""  # noqa: S608  nothing in it is from outside


def logged_meanings(folder: Path, name: str) -> list[Document]:
    """Return the records of a name, the newest first, in the log's own form beside ``kind: "record"``.

    Args:
        folder: of the log; it need not be there.
        name: an event id, operation id, native id, object id of the log, or name of an object.

    Raises:
        CommandError: the log cannot be read.
    """
    try:
        if not folder.is_dir():
            return []
        with ask(folder, _QUERY, {"name": name}) as answer:
            rows = [json.loads(line_of_row(answer.columns, row)) for row in answer.rows]
    except (QueryError, LogReadError) as error:
        raise CommandError(ExitCode.STATE, f"the event log cannot be asked: {error}") from error
    except OSError as error:
        raise CommandError(ExitCode.STATE, f"{folder}: cannot be read: {error.strerror}") from error
    return [
        {"kind": "record", **{("record" if key == "kind" else key): value for key, value in row.items()}}
        for row in rows
    ]
