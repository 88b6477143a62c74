"""Users who log in by the certificate of their connection: Java clients over TLS, and what they try."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.x509 import Name, NameAttribute
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from gateway.feed.operations import InvokeMethod
from gateway.jmx.backend import UNKNOWN, RefusedAttempt
from gateway.jmx.certificate_users import CertificateUsers
from gateway.jmx.pem_files import read_tls
from gateway.jmx.tls_renewal import TlsRenewal
from gateway.jmx.virtual_machine import JavaMachine
from gateway.links.tls import ServerTls
from gateway.model.operations import Outcome, Principal
from tests.components.certificates import Authority, Certificate
from tests.components.waiting import eventually
from tests.jmx_java.conftest import PASSWORD, USER, authenticate, settings
from tests.jmx_java.scripted_operator import ScriptedOperator
from tests.jmx_java.tls.conftest import CertificateClients

KEEPER = "keeper"
SUBJECT = "CN=keeper,O=Example"
USERS = (USER, KEEPER, "guard")
NO_USER = "SecurityException: no user has the certificate"
OTHER = "the certificate of the connection has ended, or is not that of the login: log in again"
METHODS = 27
"""The methods of a session (``RMIConnection``), of every Java since 11."""


def name(*attributes: tuple[str, str]) -> Name:
    """Return a name of attributes in the order of a certificate, which RFC 4514 reverses."""
    oids = {"CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME}
    return Name([NameAttribute(oids[kind], value) for kind, value in attributes])


OF_KEEPER = name(("O", "Example"), ("CN", KEEPER))


@pytest.fixture
def files(certificate: Certificate, authority: Authority) -> ServerTls:
    return ServerTls(certificate.certificate, certificate.key, authority.own.certificate)


@pytest.fixture(scope="session")
def keeper(authority: Authority) -> Certificate:
    """The certificate of the user who has no password."""
    return authority.confirm_subject(OF_KEEPER, "keeper")


@contextlib.asynccontextmanager
async def served(files: ServerTls, operator: ScriptedOperator, **subjects: str) -> AsyncIterator[JavaMachine]:
    """Run a virtual machine with users who have certificates, by default one, and one with a password."""
    users = CertificateUsers(subjects or {KEEPER: SUBJECT})
    async with JavaMachine(
        settings(tls=read_tls(files)),
        authenticate,
        is_user=USERS.__contains__,
        number_of=USERS.index,
        identify=users.identify,
    ) as machine:
        await machine.open(operator)
        yield machine


def refused(user: str, reason: str, kind: str = "login") -> RefusedAttempt:
    principal = Principal("jmx", user, "127.0.0.1")
    return RefusedAttempt(principal, 0, InvokeMethod(kind), Outcome.REFUSED, f"{kind}: {reason}")


async def test_the_holder_of_a_certificate_logs_in_as_its_user_only(
    files: ServerTls, clients: CertificateClients, keeper: Certificate
) -> None:
    operator = ScriptedOperator()
    tried = ("-", f"{KEEPER}:", f"{KEEPER}:guess", f"{USER}:{PASSWORD}", ":", "nobody:")
    async with served(files, operator) as machine:
        with capture_logs() as logs:
            first, *others = await clients(keeper, "login", machine.port, *tried)
    assert first == f"in as {KEEPER}"
    for answer in others:
        assert "SecurityException" in answer
    assert "that of the user keeper: leave user and password out" in others[2]
    assert operator.logins == [Principal("jmx", KEEPER, "127.0.0.1")]
    reason = f"the certificate {SUBJECT} is that of the user {KEEPER}, who has no password"
    assert operator.attempts == [
        *(refused(user, reason) for user in (KEEPER, KEEPER, USER)),
        refused(UNKNOWN, "user or password is missing, or too long"),
        refused(UNKNOWN, reason),
    ]
    login, *refusals = logs
    assert (login["event"], login["user"], login["certificate"]) == ("jmx-login", KEEPER, SUBJECT)
    assert [(line["event"], line["client"]) for line in refusals] == [("jmx-login-refused", "127.0.0.1")] * 5


async def test_another_certificate_is_no_users_and_goes_with_a_password(
    files: ServerTls, clients: CertificateClients, authority: Authority
) -> None:
    operator = ScriptedOperator()
    other = authority.confirm("reader")
    tried = ("-", f"{KEEPER}:", f"{KEEPER}:{SUBJECT}", f"{USER}:{PASSWORD}")
    async with served(files, operator) as machine:
        alone, empty, guess, by_password = await clients(other, "login", machine.port, *tried)
    assert f"{NO_USER} CN=reader" in alone
    assert "SecurityException: user or password is wrong, or missing" in empty
    assert "SecurityException: user or password is wrong, or missing" in guess
    assert by_password == f"in as {USER}"
    assert operator.logins == [Principal("jmx", USER, "127.0.0.1")]
    assert operator.attempts == [
        refused(UNKNOWN, "no user has the certificate CN=reader"),
        *(refused(KEEPER, "user or password is wrong") for _ in range(2)),
    ]


SIMILAR = {
    "another order": name(("CN", KEEPER), ("O", "Example")),
    "a comma": name(("CN", f"{KEEPER},O=Example")),
    "a NUL": name(("O", "Example"), ("CN", f"{KEEPER}\0.evil")),
    "a longer one": name(("O", "Example"), ("CN", "evil"), ("CN", KEEPER)),
    "another case": name(("O", "Example"), ("CN", "Keeper")),
}


async def test_a_similar_name_is_no_users(
    files: ServerTls, clients: CertificateClients, authority: Authority, tmp_path: Path
) -> None:
    operator = ScriptedOperator()
    async with served(files, operator) as machine:
        for how, subject in SIMILAR.items():
            operator.attempts.clear()
            similar = Authority(tmp_path, authority.own).confirm_subject(subject, how)
            answers = await clients(similar, "login", machine.port, "-", f"{KEEPER}:")
            assert NO_USER in answers[0], how
            assert "SecurityException" in answers[1], how
            assert [attempt.principal.name for attempt in operator.attempts] == [UNKNOWN, KEEPER], how
    assert operator.logins == []


async def test_a_certificate_of_another_authority_and_none_are_no_users(
    files: ServerTls, clients: CertificateClients, tmp_path: Path
) -> None:
    # Of the same name, so that the client presents the certificate.
    false = Authority.make(tmp_path / "false").confirm_subject(OF_KEEPER, "keeper")
    operator = ScriptedOperator()
    async with served(files, operator) as machine:
        for own in (false, None):
            answers = await clients(own, "login", machine.port, "-", f"{KEEPER}:", f"{USER}:{PASSWORD}")
            assert not [answer for answer in answers if answer.startswith("in as")]
    assert operator.logins == []


async def test_a_session_is_bound_to_the_certificate_of_its_login(
    files: ServerTls, clients: CertificateClients, authority: Authority, keeper: Certificate, tmp_path: Path
) -> None:
    operator, session = ScriptedOperator(), tmp_path / "session"
    thief = authority.confirm("thief")
    renewed = Authority(tmp_path, authority.own).confirm_subject(OF_KEEPER, "renewed")
    async with served(files, operator) as machine, clients.kept(keeper, machine.port, session):
        *without, with_one = await clients(thief, "use", session)
        assert len(without) == METHODS
        assert [answer for answer in without if f"SecurityException: {OTHER}" not in answer] == []
        assert "REJECTED" in with_one
        attempt = refused(KEEPER, OTHER, "request")
        assert operator.attempts == [attempt] * (METHODS + 1)
        # Further connections may have the next certificate of the same subject.
        assert await clients(renewed, "use", session, "getDefaultDomain") == [
            "getDefaultDomain: returned DefaultDomain"
        ]
    assert operator.attempts == [attempt] * (METHODS + 1)


async def test_a_session_ends_with_the_certificate_of_its_login(
    files: ServerTls, clients: CertificateClients, authority: Authority, tmp_path: Path
) -> None:
    operator, session = ScriptedOperator(), tmp_path / "session"
    async with served(files, operator) as machine:
        # A client may take long to start where others keep the machine busy.
        for seconds in (15, 60):
            lasts = dt.timedelta(seconds=seconds)
            short = Authority(tmp_path, authority.own).confirm_subject(OF_KEEPER, f"short-{seconds}", lasts)
            with contextlib.suppress(AssertionError):
                async with clients.kept(short, machine.port, session) as kept:
                    assert await asks(kept) == "returned DefaultDomain"
                    await eventually(lambda: is_refused(kept), "the session is refused")
                    break
    assert operator.attempts == [refused(KEEPER, OTHER, "request")]


async def is_refused(kept: asyncio.subprocess.Process) -> bool:
    return OTHER in await asks(kept)


async def asks(kept: asyncio.subprocess.Process) -> str:
    """Have a client that keeps its session call a method; return the answer."""
    assert kept.stdin is not None
    assert kept.stdout is not None
    kept.stdin.write(b"?")
    return (await kept.stdout.readline()).decode().strip()


async def test_a_renewed_certificate_and_authority_count_without_a_restart(
    certificate: Certificate,
    clients: CertificateClients,
    authority: Authority,
    keeper: Certificate,
    tmp_path: Path,
) -> None:
    another = Authority.make(tmp_path / "another", "Another authority")
    renewed, next_one = (one.confirm_subject(OF_KEEPER, "renewed") for one in (authority, another))
    client_ca = tmp_path / "clients.pem"
    shutil.copy(authority.own.certificate, client_ca)
    renewal = TlsRenewal(ServerTls(certificate.certificate, certificate.key, client_ca))
    operator = ScriptedOperator()
    async with served(ServerTls(certificate.certificate, certificate.key, client_ca), operator) as machine:
        for own in (keeper, renewed):
            assert await clients(own, "login", machine.port, "-") == [f"in as {KEEPER}"]
        shutil.copy(another.own.certificate, client_ca)
        await renewal.look(machine.renew_tls)
        (former,) = await clients(renewed, "login", machine.port, "-")
        assert "in as" not in former
        assert await clients(next_one, "login", machine.port, "-") == [f"in as {KEEPER}"]
    assert operator.logins == [Principal("jmx", KEEPER, "127.0.0.1")] * 3


async def test_other_users_have_the_certificate_after_a_restart(
    files: ServerTls, clients: CertificateClients, keeper: Certificate
) -> None:
    operator = ScriptedOperator()
    async with served(files, operator, guard=SUBJECT) as machine:
        assert await clients(keeper, "login", machine.port, "-") == ["in as guard"]
    async with served(files, operator, keeper="CN=another,O=Example") as machine:
        (answer,) = await clients(keeper, "login", machine.port, "-")
    assert f"{NO_USER} {SUBJECT}" in answer
