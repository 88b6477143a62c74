"""YAML files that people write, read strictly: unknown keys, duplicates and wrong types are errors.

Every complaint carries file and line, so that the author of the file finds the place at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, LiteralString, TypeAlias, TypeVar, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from gateway.file_owners import opened
from gateway.model.observations import Severity
from gateway.model.times import DAY, HOUR, MILLISECOND, MINUTE, SECOND

MAX_DOCUMENT_OCTETS = 8 * 1024 * 1024
"""The maximum size of a file; larger ones are refused before they are parsed."""

MAX_NODES = 500_000
"""The maximum number of values of one document, keys included; an alias counts as all that it stands for."""

MAX_DEPTH = 50
MAX_COMPLAINTS = 20
_MAX_SHOWN = 80

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)", re.ASCII)
_NANOSECONDS = {"ms": MILLISECOND, "s": SECOND, "min": MINUTE, "h": HOUR, "d": DAY}
_SHORTEST, _LONGEST = _NANOSECONDS["ms"], 366 * _NANOSECONDS["d"]


class StrictModel(BaseModel):
    """Base of every section of a document: frozen, no unknown keys, no silent conversions of text.

    Attributes:
        renamed_keys: for a whole document: keys of earlier releases, and the present name of each. An old
            key is an error that names the new one; it is never accepted beside it.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=False,
        populate_by_name=True,
        hide_input_in_errors=True,
        defer_build=True,  # only a whole document is validated: its sections need no validators of their own
    )

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_no_booleans(cls, value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
        """Refuse true and false where a number is wanted, which Python takes for 1 and 0."""
        wrong = [
            InitErrorDetails(type=PydanticCustomError("no_boolean", _NO_BOOLEAN), loc=(name,), input=one)
            for name, one in (value.items() if isinstance(value, dict) else ())
            if isinstance(one, bool)
            and name in cls.model_fields
            and _is_number(cls.model_fields[name].annotation)
        ]
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return value


_NO_BOOLEAN: Final[LiteralString] = "cannot be true or false"


def _is_number(annotation: Any) -> bool:  # noqa: ANN401  whatever stands in a model
    """Return whether a type is that of numbers, or of one number, and has no place for true and false."""
    parts = list(_parts(annotation))
    kinds = [part if isinstance(part, type) else type(part) for part in parts]
    return bool not in kinds and (int in kinds or float in kinds)


def _parts(annotation: Any) -> Iterator[Any]:  # noqa: ANN401  as above
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part) if get_args(part) else (part,)


_Part = TypeVar("_Part")


