"""A Prometheus of Debian's package that runs for the time of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus, and its query API."""

    port: int

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Return the data of an answer of its API.

        Raises:
            AssertionError: it answers with an error, such as that of an invalid expression.
        """
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}"
        answer = served_page(url, parameters=parameters).json()
        assert answer["status"] == "success", answer
        data: dict[str, Any] = answer["data"]
        return data

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the present value of an expression: labels and numbers."""
        found = self.get("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]


@contextmanager
def prometheus(folder: Path, configuration: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Run Prometheus with this configuration; files that are named in it lie in ``folder``."""
    port = free_tcp_port()
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(dict(configuration)), encoding="utf-8")
    words = (
        "prometheus",
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)  # noqa: S603  Debian's own program
        try:
            found = Prometheus(port)
            wait_until(lambda: _answers(found), "Prometheus answers")
            yield found
        finally:
            process.kill()
            process.wait()


def promtool(*words: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Prometheus' own checker; ``text`` is its standard input."""
    return subprocess.run(  # noqa: S603  Debian's own program
        ["promtool", *map(str, words)],  # noqa: S607
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _answers(found: Prometheus) -> bool:
    """Return whether Prometheus has read its configuration and its store."""
    try:
        return served_page(f"http://127.0.0.1:{found.port}/-/ready").is_success
    except httpx.HTTPError:
        return False
