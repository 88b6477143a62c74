"""A plain JMX client as a process: the JDK's own connector, controlled by lines and answering in JSON.

``tests/java/client/JmxClient.java`` is the whole program: its output is what any Java program sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias
from urllib.parse import quote

from gateway.demo.demonstration import JMX_USER, Demonstration
from gateway.jmx.classes import OWN_ATTRIBUTES
from tests.components.java_classes import QUICKLY, build_jar_once

SOURCES = Path(__file__).parents[1] / "java" / "client"
_CLOSE_SECONDS: Final = 5.0
ANSWER_SECONDS = 60.0
_MAX_LINE_OCTETS = 64 * 1024 * 1024
_LONG: Final = range(-(2**63), 2**63)
_OWN_NAMES: Final = frozenset(attribute.name.casefold() for attribute in OWN_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class Thrown:
    """A Java exception: its class (``javax.management.MBeanException``) and message."""

    java_class: str
    message: str


class JmxClientError(Exception):
    """The client could not connect, or was refused; the text is Java's.

    Attributes:
        thrown: the exception that Java got, and its causes behind it; none if the client itself ended.
    """

    def __init__(self, text: str, thrown: tuple[Thrown, ...] = ()) -> None:
        self.thrown = thrown
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class JavaName:
    """An ObjectName, as a value to be set or passed."""

    text: str


JavaValue: TypeAlias = bool | int | float | str | JavaName | None
"""The values to set or pass: Boolean, Long (or BigInteger), Double, String, ObjectName, null.

An integer beyond the range of Long is a BigInteger.
"""


@dataclass(frozen=True, slots=True)
class ReadAttribute:
    """An attribute as Java read it: the value's class (``java.lang.Long``; ``None`` of null), and JSON."""

    java_class: str | None
    value: Any


def attribute_of(element: str) -> str:
    """Return the attribute of an element: `_` is appended to a name that an attribute of every object has.

    Two attributes of one MBean never differ only in the case of their letters.
    """
    return f"{element}_" if element.casefold() in _OWN_NAMES else element


class JmxClient:
    """A connected client.

    Attributes:
        notifications: all notifications since `listen`, in order, as the program prints them.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._asking = asyncio.Lock()  # answers carry no mark of their question
        self._reading = asyncio.create_task(self._read())
        self.notifications: list[dict[str, Any]] = []

    @classmethod
    async def connect(cls, jar: Path, address: str, user: str, password: str) -> Self:
        """Start the program and log in.

        Args:
            jar: the compiled program; made if it is not there.
            address: ``HOST:PORT`` of the gateway's RMI registry.
            user: the user name of the login.
            password: the user's password; it is passed by a pipe.

        Raises:
            JmxClientError: the gateway cannot be reached, or refuses.
            JavaBuildError: the program cannot be compiled.
        """
        await asyncio.to_thread(_compiled, jar)
        process = await asyncio.create_subprocess_exec(
            *("java", "-Xmx64m", *QUICKLY, "-cp", str(jar), "JmxClient", address, user),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_MAX_LINE_OCTETS,
        )
        client = cls(process)
        try:
            answer = await client._ask(password)
        except BaseException:  # cancelled while it waits too: the program would live on
            await client.close()
            raise
        if "connected" not in answer:
            await client.close()
            raise JmxClientError(str(answer.get("failed", answer)))
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def names(self, pattern: str) -> list[str]:
        """Return the names of the MBeans that match the pattern, ascending.

        Raises:
            JmxClientError: the connection is lost.
        """
        names: list[str] = (await self._ask(_line("list", pattern)))["names"]
        return names

    async def read(self, name: str) -> dict[str, ReadAttribute]:
        """Return all attributes of an MBean.

        Raises:
            JmxClientError: there is none of that name, or the connection is lost.
        """
        reported = (await self._ask(_line("read", name)))["attributes"]
        return {key: ReadAttribute(read["class"], read["value"]) for key, read in reported.items()}

    async def listen(self, name: str) -> None:
        """Add the MBean's notifications to `notifications` from now on.

        Raises:
            JmxClientError: there is none of that name, it emits nothing, or the connection is lost.
        """
        await self._ask(_line("listen", name))

    async def set(self, name: str, attribute: str, value: JavaValue) -> None:
        """Set an attribute of an MBean.

        Raises:
            JmxClientError: the server refused it, or the connection is lost.
        """
        await self._ask(_line("set", name, attribute, *_words(value)))

    async def set_all(self, name: str, values: Mapping[str, JavaValue]) -> list[str]:
        """Set attributes of an MBean at once; return the names of those that the server reports as set.

        Raises:
            JmxClientError: as for `set`.
        """
        words = [word for attribute, value in values.items() for word in (attribute, *_words(value))]
        reported: list[str] = (await self._ask(_line("setAll", name, *words)))["set"]
        return reported

    async def invoke(self, name: str, operation: str, *values: JavaValue) -> ReadAttribute:
        """Call an operation of an MBean with the signature that it describes; return the result.

        Raises:
            JmxClientError: as for `set`.
        """
        words = [word for value in values for word in _words(value)]
        returned = (await self._ask(_line("invoke", name, operation, *words)))["returned"]
        return ReadAttribute(returned["class"], returned["value"])

    async def close(self) -> None:
        """Log out, and end the program: for minutes a server keeps the session of one that is killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            async with self._asking:
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()
                answer = await asyncio.wait_for(self._answers.get(), ANSWER_SECONDS)
        except (ConnectionError, TimeoutError) as error:
            raise JmxClientError(f"the client ended or does not answer: {error!r}") from error
        if "error" in answer:
            thrown = tuple(Thrown(one["class"], one["message"] or "") for one in answer.get("thrown", ()))
            raise JmxClientError(answer["error"], thrown)
        return answer

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            reported: dict[str, Any] = json.loads(line)
            if "notification" in reported:
                self.notifications.append(reported)
            else:
                self._answers.put_nowait(reported)
        self._answers.put_nowait({"error": "the client has ended"})


def _compiled(jar: Path) -> None:
    if not jar.exists():
        build_jar_once(jar, SOURCES)


def _line(*words: str) -> str:
    """Return a request; a name or a text may have a tab or the end of a line in it."""
    return "\t".join(quote(word, safe="") for word in words)


def _words(value: JavaValue) -> tuple[str, str]:
    match value:
        case None:
            return "null", ""
        case bool():
            return "boolean", "true" if value else "false"
        case int():
            return "long" if value in _LONG else "integer", str(value)
        case float():
            return "double", repr(value)
        case JavaName(text):
            return "name", text
        case str():
            return "text", value


async def client_of(demonstration: Demonstration, user: str = JMX_USER) -> JmxClient:
    """Return a plain Java client, logged in as one of a demonstration's users; the caller closes it.

    Raises:
        JmxClientError: the gateway cannot be reached.
    """
    assert demonstration.state is not None
    jar, password = demonstration.folder / "jmx-client.jar", demonstration.state.secret(f"jmx-{user}")
    return await JmxClient.connect(jar, demonstration.jmx_address, user, password)