def parts_of(
    document: object, kinds: type[_Part] | tuple[type[_Part], ...], place: str = ""
) -> Iterator[tuple[str, _Part]]:
    """Yield each part of a document that is of these kinds, with its key, such as ``jmx.tls``.

    Args:
        document: a document, or a part of one.
        kinds: classes of parts.
        place: the key of ``document``.
    """
    if isinstance(document, kinds):
        yield place, document
    entries: Mapping[str, object] = {}
    if isinstance(document, BaseModel):
        entries = {name: getattr(document, name) for name in type(document).model_fields}
    elif isinstance(document, Mapping):
        entries = {str(name): value for name, value in document.items()}
    for name, value in entries.items():
        yield from parts_of(value, kinds, f"{place}.{name}" if place else name)


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error in a document and its place; lines count from 1."""

    line: int
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class DocumentCopy:
    """A document that was read before.

    Attributes:
        path: the file that it was read from, which complaints name.
        text: what the file had then.
    """

    path: Path
    text: str

    def __str__(self) -> str:
        return str(self.path)


DocumentFile: TypeAlias = Path | DocumentCopy
"""A file with a document, or a copy of it that is read in its place."""


class DocumentError(Exception):
    """A document cannot be used; the text lists each complaint as ``file:line: place: what``."""

    def __init__(self, path: Path, complaints: Sequence[Complaint]) -> None:
        self.path = path
        self.complaints = tuple(complaints)
        super().__init__(
            "\n".join(
                f"{path}:{c.line}: {c.place}: {c.message}" if c.place else f"{path}:{c.line}: {c.message}"
                for c in self.complaints
            )
        )


_Places: TypeAlias = dict[str | int, tuple[int, "_Places | None"]]
"""The line, from 1, of each key of a mapping, or each position of a list, and the places in its value."""


class _Reader:
    """Reads one document of plain YAML: no tags, no merging, no duplicate keys, limited in size and depth.

    Aliases count as what they stand for, so that a few lines cannot become millions of values. Its messages
    never quote a value, which may be a password that lacks its quotes.

    Each process reads all shipped files when it starts. PyYAML makes a tree of nodes of the parser's events,
    and values of that tree, which takes three times as long.

    Raises:
        yaml.reader.ReaderError: the text has characters that YAML does not have.
    """

    def __init__(self, text: str) -> None:
        self._words: Any = yaml.SafeLoader(text)  # knows what is a number or a date, and refuses characters
        # A fifth of the time of PyYAML's own parser.
        self._parser: Any = yaml.CSafeLoader(text) if yaml.__with_libyaml__ else self._words
        self._next: Callable[[], Any] = self._parser.get_event
        self._nodes = 0
        self._anchors: dict[str, tuple[Any, _Places | None, int] | None] = {}
        self._plain: dict[str, Any] = {}  # Keys, types and kinds are repeated some thousand times.

    def document(self) -> tuple[Any, _Places | None]:
        """Return the document, which is an empty mapping if the text has none, and the places in it.

        Raises:
            yaml.MarkedYAMLError: it is not YAML, or more than is read here.
        """
        try:
            self._next()  # the start of the stream
            if isinstance(self._next(), yaml.StreamEndEvent):
                return {}, {}
            document = self._value(self._next(), 1)
            self._next()  # the end of the document
            if not isinstance(event := self._next(), yaml.StreamEndEvent):
                raise _refusal("a second document begins here; there can be one in a file", event)
            return document
        finally:
            self._parser.dispose()

    def _value(self, event: Any, depth: int) -> tuple[Any, _Places | None]:  # noqa: ANN401  events have no type
        """Return the value that begins with an event, and the places in it; ``None`` for those of a scalar.

        Args:
            event: the event, which the parser has given.
            depth: the depth of the value, from 1.
        """
        kind = type(event)
        if kind is yaml.AliasEvent:
            value, places, nodes = self._meant(event)
            self._count(nodes + 1, event)
            return value, places
        if event.tag is not None:
            raise _refusal(_NO_TAGS, event)
        if depth > MAX_DEPTH:
            raise _refusal(f"is nested deeper than {MAX_DEPTH} levels", event)
        before = self._nodes
        self._count(1, event)
        anchor = event.anchor
        if anchor is not None:
            if anchor in self._anchors:
                raise _refusal("an anchor (&) of this name stands here for the second time", event)
            self._anchors[anchor] = None
        found: tuple[Any, _Places | None]
        if kind is yaml.ScalarEvent:
            found = self._scalar(event), None
        elif kind is yaml.MappingStartEvent:
            found = self._mapping(depth)
        else:
            found = self._sequence(depth)
        if anchor is not None:
            self._anchors[anchor] = found[0], found[1], self._nodes - before
        return found

    def _count(self, nodes: int, event: Any) -> None:  # noqa: ANN401  as above
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _refusal(f"holds more than {MAX_NODES} values", event)

    def _meant(self, alias: Any) -> tuple[Any, _Places | None, int]:  # noqa: ANN401  as above
        """Return the value that an alias stands for, the places in it, and the number of its values."""
        if alias.anchor not in self._anchors:
            raise _refusal("an alias (*) of nothing; a text that begins with * takes quotes", alias)
        meant = self._anchors[alias.anchor]
        if meant is None:
            raise _refusal("an alias (*) of what it stands in", alias)
        return meant

    def _mapping(self, depth: int) -> tuple[dict[Any, Any], _Places]:
        values: dict[Any, Any] = {}
        places: _Places = {}
        while type(event := self._next()) is not yaml.MappingEndEvent:
            key, inside = self._value(event, depth + 1)
            if inside is not None:
                raise _refusal("a key is a word, no list and no mapping", event)
            if key in values:
                raise _refusal(f"the key {_shortened(repr(key))} stands here for the second time", event)
            written = event.value if type(event) is yaml.ScalarEvent else str(key)
            values[key], inside = self._value(self._next(), depth + 1)
            places[written] = event.start_mark.line + 1, inside
        return values, places

    def _sequence(self, depth: int) -> tuple[list[Any], _Places]:
        values: list[Any] = []
        places: _Places = {}
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            value, inside = self._value(event, depth + 1)
            places[len(values)] = event.start_mark.line + 1, inside
            values.append(value)
        return values, places

    def _scalar(self, event: Any) -> Any:  # noqa: ANN401  as above
        text: str = event.value
        if not event.implicit[0]:  # it has quotes, or is a block of text
            return text
        if text not in self._plain:
            self._plain[text] = self._word(text, event)
        return self._plain[text]

    def _word(self, text: str, event: Any) -> Any:  # noqa: ANN401  as above
        """Return the value of a text without quotes: the same at each place, since it has no parts."""
        tag = self._words.resolve(yaml.ScalarNode, text, event.implicit)
        if tag in _TEXTS:
            return text
        if tag == _MERGE:
            raise _refusal("'<<' merges nothing here: write the keys out", event)
        if tag == _WHOLE_NUMBER and not _DECIMAL.fullmatch(text):
            raise _refusal(_NOT_DECIMAL, event)
        try:
            return self._words.construct_object(yaml.ScalarNode(tag, text, event.start_mark))
        except (ValueError, OverflowError) as error:
            raise _refusal("looks like a number or date and is none; a text takes quotes", event) from error


_TEXTS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:value"})  # the second one is a lone "="
_MERGE = "tag:yaml.org,2002:merge"
_WHOLE_NUMBER = "tag:yaml.org,2002:int"
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_NOT_DECIMAL = "a whole number has decimal digits only, and no 0 before them; a text takes quotes"
_NO_TAGS = "a tag (!) means nothing here; a text that begins with ! takes quotes"


def _refusal(problem: str, event: Any) -> yaml.MarkedYAMLError:  # noqa: ANN401  as above
    return yaml.MarkedYAMLError(None, None, problem, event.start_mark)


Model = TypeVar("Model", bound=StrictModel)


def read_document(file: DocumentFile, model: type[Model]) -> Model:
    """Read a file, or a copy of it, as one YAML document of the shape ``model``.

    Raises:
        DocumentError: the file cannot be read, is not YAML, or does not have that shape.
    """
    copy = file if isinstance(file, DocumentCopy) else copied_document(file)
    return parse_document(copy.text, model, copy.path)


def copied_document(path: Path) -> DocumentCopy:
    """Read a file, whatever it contains.

    Raises:
        DocumentError: it cannot be read, is too large, or is not text.
    """
    try:
        with opened(path) as file:
            octets = file.read(MAX_DOCUMENT_OCTETS + 1)
        if len(octets) > MAX_DOCUMENT_OCTETS:
            raise _unusable(path, f"is larger than {MAX_DOCUMENT_OCTETS} bytes")
        text = octets.decode("utf-8")
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, "is not UTF-8 text", octets.count(b"\n", 0, error.start) + 1) from error
    return DocumentCopy(path, text)


def parse_document(text: str, model: type[Model], path: Path) -> Model:
    """Parse a text as `read_document` does; ``path`` only names it in complaints."""
    try:
        data, places = _Reader(text).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _unusable(path, _problem(error), mark.line + 1 if mark else 1) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _unusable(
            path, f"the character U+{error.character:04X} has no place in a text", line
        ) from error
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = _causes(error.errors(include_url=False, include_input=False))
        complaints = [_complaint(places, dict(one), model.renamed_keys) for one in found[:MAX_COMPLAINTS]]
        if len(found) > MAX_COMPLAINTS:
            complaints.append(Complaint(1, "", f"and {len(found) - MAX_COMPLAINTS} more"))
        raise DocumentError(path, complaints) from error


def complaint_at(file: DocumentFile, places: Sequence[tuple[Sequence[str | int], str]]) -> DocumentError:
    """Return an error about a document that has its shape, but does not fit what it is about.

    Args:
        file: the file, which is read again to find the lines; line 1 where it has changed meanwhile.
        places: the keys and list positions that lead to each wrong value, and what is wrong with it.
    """
    path = file.path if isinstance(file, DocumentCopy) else file
    try:
        if isinstance(file, DocumentCopy):
            text = file.text
        else:
            text = file.read_bytes()[:MAX_DOCUMENT_OCTETS].decode("utf-8", "replace")
        _, root = _Reader(text).document()
    except (OSError, yaml.YAMLError):
        root = None
    complaints = [
        _complaint(root, {"type": "value_error", "msg": message, "loc": tuple(place)}, {})
        for place, message in places[:MAX_COMPLAINTS]
    ]
    if len(places) > MAX_COMPLAINTS:
        complaints.append(Complaint(1, "", f"and {len(places) - MAX_COMPLAINTS} more"))
    return DocumentError(path, complaints)


def _unusable(path: Path, message: str, line: int = 1) -> DocumentError:
    return DocumentError(path, [Complaint(line, "", message)])


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if problem.startswith("found undefined tag handle"):  # it goes on with the text, perhaps a password
        return _NO_TAGS
    return f"is not YAML: {problem}" if type(error) is not yaml.MarkedYAMLError else problem


_IN_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "is required",
    "model_type": "takes keys with values",
    "model_attributes_type": "takes keys with values",
    "dict_type": "takes keys with values",
    "tuple_type": "takes a list",
    "frozen_set_type": "takes a list",
    "list_type": "takes a list",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "invalid_key": "is no text: a key must be text",
    "string_type": "must be text; put quotes around what looks like something else",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "too_short": "takes at least {min_length}",
    "too_long": "takes at most {max_length}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
"""Plain messages for errors of pydantic; a name in braces is a key of the error's context."""


