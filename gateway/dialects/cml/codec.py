"""Converts bodies of CML to messages and back, in the spelling of OpenAMQ and in that of the specification.

Both spellings are recognised. Only schema-replies have classes, groups, fields and
enumerations, which functions of their own read and write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.cml.documents import (
    MAX_BODY,
    MAX_MARKUP,
    Element,
    decode_text,
    escape_for_openamq,
    escape_for_xml,
    read_document,
)
from gateway.dialects.cml.messages import (
    OPENAMQ_LIMIT,
    SPECIFICATION_LIMIT,
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    Message,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    MonitorRequest,
    NamedText,
    Notify,
    Received,
    Request,
    SchemaClass,
    SchemaField,
    SchemaGroup,
    SchemaMember,
    SchemaMethod,
    SchemaReply,
    SchemaRequest,
    Spelling,
    UnknownCommand,
    object_number,
)
from gateway.dialects.cml.safety import MAX_REQUEST, Assurance, check_request
from gateway.dialects.errors import LocalProtocolError, ProtocolError

_SHOWN: Final = 40


_FLAGS: Final = {"0": False, "1": True}
_INDENT: Final = "   "


# The exact form that OpenAMQ generates.
_GENERATED_HEAD: Final = re.compile(
    rb'<\?xml version="1\.0"\?><cml version="1\.0" xmlns="http://www\.openamq\.org/schema/cml">'
    rb'<inspect-reply class="([^"<]*+)" object="([0-9]{1,10}+)" status="([^"<]*+)"(?: notice="([^"<]*+)")?>'
)
_GENERATED_END: Final = b"</inspect-reply></cml>\0"
_FIELD_BEGIN: Final = '<field name="'
_FIELD_END: Final = "</field>"
_BETWEEN: Final = _FIELD_END + _FIELD_BEGIN
_NAME_END: Final = '">'
_OTHER_MARKUP: Final = 5


def read_message(body: bytes) -> Received:
    """Return the message of a body: its first command; further ones are ignored, as in OpenAMQ.

    Raises:
        ProtocolError: it is too long, not a document of CML, or malformed.
    """
    found = _GENERATED_HEAD.match(body)
    if found is not None:
        reply = _generated_reply(body, found)
        if reply is not None:
            return reply
    return _command(read_document(body))


def _generated_reply(body: bytes, head: re.Match[bytes]) -> InspectReply | None:
    """Read an inspect-reply as OpenAMQ generates it; return ``None`` for any other form.

    Nearly everything that a poller receives has this form, and this takes a fraction of the time. The form is
    checked by counting: two ``<`` and two quotes for each field.
    """
    start, end = head.end(), len(body) - len(_GENERATED_END)
    if not body.endswith(_GENERATED_END) or len(body) > MAX_BODY or body.find(0) != len(body) - 1:
        return None
    inner = body[start:end]
    markup = inner.count(b"<")
    if inner.count(b'"') != markup or markup + _OTHER_MARKUP > MAX_MARKUP:
        return None
    fields: tuple[Field, ...] | None = ()
    if inner:
        plain = inner.isascii() and b"&" not in inner
        fields = _generated_fields(inner.decode("ascii" if plain else "latin-1"), markup, plain=plain)
    if fields is None:
        return None
    class_name, number, status, notice = head.groups(b"")
    return InspectReply(
        decode_text(status), int(number), decode_text(class_name), fields, decode_text(notice)
    )


def _generated_fields(text: str, markup: int, *, plain: bool) -> tuple[Field, ...] | None:
    """Read one character for each octet; ``plain`` means that there are no references and only ASCII."""
    if not text.startswith(_FIELD_BEGIN) or not text.endswith(_FIELD_END):
        return None
    parts = text[len(_FIELD_BEGIN) : -len(_FIELD_END)].split(_BETWEEN)
    if 2 * len(parts) != markup:
        return None
    halves = [part.partition(_NAME_END) for part in parts]
    if plain:
        fields = tuple([Field(name, value) for name, mark, value in halves if mark])
    else:
        fields = tuple([Field(_decoded(name), _decoded(value)) for name, mark, value in halves if mark])
    return fields if len(fields) == len(parts) else None


def _decoded(text: str) -> str:
    return text if text.isascii() and "&" not in text else decode_text(text.encode("latin-1"))


def _command(root: Element) -> Received:
    if root.name != "cml":
        raise ProtocolError("the root cml", repr(root.name[:_SHOWN]), root.offset)
    if not root.children:
        raise ProtocolError("a command", "none", root.offset)
    command = root.children[0]
    if root.lead.strip():
        raise ProtocolError("nothing but blanks before the command", "text", root.offset)
    read = _READERS.get(command.name)
    return UnknownCommand(command.name) if read is None else read(command)


def _schema_request(_: Element) -> Received:
    return SchemaRequest()


def _inspect_request(element: Element) -> Received:
    return InspectRequest(_object_asked_for(element), _class_name(element))


def _modify_request(element: Element) -> Received:
    # OpenAMQ accepts any element with a name as a field.
    return ModifyRequest(_object_asked_for(element), _fields(element), _class_name(element))


def _method_request(element: Element) -> Received:
    name = element.attributes.get("name")
    return MethodRequest(_object_asked_for(element), name, _fields(element), _class_name(element))


def _monitor_request(element: Element) -> Received:
    return MonitorRequest(_object_asked_for(element), _class_name(element))


def _inspect_reply(element: Element) -> Received:
    status, notice = _status_and_notice(element)
    # A field without a name is none of the class, as any that is not in the schema.
    fields = tuple(_field(child, child.attributes.get("name", "")) for child in element.children)
    return InspectReply(status, _object_number(element), _class_name(element), fields, notice)


def _modify_reply(element: Element) -> Received:
    status, notice = _status_and_notice(element)
    return ModifyReply(status, _object_number(element), _class_name(element), notice)


def _method_reply(element: Element) -> Received:
    status, notice = _status_and_notice(element)
    name = element.attributes.get("name", "")
    return MethodReply(status, _object_number(element), _class_name(element), notice, name)


def _notify(element: Element) -> Received:
    return Notify(element.text.strip())


def _invalid(_: Element) -> Received:
    return Invalid()


def _class_name(element: Element) -> str:
    return element.attributes.get("class", "")


def _status_and_notice(element: Element) -> tuple[str, str]:
    return element.attributes.get("status", ""), element.attributes.get("notice", "")


def _object_asked_for(element: Element) -> int | str | None:
    text = element.attributes.get("object")
    if text is None:
        return None
    number = object_number(text)
    return text if number is None else number


def _object_number(element: Element, attribute: str = "object") -> int | None:
    text = element.attributes.get(attribute)
    if text is None:
        return None
    number = object_number(text)
    if number is None:
        raise ProtocolError("an object's number", repr(text[:_SHOWN]), element.offset)
    return number


def _fields(element: Element) -> tuple[Field, ...]:
    return tuple(_field(child, _name_of_field(child)) for child in element.children)


def _name_of_field(element: Element) -> str:
    name = element.attributes.get("name")
    if name is None:
        raise ProtocolError("the name of a field", "none", element.offset)
    return name


def _field(element: Element, name: str) -> Field:
    number, text = _object_number(element, "id"), element.text
    if number is not None and object_number(text.strip()) == number:
        text = ""  # written by this gateway, for readers of either spelling
    return Field(name, text, number)


def read_schema_reply(element: Element) -> SchemaReply:
    """Return the schema in a ``schema-reply``. Unknown elements in it are ignored.

    Raises:
        ProtocolError: a flag is neither 0 nor 1.
    """
    attribute = element.attributes.get
    return SchemaReply(
        attribute("status", ""),
        attribute("name", ""),
        attribute("version", ""),
        tuple(_class(child) for child in element.children if child.name == "class"),
        attribute("notice", ""),
    )


def _class(element: Element) -> SchemaClass:
    methods = tuple(_method(child) for child in element.children if child.name == "method")
    return SchemaClass(*_naming(element), _members(element), methods)


def _method(element: Element) -> SchemaMethod:
    return SchemaMethod(*_naming(element), _members(element))


def _members(element: Element) -> tuple[SchemaMember, ...]:
    return tuple(_member(child) for child in element.children if child.name in ("field", "group"))


def _member(element: Element) -> SchemaMember:
    name, label, description = _naming(element)
    inspect, modify = _flag(element, "inspect", default=True), _flag(element, "modify", default=False)
    if element.name == "group":
        return SchemaGroup(name, _members(element), inspect, modify, label, description)
    return SchemaField(
        name,
        element.attributes.get("type", ""),
        _flag(element, "repeat", default=False),
        inspect,
        modify,
        label,
        description,
        tuple(NamedText(_name(child), child.text) for child in element.children if child.name == "value"),
    )


def _naming(element: Element) -> tuple[str, str, str]:
    return _name(element), element.attributes.get("label", ""), element.text.strip()


def _name(element: Element) -> str:
    return element.attributes.get("name", "")  # what has none is left out (`schema.left_out`)


def _flag(element: Element, name: str, *, default: bool) -> bool:
    text = element.attributes.get(name)
    if text is None:
        return default
    if text not in _FLAGS:
        raise ProtocolError(f"{name} 0 or 1", repr(text[:_SHOWN]), element.offset)
    return _FLAGS[text]


_READERS: Final[dict[str, Callable[[Element], Received]]] = {
    "schema-request": _schema_request,
    "schema-reply": read_schema_reply,
    "inspect-request": _inspect_request,
    "inspect-reply": _inspect_reply,
    "modify-request": _modify_request,
    "modify-reply": _modify_reply,
    "method-request": _method_request,
    "method-reply": _method_reply,
    "monitor-request": _monitor_request,
    "notify": _notify,
    "invalid": _invalid,
}


_AboutObject: TypeAlias = (
    InspectRequest | ModifyRequest | MethodRequest | MonitorRequest | InspectReply | ModifyReply | MethodReply
)

_DECLARATION: Final = '<?xml version="1.0"?>'
_OPENAMQ_ROOT: Final = '<cml version="1.0" xmlns="http://www.openamq.org/schema/cml">'
_SPECIFICATION_ROOT: Final = '<cml version="1.0">'
# The schema is static text in OpenAMQ, with a head of its own.
_OPENAMQ_SCHEMA_HEAD: Final = (
    f"{_DECLARATION}\n"
    '<cml xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"\n'
    ' xsi:schemaLocation="http://www.openamq.org/schema/cml cml.xsd"\n'
    ' xmlns="http://www.openamq.org/schema/cml"\n'
    ' version="1.0">\n'
)


def write_message(
    message: Message, spelling: Spelling, assured: AbstractSet[Assurance] = frozenset()
) -> bytes:
    """Return the body of a message; `safety.check_request` defines which requests are refused.

    Raises:
        LocalProtocolError: the request is refused, a number is out of range, a field has both text and an
            object's number, or a text has characters that the spelling cannot express.
    """
    write = _OPENAMQ if spelling is Spelling.OPENAMQ else _SPECIFICATION
    if not isinstance(message, Request):
        return write.body(message)
    check_request(message, spelling, assured)
    body = write.body(message)
    if spelling is Spelling.OPENAMQ and len(body) > MAX_REQUEST:
        raise LocalProtocolError(f"a request to OpenAMQ may have {MAX_REQUEST} octets, not {len(body)}")
    return body


@dataclass(frozen=True, slots=True)
class _Writer:
    """The form of one spelling.

    Attributes:
        document: the text around a command.
        schema_document: the text around a schema, which is written in lines.
        child: the form of a field with an object's name and number.
        limit: the upper bound of numbers of objects.
    """

    encoding: str
    escape: Callable[[str], str]
    document: tuple[str, str]
    schema_document: tuple[str, str]
    child: str
    limit: int

    def body(self, message: Message) -> bytes:
        if isinstance(message, SchemaReply) and message.classes:
            begin, end = self.schema_document
            command = write_schema_reply(message, self.escape)
        else:
            begin, end = self.document
            command = self._command(message)
        return f"{begin}{command}{end}".encode(self.encoding)

    def _command(self, message: Message) -> str:
        match message:
            case SchemaRequest():
                return "<schema-request/>"
            case SchemaReply():
                naming = ("name", message.name), ("version", message.version)
                return self._element("schema-reply", (*naming, *_outcome(message)))
            case Notify():
                return f"<notify>{self.escape(message.text)}</notify>"
            case Invalid():
                return "<invalid/>"
            case _:
                return self._about_object(message)

    def _about_object(self, message: _AboutObject) -> str:
        about: tuple[tuple[str, str], ...] = self._object(message.class_name, message.object_id)
        content = ""
        match message:
            case InspectRequest():
                name = "inspect-request"
            case MonitorRequest():
                name = "monitor-request"
            case ModifyRequest():
                name, content = "modify-request", self._fields(message.fields)
            case MethodRequest():
                name, content = "method-request", self._fields(message.fields)
                about = *about, ("name", message.name or "")
            case InspectReply():
                name, content = "inspect-reply", self._fields(message.fields)
                about = *about, *_outcome(message)
            case ModifyReply():
                name, about = "modify-reply", (*about, *_outcome(message))
            case _:
                name, about = "method-reply", (("name", message.name), *about, *_outcome(message))
        return self._element(name, about, content)

    def _object(self, class_name: str, object_id: int | str | None) -> tuple[tuple[str, str], ...]:
        """Return the attributes of an object, class first, as in OpenAMQ."""
        number = "" if object_id is None else str(self._number(int(object_id)))
        return ("class", class_name), ("object", number)

    def _number(self, number: int) -> int:
        if not 0 <= number < self.limit:
            raise LocalProtocolError(f"an object's number must be 0 to {self.limit - 1}, not {number}")
        return number

    def _element(self, name: str, attributes: Iterable[tuple[str, str]], content: str = "") -> str:
        shown = "".join([f' {key}="{self.escape(value)}"' for key, value in attributes if value])
        return f"<{name}{shown}>{content}</{name}>" if content else f"<{name}{shown}/>"

    def _fields(self, fields: tuple[Field, ...]) -> str:
        return "".join([self._field(field) for field in fields])

    def _field(self, field: Field) -> str:
        name = self.escape(field.name)
        if field.object_id is None:
            return f'<field name="{name}">{self.escape(field.text)}</field>'
        if field.text:
            raise LocalProtocolError(f"{field.name}: a child has a number and no text")
        if not field.object_id:
            raise LocalProtocolError(f"{field.name}: object 0 is no child, and ends OpenAMQ's shell")
        return self.child.format(name=name, number=self._number(field.object_id))


def _outcome(reply: SchemaReply | InspectReply | ModifyReply | MethodReply) -> tuple[tuple[str, str], ...]:
    return ("status", reply.status), ("notice", reply.notice)


_OPENAMQ: Final = _Writer(
    "latin-1",
    escape_for_openamq,
    (f"{_DECLARATION}{_OPENAMQ_ROOT}", "</cml>\0"),
    (_OPENAMQ_SCHEMA_HEAD, "</cml>\n"),
    '<field name="{name}">{number}</field>',
    OPENAMQ_LIMIT,
)
_SPECIFICATION: Final = _Writer(
    "utf-8",
    escape_for_xml,
    (f"{_DECLARATION}{_SPECIFICATION_ROOT}", "</cml>"),
    (f"{_DECLARATION}\n{_SPECIFICATION_ROOT}\n", "</cml>\n"),
    # The form of the specification, with the text that OpenAMQ's shell reads.
    '<field name="{name}" id="{number}">{number}</field>',
    SPECIFICATION_LIMIT,
)


def write_schema_reply(reply: SchemaReply, escape: Callable[[str], str]) -> str:
    """Return the element in lines, with the spacing of both OpenAMQ and the specification's examples."""
    naming = (
        ("name", reply.name),
        ("version", reply.version),
        ("status", reply.status),
        ("notice", reply.notice),
    )
    writer = _SchemaWriter(escape)
    lines = [f"<schema-reply{writer.attributes(naming)}>"]
    for each in reply.classes:
        lines += writer.class_lines(each)
    return "\n".join((*lines, "</schema-reply>\n"))


