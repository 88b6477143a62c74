"""Hatchling's hook: wheel and source distribution contain the compiled Java classes.

An editable installation does not, and needs no compiler: the classes are compiled on first use then. Nor does
installing a source distribution need one: its jar is taken as it is.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JavaClassesHook(BuildHookInterface[Any]):
    """The build hook that compiles the classes and adds the jar to the distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the jar before files are collected, if ``version`` is ``standard`` and not ``editable``."""
        self._folder = tempfile.TemporaryDirectory(prefix="amqp-gateway-build-")
        if version == "editable":
            return
        java_build = _java_build(Path(self.root))
        place = f"gateway/shipped/java/{java_build.JAR_NAME}"
        carried = Path(self.root, place)
        if java_build.digest_of_jar(carried) == java_build.source_digest():
            jar = carried  # this is an unpacked source distribution
        else:
            jar = Path(self._folder.name, java_build.JAR_NAME)
            try:
                java_build.build_jar(jar)
            except java_build.JavaBuildError as error:
                raise SystemExit(str(error)) from error  # without a traceback of pip's or hatchling's
        build_data["force_include"][str(jar)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove temporary files when everything is built."""
        self._folder.cleanup()


def _java_build(root: Path) -> ModuleType:
    """Return the module `java_build`, by its file: where a wheel is built, this package is not installed."""
    specification = importlib.util.spec_from_file_location(
        "gateway_java_build", root / "gateway" / "jmx" / "java_build.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # where its dataclasses look for it
    specification.loader.exec_module(module)
    return module
