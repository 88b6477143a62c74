"""The values of content records, events and methods: in schema order, without codes, by element type.

A `Layout` is made once per class: adjacent elements of fixed size are unpacked by one struct, so that a
record takes a few calls whatever its number of elements. Source: QMF AM2 protocol ("Configuration and
Instrumentation Content Messages"); `elements` has the encoding of each type.

Content records are read by a function that is compiled for their class (`compiled_content`): all fields up to
and including the length of the next string are unpacked at once, into local variables. Such a function reads
well-formed records, and leaves all others to the `Layout`, which raises the right error. Its source contains
positions, sizes and struct codes, but nothing that a peer sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias, cast

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.elements import AM2, ElementForms, ReadStep, TypeCode
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues

_WriteStep = Callable[[QmfValues], bytes]


class Layout:
    """Reads and writes the values of consecutive elements of the given types.

    Args:
        codes: the types.
        forms: the encodings.

    Raises:
        LocalProtocolError: ``forms`` lacks one of the types.
    """

    __slots__ = ("_read_steps", "_write_steps", "codes", "forms")

    def __init__(self, codes: Sequence[TypeCode], forms: ElementForms = AM2) -> None:
        self.codes = tuple(codes)
        self.forms = forms
        if missing := [code.name for code in self.codes if code not in forms]:
            raise LocalProtocolError(f"the version in use has no type {missing[0]}")
        self._read_steps: list[ReadStep] = []
        self._write_steps: list[_WriteStep] = []
        position = 0
        for fixed, run in groupby(self.codes, forms.fixed.__contains__):
            run_codes = tuple(run)
            stop = position + len(run_codes)
            if fixed:
                self._add_run(position, stop)
            else:
                self._read_steps += [forms.readers[code] for code in run_codes]
                self._write_steps += [
                    _single_writer(forms, code, position + offset) for offset, code in enumerate(run_codes)
                ]
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
            try:
                return form.pack(*run)
            except struct.error:  # a search for absent values before packing would take longer
                return form.pack(*(0 if value is None else value for value in run))

        self._read_steps.append(read)
        self._write_steps.append(write)

    def read(self, body: bytes, position: int) -> tuple[list[QmfValue], int]:
        """Return the values at ``position`` of ``body``, and the position behind them.

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
        """Return a reader of content records with these values."""
        return OptionalLayout(self.codes, [False] * len(self.codes), self.forms).content_reader()

    def values_reader(self) -> ValuesReader:
        """Return a compiled reader of the values alone."""

        def read(body: bytes, position: int) -> tuple[QmfValues, int]:
            values, end = self.read(body, position)
            return tuple(values), end

        return compiled_values(self.codes, self.forms, read)

    def write(self, values: QmfValues) -> bytes:
        """Encode one value per element; ``None`` is encoded as zero, empty or null.

        Raises:
            LocalProtocolError: a value does not fit its element's type.
        """
        if len(values) != len(self.codes):
            raise LocalProtocolError(f"{len(values)} values for {len(self.codes)} elements")
        return _written(self._write_steps, values)


