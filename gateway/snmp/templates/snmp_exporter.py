"""The configuration of Prometheus' snmp_exporter: ``snmp.yml``.

The gateway's own numbers are one module, and each class is one of its own, so that a scrape walks what it
asks for. Types come from this file and not from the wire: a 64-bit gauge is a gauge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import yaml

from gateway.snmp.ber import dotted
from gateway.snmp.templates.credentials import AUTHENTICATION_WORD, PRIVACY_WORD, Community, User
from gateway.snmp.templates.monitored import Label, Monitored, MonitoredTable, Reading

GATEWAY_MODULE = "amqpGateway"
"""The module with the numbers of the gateway itself; that of a class is named by its descriptor."""

AUTH = "amqpGateway"
"""The name of the credentials, in the form that 0.23 and later read."""

_MAX_REPETITIONS = 100
_TIMEOUT = "10s"
_HEADER = (
    "# snmp.yml for Prometheus' snmp_exporter {versions}, written by `amqp-gateway template snmp-exporter`.\n"
    "# Modules: {modules}.\n"
)
_NUMBER = r"([-+]?[0-9.]+(?:e[-+]?[0-9]+)?|NaN|-?Infinity)"


def snmp_exporter(
    own: Iterable[MonitoredTable],
    classes: Iterable[MonitoredTable],
    reader: Community | User,
    *,
    flat: bool,
) -> str:
    """Return the text of ``snmp.yml``.

    Args:
        own: the tables of the gateway itself.
        classes: those of classes.
        reader: what the exporter identifies itself with.
        flat: in the form that versions before 0.23 read, with that in each module.
    """
    modules = {GATEWAY_MODULE: _module(list(own))}
    modules |= {table.name: _module([table]) for table in classes}
    version, auth = _auth(reader)
    document: dict[str, object]
    if flat:
        document = {name: {**module, "version": version, "auth": auth} for name, module in modules.items()}
    else:
        document = {"auths": {AUTH: {**auth, "version": version}}, "modules": modules}
    versions = "before 0.23" if flat else "0.23 and later"
    head = _HEADER.format(versions=versions, modules=", ".join(modules))
    return head + yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=110)


_AUTHENTICATION: Final = {name: name.upper() for name in ("md5", "sha224", "sha256", "sha384", "sha512")}
_PRIVACY: Final = {"aes128": "AES", "aes192-reeder": "AES192C", "aes256-reeder": "AES256C"}


def _auth(reader: Community | User) -> tuple[int, dict[str, str]]:
    """Return the version of SNMP, and the exporter's keys for it."""
    if isinstance(reader, Community):
        return 2, {"community": reader.community}
    auth = {
        "username": reader.name,
        "security_level": reader.level,
        "password": AUTHENTICATION_WORD,
        "auth_protocol": _AUTHENTICATION.get(reader.authentication, "SHA"),
    }
    if reader.privacy:
        auth["priv_protocol"] = _PRIVACY.get(reader.privacy, reader.privacy.upper())
        auth["priv_password"] = PRIVACY_WORD
    return 3, auth


def _module(tables: list[MonitoredTable]) -> dict[str, object]:
    walked = {dotted(value.oid): None for table in tables for value in table.values if table.indexes}
    walked |= {dotted(label.oid): None for table in tables for label in table.labels}
    got = [dotted((*value.oid, 0)) for table in tables for value in table.values if not table.indexes]
    return {
        "walk": sorted(walked, key=lambda oid: [int(part) for part in oid.split(".")]),
        **({"get": got} if got else {}),
        "max_repetitions": _MAX_REPETITIONS,
        "timeout": _TIMEOUT,
        "metrics": [metric for table in tables for metric in _metrics(table)],
    }


def _metrics(table: MonitoredTable) -> Iterator[dict[str, object]]:
    for value in table.values:
        metric: dict[str, object] = {
            "name": value.name,
            "oid": dotted(value.oid),
            "type": "DisplayString" if value.reading is Reading.TEXT else value.reading.value,
            "help": f"{_help(value)} - {dotted(value.oid)}",
        }
        if table.indexes:
            metric["indexes"] = [{"labelname": index, "type": "gauge"} for index in table.indexes]
            # The name of the source says what its number does. The numbers of rows stay: names may be cut,
            # and one series twice would make the exporter fail.
            metric["lookups"] = [
                *(_lookup(label) for label in table.labels),
                {"labels": [], "labelname": table.indexes[0]},
            ]
        if value.reading is Reading.TEXT:
            metric["regex_extracts"] = {"": [{"regex": _NUMBER, "value": "$1"}]}
        yield metric


def _lookup(label: Label) -> dict[str, object]:
    return {
        "labels": list(label.indexes),
        "labelname": label.name,
        "oid": dotted(label.oid),
        "type": "DisplayString",
    }


def _help(value: Monitored) -> str:
    said = value.description
    if value.labels:
        said += " " + ", ".join(f"{number} {label}" for number, label in value.labels)
    return f"{said} Unit: {value.unit}" if value.unit else said
