"""What the commands that set a RabbitMQ up have in common: who sets it up, and what they print.

All that they print is one valid configuration: what is no configuration stands in it as a comment.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import click
import httpx
import yaml
from pydantic import AfterValidator, TypeAdapter, ValidationError

from gateway.agents.rabbitmq.provisioning import ProvisionedUser, ProvisioningError, Step, carry_out, read
from gateway.agents.rabbitmq.rights import UserRights
from gateway.cli.provision_passwords import Password
from gateway.config.types import AmqpName, AmqpUrl, HttpUrl, SecretError, SecretSource
from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.trouble_codes import OF_TROUBLE

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
            text = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise click.BadParameter(text, context, parameter) from error
        return value

    return check


def _not_empty(name: str) -> str:
    if not name:
        raise ValueError("must not be empty")
    return name


NAME = checked(Annotated[AmqpName, AfterValidator(_not_empty)])
"""For a name that is not empty."""


secrets_option = click.option(
    "--secrets",
    type=click.Path(path_type=Path),
    default=Path("secrets"),
    show_default=True,
    help="Folder of the users' passwords. A file that is there is used and kept.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


def administrator_options(command: CommandT) -> CommandT:
    """Options that say which broker is set up, and by whom: the arguments of `administration`."""
    options = (
        click.option(
            "--management", required=True, metavar="URL", callback=checked(HttpUrl), help="Management API."
        ),
        click.option("--administrator", required=True, metavar="NAME", callback=NAME, help="Who sets it up."),
        click.option("--administrator-password-file", required=True, type=click.Path(path_type=Path)),
        click.option(
            "--ca-file", type=click.Path(path_type=Path), help="Certificates to trust; else the system's."
        ),
        click.option(
            "--amqp",
            metavar="URL",
            callback=checked(AmqpUrl),
            help="For the configuration; else as the broker tells.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def administration(
    management: str, administrator: str, password_file: Path, ca_file: Path | None
) -> Iterator[httpx.Client]:
    """`management_client` of an administrator whose password is in a file.

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
    """A client of the management API at ``management``, as `provisioning.plan` takes it, within the block.

    Raises:
        CommandError: the certificates cannot be read, or the block raised a `ProvisioningError` or
            `SecretError`.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or str(error)
        raise CommandError(ExitCode.CONFIGURATION, f"{ca_file}: cannot be used: {reason}") from error
    try:
        with httpx.Client(
            base_url=f"{management.rstrip('/')}/api/",
            auth=httpx.BasicAuth(user, password),
            verify=context,
            timeout=REQUEST_SECONDS,
            trust_env=False,
        ) as client:
            yield client
    except ProvisioningError as error:
        raise CommandError(OF_TROUBLE[error.trouble], str(error)) from error
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def listeners_of(client: httpx.Client, management: str) -> Json:
    """What the broker listens on; so it is a RabbitMQ.

    Raises:
        CommandError: it is none.
        ProvisioningError: it does not tell.
    """
    overview = read(client, "overview")
    if not isinstance(overview, dict) or "rabbitmq_version" not in overview:
        raise CommandError(ExitCode.UNREACHABLE, f"{management}: no RabbitMQ management API answers there")
    return overview.get("listeners")


def users_to_be(
    rights: Mapping[str, UserRights], passwords: Mapping[str, Password]
) -> tuple[ProvisionedUser, ...]:
    """The users that there are to be in the end, from what each may do and its password, both by name."""
    return tuple(ProvisionedUser(name, password.text, rights[name]) for name, password in passwords.items())


def set_up(
    client: httpx.Client,
    passwords: Iterable[Password],
    steps: tuple[Step, ...],
    *,
    dry_run: bool,
    is_all: bool = True,
    tell: Callable[[str], None] | None = None,
) -> None:
    """Write new passwords and take the steps, saying each; with ``dry_run`` only say them.

    Args:
        client: of the management API.
        passwords: of the users.
        steps: in their order.
        dry_run: change nothing.
        is_all: whether nothing else is to be done; without steps the broker is as it should be then.
        tell: says a line; `comment` unless given.

    Raises:
        CommandError: a password cannot be written.
        ProvisioningError: the broker refused a step; earlier ones stay done.
    """
    tell = tell or comment
    if dry_run:
        tell("dry run: nothing is changed. To do:")
    for password in passwords:
        if password.is_new:
            tell(f"generate a password into {password.path}")
            if not dry_run:
                password.write()
    for step in steps:
        tell(step.told)
        if not dry_run:
            carry_out(client, step)
    if not steps and is_all:
        tell("nothing: the broker is as it should be")


def amqp_url(management: str, listeners: Json) -> str:
    """Where the broker says that it listens for AMQP, on the host of the management API.

    Raises:
        CommandError: it says nothing of it.
    """
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
        f"{management}: the broker names no AMQP listener: say where it is with --amqp",
    )


def yaml_of(document: Mapping[str, Any]) -> str:
    """A configuration, as a file has it."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)


def comment(line: str) -> None:
    """Print a remark."""
    click.echo(f"# {' '.join(line.splitlines())}")
