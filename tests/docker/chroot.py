"""The build and run of the image without a container engine: the Dockerfile's own steps, in a bare Debian.

A container consists of the same parts: namespaces of processes and mounts, another root, which can only be
read. Not tried this way: layers, networks, limits, and how an engine reads the Dockerfile. It takes root,
and Debian's debootstrap.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from gateway.demo.installation import debian_mirror
from tests.components.waiting import wait_until
from tests.docker.dockerfile import DOCKERFILE, Instruction, stages

BASE = "debian:bookworm-slim"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 1800

_OF_THE_CLIENTS = ("PIP_", "SSL_CERT", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy")
_FOR_THE_CLIENTS = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/hosts")
_SLIM = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale")
"""The files that the slim variant lacks, without which installing packages has failed before."""

_ENTER = """
set -e
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
exec chroot --userspec="$2" "$1" /usr/bin/env -i "${@:3}"
"""
_ENTER_READ_ONLY = """
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount --bind "$STATE" "$1/var/lib/amqp-gateway"
mount --bind "$SETTINGS" "$1/etc/amqp-gateway"
mount -t tmpfs tmpfs "$1/tmp"
""" + _ENTER.removeprefix("\nset -e\n")


def make_base(folder: Path) -> None:
    """A bare Debian in ``folder``, of the mirror that this machine uses."""
    release = BASE.partition(":")[2].removesuffix("-slim")
    command = ["debootstrap", "--variant=minbase", release, str(folder), debian_mirror()]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)  # noqa: S603
    for name in _SLIM:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("sources.list.d", "apt.conf.d"):
        shutil.copytree(Path("/etc/apt", name), folder / "etc/apt" / name, dirs_exist_ok=True)
    (folder / "etc/apt/sources.list").write_text("")


@dataclass
class Image:
    """The result of the last stage of a Dockerfile."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health_check: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.environment = {"PATH": PATH}

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it to its end, as a container's user would, with a root that can be changed."""
        environment = {**self.environment, **variables}
        return subprocess.run(  # noqa: S603  the image's own command
            _entered(_ENTER, self.root, self.user, environment, command),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def build(base: Path, context: Path, folder: Path) -> Image:
    """Carry out the Dockerfile's steps; the context is filtered as its ``.dockerignore`` says."""
    by_name: dict[str, Image] = {}
    image = Image(folder)
    for number, stage in enumerate(stages()):
        image = Image(folder / f"stage-{number}")
        by_name[stage[0].words[-1]] = image
        assert stage[0].words[0] == BASE
        subprocess.run(["cp", "--archive", f"{base}/.", image.root], check=True)  # noqa: S603, S607
        for name in _FOR_THE_CLIENTS:
            if Path(name).exists():
                (image.root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, image.root / name[1:])
        working = "/"
        for instruction in stage[1:]:
            working = _carry_out(instruction, image, working, context, by_name)
    return image


@dataclass(frozen=True, slots=True)
class Container:
    """An image with a root that cannot be changed, its state, and its settings.

    Attributes:
        state: mounted where the image keeps it.
        settings: mounted where the image looks for its configuration.
    """

    image: Image
    state: Path
    settings: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(  # noqa: S603  the image's own command
            self._entered(command),
            env=self._mounts,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    @contextmanager
    def running(self, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Run the image's own command; kill it at the end, with all that it started, if it has not ended."""
        with log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603  the image's own command
                self._entered([*self.image.entrypoint, *self.image.command]),
                env=self._mounts,
                stderr=errors,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @property
    def _mounts(self) -> dict[str, str]:
        return {**os.environ, "STATE": str(self.state), "SETTINGS": str(self.settings)}

    def _entered(self, command: Sequence[str]) -> list[str]:
        image = self.image
        return _entered(_ENTER_READ_ONLY, image.root, image.user, image.environment, command)


def first_process(process: subprocess.Popen[bytes]) -> int:
    """Return the number out here of process 1 in there."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: children.read_text().split(), "process 1 is there")
    return int(children.read_text().split()[0])


def _carry_out(
    instruction: Instruction, image: Image, working: str, context: Path, by_name: Mapping[str, Image]
) -> str:
    """Carry out one instruction of a stage; returns the working folder from then on."""
    if instruction.name == "RUN":
        script = f"cd {working} && {instruction.text}"
        reported = image.run("sh", "-c", script, HOME="/root", **_of_the_clients(image.root))
        assert reported.returncode == 0, (
            f"{instruction.text}\n{reported.stdout[-3000:]}\n{reported.stderr[-3000:]}"
        )
    elif instruction.name == "COPY":
        _copy(instruction.words, image.root, working, context, by_name)
    elif instruction.name == "WORKDIR":
        working = instruction.text
        (image.root / working[1:]).mkdir(parents=True, exist_ok=True)
    else:
        _take_note(instruction, image)
    return working


def _copy(words: list[str], root: Path, working: str, context: Path, by_name: Mapping[str, Image]) -> None:
    *options, source, target = words
    place = root / os.path.join(working, target).removeprefix("/")  # noqa: PTH118  as the Dockerfile means it
    if not options:
        copy_context(context, place)
        return
    origin = by_name[options[0].removeprefix("--from=")].root / source.removeprefix("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "--archive", origin, place], check=True)  # noqa: S603, S607


def _take_note(instruction: Instruction, image: Image) -> None:
    """Note the properties that an instruction gives to future containers."""
    match instruction.name:
        case "ENV":
            for word in instruction.words:
                name, _, value = word.partition("=")
                image.environment[name] = value.replace("$PATH", image.environment["PATH"])
        case "USER":
            image.user = instruction.text
        case "ENTRYPOINT":
            image.entrypoint = instruction.words
        case "CMD":
            image.command = instruction.words
        case "HEALTHCHECK":
            image.health_check = Instruction("CMD", instruction.text.partition(" CMD ")[2]).words
        case _:
            assert instruction.name in {"VOLUME", "EXPOSE", "STOPSIGNAL"}, instruction.name


def copy_context(context: Path, place: Path) -> None:
    """Copy the entries of ``context`` that the ignore file lets through; a pattern is of a top-level name."""
    patterns = (DOCKERFILE.parent / f"{DOCKERFILE.name}.dockerignore").read_text("utf-8").splitlines()
    wanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    place.mkdir(parents=True, exist_ok=True)
    for entry in sorted(context.iterdir()):
        if not any(fnmatch(entry.name, pattern) for pattern in wanted):
            continue
        if entry.is_dir():
            shutil.copytree(entry, place / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(entry, place)


def _entered(
    script: str, root: Path, user: str, environment: Mapping[str, str], command: Sequence[str]
) -> list[str]:
    variables = [f"{name}={value}" for name, value in environment.items()]
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    return [*apart, "bash", "-c", script, "enter", str(root), user, *variables, *command]


def _of_the_clients(root: Path) -> dict[str, str]:
    """Return the environment of this machine's package clients; copy the files that it names."""
    reported = {name: value for name, value in os.environ.items() if name.startswith(_OF_THE_CLIENTS)}
    for name, value in reported.items():
        if Path(value).is_file():
            (root / "var/clients").mkdir(exist_ok=True)
            shutil.copy(value, root / "var/clients" / name)
            reported[name] = f"/var/clients/{name}"
    return reported
