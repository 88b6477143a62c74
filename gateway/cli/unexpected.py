"""The end of a command by an error that it did not expect: one line for its user, and a file with the rest.

It is imported only then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway.temporary_folders import NoTemporaryFolderError

_ADVICE: Final = {
    errno.EACCES: "see whose it is, and run this as a user who may use it",
    errno.EPERM: "see whose it is, and run this as a user who may use it",
    errno.ENOENT: "see that it is there",
    errno.EROFS: "name a place that can be written",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "end other programs, or raise the machine's limit of open files",
    errno.ENOMEM: "end other programs, or run it on a machine with more memory",
    errno.EAGAIN: "end other programs, or raise the limit of processes (ulimit -u)",
    errno.EAFNOSUPPORT: "this kernel lacks that kind of address: choose another one",
}
_FAULT: Final = "this is a fault of the gateway: report it"
_COPY: Final = "--copy"


def unexpected(error: Exception, arguments: Sequence[str]) -> str:
    """Return one line on an error: what failed, what to do, and the file that has the rest.

    Args:
        error: the error.
        arguments: those of the process. One of the gateway's has its copy of the configuration in the state
            folder, which keeps the file; that of another command is a temporary one.
    """
    if isinstance(error, NoTemporaryFolderError):
        return str(error)
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_folder_gone():
        return "the current folder was removed: go to another one"  # a relative path needs it
    what, advice = type(error).__name__, _FAULT
    if isinstance(error, OSError) and error.errno is not None:
        named = (str(each) for each in (error.filename, error.filename2, error.strerror) if each is not None)
        what, advice = ": ".join(named), _ADVICE.get(error.errno, "correct that, and run this again")
    elif text := " ".join(str(error).split()):
        what = f"{what}: {text:.300}"
    file = _kept("".join(traceback.format_exception(error)), arguments)
    rest = f"its details are in {file}" if file else f"it happened in {_place(error)}"
    return f"unexpected error: {what}: {advice}; {rest}"


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _kept(text: str, arguments: Sequence[str]) -> Path | None:
    """Write the details where that is possible; return the file."""
    for path in _files(arguments):
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            return path
    return None


def _files(arguments: Sequence[str]) -> Iterator[Path]:
    # One for each process: it may end so again and again.
    if _COPY in arguments[:-1]:
        name = arguments[1] if arguments[0] == "process" else arguments[0]
        yield Path(arguments[list(arguments).index(_COPY) + 1]).parent / f".error-{Path(name).name}.txt"
    with contextlib.suppress(OSError):
        descriptor, path = tempfile.mkstemp(prefix="amqp-gateway-error-", suffix=".txt")
        os.close(descriptor)
        yield Path(path)
    with contextlib.suppress(RuntimeError):  # the user has no home
        yield Path.home() / ".amqp-gateway-error.txt"


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename} line {frames[-1].lineno}" if frames else sys.executable
