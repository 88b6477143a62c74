"""The settings of protected bodies in ``gateway.yaml``: whose keys sign, encrypt, read and are trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gateway.config.types import FilePath, Name
from gateway.model.times import MINUTE
from gateway.yaml_documents import Duration, StrictModel, between

KEY_FOLDER = "keys"
"""The default folder of key rings, relative to the configuration's folder."""


class ProtectedSettings(StrictModel):
    """The protection of all bodies of one source or agent; plain bodies are refused.

    Attributes:
        keys: the folder of key rings, as `amqp-gateway keys` makes and reads them.
        sign_as: the name of the ring whose private key signs.
        encrypt_for: the name of the ring whose key is encrypted for: the receivers'.
        read_as: the names of the rings whose private keys open what arrives; default: that of `sign_as`.
        trusted: the names of the rings whose signatures are accepted.
        late: the age at which a body is refused.
    """

    keys: FilePath = Path(KEY_FOLDER)
    sign_as: Name
    encrypt_for: Name
    read_as: Annotated[tuple[Name, ...], Field(min_length=1, max_length=16)] | None = None
    trusted: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
    late: Annotated[Duration, between("10s", "1h")] = 5 * MINUTE
