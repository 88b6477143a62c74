"""A configuration that others vary, and the complaints about them."""

from __future__ import annotations

from pathlib import Path

from gateway.config.model import Configuration
from gateway.yaml_documents import DocumentError, parse_document

FILE = Path("gateway.yaml")
RABBITMQ = """\
version: 1
sources:
  orders:
    kind: rabbitmq
    management: http://127.0.0.1:15672
    user: gateway
    password: {env: PASSWORD}
"""
UNIT = "write a duration with its unit: 500ms, 10s, 5min, 2h or 1d"
TAG = "a tag (!) means nothing here; a text that begins with ! takes quotes"


def complaints(text: str) -> list[str]:
    """Return the complaints about ``text``, without the file's name; none where it is a configuration."""
    try:
        parse_document(text, Configuration, FILE)
    except DocumentError as error:
        return [line.removeprefix("gateway.yaml:") for line in str(error).splitlines()]
    return []
