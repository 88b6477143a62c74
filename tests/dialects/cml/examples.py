"""One message of each kind, as OpenAMQ writes it and as the specification's spelling has it."""

from __future__ import annotations

from gateway.dialects.cml.messages import (
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
    Notify,
    SchemaReply,
    SchemaRequest,
    Status,
)
from tests.dialects.cml.recordings import HEAD, TAIL

SPECIFICATION_HEAD = b'<?xml version="1.0"?><cml version="1.0">'

# The message, the command in OpenAMQ's spelling, and in the specification's where that differs.
COMMANDS: list[tuple[Message, bytes, bytes | None]] = [
    (SchemaRequest(), b"<schema-request/>", None),
    (InspectRequest(0), b'<inspect-request object="0"/>', None),
    (InspectRequest(0, "broker"), b'<inspect-request class="broker" object="0"/>', None),
    (
        ModifyRequest(1, (Field("trace", "1"),), "config"),
        b'<modify-request class="config" object="1"><field name="trace">1</field></modify-request>',
        None,
    ),
    (
        ModifyRequest(1, (Field("vhost", "é%"), Field("port", "a b"))),
        (
            b'<modify-request object="1"><field name="vhost">&Atilde;&copy;%</field>'
            b'<field name="port">a b</field></modify-request>'
        ),
        (
            '<modify-request object="1"><field name="vhost">é&#37;</field>'
            '<field name="port">a b</field></modify-request>'
        ).encode(),
    ),
    (
        MethodRequest(22, "purge", (), "queue"),
        b'<method-request class="queue" object="22" name="purge"/>',
        None,
    ),
    (
        MethodRequest(0, "lock", (Field("setting", "1"),)),
        b'<method-request object="0" name="lock"><field name="setting">1</field></method-request>',
        None,
    ),
    (MonitorRequest(0), b'<monitor-request object="0"/>', None),
    (SchemaReply(Status.NO_ACCESS), b'<schema-reply status="noaccess"/>', None),
    (
        InspectReply(
            Status.OK, 16, "binding", (Field("name", "a<b"), Field("arguments"), Field("queues", "1"))
        ),
        (
            b'<inspect-reply class="binding" object="16" status="ok"><field name="name">a&lt;b</field>'
            b'<field name="arguments"></field><field name="queues">1</field></inspect-reply>'
        ),
        None,
    ),
    (InspectReply(Status.NOT_FOUND), b'<inspect-reply status="notfound"/>', None),
    (InspectReply("busy"), b'<inspect-reply status="busy"/>', None),
    (InspectReply(""), b"<inspect-reply/>", None),
    (
        InspectReply(Status.OK, 7, "queue", (), 'not "all"'),
        b'<inspect-reply class="queue" object="7" status="ok" notice="not &quot;all&quot;"/>',
        None,
    ),
    (
        ModifyReply(Status.OK, 1, "config", "To activate the new port setting, restart the broker"),
        (
            b'<modify-reply class="config" object="1" status="ok"'
            b' notice="To activate the new port setting, restart the broker"/>'
        ),
        None,
    ),
    (MethodReply(Status.OK, 0, "broker"), b'<method-reply class="broker" object="0" status="ok"/>', None),
    (
        MethodReply(Status.OK, 32, name="purge"),
        b'<method-reply name="purge" object="32" status="ok"/>',
        None,
    ),
    (
        Notify("E: queue exceeded configured limit of 5000."),
        b"<notify>E: queue exceeded configured limit of 5000.</notify>",
        None,
    ),
    (Invalid(), b"<invalid/>", None),
]

OPENAMQ = [(message, HEAD + command + TAIL + b"\0") for message, command, _ in COMMANDS]
SPECIFICATION = [
    (message, SPECIFICATION_HEAD + (command if other is None else other) + TAIL)
    for message, command, other in COMMANDS
]