class OptionalLayout:
    """A layout with optional elements, whose presence a mask before the values defines.

    The mask has one bit per optional element, in schema order, least significant bit of the first octet
    first; without optional elements it has no octets.
    """

    __slots__ = ("_codes", "_forms", "_mask_length", "_optional", "_steps", "_whole")

    def __init__(
        self, codes: Sequence[TypeCode], optional: Sequence[bool], forms: ElementForms = AM2
    ) -> None:
        self._codes = tuple(codes)
        self._forms = forms
        self._whole = Layout(codes, forms)
        self._optional = tuple(optional)
        self._mask_length = (sum(self._optional) + 7) // 8
        # A reader and a writer of each single element, because any of them may be absent.
        self._steps = [
            (_single_reader(forms, code), _single_writer(forms, code, position))
            for position, code in enumerate(self._codes if self._mask_length else ())
        ]

    def content_reader(self) -> ContentReader:
        """Return a compiled reader of content records with these values."""
        form = struct.Struct(f">3Q{self._forms.object_id_length}s")
        unpack, size, read_id = form.unpack_from, form.size, self._forms.object_id

        def read(body: bytes, position: int) -> ContentFields:
            try:
                sampled, created, deleted, octets = unpack(body, position)
            except struct.error as error:
                raise ProtocolError("times and object id", "the end of the body", position) from error
            values, end = self.read(body, position + size)
            return sampled, created, deleted, read_id(octets), values, end

        return compiled_content(self._codes, self._optional, self._forms, read)

    def read(self, body: bytes, position: int) -> tuple[QmfValues, int]:
        """Return one value per element (``None`` where absent), and the end; raise as `Layout.read`."""
        if not self._mask_length:
            whole, end = self._whole.read(body, position)
            return tuple(whole), end
        after_mask = position + self._mask_length
        if after_mask > len(body):
            raise ProtocolError(f"{self._mask_length} octets of presence mask", "less", position)
        mask, position = body[position:after_mask], after_mask
        values: list[QmfValue] = []
        bit = 0
        try:
            for optional, (step, _) in zip(self._optional, self._steps, strict=True):
                present = not optional or mask[bit >> 3] >> (bit & 7) & 1
                bit += optional
                if present:
                    position = step(body, position, values)
                else:
                    values.append(None)
        except (struct.error, IndexError) as error:
            raise ProtocolError(
                f"{len(self._codes)} values", f"the end of the body after {len(values)}", position
            ) from error
        return tuple(values), position

    def write(self, values: QmfValues) -> bytes:
        """Encode mask and values.

        Raises:
            LocalProtocolError: a value does not fit, or one that is not optional is ``None``.
        """
        if len(values) != len(self._codes):
            raise LocalProtocolError(f"{len(values)} values for {len(self._codes)} elements")
        if not self._mask_length:
            if None in values:
                raise LocalProtocolError(f"element {values.index(None)} is absent and not optional")
            return self._whole.write(values)
        mask = bytearray(self._mask_length)
        steps: list[_WriteStep] = []
        bit = 0
        for value, optional, (_, step) in zip(values, self._optional, self._steps, strict=True):
            if value is not None:
                steps.append(step)
                if optional:
                    mask[bit >> 3] |= 1 << (bit & 7)
            elif not optional:
                raise LocalProtocolError("an element is absent and not optional")
            bit += optional
        return bytes(mask) + _written(steps, values)


def _written(steps: Sequence[_WriteStep], values: QmfValues) -> bytes:
    try:
        return b"".join([step(values) for step in steps])
    except (struct.error, OverflowError, TypeError, AttributeError) as error:
        raise LocalProtocolError(f"a value does not fit its type: {error}") from error


def _single_reader(forms: ElementForms, code: TypeCode) -> ReadStep:
    if code not in forms.fixed:
        return forms.readers[code]
    form = struct.Struct(">" + forms.fixed[code])
    unpack, size = form.unpack_from, form.size

    def step(body: bytes, position: int, values: list[QmfValue]) -> int:
        values += unpack(body, position)
        return position + size

    return step


def _single_writer(forms: ElementForms, code: TypeCode, position: int) -> _WriteStep:
    """Return the writer of one element; an absent value is encoded as zero, empty or null."""
    if code in forms.fixed:
        pack = struct.Struct(">" + forms.fixed[code]).pack
        return lambda values: pack(values[position])
    write, empty = forms.writers[code]

    def step(values: QmfValues) -> bytes:
        value = values[position]
        return write(empty if value is None else value)

    return step


ContentFields: TypeAlias = "tuple[int, int, int, ObjectId, QmfValues, int]"
"""A content record: times of sample, creation and deletion, object id, values, and position behind."""

ContentReader: TypeAlias = "Callable[[bytes, int], ContentFields]"
"""Reads a content record from the position after its class key; raises as `Layout.read`."""

ValuesReader: TypeAlias = "Callable[[bytes, int], tuple[QmfValues, int]]"
"""Reads values at a position of a body, and returns the position behind them; raises as `Layout.read`."""

MAX_ELEMENTS: Final = 512
"""Classes with more elements are not compiled: compiling takes long, and peers determine the number."""

_HEAD: Final = "sampled, created, deleted, octets"


def compiled_content(
    codes: Sequence[TypeCode], optional: Sequence[bool], forms: ElementForms, otherwise: ContentReader
) -> ContentReader:
    """Return a reader of records with times, object id, presence mask and these values.

    Args:
        codes: the elements' types.
        optional: which of them the presence mask covers, parallel to ``codes``.
        forms: the encodings.
        otherwise: reads each record that is not well formed.
    """
    if len(codes) > MAX_ELEMENTS:
        return otherwise
    source = _Source(forms, optional)
    source.fixed(_HEAD, f"3Q{forms.object_id_length}s")
    source.mask()
    source.elements(codes)
    return cast(
        "ContentReader",
        source.compiled("sampled, created, deleted, read_id(octets), values, position", otherwise),
    )


