"""Serve the instances of a file to snmpd by its protocol ``pass_persist`` (snmpd.conf(5))."""

from __future__ import annotations

import json
import sys
from bisect import bisect_left, bisect_right
from pathlib import Path


def main() -> None:
    """Read requests from standard input until it ends."""
    rows = json.loads(Path(sys.argv[1]).read_text())
    names = [tuple(map(int, name.split(".")[1:])) for name, _, _ in rows]
    for line in sys.stdin:
        command = line.strip()
        if not command:  # snmpd ends a value of "set" with an empty line
            continue
        if command == "PING":
            answer = "PONG"
        elif command == "set":
            sys.stdin.readline()
            sys.stdin.readline()
            answer = "not-writable"
        else:
            asked = tuple(map(int, sys.stdin.readline().strip().strip(".").split(".")))
            position = (bisect_right if command == "getnext" else bisect_left)(names, asked)
            found = position < len(names) and (command == "getnext" or names[position] == asked)
            answer = "\n".join(rows[position]) if found else "NONE"
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
