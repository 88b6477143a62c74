"""What happens to the broker while somebody changes it, each until a block ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.components.stopping import stop
from tests.outcomes.scene import Scene


@contextmanager
def standing_still(there: Scene) -> Iterator[None]:
    """The broker does nothing, and holds its connections."""
    _stop(there)
    try:
        yield
    finally:
        go_on(there)


@contextmanager
def no_change_arriving(there: Scene) -> Iterator[None]:
    """No change reaches the broker, which answers whoever reads it: its source is not called down."""
    released = threading.Event()
    with there.relay.stepping_in(before=released.wait):
        try:
            yield
        finally:
            released.set()


@contextmanager
def standing_still_at_the_change(there: Scene) -> Iterator[None]:
    """The same, from when the distant source's change is on its way to it."""
    with there.relay.stepping_in(before=lambda: _stop(there)):
        try:
            yield
        finally:
            go_on(there)


@contextmanager
def without_rights(there: Scene) -> Iterator[None]:
    """The writing account is no administrator."""
    there.tag_writer("")
    try:
        yield
    finally:
        there.tag_writer("administrator")


@contextmanager
def losing_rights_at_the_change(there: Scene) -> Iterator[None]:
    """The same, from when the distant source's change is on its way to the broker."""
    with there.relay.stepping_in(before=lambda: there.tag_writer("")):
        try:
            yield
        finally:
            there.tag_writer("administrator")


def go_on(there: Scene) -> None:
    """The end of a standstill, which may have ended before."""
    os.kill(_process(there), signal.SIGCONT)


def _stop(there: Scene) -> None:
    stop(_process(there))


def _process(there: Scene) -> int:
    process = there.broker.node_process()
    assert process is not None
    return process
