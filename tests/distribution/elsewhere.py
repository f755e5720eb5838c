"""Import every module and run commands with what another system lacks taken away: `elsewhere.py windows`.

Nothing of this shows that Ralph works there; it shows that nothing asks for a missing module or name too early.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys

import psutil  # noqa: F401 -- itself chooses by the system's name

import ralph

MISSING_MODULES = {"windows": "fcntl grp pty pwd resource syslog termios tty", "macos": ""}
# What Python's own modules for POSIX ask for again and again (os.WNOHANG and the like) has to stay.
MISSING_NAMES = {
    "windows": {
        "os": "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_PATH chown fchmod fchown fork getegid geteuid getgid "
        "getloadavg getpgid getpgrp getpriority getsid getuid killpg memfd_create mkfifo nice openpty pidfd_open "
        "posix_fadvise posix_fallocate posix_spawn pread pwrite sched_getaffinity setpgid setpriority setsid statvfs "
        "sync uname wait3 wait4 waitid",
        "signal": "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGURG SIGUSR1 SIGUSR2 "
        "SIGWINCH SIGXFSZ alarm pthread_sigmask setitimer sigwait",
    },
    "macos": {
        "os": "O_PATH memfd_create pidfd_open posix_fadvise posix_fallocate sched_getaffinity",
        "signal": "pidfd_send_signal sigtimedwait sigwaitinfo",
        "resource": "prlimit",
        "fcntl": "F_SETLEASE F_GETLEASE",
    },
}
COMMANDS = (
    "init",
    "memory add Tests_need_UTF-8",
    "memory list",
    "memory search UTF-8",
    "task add Greet",
    "status",
    "backup",
    "memory export",
)


def take_away(system: str) -> None:
    """Remove the modules and names that a system does not have."""
    for name in MISSING_MODULES[system].split():
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in MISSING_NAMES[system].items():
        for place in {importlib.import_module(module), importlib.import_module(module.replace("signal", "_signal"))}:
            for name in names.split():
                if hasattr(place, name):
                    delattr(place, name)
    sys.platform = {"windows": "win32", "macos": "darwin"}[system]


def main(system: str) -> int:
    """Import everything, then again on the other system; print each module and command that fails."""
    names = [found.name for found in pkgutil.walk_packages(ralph.__path__, "ralph.") if "sample" not in found.name]
    for name in names:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name == "ralph" or name.startswith("ralph.")]:
        del sys.modules[name]
    take_away(system)
    failed = []
    for name in names:
        try:
            importlib.import_module(name)
        except (ImportError, AttributeError) as error:
            failed.append(f"{name}: {error}")
    run = sys.modules["ralph.__main__"].main
    for command in COMMANDS if not failed else ():
        sys.argv = ["ralph", *command.split()]
        if status := run():
            failed.append(f"ralph {command}: {status}")
    sys.stdout.flush()
    sys.stderr.write("\n".join(failed))
    sys.stderr.flush()
    os._exit(1 if failed else 0)  # clean-up of the removed names is not what is tested


if __name__ == "__main__":
    main(sys.argv[1])
