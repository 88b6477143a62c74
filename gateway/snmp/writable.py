"""What takes part in a SET: the assignments that it asks for, and the interface of tables that live here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.model.operations import Principal
from gateway.snmp.ber import Oid


@dataclass(frozen=True, slots=True)
class Assignment:
    """One variable binding of a SET.

    Attributes:
        index: its place in the request, from 1: the error-index of what is wrong with it.
        name: of the instance.
        value: canonical TLV of any type.
    """

    index: int
    name: Oid
    value: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a SET changes nothing: error-status of `gateway.snmp.message`, as of v2c, and error-index."""

    status: int
    index: int


class WritableTable(Protocol):
    """Variables that live in this process: a SET changes them at once, and asks nobody.

    One SET calls `test` with all its assignments below ``prefix``, so that rows of several tables, told in
    any order, are seen together.
    """

    @property
    def prefix(self) -> Oid:
        """What the names of its variables begin with, and no other's do."""

    def test(self, principal: Principal, assignments: Sequence[Assignment]) -> Refusal | None:
        """The first thing wrong with these assignments (RFC 3416 section 4.2.5), if any; changes nothing.

        Args:
            principal: ``snmp:WRITER``, and where from.
            assignments: in the order of the request; names may stand there twice.
        """

    def commit(self, principal: Principal, assignments: Sequence[Assignment], identity: str) -> None:
        """Make the assignments, which `test` has found nothing wrong with in the same turn of the loop.

        It cannot fail; what they set going may. ``identity`` is that of the SET, the same if it comes again.
        """
