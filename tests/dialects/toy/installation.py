"""A copy of the gateway with the toy dialect, made by the list "Adding a dialect" of docs/development.md."""

from __future__ import annotations

import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.components.command_line import Ended, RunningCommand, amqp_gateway, running

ROOT: Final = Path(__file__).parents[3]
HERE: Final = Path(__file__).parent

SETTINGS: Final = '''
class ToySource(StrictModel):
    """A broker with lamps.

    Attributes:
        exchange: questions are published to it, and it routes the answers.
        interval: the time between two questions.
        max_objects: the most lamps that are shown.
        protected: bodies are signed and encrypted.
    """

    kind: Literal["toy"]
    same_as: Name | None = None
    amqp: AmqpSettings
    exchange: AmqpName = "toys"
    interval: Interval = SECOND
    max_objects: Annotated[int, Field(ge=1, le=1000)] = 100
    protected: ProtectedSettings | None = None

    @property
    def durable(self) -> None:
        """Always ``None``: nothing is kept while the gateway is away."""
        return


'''
SOURCE: Final = '''"""A source that asks for lamps."""

from __future__ import annotations

from gateway.config.sources import ToySource
from gateway.dialects.toy.console import ToyConfig, ToyConsole
from gateway.inventory.source import SourceInventory
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.service.sources.source_context import SourceContext, source_console


async def run_toy(
    name: str, settings: ToySource, endpoint: AmqpEndpoint, source: SourceInventory, around: SourceContext
) -> None:
    """Run the source until it is cancelled."""
    config = ToyConfig(settings.exchange, settings.interval)
    console = ToyConsole(config)
    driver = source_console(source, console, config, around)
    role = AmqpRole("console", console.bindings, probed=settings.exchange)
    await AmqpLink(endpoint, role, driver, around.clock).run()
'''
ADDED: Final = {
    "gateway/dialects/toy/__init__.py": '"""The toy dialect."""\n',
    "gateway/dialects/toy/console.py": (HERE / "console.py").read_text("utf-8"),
    "gateway/service/sources/toy.py": SOURCE,
}
"""The new modules by path."""

CHANGED: Final = (
    (
        "gateway/model/source_kinds.py",
        '    "rabbitmq": SourceKind(',
        '    "toy": SourceKind(read_whole=True),\n    "rabbitmq": SourceKind(',
    ),
    ("gateway/config/sources.py", "\nSource = Annotated[", f"{SETTINGS}\nSource = Annotated["),
    ("gateway/config/sources.py", "CmlSource | AmiSource, Field", "CmlSource | AmiSource | ToySource, Field"),
    (
        "gateway/service/sources/sources.py",
        "CmlSource, QmfSource, Source\n",
        "CmlSource, QmfSource, Source, ToySource\n",
    ),
    (
        "gateway/service/sources/sources.py",
        "    if isinstance(settings, CmlSource):\n",
        (
            "    if isinstance(settings, ToySource):\n"
            "        from gateway.service.sources.toy import run_toy  # noqa: PLC0415\n\n"
            "        endpoint = amqp_endpoint(settings.amqp, around.folder, name)\n"
            "        return partial(run_toy, name, settings, endpoint, source, around)\n"
            "    if isinstance(settings, CmlSource):\n"
        ),
    ),
    (
        "gateway/service/sources/captures.py",
        "from gateway.dialects.session import ConsoleSession\n",
        (
            "from gateway.dialects.session import ConsoleSession\n"
            "from gateway.dialects.toy.console import ToyConfig, ToyConsole\n"
        ),
    ),
    (
        "gateway/service/sources/captures.py",
        '        "qmf": _AM2,\n',
        (
            '        "qmf": _AM2,\n'
            '        "toy": SessionKind("toy", lambda *_: ToyConfig(), ToyConsole, frozenset()),\n'
        ),
    ),
    ("gateway/service/diagnostics/checks.py", "    Source,\n", "    Source,\n    ToySource,\n"),
    (
        "gateway/service/diagnostics/checks.py",
        "    source: QmfSource | Am01Source | CmlSource, settings: ProtectedSettings,",
        "    source: QmfSource | Am01Source | CmlSource | ToySource, settings: ProtectedSettings,",
    ),
    (
        "gateway/service/diagnostics/checks.py",
        "        elif isinstance(source, CmlSource):\n",
        (
            "        elif isinstance(source, ToySource):\n"
            "            await check_amqp(amqp_endpoint(source.amqp, folder), source.exchange)\n"
            "        elif isinstance(source, CmlSource):\n"
        ),
    ),
    ("gateway/service/diagnostics/doctor/brokers.py", "    Source,\n", "    Source,\n    ToySource,\n"),
    (
        "gateway/service/diagnostics/doctor/brokers.py",
        "    if isinstance(source, CmlSource):\n",
        (
            "    if isinstance(source, ToySource):\n"
            "        return findings\n"
            "    if isinstance(source, CmlSource):\n"
        ),
    ),
    (
        "gateway/cli/decode.py",
        "from gateway.service.processes.exit_codes",
        "from gateway.dialects.toy.console import ToyDecoder\nfrom gateway.service.processes.exit_codes",
    ),
    ("gateway/cli/decode.py", '    "cml": CmlDecoder,\n', '    "cml": CmlDecoder,\n    "toy": ToyDecoder,\n'),
)
"""Changes of modules, in order: each with the text that is replaced, which a module contains once."""


COMMAND_OF_COPY: Final = (sys.executable, "-P", "-m", "gateway.cli.main")


class ToyGateway:
    """A gateway that knows the toy dialect.

    Args:
        folder: an empty folder for the copy.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        for part in ("gateway", "mappings", "mibs"):
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        for path, text in ADDED.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        for path, before, after in CHANGED:
            text = (folder / path).read_text(encoding="utf-8")
            assert text.count(before) == 1, f"{path} has {text.count(before)} times: {before!r}"
            (folder / path).write_text(text.replace(before, after), encoding="utf-8")

    def command(self, *words: str | Path) -> Ended:
        """Run a command of the copy to its end."""
        return amqp_gateway(*words, program=COMMAND_OF_COPY, PYTHONPATH=str(self._folder))

    def running(self, *words: str | Path, log: Path) -> AbstractContextManager[RunningCommand]:
        """Run a command of the copy, with a lifeline."""
        # Else the modules in the working folder come first, in the processes that it starts.
        return running(
            *words, log=log, program=COMMAND_OF_COPY, PYTHONPATH=str(self._folder), PYTHONSAFEPATH="1"
        )


def changed_files() -> set[str]:
    """Return the paths of all files that the dialect adds or changes."""
    return {*ADDED, *(path for path, _, _ in CHANGED)}
