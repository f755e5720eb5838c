"""Agents that do all they should not: run as a program, with the name of what to do in a file beside the project.

Whatever is started writes its process id down first, so that somebody can look afterwards who is left. Nothing here
goes on for more than two minutes by itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable

LONG = 120
TASK = os.environ.get("RALPH_TASK_ID", "t-0")
FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
DEAF = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
DEADLY = ("HUP", "INT", "QUIT", "ILL", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "ALRM", "TERM", "SYS")
ESCAPES = (
    b"\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x07\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\\x1b[6n\x1b[c\x1bP+q\x1b\\"
    b"\x1b[2J\x1b[1;1H\x9b31m\x9d0;x\x9c\x90q\x9c\xe2\x80\xae\xf3\xa0\x81\x81\x07\x08\x08\x7f\x0b\x0c\x0e\x0f\x1bc\rover\n"
)


def note() -> None:
    """Write down who we are."""
    with open(f"{FOLDER}/{TASK}.pids", "a") as file:  # noqa: PTH123
        file.write(f"{os.getpid()}\n")


def deaf() -> None:
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)


def say(text: str | bytes) -> None:
    os.write(1, text.encode() if isinstance(text, str) else text)


def done() -> None:
    say(f"\n<task-done>{TASK}</task-done>\n")


def child(does: Callable[[], None], *, own_session: bool = False, own_group: bool = False) -> int:
    """Start a child that goes on for long; wait until it has written itself down."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
        return pid
    if own_session:
        os.setsid()
    if own_group:
        os.setpgid(0, 0)
    note()
    os.close(ready)
    os.close(tell)
    does()
    os._exit(0)


def sleep() -> None:
    time.sleep(LONG)


def deaf_sleep() -> None:
    deaf()
    time.sleep(LONG)


def daemon() -> None:
    """Leave a process that has no parent, a session of its own and no ear."""

    def again() -> None:
        child(deaf_sleep, own_session=True)

    os.waitpid(child(again, own_session=True), 0)


# --- silence and noise -----------------------------------------------------------------


def hang() -> None:
    sleep()


def hang_deaf() -> None:
    deaf_sleep()


def dots() -> None:
    for _ in range(LONG * 20):
        say(".")
        time.sleep(0.05)


def dots_deaf() -> None:
    deaf()
    dots()


def hang_with_children() -> None:
    for _ in range(5):
        child(deaf_sleep, own_group=True)
    sleep()


# --- children --------------------------------------------------------------------------


def many_children() -> None:
    for _ in range(300):
        if os.fork() == 0:
            note()
            sleep()
            os._exit(0)
        say(".")
    done()


def daemons() -> None:
    for _ in range(3):
        daemon()
    done()