def in_words(error: ErrorDetails | dict[str, Any]) -> str:
    """Return the message of an error of pydantic for readers who do not write programs."""
    words = _IN_WORDS.get(error["type"])
    if words is None:
        return str(error["msg"]).removeprefix("Value error, ")
    return words.format(**error.get("ctx", {}))


def _causes(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without consequences of others: a list is too short because an item was wrong."""
    return [
        error
        for error in errors
        if error["type"] != "too_short"
        or not any(one is not error and one["loc"][: len(error["loc"])] == error["loc"] for one in errors)
    ]


def _complaint(root: _Places | None, error: dict[str, Any], renamed: Mapping[str, str]) -> Complaint:
    line, trail = 1, []
    places = root or {}
    for place, step in enumerate(error["loc"], start=1):
        found = places.get(step) or places.get(str(step))  # a key is text, as it is written
        if found is None:  # a key that is missing, or the name of a union's branch, which no file has
            if error["type"] in {"missing", "extra_forbidden"} and place == len(error["loc"]):
                trail.append(_shown(step))
            continue
        line, inside = found
        places = inside or {}
        trail.append(_shown(step))
    message = in_words(error)
    if error["type"] == "extra_forbidden" and error["loc"][-1] in renamed:
        message = f"is called '{renamed[error['loc'][-1]]}' now: rename the key"
    elif error["type"] == "union_tag_not_found":
        message = f"{error['ctx']['discriminator']} is required"
    elif error["type"] == "union_tag_invalid":
        context = error["ctx"]
        tag = _shortened(repr(context["tag"]))
        message = f"{context['discriminator']} is {tag}; it can be {context['expected_tags']}"
    return Complaint(line, ".".join(trail), message)


def _shown(step: str | int) -> str:
    text = str(step)
    return _shortened(text if text.isprintable() else repr(text))


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


# Types of values that several documents have.


def duration_of(value: Any) -> int:  # noqa: ANN401  whatever YAML gave
    """Return a duration in nanoseconds.

    Raises:
        ValueError: it is not written like one, or is out of bounds.
    """
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a duration with its unit: 500ms, 10s, 5min, 2h or 1d")
    duration = int(min(float(match[1]) * _NANOSECONDS[match[2]], _LONGEST + 1))
    if not _SHORTEST <= duration <= _LONGEST:
        raise ValueError("a duration here is 1ms to 366d")
    return duration


Duration = Annotated[int, BeforeValidator(duration_of)]
"""A duration in nanoseconds; written ``500ms``, ``10s``, ``5min``, ``2h``, ``1d``."""


def between(shortest: str, longest: str) -> AfterValidator:
    """Return a validator of narrower bounds of a duration, both included, and written like a duration."""
    return AfterValidator(partial(in_bounds, shortest, longest))


def in_bounds(shortest: str, longest: str, duration: int) -> int:
    """Return a duration that is in bounds, both included.

    Raises:
        ValueError: it is not.
    """
    if not duration_of(shortest) <= duration <= duration_of(longest):
        raise ValueError(f"is {shortest} to {longest} here")
    return duration


def _class_pattern(text: str) -> str:
    package, colon, name = text.partition(":")
    if not (package and colon and name) or not text.isprintable() or " " in text:
        raise ValueError("write PACKAGE:CLASS, such as rabbitmq:queue or *:broker")
    return text


ClassPattern = Annotated[str, Field(max_length=255), AfterValidator(_class_pattern)]
"""A pattern of ``package:class``, with ``*``, ``?`` and ``[...]`` as of a shell."""

Pattern = Annotated[str, Field(min_length=1, max_length=512)]
"""A pattern with ``*``, ``?`` and ``[...]`` as of a shell."""


def _severity(value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
    names = {severity.name.lower(): severity for severity in Severity if severity is not Severity.CLEARED}
    if isinstance(value, Severity):
        return value
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"is none of {', '.join(names)}")
    return names[value]


SeverityName = Annotated[Severity, BeforeValidator(_severity)]
"""``info``, ``warning``, ``minor``, ``major`` or ``critical``."""
