"""``python -m tests.bench.snmp.udp_echo PORT``: send each datagram back, the limit of a Python agent."""

from __future__ import annotations

import socket
import sys


def main(port: int) -> None:
    """Echo for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.bind(("127.0.0.1", port))
        buffer = bytearray(2048)
        view = memoryview(buffer)
        while True:
            size, peer = echo.recvfrom_into(buffer)
            echo.sendto(view[:size], peer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
