"""What `make install` and `make deb` put beside the gateway: completion, manual, documentation, alerts."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.main import GROUPS
from tests.distribution.building import ROOT

OURS = Path(sys.executable).with_name("amqp-gateway")
COMPLETED = """
. "$1"
PATH="$2:$PATH" COMP_WORDS=(amqp-gateway log q) COMP_CWORD=2
_amqp_gateway_completion amqp-gateway
echo "${COMPREPLY[@]}"
"""

pytestmark = pytest.mark.xdist_group("distribution")


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed") / "share"
    script = ROOT / "docker" / "debian" / "shared_files.sh"
    subprocess.run(["bash", script, OURS, folder], check=True)  # noqa: S603, S607
    return folder


def test_a_shell_completes_commands(share: Path) -> None:
    file = share / "bash-completion/completions/amqp-gateway"
    words: list[str | Path] = ["bash", "-c", COMPLETED, "bash", file, OURS.parent]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "query\n"
    assert (
        (share / "zsh/vendor-completions/_amqp-gateway")
        .read_text("utf-8")
        .startswith("#compdef amqp-gateway")
    )
    assert "complete " in (share / "fish/vendor_completions.d/amqp-gateway.fish").read_text("utf-8")


def test_the_manual_page_has_every_command(share: Path) -> None:
    page = gzip.decompress((share / "man/man1/amqp-gateway.1.gz").read_bytes()).decode()
    headings = re.findall(r"^\.SS amqp-gateway (\S+)", page.replace("\\-", "-"), re.MULTILINE)
    assert set(headings) == {name for commands in GROUPS.values() for name in commands}
    assert ".SS amqp\\-gateway log query [OPTIONS] [SQL]" in page
    requests = set(re.findall(r"^[.'](\S*)", page, re.MULTILINE))
    assert requests <= {"TH", "SH", "SS", "TP", "PP", "nf", "fi"}, "no text is taken for a request"


def test_documentation_alerts_and_board_are_there(share: Path) -> None:
    for file, original in (
        ("doc/amqp-gateway/docs/cli.md", "docs/cli.md"),
        ("doc/amqp-gateway/docs/_static/flow.svg", "docs/_static/flow.svg"),
        ("amqp-gateway/prometheus/alerts.yml", "docker/prometheus/alerts.yml"),
        ("amqp-gateway/grafana/amqp-brokers.json", "docker/grafana/amqp-brokers.json"),
    ):
        assert (share / file).read_bytes() == (ROOT / original).read_bytes()
