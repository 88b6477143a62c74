"""The values of content records, events and methods: in schema order, without codes, by element type.

A `Layout` is made once per class: neighbouring elements of fixed size are unpacked by one struct, so that a
record costs a few calls whatever its number of elements; content records have `compiled_content`. Source: QMF
AM2 protocol ("Configuration and Instrumentation Content Messages"); how each type travels is in
`element_forms`.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Collection, Sequence
from itertools import groupby

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.compiled_content import (
    ContentFields,
    ContentReader,
    ValuesReader,
    compiled_content,
    compiled_values,
)
from gateway.dialects.qmf.element_forms import AM2, ElementForms, ReadStep
from gateway.dialects.qmf.element_types import TypeCode
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues

_WriteStep = Callable[[QmfValues], bytes]


class _Kind(enum.Enum):
    FIXED = enum.auto()
    SINGLE = enum.auto()
    ABSENT = enum.auto()


class Layout:
    """Reads and writes the values of elements of the given types, one after the other.

    Args:
        codes: the types.
        forms: how they travel.
        absent: positions of elements that do not travel at all; their value is ``None``.

    Raises:
        LocalProtocolError: ``forms`` does not have one of the types.
    """

    __slots__ = ("_read_steps", "_write_steps", "codes", "forms")

    def __init__(
        self, codes: Sequence[TypeCode], forms: ElementForms = AM2, absent: Collection[int] = ()
    ) -> None:
        self.codes = tuple(codes)
        self.forms = forms
        if missing := [code.name for code in self.codes if code not in forms]:
            raise LocalProtocolError(f"the version that is spoken has no type {missing[0]}")
        self._read_steps: list[ReadStep] = []
        self._write_steps: list[_WriteStep] = []
        kinds = [
            _Kind.ABSENT if position in absent else _Kind.FIXED if code in forms.fixed else _Kind.SINGLE
            for position, code in enumerate(self.codes)
        ]
        position = 0
        for kind, run in groupby(kinds):
            stop = position + len(tuple(run))
            if kind is _Kind.FIXED:
                self._add_run(position, stop)
            elif kind is _Kind.ABSENT:
                self._read_steps.append(_absent_reader(stop - position))
            else:
                for single in range(position, stop):
                    code = self.codes[single]
                    self._read_steps.append(forms.readers[code])
                    self._write_steps.append(_single_writer(forms, code, single))
            position = stop

    def _add_run(self, start: int, stop: int) -> None:
        characters = "".join(self.forms.fixed[code] for code in self.codes[start:stop])
        form = struct.Struct(">" + characters)
        unpack, size = form.unpack_from, form.size

        def read(body: bytes, position: int, values: list[QmfValue]) -> int:
            values.extend(unpack(body, position))
            return position + size

        def write(values: QmfValues) -> bytes:
            run = values[start:stop]
            if None in run:
                run = tuple(0 if value is None else value for value in run)
            return form.pack(*run)

        self._read_steps.append(read)
        self._write_steps.append(write)

    def read(self, body: bytes, position: int) -> tuple[list[QmfValue], int]:
        """Return the values found at ``position`` of ``body``, and where they end.

        Raises:
            ProtocolError: the body ends before the values do, or one is malformed.
        """
        values: list[QmfValue] = []
        try:
            for step in self._read_steps:
                position = step(body, position, values)
        except (struct.error, IndexError) as error:
            raise self._ended(len(values), position) from error
        return values, position

    def _ended(self, found: int, position: int) -> ProtocolError:
        return ProtocolError(f"{len(self.codes)} values", f"the end of the body after {found}", position)

    def content_reader(self) -> ContentReader:
        """Return a reader of content records whose values these are."""
        return OptionalLayout(self.codes, [False] * len(self.codes), self.forms).content_reader()

    def values_reader(self) -> ValuesReader:
        """Return a reader of the values alone, compiled."""

        def read(body: bytes, position: int) -> tuple[QmfValues, int]:
            values, end = self.read(body, position)
            return tuple(values), end

        return compiled_values(self.codes, self.forms, read)

    def write(self, values: QmfValues) -> bytes:
        """Encode one value per element; ``None`` travels as zero, empty or null.

        Raises:
            LocalProtocolError: a value does not fit its element's type.
        """
        if len(values) != len(self.codes):
            raise LocalProtocolError(f"{len(values)} values for {len(self.codes)} elements")
        try:
            return b"".join([step(values) for step in self._write_steps])
        except (struct.error, OverflowError, TypeError, AttributeError) as error:
            raise LocalProtocolError(f"a value does not fit its type: {error}") from error


class OptionalLayout:
    """A layout some of whose elements may be missing, as a presence mask in front of the values tells.

    The mask has one bit per optional element, in schema order, least significant bit of the first octet
    first; it has no octets where nothing is optional.
    """

    __slots__ = ("_by_mask", "_codes", "_forms", "_mask_length", "_optional")

    _CACHED_MASKS = 64  # an agent uses a few of them; a hostile one shall not fill the memory

    def __init__(
        self, codes: Sequence[TypeCode], optional: Sequence[bool], forms: ElementForms = AM2
    ) -> None:
        self._codes = tuple(codes)
        self._forms = forms
        self._optional = tuple(position for position, told in enumerate(optional) if told)
        self._mask_length = (len(self._optional) + 7) // 8
        self._by_mask: dict[bytes, Layout] = {}

    def content_reader(self) -> ContentReader:
        """Return a reader of content records whose values these are, compiled."""
        form = struct.Struct(f">3Q{self._forms.object_id_length}s")
        unpack, size, read_id = form.unpack_from, form.size, self._forms.object_id

        def read(body: bytes, position: int) -> ContentFields:
            try:
                sampled, created, deleted, octets = unpack(body, position)
            except struct.error as error:
                raise ProtocolError("times and object id", "the end of the body", position) from error
            values, end = self.read(body, position + size)
            return sampled, created, deleted, read_id(octets), values, end

        optional = set(self._optional)
        told = [position in optional for position in range(len(self._codes))]
        return compiled_content(self._codes, told, self._forms, read)

    def read(self, body: bytes, position: int) -> tuple[QmfValues, int]:
        """Return one value per element (``None`` where absent), and where they end; errors as `Layout`."""
        after_mask = position + self._mask_length
        if after_mask > len(body):
            raise ProtocolError(f"{self._mask_length} octets of presence mask", "less", position)
        values, end = self._for(body[position:after_mask]).read(body, after_mask)
        return tuple(values), end

    def write(self, values: QmfValues) -> bytes:
        """Encode mask and values.

        Raises:
            LocalProtocolError: a value does not fit, or one that is not optional is ``None``.
        """
        if len(values) != len(self._codes):
            raise LocalProtocolError(f"{len(values)} values for {len(self._codes)} elements")
        bits = 0
        for bit, position in enumerate(self._optional):
            if values[position] is not None:
                bits |= 1 << bit
        mask = bits.to_bytes(self._mask_length, "little")
        if None in values:
            optional = set(self._optional)
            for position, value in enumerate(values):
                if value is None and position not in optional:
                    raise LocalProtocolError(f"element {position} is absent and not optional")
        return mask + self._for(mask).write(values)

    def _for(self, mask: bytes) -> Layout:
        known = self._by_mask.get(mask)
        if known is not None:
            return known
        bits = int.from_bytes(mask, "little")
        absent = {position for bit, position in enumerate(self._optional) if not bits >> bit & 1}
        layout = Layout(self._codes, self._forms, absent)
        if len(self._by_mask) >= self._CACHED_MASKS:
            self._by_mask.clear()
        self._by_mask[mask] = layout
        return layout


def _absent_reader(count: int) -> ReadStep:
    absent = (None,) * count

    def step(_body: bytes, position: int, values: list[QmfValue]) -> int:
        values.extend(absent)
        return position

    return step


def _single_writer(forms: ElementForms, code: TypeCode, position: int) -> _WriteStep:
    write, empty = forms.writers[code]

    def step(values: QmfValues) -> bytes:
        value = values[position]
        return write(empty if value is None else value)

    return step
