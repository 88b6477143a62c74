"""``amqp-gateway audit``: the audited records of the event log are verified, and the key is printed."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.cli.log import folder_option, give_way, whole_log
from gateway.cli.options import config_option, loaded
from gateway.config.files import LoadedConfiguration
from gateway.escapes import printable
from gateway.eventlog.audit_statements import (
    MAX_LINE,
    KeyFileError,
    StatementError,
    fingerprint,
    public_text,
    read_public_key,
)
from gateway.eventlog.audit_verification import (
    AuditProblem,
    AuditReport,
    ChainSummary,
    Fault,
    heads_were_written,
    verify_audit,
)
from gateway.eventlog.query import LogReadError, QueryError
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.audit_key import audit_key, key_path, written_head
from gateway.state_folder import StateError, StateFolder

_MAX_KEY_OCTETS = 4096


@click.group()
def audit() -> None:
    """Verify that no record of operations and logins was changed or removed."""


@audit.command()
@config_option
@folder_option
@click.option(
    "--heads",
    "heads",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file of signed heads. Default: the configured one, if it is there.",
)
@click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with the gateway's public key. Default: the key of the state folder.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="For programs: an object for each problem, then one for each log."
)
def verify(
    config: Path | None,
    folder: Path | None,
    heads: tuple[Path, ...],
    public_keys: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Compute the chain of audited records again, and compare it with the signed heads.

    It reports records that are missing, changed, moved, added or cut off, with their numbers and times. The
    exit code is 12 if there is a problem. Take --public-key and --heads from another machine: a user who can
    write to this one could have changed them, too.
    """
    place = whole_log(config, folder, "audit verify")
    keys = _given_keys(public_keys) if public_keys else _own_key(config)
    give_way()
    configured = (
        None if heads or folder is not None else loaded(config)
    )  # that of a log elsewhere is not known
    file = None if configured is None else configured.heads_file
    written = None if configured is None or file is None else _written_head(configured, file)
    present = heads if file is None or not file.exists() else (file,)
    try:
        report = verify_audit(
            place, keys, itertools.chain(_lines(present), [] if written is None else [written])
        )
    except LogReadError as error:
        raise CommandError(
            ExitCode.DIFFERENCE, f"{error}; amqp-gateway log verify reports each damaged file"
        ) from error
    except (QueryError, StatementError) as error:
        raise CommandError(ExitCode.FAILED, f"{error}") from error
    if file is not None and written is not None:
        report.problems += _lost_heads(file, written)
    elif file is not None and not file.exists() and heads_were_written(place, file):
        text = f"{file}: is missing, and the log says that signed heads were written to it"
        report.problems.append(AuditProblem(Fault.MISSING, "", f"{text}; give what you kept by --heads"))
    for line in _json_lines(report) if as_json else _report_lines(place, report):
        click.echo(line)
    if report.problems:
        sys.exit(ExitCode.DIFFERENCE)


@audit.command("key")
@config_option
def key_command(config: Path | None) -> None:
    """Print the public key of the gateway, to be kept on another machine.

    It verifies the signed heads. The gateway makes the key at its first start.
    """
    (key,) = _own_key(config).values()
    click.echo(public_text(key), nl=False)


def _own_key(config: Path | None) -> dict[str, Ed25519PublicKey]:
    try:
        state = StateFolder(loaded(config).state_folder)
        if not key_path(state).exists():
            raise CommandError(
                ExitCode.STATE,
                f"{key_path(state)}: there is no key yet: the gateway makes it at its first start; give "
                "the key of another one by --public-key",
            )
        key = audit_key(state).public_key
    except (StateError, OSError) as error:
        raise CommandError(ExitCode.STATE, f"{error}") from error
    return {fingerprint(key): key}


def _given_keys(paths: tuple[Path, ...]) -> dict[str, Ed25519PublicKey]:
    keys = {}
    for path in paths:
        try:
            with path.open("rb") as file:
                key = read_public_key(file.read(_MAX_KEY_OCTETS))
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{path}: cannot be read: {error.strerror}") from error
        except KeyFileError as error:
            raise CommandError(ExitCode.USAGE, f"{path}: {error}") from error
        keys[fingerprint(key)] = key
    return keys


def _written_head(configuration: LoadedConfiguration, file: Path) -> tuple[str, bytes] | None:
    """Return the last head that the configured file took, by the state folder, with its place in words."""
    try:
        written = written_head(StateFolder(configuration.state_folder))
    except StateError as error:
        raise CommandError(ExitCode.STATE, f"{error}") from error
    if written is None or written.file != str(file):
        return None
    return f"the last head written to {written.file}", written.line.encode()


def _lost_heads(file: Path, written: tuple[str, bytes]) -> Iterator[AuditProblem]:
    """Yield a problem where the configured file does not have the head that it took last."""
    if any(line == written[1] for _, line in _lines((file,) if file.exists() else ())):
        return
    what = (
        "lacks the head that the gateway wrote last" if file.exists() else "is missing, and had signed heads"
    )
    yield AuditProblem(Fault.MISSING, "", f"{file}: {what}; give the one that you kept elsewhere by --heads")


def _lines(paths: tuple[Path, ...]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        try:
            with path.open("rb") as file:
                number = 0
                # A longer line is none of ours, and is not read into memory.
                while line := file.readline(MAX_LINE + 2):
                    number += 1
                    if line.strip():
                        yield f"{path}: line {number}", line.rstrip(b"\r\n")
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{path}: cannot be read: {error.strerror}") from error


def _json_lines(report: AuditReport) -> Iterator[str]:
    for problem in report.problems:
        yield json.dumps({"fault": problem.fault.value, "log_id": problem.log_id, "problem": problem.text})
    for chain in report.chains:
        yield json.dumps(asdict(chain))


def _report_lines(folder: Path, report: AuditReport) -> Iterator[str]:
    for problem in report.problems:
        yield printable(f"{problem.fault.value}: {problem.text}")
    for chain in report.chains:
        yield from map(printable, _chain_lines(chain))
    if report.problems:
        yield f"problems: {len(report.problems)}"
    elif any(chain.records for chain in report.chains):
        yield "no audited record is missing, changed, moved or added"
    else:
        yield f"{folder}: there are no audited records: an earlier version wrote this log"


def _chain_lines(chain: ChainSummary) -> Iterator[str]:
    if chain.records:
        yield (
            f"log {chain.log_id}: {chain.records:,} audited records, {chain.first} to {chain.last}, of "
            f"{chain.first_ts} to {chain.last_ts}"
        )
    if chain.signed:
        yield (
            f"{chain.heads:,} signed heads fit; the last one, of {chain.signed_ts}, is of record "
            f"{chain.signed}"
        )
    if chain.records and not chain.signed:
        yield "no signed head of it is at hand: a chain that was cut off or made again would not be noticed"
    elif chain.signed < chain.last:
        yield (
            f"{chain.last - chain.signed:,} records at the end are not signed yet: their removal would "
            "not be noticed before the next head"
        )
    if chain.deleted:
        yield chain.deleted
    if chain.adopted:
        yield chain.adopted
    if chain.not_checked:
        yield (
            f"{chain.not_checked:,} statements about it are signed with keys that were not given, and are "
            "not checked: --public-key"
        )
    if chain.before_chain:
        yield f"{chain.before_chain:,} records before the chain are not audited: of an earlier version"
    if chain.lost:
        kinds = ", ".join(f"{count:,} of kind {kind}" for kind, count in sorted(chain.lost.items()))
        yield f"never recorded, because the disk took nothing (gaps of the log have the times): {kinds}"
