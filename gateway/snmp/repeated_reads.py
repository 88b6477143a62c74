"""The quick way of reads of one object whose form was answered before: most of what managers send.

A manager repeats the same datagram but for the request id and the name. What stands before the request id and
between it and the name was checked once, and is compared as two runs of octets; of the answer the same parts
are kept. Whatever is special is left to `gateway.snmp.requests`, which every form is learnt from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.snmp import ber, message
from gateway.snmp.message import UsualRead
from gateway.snmp.processing import Access, Sender
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import MibView

MAX_FORMS: Final = 256
"""The number of forms that are remembered; all are forgotten when there are more."""

_COMMUNITY_LENGTH_AT: Final = 6  # behind 30 length, 02 01 version, 04
_BESIDE_PREAMBLE: Final = 1 + 4  # that octet, the PDU's tag and length, and those of the request id
_BETWEEN: Final = 6 + 2 + 4  # two numbers of one octet, and the heads of list, variable binding and name
_BEHIND_NAME: Final = len(ber.NULL)
_FIRST_EXCEPTION: Final = ber.NO_SUCH_OBJECT[0]  # the tags of values are smaller
_PADDING: Final = 0x80  # an octet that is too many where a sub-identifier begins with it

UsualAnswer: TypeAlias = Callable[[MibView, bytes, int, bytes, int, int, list[bytes]], "bytes | None"]
"""Returns the answer to a read, whose parts are those of a `UsualRead`; ``None`` where it is not usual."""


@dataclass(slots=True, eq=False)
class _Form:
    """What reads of one form share; places are those of the datagram, and of the answer up to ``id_end``.

    ``beside`` are the parts of an answer before the request id and between it and what was read, by the
    octets of a value (GET) or variable binding (GETNEXT).
    """

    size: int
    id_at: int
    id_end: int
    name_at: int
    between: bytes
    pdu_type: int
    usual: UsualRead
    access: Access
    beside: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)


class RepeatedReads:
    """The forms of reads that were answered, by the octets before the request id; it answers more of them.

    The lengths in those octets say where all else is. There is one form for each of them: of GETBULKs that
    differ in nothing but their repetitions the last one.

    Args:
        counters: incremented as for every request.
        answer_bulk: answers and counts a GETBULK; ``None`` where none is remembered, because how much of an
            answer fits depends on the manager.
        length_at: where the octet is that says how long the octets are before the PDU: a community, or in
            a ScopedPDU the name of a context.
    """

    def __init__(
        self, counters: SnmpCounters, answer_bulk: UsualAnswer | None, length_at: int = _COMMUNITY_LENGTH_AT
    ) -> None:
        self._counters = counters
        self._length_at = length_at
        self._beside_length = length_at + _BESIDE_PREAMBLE
        self._answer_bulk = answer_bulk
        self._forms: dict[bytes, _Form] = {}

    def answer(self, datagram: bytes, sender: Sender, view: MibView | None = None) -> bytes | None:
        """Return the answer to a read; ``None`` where it is not of a known form, or has no usual answer.

        Args:
            datagram: a message, or a ScopedPDU.
            sender: its sender.
            view: what is read for a sender whose rights were asked for; default: that of the form's
                community, if the sender may use it.
        """
        form = None
        if len(datagram) > self._length_at:
            # That a look-up takes longer for a match reveals nothing: what it compares are keyed hashes.
            form = self._forms.get(datagram[: datagram[self._length_at] + self._beside_length])
        if (
            form is None
            or len(datagram) != form.size
            or datagram[form.id_end : form.name_at] != form.between
            or not datagram.endswith(ber.NULL)
            or datagram[form.id_at] in message.FILLING  # perhaps an octet too many, as in `read_usual`
        ):
            return None
        if view is None:
            access = form.access
            if access.networks is not None and sender[0] not in access.networks:
                return None
            view = access.view
        name = datagram[form.name_at : -_BEHIND_NAME]
        try:
            if form.pdu_type == message.GET:
                return self._get(form, view, datagram, name)
            if form.pdu_type == message.GET_NEXT:
                return self._get_next(form, view, datagram, name)
            return self._get_bulk(form, view, datagram, name)
        except Exception:  # noqa: BLE001  the other way meets it too, and reports it
            return None

    def learn(self, datagram: bytes, usual: UsualRead, access: Access) -> None:
        """Remember the form of a read that was answered, if it is of one object.

        The caller answers known communities and users: no stranger can have the forms of others forgotten.
        """
        preamble, pdu_type, request_id, _, _, names = usual
        if len(names) != 1 or len(datagram) > message.LONGEST_SHORT:
            return
        if pdu_type == message.GET_BULK and self._answer_bulk is None:
            return
        id_at = len(preamble) + 6
        id_end = id_at - 2 + len(request_id)
        name_at = id_end + _BETWEEN
        between = datagram[id_end:name_at]
        known = self._forms.get(datagram[:id_at])
        if known is not None and known.between == between:
            return  # it had no usual answer this time
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        self._forms[datagram[:id_at]] = _Form(
            len(datagram), id_at, id_end, name_at, between, pdu_type, usual, access
        )

    def _get(self, form: _Form, view: MibView, datagram: bytes, name: bytes) -> bytes | None:
        # A name without such octets is canonical if it has a value, and to find one is quicker than to check.
        if _PADDING in name:
            return None
        value = view.read(name)
        if value[0] >= _FIRST_EXCEPTION:
            return None
        beside = form.beside.get(len(value))
        if beside is None:
            beside = _beside(form, ber.encode_varbind(name, value), len(name) + len(value))
            if beside is None:
                return None
            form.beside[len(value)] = beside
        counters = self._counters
        counters.get_requests += 1
        counters.request_variables += 1
        return b"".join((beside[0], datagram[form.id_at : form.id_end], beside[1], name, value))

    def _get_next(self, form: _Form, view: MibView, datagram: bytes, name: bytes) -> bytes | None:
        varbind = view.next_varbind(name)
        if varbind is None:
            if not ber.is_short_name(name):
                return None
            found, _ = view.walk(name, 1)
            if not found:
                return None
            varbind = found[0]
        beside = form.beside.get(len(varbind))
        if beside is None:
            beside = _beside(form, varbind, len(varbind))
            if beside is None:
                return None
            form.beside[len(varbind)] = beside
        counters = self._counters
        counters.get_nexts += 1
        counters.request_variables += 1
        return b"".join((beside[0], datagram[form.id_at : form.id_end], beside[1], varbind))

    def _get_bulk(self, form: _Form, view: MibView, datagram: bytes, name: bytes) -> bytes | None:
        assert self._answer_bulk is not None
        if not ber.is_short_name(name):
            return None
        preamble, pdu_type, _, first, second, _ = form.usual
        request_id = datagram[form.id_at - 2 : form.id_end]
        return self._answer_bulk(view, preamble, pdu_type, request_id, first, second, [name])


def _beside(form: _Form, varbind: bytes, length: int) -> tuple[bytes, bytes] | None:
    """Return the parts of an answer beside its last ``length`` octets and the request id, if it is short."""
    preamble, _, request_id, _, _, _ = form.usual
    answer = message.encode_success(preamble, request_id, [varbind])
    if len(answer) > message.LONGEST_SHORT:
        return None
    return answer[: form.id_at], answer[form.id_end : len(answer) - length]
