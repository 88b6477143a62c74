"""Who does not use version 3 does not load the cryptographic library, which takes 6 MB."""

from __future__ import annotations

import subprocess
import sys

LIGHT = "gateway.snmp.requests, gateway.snmp.v3.users, gateway.snmp.v3.engine, gateway.snmp.v3.rights"


def test_what_is_needed_for_other_versions_and_to_make_users_is_without_the_library() -> None:
    code = f"import sys, {LIGHT}; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603  ours
