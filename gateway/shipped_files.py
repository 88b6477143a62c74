"""The installed version, and the files shipped with the gateway: mappings and MIB modules."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

DISTRIBUTION = "amqp-management-gateway"

_PACKAGE = Path(__file__).parent


@cache
def version() -> str:
    """Return the gateway's version, as it is installed."""
    from importlib.metadata import version as installed  # noqa: PLC0415  few commands need it, and 15 ms

    return installed(DISTRIBUTION)


def shipped_folder(name: Literal["mappings", "mibs"]) -> Path:
    """Return the folder of shipped files ``name``: of an installed wheel, else at the checkout's root.

    Raises:
        FileNotFoundError: neither is there, so the installation is damaged.
    """
    for folder in (_PACKAGE / "shipped" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the gateway's installation lacks its folder {name!r}: install it again")
