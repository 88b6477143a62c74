"""Pages that programs of a test serve over HTTP on this machine."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from gateway.links.tls import NO_AUTHORITIES

_SECONDS = 60.0


def served_page(url: str, parameters: Mapping[str, str] | None = None) -> httpx.Response:
    """Return what is served at an ``http`` URL; `httpx.get` would read the system's authorities each time.

    Raises:
        httpx.HTTPError: it is not answered.
    """
    return httpx.get(url, params=parameters, verify=NO_AUTHORITIES, trust_env=False, timeout=_SECONDS)
