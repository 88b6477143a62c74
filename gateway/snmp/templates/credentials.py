"""How a monitoring system identifies itself to the SNMP agent, in a template.

A template has no passphrases, but words to be replaced in their places: the gateway keeps keys only, from
which a passphrase cannot be computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

AUTHENTICATION_WORD: Final = "AUTHENTICATION-PASSPHRASE"
PRIVACY_WORD: Final = "PRIVACY-PASSPHRASE"
"""The words that stand in the places of a user's passphrases."""


@dataclass(frozen=True, slots=True)
class Community:
    """A community, of version 2c."""

    community: str = field(repr=False)


class User(msgspec.Struct, frozen=True):
    """A user of version 3.

    Attributes:
        name: the name of the user.
        authentication: the authentication protocol, as a configuration calls it.
        privacy: the privacy protocol, likewise; empty for none.
    """

    name: str
    authentication: str
    privacy: str = ""

    @property
    def level(self) -> str:
        """The highest security level that the user's protocols permit."""
        return "authPriv" if self.privacy else "authNoPriv"