def compiled_values(codes: Sequence[TypeCode], forms: ElementForms, otherwise: ValuesReader) -> ValuesReader:
    """Return a reader of values alone, without optional ones; as `compiled_content`."""
    if len(codes) > MAX_ELEMENTS:
        return otherwise
    source = _Source(forms, [False] * len(codes))
    source.elements(codes)
    return cast("ValuesReader", source.compiled("values, position", otherwise))


class _Source:
    """The source of a function, and the objects that it refers to."""

    def __init__(self, forms: ElementForms, optional: Sequence[bool]) -> None:
        self._forms = forms
        self._optional = optional
        self._lines: list[str] = []
        self._names: dict[str, Any] = {
            "read_id": forms.object_id,
            "error": struct.error,
            "malformed": ProtocolError,
        }
        self._indent = "        "
        self._run = ""  # struct codes of the next fields to unpack
        self._targets: list[str] = []  # the variables that they are assigned to
        self._afterwards: list[str] = []  # the lines that follow
        self._count = 0

    def fixed(self, targets: str, characters: str) -> None:
        """Add fields of fixed length."""
        self._targets.append(targets)
        self._run += characters

    def mask(self) -> None:
        """Add the presence mask."""
        length = (sum(self._optional) + 7) // 8
        if length == 1:
            self.fixed("mask", "B")
        elif length:
            self.fixed("mask", f"{length}s")
            self._afterwards.append('mask = int.from_bytes(mask, "little")')

    def elements(self, codes: Sequence[TypeCode]) -> None:
        """Add all elements."""
        self._count = len(codes)
        bit = 1
        for number, code in enumerate(codes):
            if not self._optional[number]:
                self._element(number, code)
                continue
            self._flush()
            self._line(f"if mask & {bit}:")
            self._indent += "    "
            self._element(number, code)
            self._flush()
            self._indent = self._indent[:-4]
            self._line(f"else: v{number} = None")
            bit <<= 1
        self._flush()

    def compiled(self, result: str, otherwise: Callable[[bytes, int], Any]) -> Callable[[bytes, int], Any]:
        """Return the compiled function, which returns ``result``."""
        values = "".join(f"v{number}, " for number in range(self._count))
        source = "\n".join(
            (
                "def read(body, begin):",
                "    position = begin",
                "    try:",
                *(self._lines or ["        pass"]),
                "    except (error, malformed, IndexError, UnicodeDecodeError):",
                "        return otherwise(body, begin)",
                "    if position > len(body):",
                "        return otherwise(body, begin)",
                f"    values = ({values})",
                f"    return {result}",
            )
        )
        self._names["otherwise"] = otherwise
        exec(source, self._names)  # noqa: S102  it consists of the numbers and names above, of nothing received
        return cast("Callable[[bytes, int], Any]", self._names["read"])

    def _element(self, number: int, code: TypeCode) -> None:
        variable = f"v{number}"
        forms = self._forms
        if code in forms.fixed:
            self.fixed(variable, forms.fixed[code])
        elif code is TypeCode.REFERENCE:
            self.fixed(variable, f"{forms.object_id_length}s")
            self._afterwards.append(f"{variable} = read_id({variable})")
        elif code in forms.text_lengths:
            self.fixed("length", forms.text_lengths[code])
            self._flush()
            self._line("start = position")
            self._line("position += length")
            self._line(f"{variable} = body[start:position].decode()")
        else:
            self._flush()
            self._single(number, code)

    def _single(self, number: int, code: TypeCode) -> None:
        self._names[f"step{number}"] = self._forms.readers[code]
        self._line("one = []")
        self._line(f"position = step{number}(body, position, one)")
        self._line(f"v{number} = one[0]")

    def _flush(self) -> None:
        """Write the lines that unpack the collected fields."""
        if not self._targets:
            return
        form = struct.Struct(">" + self._run)
        name = f"unpack{len(self._names)}"
        self._names[name] = form.unpack_from
        self._line(f"{', '.join(self._targets)}, = {name}(body, position)")
        self._line(f"position += {form.size}")
        for line in self._afterwards:
            self._line(line)
        self._run = ""
        self._targets.clear()
        self._afterwards.clear()

    def _line(self, text: str) -> None:
        self._lines.append(self._indent + text)