class _SchemaWriter:
    """Writes the lines of a schema; ``escape`` escapes text in the spelling."""

    def __init__(self, escape: Callable[[str], str]) -> None:
        self._escape = escape

    def attributes(self, pairs: tuple[tuple[str, str], ...]) -> str:
        return "".join(f' {name} = "{self._escape(value)}"' for name, value in pairs if value)

    def class_lines(self, each: SchemaClass) -> Iterator[str]:
        yield f"{_INDENT}<class{self._named(each)}>"
        yield from self._description(each.description, 2)
        yield from self._members(each.fields, 2)
        for method in each.methods:
            yield f"{_INDENT * 2}<method{self._named(method)}>"
            yield from self._description(method.description, 2)
            yield from self._members(method.fields, 2)  # not indented further, as in OpenAMQ
            yield f"{_INDENT * 2}</method>"
        yield f"{_INDENT}</class>"

    def _named(self, item: SchemaClass | SchemaMethod | SchemaMember, *more: tuple[str, str]) -> str:
        # Written even if empty, because a schema without names could not be read.
        name = f' name = "{self._escape(item.name)}"'
        return name + self.attributes((("label", item.label), *more))

    def _description(self, text: str, depth: int) -> Iterator[str]:
        if text:
            yield f"{_INDENT * depth}{self._escape(text)}"

    def _members(self, members: tuple[SchemaMember, ...], depth: int) -> Iterator[str]:
        for member in members:
            flags = (("inspect", "" if member.inspect else "0"), ("modify", "1" if member.modify else ""))
            if isinstance(member, SchemaGroup):
                yield f"{_INDENT * depth}<group{self._named(member, *flags)}>"
                yield from self._description(member.description, depth + 1)
                yield from self._members(member.fields, depth + 1)
                yield f"{_INDENT * depth}</group>"
            else:
                yield from self._field(member, flags, depth)

    def _field(self, each: SchemaField, flags: tuple[tuple[str, str], ...], depth: int) -> Iterator[str]:
        kind = ("type", each.type), ("repeat", "1" if each.repeat else "")
        tag = f"{_INDENT * depth}<field{self._named(each, *kind, *flags)}"
        if not each.description and not each.values:
            yield f"{tag} />"
            return
        yield f"{tag}>"
        yield from self._description(each.description, depth + 1)
        for value in each.values:
            label, text = self._escape(value.label), self._escape(value.text)
            yield f'{_INDENT * (depth + 1)}<value name = "{label}">{text}</value>'
        yield f"{_INDENT * depth}</field>"
