"""Readers of content records, compiled for one class: a Python function that has its elements in a row.

Everything that has a fixed length up to and including the length of the next string is unpacked at once,
into local variables. Such a function reads what is well formed; whatever else there is, it leaves to the
reader that goes from element to element (`layout`), which knows what to say about it. The source holds
positions, sizes and struct codes, and nothing that a peer has sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

from gateway.dialects.qmf.element_forms import ElementForms
from gateway.dialects.qmf.element_types import TypeCode
from gateway.dialects.qmf.object_id import ObjectId
from gateway.dialects.qmf.typed_values import QmfValues

ContentFields: TypeAlias = "tuple[int, int, int, ObjectId, QmfValues, int]"
"""Of a content record: times of sample, creation and deletion, object id, values, and where they end."""

ContentReader: TypeAlias = "Callable[[bytes, int], ContentFields]"
"""Reads what stands behind the class key, at a position of a body; raises as `Layout.read`."""

ValuesReader: TypeAlias = "Callable[[bytes, int], tuple[QmfValues, int]]"
"""Reads values at a position of a body, and tells where they end; raises as `Layout.read`."""

MAX_ELEMENTS: Final = 512
"""Classes with more are read from element to element: compiling takes longer, and is done for strangers."""

_HEAD: Final = "sampled, created, deleted, octets"


def compiled_content(
    codes: Sequence[TypeCode], optional: Sequence[bool], forms: ElementForms, otherwise: ContentReader
) -> ContentReader:
    """Return a reader of records with times, object id, presence mask and these values.

    Args:
        codes: the elements' types.
        optional: which of them a presence mask tells of, parallel to ``codes``.
        forms: how they travel.
        otherwise: asked to read each record that does not look right.
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
    """Return a reader of values alone, none of them optional; as `compiled_content`."""
    if len(codes) > MAX_ELEMENTS:
        return otherwise
    source = _Source(forms, [False] * len(codes))
    source.elements(codes)
    return cast("ValuesReader", source.compiled("values, position", otherwise))


class _Source:
    """The lines of a function, and what they refer to."""

    def __init__(self, forms: ElementForms, optional: Sequence[bool]) -> None:
        self._forms = forms
        self._optional = optional
        self._lines: list[str] = []
        self._names: dict[str, Any] = {
            "read_id": forms.object_id,
            "error": struct.error,
        }
        self._indent = "        "
        self._run = ""  # struct codes of what is to be unpacked next
        self._targets: list[str] = []  # the variables that it goes to
        self._afterwards: list[str] = []  # what is to be done then
        self._count = 0

    def fixed(self, targets: str, characters: str) -> None:
        """Have something of fixed length unpacked."""
        self._targets.append(targets)
        self._run += characters

    def mask(self) -> None:
        """Have the presence mask unpacked."""
        length = (sum(self._optional) + 7) // 8
        if length == 1:
            self.fixed("mask", "B")
        elif length:
            self.fixed("mask", f"{length}s")
            self._afterwards.append('mask = int.from_bytes(mask, "little")')

    def elements(self, codes: Sequence[TypeCode]) -> None:
        """Have all elements read."""
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
        """Return the function that gives ``result``."""
        values = "".join(f"v{number}, " for number in range(self._count))
        source = "\n".join(
            (
                "def read(body, begin):",
                "    position = begin",
                "    try:",
                *(self._lines or ["        pass"]),
                "    except (error, IndexError, UnicodeDecodeError):",
                "        return otherwise(body, begin)",
                "    if position > len(body):",
                "        return otherwise(body, begin)",
                f"    values = ({values})",
                f"    return {result}",
            )
        )
        self._names["otherwise"] = otherwise
        exec(source, self._names)  # noqa: S102  made of numbers and names that stand above, of nothing received
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
        """Write the lines for what is to be unpacked."""
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
