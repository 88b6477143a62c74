"""The common parts of commands that set up or read a RabbitMQ: access, the users' passwords, and output.

All that they print is one valid configuration; everything else is printed as a comment in it.
"""

from __future__ import annotations

import secrets
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from getpass import GetPassWarning
from pathlib import Path
from typing import Annotated, Any, Final, TextIO, TypeVar
from urllib.parse import quote, urlsplit

import click
import httpx
import yaml
from pydantic import AfterValidator, TypeAdapter, ValidationError

from gateway.cli.printing import say
from gateway.config.secret_places import SecretError
from gateway.config.types import AmqpUrl, HttpUrl, HttpUser, SecretSource
from gateway.durable_files import create_durably
from gateway.escapes import shell_line
from gateway.file_owners import as_owner
from gateway.links.addressed_http import BlockingAddressedTransport
from gateway.links.amqp_connection import Trouble
from gateway.links.tls import ClientTls, TlsFileError
from gateway.mapping.paths import Json
from gateway.service.diagnostics.broker_checks import OF_TROUBLE
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.sources.rabbitmq.management_api import PermissionRequest, api_advice
from gateway.sources.rabbitmq.path_proof import path_of
from gateway.sources.rabbitmq.proving_client import KEPT_SECONDS, ManagementSession
from gateway.sources.rabbitmq.provisioning import (
    ProvisionedUser,
    ProvisioningError,
    Step,
    carry_out,
    read,
    user_exists,
)
from gateway.sources.rabbitmq.rights import EVENT_EXCHANGE, EVENT_VHOST, UserRights
from gateway.yaml_documents import in_words

PASSWORD_OCTETS = 18


@dataclass(frozen=True, slots=True)
class Password:
    """The password of a user to create, and its file."""

    path: Path
    text: str = field(repr=False)
    is_new: bool

    @classmethod
    def of(cls, client: httpx.Client, name: str, folder: Path) -> Password:
        """Return the password of the file, else a new one that is not written yet.

        Raises:
            CommandError: the broker has this user, but the password is not known.
            SecretError: the file cannot be read.
        """
        path = cls.path_of(name, folder)
        if path.exists():
            return cls(path, SecretSource(file=path).read(Path()).get_secret_value(), is_new=False)
        if user_exists(client, name):
            raise CommandError(
                ExitCode.CONFIGURATION,
                f"the broker has a user {name!r} already, and {path} does not exist: write its password into"
                " that file (tags and rights will be replaced), or choose another name",
            )
        return cls(path, secrets.token_hex(PASSWORD_OCTETS), is_new=True)

    @staticmethod
    def path_of(name: str, folder: Path) -> Path:
        """Return the file of a user's password."""
        return folder.resolve() / f"{quote(name, safe=' @+')}.password"

    @property
    def remark(self) -> str:
        """What is probably not meant so in the file; empty for nothing."""
        return SecretSource(file=self.path).remark(Path()) if self.path.exists() else ""

    @property
    def is_open(self) -> bool:
        """Whether others than the owner can read the file."""
        return self.path.exists() and bool(self.path.stat().st_mode & 0o077)

    def write(self) -> None:
        """Write the file, mode 0600, in a folder of mode 0700.

        Raises:
            CommandError: it cannot be written.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with as_owner(self.path.parent):
                create_durably(self.path, f"{self.text}\n")
        except OSError as error:
            text = f"{self.path}: the password cannot be written: {error.strerror}"
            raise CommandError(ExitCode.CONFIGURATION, text) from error


REQUEST_SECONDS = 20.0

CommandT = TypeVar("CommandT", bound=Callable[..., None])


def checked(type_: Any) -> Any:  # noqa: ANN401  a pydantic type, a click callback
    """Return a callback of click that holds a value, or each of several, to the configuration's own rules."""
    adapter: TypeAdapter[str] = TypeAdapter(type_)

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401  click's
        try:
            for one in value if isinstance(value, tuple) else (value,):
                if one is not None:
                    adapter.validate_python(one)
        except ValidationError as error:
            text = in_words(error.errors()[0])
            raise click.BadParameter(text, context, parameter) from error
        return value

    return check


def _not_empty(name: str) -> str:
    if not name:
        raise ValueError("must not be empty")
    return name


NAME = checked(Annotated[HttpUser, AfterValidator(_not_empty)])
"""The callback for a name that is not empty."""


secrets_option = click.option(
    "--secrets",
    type=click.Path(path_type=Path),
    default=Path("secrets"),
    show_default=True,
    help="Folder of the users' passwords. Existing files are used and kept.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what would be done.")

ca_file_option = click.option(
    "--ca-file", type=click.Path(path_type=Path), help="Certificates to trust. Default: the system's."
)


amqp_option = click.option(
    "--amqp",
    metavar="URL",
    callback=checked(AmqpUrl),
    help="AMQP address for the configuration. Default: as the broker reports.",
)