def nohup() -> None:
    subprocess.Popen(
        ["sh", "-c", f'echo $$ >> "{FOLDER}/{TASK}.pids"; exec nohup sleep {LONG}'],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(0.1)
    done()


def own_groups() -> None:
    for _ in range(5):
        child(deaf_sleep, own_group=True)
    done()


def holds_stdout() -> None:
    child(deaf_sleep)
    done()


def without_trace() -> None:
    """Leave a process with another name, an empty environment and no parent."""
    script = f'echo $$ >> "{FOLDER}/{TASK}.pids"; exec sleep {LONG}'
    subprocess.run(
        ["env", "-i", "/bin/sh", "-c", f"setsid sh -c '{script}' kworker/0:1 >/dev/null 2>&1 &"], check=False
    )
    time.sleep(0.1)
    done()


def forks_fast() -> None:
    """Become another process again and again, faster than anybody looks."""
    deaf()
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            until = time.monotonic() + LONG
            while time.monotonic() < until:
                if os.fork():
                    os._exit(0)
            note()
            os._exit(0)
    sleep()


def other_namespace() -> None:
    """Leave a process in a namespace of its own, where that may be had."""
    subprocess.Popen(["unshare", "--pid", "--fork", "sleep", str(LONG)], stderr=subprocess.DEVNULL)
    time.sleep(0.1)
    done()


# --- those above it --------------------------------------------------------------------


def kills_guard() -> None:
    daemon()
    child(deaf_sleep)
    os.kill(os.getppid(), signal.SIGKILL)
    sleep()


def kills_guard_without_trace() -> None:
    without_trace()
    os.kill(os.getppid(), signal.SIGKILL)
    sleep()


def kills_group_of_guard() -> None:
    daemon()
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    sleep()


def asks_guard_to_go() -> None:
    for number in DEAF[:3]:
        os.kill(os.getppid(), number)
    daemon()
    done()


def stops_guard() -> None:
    daemon()
    os.kill(os.getppid(), signal.SIGSTOP)
    sleep()


def traces_guard() -> None:
    """Hold the guard still by tracing it, where that is allowed."""
    daemon()
    ctypes.CDLL(None).ptrace(16, os.getppid(), None, None)
    sleep()


def stops_ralph() -> None:
    """Stop Ralph itself; whoever watches this trial lets it go on, as a person would with `fg`."""
    with open(f"/proc/{os.getppid()}/stat", "rb") as file:  # noqa: PTH123
        ralph = int(file.read().rpartition(b")")[2].split()[1])
    daemon()
    with open(f"{FOLDER}/stopped", "w") as file_:  # noqa: PTH123
        file_.write(str(ralph))
    os.kill(ralph, signal.SIGSTOP)
    time.sleep(0.2)
    done()


# --- output ----------------------------------------------------------------------------


def flood(fd: int, chunk: bytes, size: int) -> None:
    written = 0
    while written < size:
        written += os.write(fd, chunk)


def floods_stdout() -> None:
    flood(1, (b"x" * 79 + b"\n") * 800, 2**30)


def floods_stderr() -> None:
    flood(2, (b"x" * 79 + b"\n") * 800, 2**30)


def floods_one_line() -> None:
    flood(1, b"x" * 65536, 2**30)


def floods_escapes() -> None:
    flood(1, ESCAPES * 300, 2**30)


def gigabyte() -> None:
    flood(1, (b"x" * 79 + b"\n") * 800, 2**30)
    done()


def gigabyte_of_stderr() -> None:
    flood(2, (b"x" * 79 + b"\n") * 800, 2**30)
    done()


def gigabyte_in_one_line() -> None:
    flood(1, b"x" * 65536, 2**30)
    done()


def bad_utf8() -> None:
    flood(1, os.urandom(65536).replace(b"<", b"?"), 2**20)
    done()


def zeros() -> None:
    flood(1, bytes(65536), 2**20)
    done()


def escapes() -> None:
    say(ESCAPES)
    say(b"<journal>" + ESCAPES + b"it went well</journal>\n<knowledge tags='a' title='T" + ESCAPES[:9] + b"'>K")
    say(ESCAPES + b"nown.</knowledge>\n")
    os.write(2, ESCAPES)
    done()


def surrogates() -> None:
    say(b"\xed\xa0\x80\xed\xbf\xbf\xf5\x80\x80\x80\xc0\xaf" * 1000)
    done()


def a_million_sigils() -> None:
    flood(1, b"<journal>x</journal>\n" * 1000, 21 * 10**6)
    done()


def a_million_open_tags() -> None:
    flood(1, b"<knowledge>" * 1000, 11 * 10**6)
    say("\n")
    done()


def half_a_sigil() -> None:
    say(f"<task-done>{TASK}")


def forged_sigil() -> None:
    say("<task-done>t-ffffff</task-done>\n<\x00task-done>\n")


# --- input and exits -------------------------------------------------------------------


def closes_stdin() -> None:
    os.close(0)
    done()


def closes_all() -> None:
    os.close(0)
    done()
    os.close(1)
    os.close(2)
    time.sleep(0.2)


def never_reads() -> None:
    time.sleep(0.1)
    done()


def dies() -> None:
    """End by a signal: another one for each task."""
    name = DEADLY[int(TASK[2:], 16) % len(DEADLY)]
    number = getattr(signal, f"SIG{name}")
    if name != "KILL":
        signal.signal(number, signal.SIG_DFL)  # what a shell has put into the background ignores some
    os.kill(os.getpid(), number)
    sleep()


def exits() -> None:
    done()
    os._exit(1 + int(TASK[2:], 16) % 255)


# --- files -----------------------------------------------------------------------------


def breaks_settings() -> None:
    with open(".ralph.toml", "ab") as file:  # noqa: PTH123
        file.write(b"\n[[[[\xff")
    done()


def removes_settings() -> None:
    if os.path.exists(".ralph.toml"):  # noqa: PTH110
        os.remove(".ralph.toml")  # noqa: PTH107
    done()


def removes_knowledge() -> None:
    subprocess.run(["rm", "-rf", ".ralph/knowledge", ".agent"], check=False)
    done()


def closes_the_directory() -> None:
    os.chmod(".", 0)  # noqa: PTH101
    os.chmod(".ralph", 0)  # noqa: PTH101
    done()


def fills_the_disk() -> None:
    """Write until a limit says no."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2**22, 2**22))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("large", "wb", buffering=0) as file:  # noqa: PTH123
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
    done()


def locks_the_database() -> None:
    """Hold the writer's place, in a process that outlives the agent if it can."""

    def hold() -> None:
        deaf()
        database = sqlite3.connect(".ralph/ralph.db", isolation_level=None, timeout=10)
        database.execute("BEGIN IMMEDIATE")
        sleep()

    child(hold, own_session=True)
    time.sleep(0.3)
    done()


# --- what Claude Code would print ------------------------------------------------------


def garbage_events() -> None:
    for line in ("{", "null", "[]", '{"type": 7}', '{"type": "result"', '"x"', "\x00\x01", '{"type":"assistant"}'):
        say(line + "\n")
    say('{"type":"assistant","message":{"content":[{"type":"text","text":5},7,null]}}\n' * 1000)


def a_huge_event() -> None:
    say('{"type":"assistant","message":{"content":[{"type":"text","text":"')
    flood(1, b"x" * 65536, 20 * 2**20)
    say('"}]}}\n')


def deep_events() -> None:
    say("[" * 100_000 + "\n" + '{"a":' * 100_000 + "\n")
    say('{"type":"result","subtype":"success","is_error":NaN,"num_turns":1e999,"result":' + "9" * 10_000 + "}\n")


def no_result() -> None:
    event = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "Working."}]}}
    say(json.dumps(event) + "\n")


def result_then_hang() -> None:
    say('{"type":"result","subtype":"success","is_error":false,"result":"ok"}\n')
    daemon()
    dots_of_events()


def dots_of_events() -> None:
    for _ in range(LONG * 20):
        say('{"type":"system"}\n')
        time.sleep(0.05)


def well() -> None:
    done()


if __name__ == "__main__":
    if "--version" in sys.argv:
        say("2.1.325 (Claude Code)\n")
        sys.exit(0)
    with open(f"{FOLDER}/plan.json") as plan:  # noqa: PTH123
        what = json.load(plan)[TASK]
    note()
    globals()[what]()
