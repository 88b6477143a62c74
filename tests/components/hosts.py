"""Machines as some users have them: mounts and namespaces of a command of its own, made by root."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.components.command_line import COMMAND


def host(*prepared_by: str, program: Sequence[str | Path] = COMMAND) -> list[str]:
    """Return the program and first arguments of a command that runs on such a machine, for `amqp_gateway`.

    Args:
        prepared_by: commands of the shell that prepare it, in mounts of its own.
        program: the command's executable and first arguments.
    """
    script = "\n".join(("set -e", *prepared_by, 'exec "$@"'))
    return ["unshare", "--mount", "sh", "-c", script, "host", *map(str, program)]


NO_USER: Final = 4711
"""A number that no user of the machine has."""


def without_user(program: Sequence[str | Path] = COMMAND) -> list[str]:
    """Return the same for a command whose user has no name, and may read what this one may."""
    return ["unshare", "--user", f"--map-user={NO_USER}", *map(str, program)]


def not_executable(folder: Path) -> str:
    """Return the preparation of a machine on which no program can be run from a folder."""
    return f"mount -t tmpfs -o noexec tmpfs {folder}"


def without_temporary_files(current: Path, writable: Path) -> tuple[str, ...]:
    """Return the preparation of a machine where no folder takes temporary files.

    Args:
        current: the current folder.
        writable: a folder that can be written all the same.
    """
    places = ("/tmp", "/var/tmp", "/usr/tmp", "/dev/shm", str(current))  # noqa: S108
    return (
        f"mount --bind {writable} {writable}",
        *(f"[ ! -d {place} ] || mount --rbind {place} {place}" for place in places),
        *(f"[ ! -d {place} ] || mount -o remount,bind,ro {place}" for place in places),
        f"cd {current}",
        "export TMPDIR=/none",
    )


def from_deleted_folder(folder: Path) -> tuple[str, ...]:
    """Return the preparation of a machine whose current folder is removed: ``folder``, which is made."""
    return f"mkdir {folder}", f"cd {folder}", f"rmdir {folder}"


def from_folder_of_others(folder: Path, program: Sequence[str | Path] = COMMAND) -> list[str]:
    """Return a program as of `host` whose current folder its user, who is not root, cannot read."""
    steps = (f"mkdir -m 700 {folder}", f"chown {NO_USER}:{NO_USER} {folder}", f"cd {folder}")
    return host(*steps, program=["unshare", "--user", "--map-user=65534", *program])


_WITHOUT_IPV6 = """
import ctypes, os, platform, struct, sys
NUMBER = {"x86_64": 41, "aarch64": 198}[platform.machine()]
AF_INET6, EAFNOSUPPORT = 10, 97
ALLOW, ERROR = 0x7FFF0000, 0x00050000
STEPS = [  # load the number of the call, then its first argument; seccomp(2)
    (0x20, 0, 0, 0), (0x15, 0, 3, NUMBER), (0x20, 0, 0, 16), (0x15, 0, 1, AF_INET6),
    (0x06, 0, 0, ERROR | EAFNOSUPPORT), (0x06, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in STEPS))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(STEPS), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[1], sys.argv[1:])
