"""Queries of clients: evaluated by classes of ours, which give what the JDK's give."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import Final

from gateway.jmx.java_runtime import class_path
from tests.components.java_classes import JAVAC
from tests.hypothesis_profiles import PROVING

SOURCE: Final = Path(__file__).parent / "queries" / "QueryComparison.java"
SEED: Final = secrets.randbelow(2**31) if PROVING else 1
COUNT: Final = 100_000 if PROVING else 600


def test_random_queries_find_what_the_jdks_classes_find(tmp_path: Path) -> None:
    jars = ":".join(map(str, class_path()))
    subprocess.run([*JAVAC, "-cp", jars, "-d", str(tmp_path), str(SOURCE)], check=True)  # noqa: S603  the JDK
    command = ["java", "-cp", f"{tmp_path}:{jars}", "amqp.gateway.jmx.QueryComparison", str(SEED), str(COUNT)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  the JDK
    *different, inside, counts = done.stdout.splitlines()
    assert not different
    assert inside == "soon the query is refused: it takes too long: ask for less"
    words = counts.split()
    assert int(words[0]) == COUNT
    assert int(words[2]) > COUNT // 10, "few queries find some of the MBeans only"
