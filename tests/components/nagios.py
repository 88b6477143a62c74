"""Nagios and Icinga 2 of Debian's packages, each with a configuration of a test and folders of its own.

Both write a line for each result of a check, in a form that the configuration gives them. They run in the
foreground, as the user of the test.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from gateway.demo.install import CHECK_SNMP
from tests.components.waiting import DEADLINE

_SAMPLES: Final = Path("/etc/nagios4/objects")
"""The definitions that Debian's package of Nagios brings: commands, contacts, periods, templates."""

_COMMANDS: Final = Path("/etc/nagios-plugins/config")
"""The commands that Debian's packages of plugins bring: the samples use one of them."""


@dataclass(frozen=True, slots=True)
class Result:
    """The latest result of a service.

    Attributes:
        state: ``OK``, ``WARNING``, ``CRITICAL`` or ``UNKNOWN``.
        output: the text of the plugin.
        performance: the performance data.
    """

    state: str
    output: str
    performance: str


class MonitoringSystem(ABC):
    """A monitoring system that checks services each second.

    Args:
        folder: an empty folder.
        objects: the site's files by their names: hosts, services, commands.
    """

    name: ClassVar[str]

    def __init__(self, folder: Path, objects: Mapping[str, str]) -> None:
        self._folder = folder
        self._objects = folder / "conf.d"
        self._objects.mkdir()
        for name, text in objects.items():
            (self._objects / name).write_text(self._often(text), encoding="utf-8")

    @staticmethod
    @abstractmethod
    def _often(text: str) -> str:
        """Return definitions with services that are checked each second."""

    @property
    @abstractmethod
    def _daemon(self) -> list[str]:
        """The command line of the daemon."""

    @abstractmethod
    def _verification(self) -> list[str]:
        """Return the command line that only checks the configuration."""

    def verify(self) -> str:
        """Return what its own check of the configuration prints.

        Raises:
            AssertionError: the configuration is not accepted.
        """
        done = subprocess.run(  # noqa: S603  Debian's own program
            self._verification(), capture_output=True, text=True, check=False, timeout=DEADLINE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Run the daemon within the block; its configuration is verified before."""
        self.verify()
        with (self._folder / "output").open("wb") as output:
            process = subprocess.Popen(self._daemon, stdout=output, stderr=output, start_new_session=True)  # noqa: S603
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(DEADLINE)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.wait()

    @property
    def results(self) -> dict[str, Result]:
        """The latest result of each service, by its description."""
        found = {}
        for path in sorted(self._folder.glob("results*"), key=lambda path: path.stat().st_mtime_ns):
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
                # The last line may not be complete yet.
                if line.endswith("\n"):
                    name, *rest = line.removesuffix("\n").split("\t")
                    found[name] = Result(*rest)
        return found

    @property
    def states(self) -> dict[str, str]:
        """The latest state of each service."""
        return {name: result.state for name, result in self.results.items()}


class Nagios(MonitoringSystem):
    """Nagios 4, with the definitions that its package brings.

    Args:
        folder: an empty folder.
        objects: the site's files by their names.
        macros: macros of the resource file, such as ``$USER5$``.
    """

    name = "nagios"

    def __init__(
        self, folder: Path, objects: Mapping[str, str], macros: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, objects)
        given = {"$USER1$": str(CHECK_SNMP.parent), **(macros or {})}
        resources = "".join(f"{name}={value}\n" for name, value in given.items())
        (folder / "resource.cfg").write_text(resources, encoding="utf-8")
        (folder / "checkresults").mkdir()
        settings = {
            "cfg_dir": self._objects,
            "resource_file": folder / "resource.cfg",
            "log_file": folder / "nagios.log",
            "object_cache_file": folder / "objects.cache",
            "precached_object_file": folder / "objects.precache",
            "status_file": folder / "status.dat",
            "command_file": folder / "commands",
            "query_socket": folder / "queries",
            "lock_file": folder / "process",
            "temp_file": folder / "temporary",
            "temp_path": folder,
            "check_result_path": folder / "checkresults",
            "state_retention_file": folder / "retention",
            "nagios_user": pwd.getpwuid(os.geteuid()).pw_name,
            "nagios_group": grp.getgrgid(os.getegid()).gr_name,
            "illegal_macro_output_chars": "`~$&|'\"<>",  # as in the configuration that the package brings
            "use_syslog": 0,
            "check_for_updates": 0,
            "enable_notifications": 0,  # there is nobody to be notified
            "enable_flap_detection": 0,
            "interval_length": 1,
            "service_inter_check_delay_method": "n",
            "process_performance_data": 1,
            "service_perfdata_file": folder / "results",
            "service_perfdata_file_template": r"\t".join(
                f"$SERVICE{field}$" for field in ("DESC", "STATE", "OUTPUT", "PERFDATA")
            ),
        }
        samples = [f"cfg_file={path}" for path in sorted(_SAMPLES.glob("[ct]*.cfg"))]
        lines = [f"cfg_dir={_COMMANDS}", *samples, *(f"{name}={value}" for name, value in settings.items())]
        self._main = folder / "nagios.cfg"
        self._main.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @staticmethod
    def _often(text: str) -> str:
        often = "{\n    check_interval  1\n    retry_interval  1\n"
        return text.replace("define service {\n", f"define service {often}")

    @property
    def _daemon(self) -> list[str]:
        return ["/usr/sbin/nagios4", str(self._main)]

    def _verification(self) -> list[str]:
        return ["/usr/sbin/nagios4", "-v", str(self._main)]


class Icinga(MonitoringSystem):
    """Icinga 2, with the library that its package brings."""

    name = "icinga"

    def __init__(self, folder: Path, objects: Mapping[str, str]) -> None:
        super().__init__(folder, objects)
        form = r"$service.name$\t$service.state$\t$service.output$\t$service.perfdata$"
        lines = [
            f'const PluginDir = "{CHECK_SNMP.parent}"',
            'const NodeName = "test"',
            "include <itl>",
            "include <plugins>",
            'object CheckerComponent "checker" { }',
            'object PerfdataWriter "results" {',
            f'service_format_template = "{form}"',
            "rotation_interval = 1s",
            *(
                f'{kind}_{use}_path = "{folder / name}"'
                for kind, use, name in (
                    ("service", "temp", "results"),
                    ("service", "perfdata", "results-done"),
                    ("host", "temp", "hosts"),
                    ("host", "perfdata", "hosts-done"),
                )
            ),
            "}",
            f'include_recursive "{self._objects}"',
        ]
        (folder / "icinga2.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")

    @staticmethod
    def _often(text: str) -> str:
        return text.replace("check_interval = 1m", "check_interval = 1s").replace("= 30s", "= 1s")

    @property
    def _daemon(self) -> list[str]:
        settings = {
            "RunAsUser": pwd.getpwuid(os.geteuid()).pw_name,
            "RunAsGroup": grp.getgrgid(os.getegid()).gr_name,
            "PidPath": str(self._folder / "process"),
            **{
                f"{name}Dir": str(self._folder)
                for name in ("Config", "InitRun", "Log", "Data", "Cache", "Spool")
            },
        }
        defined = [
            word for name, value in settings.items() for word in ("-D", f"Configuration.{name}={value}")
        ]
        return ["/usr/sbin/icinga2", "daemon", "-c", str(self._folder / "icinga2.conf"), *defined]

    def _verification(self) -> list[str]:
        return [*self._daemon, "-C"]