"""


def without_ipv6(program: Sequence[str | Path] = COMMAND) -> list[str]:
    """Return a program as of `host` on a kernel without IPv6."""
    return [sys.executable, "-c", _WITHOUT_IPV6, *map(str, program)]


_LACKING_CALLS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static int lacks(const char *what) {
    const char *all = getenv("FILE_SYSTEM_LACKS");
    return all != NULL && strstr(all, what) != NULL;
}
static int refused(int code) { errno = code; return -1; }
static int no_link(void) { return refused(lacks("links across") ? EXDEV : EPERM); }

int link(const char *from, const char *to) {
    int (*usual)(const char *, const char *) = dlsym(RTLD_NEXT, "link");
    return lacks("links") ? no_link() : usual(from, to);
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    int (*usual)(int, const char *, int, const char *, int) = dlsym(RTLD_NEXT, "linkat");
    return lacks("links") ? no_link() : usual(a, from, b, to, flags);
}
int fsync(int descriptor) {
    int (*usual)(int) = dlsym(RTLD_NEXT, "fsync");
    struct stat found;
    int is_folder = fstat(descriptor, &found) == 0 && S_ISDIR(found.st_mode);
    return is_folder && lacks("folders") ? refused(EINVAL) : usual(descriptor);
}
int fchmod(int descriptor, mode_t mode) {
    int (*usual)(int, mode_t) = dlsym(RTLD_NEXT, "fchmod");
    return lacks("modes") ? refused(EPERM) : usual(descriptor, mode);
}
int chmod(const char *path, mode_t mode) {
    int (*usual)(const char *, mode_t) = dlsym(RTLD_NEXT, "chmod");
    return lacks("modes") ? refused(EPERM) : usual(path, mode);
}
int fchmodat(int folder, const char *path, mode_t mode, int flags) {
    int (*usual)(int, const char *, mode_t, int) = dlsym(RTLD_NEXT, "fchmodat");
    return lacks("modes") ? refused(EPERM) : usual(folder, path, mode, flags);
}
int flock(int descriptor, int operation) {
    int (*usual)(int, int) = dlsym(RTLD_NEXT, "flock");
    return lacks("locks") ? refused(EOPNOTSUPP) : usual(descriptor, operation);
}
static int control(const char *name, int descriptor, int command, void *argument) {
    int (*usual)(int, int, ...) = dlsym(RTLD_NEXT, name);
    int is_lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK;
    return is_lock && lacks("records") ? refused(EOPNOTSUPP) : usual(descriptor, command, argument);
}
#define CONTROL(name) int name(int descriptor, int command, ...) { \
    va_list further; \
    va_start(further, command); \
    void *argument = va_arg(further, void *); \
    va_end(further); \
    return control(#name, descriptor, command, argument); \
}
CONTROL(fcntl)
CONTROL(fcntl64)
static void *map(void *at, size_t size, int access, int how, int descriptor, off_t begin) {
    void *(*usual)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    int is_shared = descriptor >= 0 && (access & PROT_WRITE) && (how & MAP_SHARED);
    if (is_shared && lacks("memory")) { errno = ENODEV; return MAP_FAILED; }
    return usual(at, size, access, how, descriptor, begin);
}
void *mmap(void *at, size_t size, int access, int how, int descriptor, off_t begin) {
    return map(at, size, access, how, descriptor, begin);
}
void *mmap64(void *at, size_t size, int access, int how, int descriptor, off_t begin) {
    return map(at, size, access, how, descriptor, begin);
}
static int is_in_state(const char *path) {
    char folder[PATH_MAX], found[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    return realpath(dirname(folder), found) != NULL && strcmp(basename(found), "state") == 0;
}
int bind(int descriptor, const struct sockaddr *address, socklen_t octets) {
    int (*usual)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
    int is_refused = address->sa_family == AF_UNIX && lacks("sockets")
        && (!lacks("sockets of state") || is_in_state(((const struct sockaddr_un *)address)->sun_path));
    return is_refused ? refused(EPERM) : usual(descriptor, address, octets);
}
"""


def on_file_system_without(*lacks: str, folder: Path, program: Sequence[str | Path] = COMMAND) -> list[str]:
    """Return a program as of `host` whose file system answers as CIFS, exFAT and FUSE do.

    Args:
        lacks: of ``links``, ``links across`` (as a union of folders refuses them), ``folders`` (that can be
            synced), ``modes``, ``locks``, ``records`` (locks of them), ``memory`` (that is shared),
            ``sockets`` and ``sockets of state``, which is only in a folder of this name.
        folder: takes the library that stands before the system's calls.
        program: as of `host`.
    """
    library = folder / "lacking.so"
    if not library.exists():
        words = ["cc", "-shared", "-fPIC", "-o", str(library), "-x", "c", "-", "-ldl"]
        subprocess.run(words, input=_LACKING_CALLS, text=True, check=True)  # noqa: S603  of the tests
    variables = (f"LD_PRELOAD={library}", f"FILE_SYSTEM_LACKS={' '.join(lacks)}")
    return ["env", *variables, *map(str, program)]