def administrator_options(command: CommandT) -> CommandT:
    """Add the options for the broker and its administrator, the arguments of `administration`."""
    options = (
        click.option(
            "--management", required=True, metavar="URL", callback=checked(HttpUrl), help="Management API."
        ),
        click.option(
            "--administrator", required=True, metavar="NAME", callback=NAME, help="User who sets it up."
        ),
        click.option("--administrator-password-file", required=True, type=click.Path(path_type=Path)),
        ca_file_option,
        amqp_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def administration(
    management: str, administrator: str, password_file: Path, ca_file: Path | None
) -> Iterator[httpx.Client]:
    """Open the `management_client` of an administrator whose password is in a file.

    Raises:
        CommandError: the password cannot be read, and as `management_client`.
    """
    try:
        password = SecretSource(file=password_file).read(Path())
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    with management_client(management, administrator, password.get_secret_value(), ca_file) as client:
        yield client


@contextmanager
def management_client(
    management: str, user: str, password: str, ca_file: Path | None
) -> Iterator[httpx.Client]:
    """Open a client of the management API at ``management``, as `provisioning.plan` expects it.

    Raises:
        CommandError: the certificates cannot be read, or the block raised a `ProvisioningError` or
            `SecretError`.
    """
    try:
        context = ClientTls(ca_file).context_for(management)
    except TlsFileError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    try:
        with ManagementSession(
            f"{management.rstrip('/')}/api/",
            auth=httpx.BasicAuth(user, password),
            transport=BlockingAddressedTransport(context, httpx.Limits(keepalive_expiry=KEPT_SECONDS)),
            timeout=REQUEST_SECONDS,
            trust_env=False,
        ) as client:
            yield client
    except ProvisioningError as error:
        raise CommandError(OF_TROUBLE[error.trouble], str(error)) from error
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def overview_of(client: httpx.Client, management: str) -> dict[str, Json]:
    """Read the broker's overview, which shows that it is a RabbitMQ.

    Raises:
        CommandError: it is none.
        ProvisioningError: the broker refuses to answer.
    """
    overview = read(client, "overview")
    if not isinstance(overview, dict) or "rabbitmq_version" not in overview:
        advice = api_advice(management) or f"{management}: no RabbitMQ management API answers there"
        raise CommandError(ExitCode.UNREACHABLE, advice)
    return overview


def users_to_be(
    rights: Mapping[str, UserRights], passwords: Mapping[str, Password]
) -> tuple[ProvisionedUser, ...]:
    """Return the users to create, from their rights and passwords, both by name."""
    return tuple(ProvisionedUser(name, password.text, rights[name]) for name, password in passwords.items())


def set_up(
    client: httpx.Client,
    passwords: Iterable[Password],
    steps: tuple[Step, ...],
    *,
    dry_run: bool,
    is_all: bool = True,
    show: Callable[[str], None] | None = None,
) -> None:
    """Write new passwords and take the steps, and print each; with ``dry_run`` only print them.

    Args:
        client: of the management API.
        passwords: of the users.
        steps: in their order.
        dry_run: change nothing.
        is_all: no other steps follow, so that without steps the broker is as it should be.
        show: prints a line; default: `comment`.

    Raises:
        CommandError: a password cannot be written.
        ProvisioningError: the broker refused a step; earlier ones stay done.
    """
    show = show or comment
    if dry_run:
        show("dry run: nothing is changed. To do:")
    for password in passwords:
        if password.is_new:
            show(f"generate a password into {password.path}")
            if not dry_run:
                password.write()
    for step in steps:
        show(step.description)
        if not dry_run:
            carry_out(client, step)
    if not steps and is_all:
        show("nothing to do: the broker is as it should be")


def amqp_url(management: str, overview: Mapping[str, Json]) -> str:
    """Return the URL at which the broker listens for AMQP, on the host of the management API.

    Raises:
        CommandError: the broker reports no such listener.
    """
    listeners = overview.get("listeners")
    ports = {
        one["protocol"]: one["port"]
        for one in reversed(listeners if isinstance(listeners, list) else [])
        if isinstance(one, dict) and isinstance(one.get("port"), int) and isinstance(one.get("protocol"), str)
    }
    parts = urlsplit(management)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    schemes = {"amqp": "amqp", "amqp/ssl": "amqps"}
    preferred = reversed(schemes) if parts.scheme == "https" else iter(schemes)
    for protocol in preferred:
        if protocol in ports:
            return f"{schemes[protocol]}://{host}:{ports[protocol]}"
    raise CommandError(
        ExitCode.CONFIGURATION,
        f"{management}: the broker reports no AMQP listener: give its URL with --amqp",
    )


def yaml_of(document: Mapping[str, Any]) -> str:
    """Return the text of a configuration file."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)


def comment(line: str) -> None:
    """Print a comment."""
    say([f"# {line}"])


login_option = click.option(
    "--user",
    callback=NAME,
    help="User of the broker: an administrator, or one with the tag monitoring. Default: ask.",
)
password_option = click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    help="File with the password of that user. Default: ask.",
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user of a broker, and the password."""

    user: str
    password: str = field(repr=False)


def login_to(management: str, user: str | None, password_file: TextIO | None) -> Login:
    """Return the user and password as given, else ask for them at the terminal.

    Raises:
        CommandError: the file of the password is empty; or there is no terminal to ask at, where a password
            would stay hidden.
    """
    if user is None:
        if not sys.stdin.isatty():
            options = "--user and --password-file (- is standard input)"
            raise CommandError(ExitCode.USAGE, f"there is no terminal to ask for the user: use {options}")
        user = click.prompt("User of the broker (an administrator, or one with the tag monitoring)")
    if password_file is not None:
        password = password_file.read().rstrip()  # as `SecretSource.read`
        if not password:
            raise CommandError(ExitCode.CONFIGURATION, f"{password_file.name}: there is no password in it")
        return Login(user, password)
    with warnings.catch_warnings(action="error", category=GetPassWarning):
        try:
            return Login(user, click.prompt(f"Password of {user} at {management}", hide_input=True))
        except GetPassWarning as error:
            text = "there is no terminal to ask for the password: use --password-file (- is standard input)"
            raise CommandError(ExitCode.USAGE, text) from error


_AMQP_PORTS: Final = (5671, 5672)
_MANAGEMENT_PORT: Final = 15672
_READERS: Final = frozenset({"administrator", "monitoring"})
_MOST_TRIED: Final = 100


@dataclass(frozen=True, slots=True)
class BrokerFound:
    """The properties of a broker and of the user who asks, as the broker reports them.

    Attributes:
        version: the version of RabbitMQ.
        overview: its overview, of which `amqp_url` makes the URL that it listens on.
        has_events: whether it has the exchange that events are published to.
        vhosts: names of the virtual hosts that the user may see.
        tags: the tags of the user.
    """

    version: str
    overview: Mapping[str, Json] = field(repr=False)
    has_events: bool
    vhosts: tuple[str, ...]
    tags: frozenset[str]


def look(client: httpx.Client, management: str, user: str) -> BrokerFound:
    """Log in as the user, and return what the broker reports.

    Raises:
        CommandError: it is no management API, or the user may not read it.
        ProvisioningError: likewise.
    """
    try:
        overview = overview_of(client, management)
    except ProvisioningError as error:
        if OF_TROUBLE[error.trouble] is ExitCode.FORBIDDEN:
            raise _not_permitted(user) from error
        port = urlsplit(management).port
        if port not in _AMQP_PORTS:
            raise
        text = f"{error}; port {port} is that of AMQP: the management API usually has port {_MANAGEMENT_PORT}"
        raise CommandError(ExitCode.UNREACHABLE, text) from error
    who = read(client, "whoami")
    listed = who.get("tags", ()) if isinstance(who, dict) else ()
    tags = frozenset(listed.split(",") if isinstance(listed, str) else map(str, listed or ())) - {""}
    if not _READERS & tags:
        raise _not_permitted(user, tags)
    event_exchange = path_of("exchanges", EVENT_VHOST, EVENT_EXCHANGE)
    return BrokerFound(
        str(overview["rabbitmq_version"]),
        overview,
        _is_there(client, event_exchange),
        virtual_hosts(client),
        tags,
    )


def virtual_hosts(client: httpx.Client) -> tuple[str, ...]:
    """Return the names of the virtual hosts that the user may see.

    Raises:
        ProvisioningError: the broker cannot be read.
    """
    return tuple(str(one["name"]) for one in _objects(read(client, "vhosts?columns=name")))


def _objects(listed: Json) -> list[dict[str, Json]]:
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _is_there(client: httpx.Client, path: str) -> bool:
    try:
        return read(client, path) is not None
    except ProvisioningError as error:
        # The user may not read it; or it has no path here, and is found by consuming from it.
        return error.trouble is Trouble.MISCONFIGURED


def hidden_hosts(client: httpx.Client, found: BrokerFound) -> list[str]:
    """Return the virtual hosts whose contents the user may not read; only the first ones are tried."""
    return [name for name in found.vhosts[:_MOST_TRIED] if _is_hidden(client, name)]


def _is_hidden(client: httpx.Client, vhost: str) -> bool:
    try:
        read(client, PermissionRequest(vhost).target)
    except ProvisioningError as error:
        return error.trouble is Trouble.FORBIDDEN
    return False


def _not_permitted(user: str, tags: Iterable[str] = ()) -> CommandError:
    """Return the error that the user may not read the broker, with the command that permits it."""
    permits = shell_line(["rabbitmqctl", "set_user_tags", user, *sorted(tags), "monitoring"])
    return CommandError(
        ExitCode.FORBIDDEN, f"{user} may not read the broker; this command permits it: {permits}"
    )
