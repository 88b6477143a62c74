"""Faults of the broker during a change, each until the end of a block."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.components.stopping import stop
from tests.outcomes.scene import Scene


@contextmanager
def no_change_arriving(there: Scene) -> Iterator[None]:
    """Block all changes to the broker, which still answers readers, so that its source does not go down."""
    released = threading.Event()
    with there.relay.stepping_in(before=released.wait):
        try:
            yield
        finally:
            released.set()


@contextmanager
def standing_still_at_the_change(there: Scene) -> Iterator[None]:
    """Stop the broker as soon as the distant source's change is on its way to it."""
    with there.relay.stepping_in(before=lambda: _stop(there)):
        try:
            yield
        finally:
            go_on(there)


@contextmanager
def without_rights(there: Scene) -> Iterator[None]:
    """Revoke the administrator's rights of the writing account."""
    there.tag_writer("")
    try:
        yield
    finally:
        there.tag_writer("administrator")


@contextmanager
def losing_rights_at_the_change(there: Scene) -> Iterator[None]:
    """Revoke the writing account's rights once the distant source's change is on its way to the broker."""
    with there.relay.stepping_in(before=lambda: there.tag_writer("")):
        try:
            yield
        finally:
            there.tag_writer("administrator")


def go_on(there: Scene) -> None:
    """Resume the broker, if it is stopped."""
    os.kill(_process(there), signal.SIGCONT)


def _stop(there: Scene) -> None:
    stop(_process(there))


def _process(there: Scene) -> int:
    process = there.broker.node_process()
    assert process is not None
    return process
