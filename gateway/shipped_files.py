"""Where the files that travel with the gateway stand: mappings and MIB modules."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).parent


def shipped_folder(name: Literal["mappings", "mibs"]) -> Path:
    """The folder of shipped files called ``name``: inside an installed wheel, else at the checkout's root.

    Raises:
        FileNotFoundError: neither is there, so the installation is damaged.
    """
    for folder in (_PACKAGE / "shipped" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the gateway's installation lacks its folder {name!r}: install it again")
