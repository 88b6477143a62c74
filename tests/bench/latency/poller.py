"""Send one request to an SNMP agent repeatedly, and print each new answer and its time.

``poller.py HOST PORT REQUEST``, the request in hexadecimal. A process of its own, with the standard library
alone, so that it looks often and disturbs little: twice a millisecond. Lines are ``MONOTONIC_NS ANSWER``.
"""

from __future__ import annotations

import socket
import sys
import time

PAUSE_SECONDS = 0.000_4
ANSWER_SECONDS = 1.0
MAX_DATAGRAM = 65_535


def main() -> None:
    """Ask until killed."""
    host, port, request = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
    former = b""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.settimeout(ANSWER_SECONDS)
        agent.connect((host, port))
        while True:
            agent.send(request)
            try:
                answer = agent.recv(MAX_DATAGRAM)
            except (TimeoutError, ConnectionError):
                continue
            if answer != former:
                former = answer
                sys.stdout.write(f"{time.monotonic_ns()} {answer.hex()}\n")
                sys.stdout.flush()
            time.sleep(PAUSE_SECONDS)


main()
