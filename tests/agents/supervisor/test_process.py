"""Whatever a program does, it ends within its limits and nothing of it stays behind."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.agents import Limits
from ralph.agents.supervisor import reaper
from ralph.agents.supervisor.process import MAX_OUTPUT_BYTES, QUIET_SECONDS, ProcessResult, run_program
from ralph.core.errors import AgentUnavailableError
from ralph.core.git import run_git
from ralph.core.records import SessionEnding

pytestmark = pytest.mark.storeless

DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("alive", flush=True)
        with open(sys.argv[1], "a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(60)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""
"""Leaves a process behind that has its own session, no parent and no ear for SIGTERM."""


def run(argv: list[str], directory: Path, **options: object) -> ProcessResult:
    settings = {"limits": Limits(seconds=20.0, idle_seconds=20.0), **options}
    return run_program(argv, directory=directory, **settings)  # type: ignore[arg-type]


def python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script, *map(str, arguments)]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in (b"Z", b"X")


def pids_in(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it never happened"
        time.sleep(0.01)
    return time.monotonic() - began


# --- talking -----------------------------------------------------------------------


def test_what_goes_in_on_stdin_comes_out_on_stdout(tmp_path: Path) -> None:
    prompt = "Grüße, 世界 🙂\n" * 20_000

    ended = run(["cat"], tmp_path, stdin=prompt)

    assert ended.text == prompt
    assert (ended.ending, ended.exit_code, ended.detail) == (SessionEnding.FINISHED, 0, "")


def test_a_program_may_ignore_a_huge_prompt(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "echo done"], tmp_path, stdin="x" * 400_000)

    assert (ended.text, ended.ending) == ("done\n", SessionEnding.FINISHED)


def test_a_program_may_stop_reading_early(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "head -c 5; exec <&-; sleep 0.2; echo; echo done"], tmp_path, stdin="x" * 400_000)

    assert (ended.text, ended.ending) == ("xxxxx\ndone\n", SessionEnding.FINISHED)


def test_a_program_sees_the_end_of_its_stdin(tmp_path: Path) -> None:
    assert run(["cat"], tmp_path, stdin="").text == ""
    assert run(["wc", "-c"], tmp_path, stdin="four").text.strip() == "4"


def test_it_runs_in_the_directory_with_the_environment_it_is_given(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "pwd; env"], tmp_path, environment={"PATH": os.environ["PATH"], "COLOUR": "red"})

    lines = ended.text.splitlines()
    assert lines[0] == str(tmp_path)
    assert "COLOUR=red" in lines
    assert not [line for line in lines if line.startswith("HOME=")]


def test_signals_have_their_usual_effect_on_the_program(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "grep SigIgn /proc/self/status; grep SigBlk /proc/self/status"], tmp_path)

    # Signals 32 and 33 belong to the C library, which starts programs with them ignored.
    assert [int(line.split()[1], 16) & 0x7FFFFFFF for line in ended.text.splitlines()] == [0, 0]


def test_the_exit_code_and_the_last_words_on_stderr_are_told(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "echo answer; echo first >&2; echo 'no such key' >&2; exit 3"], tmp_path)

    assert (ended.text, ended.exit_code, ended.ending) == ("answer\n", 3, SessionEnding.CRASHED)
    assert ended.stderr == "first\nno such key\n"
    assert ended.detail == "sh exited with 3: no such key"


def test_a_deadly_signal_is_told_by_name(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "echo last; kill -KILL $$"], tmp_path)

    assert (ended.text, ended.exit_code, ended.ending) == ("last\n", -9, SessionEnding.CRASHED)
    assert ended.detail == "sh was killed by signal SIGKILL."


def test_stderr_can_be_merged_in_order(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2"], tmp_path, merge_stderr=True)

    assert (ended.text, ended.stderr) == ("1\n2\n3\n4\n", "")


def test_bad_utf8_and_terminal_escapes_are_cleaned(tmp_path: Path) -> None:
    ended = run(["printf", r"\033[31mred\033[0m \377\376 a\000b \033]0;title\007end\r\n"], tmp_path)

    assert ended.text == "red \ufffd\ufffd ab end\n"


def test_watchers_hear_whole_characters_and_no_escapes(tmp_path: Path) -> None:
    heard: list[str] = []
    parts = (r"a\303", r"\244\033[3", r"1mred\r", r"\nend")
    slowly = "; sleep 0.2; ".join(f"printf '{part}'" for part in parts)

    ended = run(["sh", "-c", slowly], tmp_path, on_output=heard.append)

    assert "".join(heard) == "aäred\nend" == ended.text
    assert len(heard) >= 2


# --- limits ------------------------------------------------------------------------


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "echo begun; sleep 60"], tmp_path, limits=Limits(seconds=1.0))

    assert (ended.text, ended.ending) == ("begun\n", SessionEnding.TIMED_OUT)
    assert ended.detail == "sh was still running after 1 s and was terminated."
    assert 1.0 < ended.seconds < 10.0


def test_a_program_that_goes_silent_is_ended(tmp_path: Path) -> None:
    script = "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done; sleep 60"

    ended = run(["sh", "-c", script], tmp_path, limits=Limits(idle_seconds=1.0))

    assert (ended.text, ended.ending) == ("1\n2\n3\n4\n5\n", SessionEnding.WENT_SILENT)
    assert ended.detail == "sh printed nothing for 1 s and was terminated."


def test_a_program_that_prints_too_much_is_ended(tmp_path: Path) -> None:
    ended = run(["yes"], tmp_path, limits=Limits(output_bytes=2_000_000))

    assert ended.ending is SessionEnding.FLOODED
    assert ended.detail == "yes printed more than 2,000,000 bytes and was terminated."
    assert 2_000_000 < len(ended.text) < 2_200_000


def test_noise_on_stderr_counts_and_only_its_tail_is_kept(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "yes >&2"], tmp_path, limits=Limits(output_bytes=1_000_000))

    assert (ended.ending, ended.text) == (SessionEnding.FLOODED, "")
    assert len(ended.stderr) < 17_000


def test_a_flood_leaves_its_head_and_tail_in_little_memory(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
from ralph.agents import Limits
from ralph.agents.supervisor.process import run_program

run_program(["true"], directory=Path.cwd(), limits=Limits())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ended = run_program(
    ["sh", "-c", "echo first; head -c 200000000 /dev/zero | tr '\\\\0' 'x'; echo; echo last"],
    directory=Path.cwd(),
    limits=Limits(output_bytes=10**9),
    on_output=lambda text: None,
)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(ended.ending, len(ended.text), ended.text[:6].strip(), ended.text[-5:].strip(), grown)
print(ended.text.splitlines()[2])
"""

    said = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True).stdout

    first_line, marker = said.splitlines()
    ending, length, first, last, grown_kb = first_line.split()
    assert (ending, first, last) == ("finished", "first", "last")
    assert int(length) < MAX_OUTPUT_BYTES + 100
    assert int(grown_kb) < 30_000
    assert marker == f"[... {200_000_012 - MAX_OUTPUT_BYTES:,} bytes left out ...]"


def test_a_program_is_stopped_when_asked(tmp_path: Path) -> None:
    asked_at: list[float] = []

    def should_stop() -> bool:
        asked_at.append(time.monotonic())
        return len(asked_at) == 4

    ended = run(["sh", "-c", "echo begun; exec sleep 60"], tmp_path, should_stop=should_stop)

    assert (ended.text, ended.ending, ended.detail) == ("begun\n", SessionEnding.STOPPED, "sh was stopped.")
    assert len(asked_at) == 4
    assert 0.25 < asked_at[-1] - asked_at[0] < 5.0


def test_a_program_gets_a_moment_to_end_by_itself(tmp_path: Path) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"

    ended = run(["sh", "-c", script], tmp_path, limits=Limits(seconds=1.0))

    assert (ended.text.split(), ended.ending, ended.exit_code) == (["ready", "saved"], SessionEnding.TIMED_OUT, 0)


def test_an_error_in_a_watcher_ends_the_program(tmp_path: Path) -> None:
    def heard(text: str) -> None:
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="hello"):
        run(["sh", "-c", "echo $$ > pid; echo hello; exec sleep 60"], tmp_path, on_output=heard)

    assert not is_alive(pids_in(tmp_path / "pid")[0])


# --- nothing stays behind ----------------------------------------------------------


def test_a_daemon_that_ignores_sigterm_does_not_outlive_the_program(tmp_path: Path) -> None:
    ended = run(python(DAEMON, "pid"), tmp_path)

    assert (ended.text, ended.ending) == ("alive\n", SessionEnding.FINISHED)
    assert [is_alive(pid) for pid in pids_in(tmp_path / "pid")] == [False]


def test_no_descendant_survives_a_time_limit(tmp_path: Path) -> None:
    script = DAEMON + "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"

    ended = run(python(script, "pid"), tmp_path, limits=Limits(seconds=1.5))

    assert (ended.ending, ended.exit_code) == (SessionEnding.TIMED_OUT, -9)
    assert [is_alive(pid) for pid in pids_in(tmp_path / "pid")] == [False]


def test_a_program_that_forks_faster_than_one_can_look_is_ended(tmp_path: Path) -> None:
    runner = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
        open("escaped", "w").close()
        os._exit(0)
time.sleep(60)
"""

    ended = run(python(runner), tmp_path, limits=Limits(seconds=1.0))

    assert ended.ending is SessionEnding.TIMED_OUT
    assert ended.detail.endswith("was still running after 1 s and was terminated.")
    assert not (tmp_path / "escaped").exists()


def test_a_grandchild_holding_stdout_open_is_not_waited_for(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "sleep 60 & echo $! > pid; echo done"], tmp_path)

    assert (ended.text, ended.ending) == ("done\n", SessionEnding.FINISHED)
    assert ended.seconds < 10.0
    assert not is_alive(pids_in(tmp_path / "pid")[0])


def test_a_grandchild_may_finish_its_sentence(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "(sleep 0.2; echo late) & echo early"], tmp_path)

    assert (ended.text, ended.ending) == ("early\nlate\n", SessionEnding.FINISHED)


def test_nothing_survives_when_ralph_is_killed(tmp_path: Path) -> None:
    stand_in = """
import sys
from pathlib import Path
from ralph.agents import Limits
from ralph.agents.supervisor.process import run_program

run_program(sys.argv[1:], directory=Path.cwd(), limits=Limits())
"""
    agent = DAEMON + "open('agent', 'w').write(str(os.getpid())); time.sleep(60)"
    ralph = subprocess.Popen([sys.executable, "-c", stand_in, *python(agent, "pid")], cwd=tmp_path)
    wait_until(lambda: pids_in(tmp_path / "agent"))
    pids = pids_in(tmp_path / "pid") + pids_in(tmp_path / "agent")
    pids += [int(Path(f"/proc/{pids[1]}/stat").read_text().split()[3])]
    assert [is_alive(pid) for pid in pids] == [True] * 3

    ralph.kill()
    ralph.wait()

    assert wait_until(lambda: not any(map(is_alive, pids))) < 3.0


def test_a_program_that_kills_its_guard_takes_nothing_along(tmp_path: Path) -> None:
    script = DAEMON + "os.kill(os.getppid(), 9); print('free', flush=True); time.sleep(60)"

    ended = run(python(script, "pid"), tmp_path)

    assert (ended.ending, ended.exit_code) == (SessionEnding.CRASHED, None)
    assert "guard" in ended.detail
    assert ended.text.startswith("alive\n")
    assert [is_alive(pid) for pid in pids_in(tmp_path / "pid")] == [False]


def test_an_orphan_without_a_trace_does_not_survive_its_killed_guard(tmp_path: Path) -> None:
    script = (
        "(env -i setsid sh -c 'echo $$ > pid; exec sleep 60' </dev/null >/dev/null 2>&1 &); sleep 0.5; kill -9 $PPID"
    )

    ended = run(["sh", "-c", script], tmp_path)

    assert ended.ending is SessionEnding.CRASHED
    pids = pids_in(tmp_path / "pid")
    assert [is_alive(pid) for pid in pids] == [False]


def test_a_program_that_stops_its_guard_is_ended_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ralph.agents.supervisor.process.GUARD_SECONDS", 0.5)
    script = DAEMON + "os.kill(os.getppid(), signal.SIGSTOP); time.sleep(60)"

    ended = run(python(script, "pid"), tmp_path, limits=Limits(seconds=1.5))

    assert ended.ending is SessionEnding.TIMED_OUT
    assert [is_alive(pid) for pid in pids_in(tmp_path / "pid")] == [False]


def test_a_program_that_traces_its_guard_is_ended_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever traces a process hears of its end first, and may keep it from the parent."""
    monkeypatch.setattr("ralph.agents.supervisor.process.GUARD_SECONDS", 0.5)
    attach = "import ctypes; ctypes.CDLL(None).ptrace(16, os.getppid(), None, None); time.sleep(20)"

    ended = run(python(DAEMON + attach, "pid"), tmp_path, limits=Limits(seconds=1.0))

    assert ended.ending is SessionEnding.TIMED_OUT
    assert ended.seconds < 10
    assert [is_alive(pid) for pid in pids_in(tmp_path / "pid")] == [False]


def test_strays_are_looked_for_until_a_look_finds_none_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def slowly(tag: str, sessions: set[int]) -> set[reaper.ProcessInfo]:
        found = strays(tag, sessions)
        looks.append(len(found))
        time.sleep(2 * QUIET_SECONDS)
        return found

    strays = reaper.find_strays
    monkeypatch.setattr(reaper, "find_strays", slowly)

    run(python(DAEMON + "os.kill(os.getppid(), 9); time.sleep(60)", "pid"), tmp_path)

    assert looks[0] > 0
    assert looks[-1] == 0
    assert [is_alive(pid) for pid in pids_in(tmp_path / "pid")] == [False]


def test_the_guard_does_not_listen_to_sigterm(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "kill $PPID; kill -INT $PPID; kill -HUP $PPID; sleep 0.1; echo done"], tmp_path)

    assert (ended.text, ended.ending) == ("done\n", SessionEnding.FINISHED)


def test_two_programs_at_a_time_do_not_end_each_other(tmp_path: Path) -> None:
    results: dict[str, ProcessResult] = {}
    own_child = subprocess.Popen(["sleep", "60"], start_new_session=True)

    def start(name: str, argv: list[str]) -> threading.Thread:
        thread = threading.Thread(target=lambda: results.update({name: run(argv, tmp_path)}))
        thread.start()
        return thread

    quiet = start("quiet", ["sh", "-c", "setsid sh -c 'sleep 1.5; echo daemon' & wait; echo done"])
    wild = start("wild", python(DAEMON + "os.kill(os.getppid(), 9); time.sleep(60)", "pid"))
    wild.join()
    brief = start("brief", python(DAEMON, "other"))
    for thread in (quiet, brief):
        thread.join()

    assert (results["quiet"].text, results["quiet"].ending) == ("daemon\ndone\n", SessionEnding.FINISHED)
    assert results["wild"].ending is SessionEnding.CRASHED
    assert results["brief"].ending is SessionEnding.FINISHED
    assert not any(map(is_alive, pids_in(tmp_path / "pid") + pids_in(tmp_path / "other")))
    assert own_child.poll() is None
    own_child.kill()
    own_child.wait()


def test_a_session_leaves_no_zombie_and_no_open_file(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def children() -> set[str]:
        listed = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())], capture_output=True, text=True)
        return {line for line in listed.stdout.splitlines() if not line.endswith(" ps")}

    run(["true"], tmp_path)
    before = open_files(), children()

    run(python(DAEMON + "os.kill(os.getppid(), 9); time.sleep(60)", "pid"), tmp_path)
    run(["yes"], tmp_path, stdin="x" * 100_000, limits=Limits(output_bytes=100_000))
    run(["true"], tmp_path)

    assert (open_files(), children()) == before


@pytest.mark.parametrize("linux", [True, False])
def test_strays_are_found_by_tag_and_session_on_every_system(monkeypatch: pytest.MonkeyPatch, linux: bool) -> None:
    tags = [os.urandom(16).hex() for _ in range(2)]
    tagged, other = (
        subprocess.Popen(
            ["sh", "-c", "sleep 60; :"], env={**os.environ, reaper.TAG_VARIABLE: tag}, start_new_session=True
        )
        for tag in tags
    )
    wait_until(lambda: len(reaper.find_descendants(tagged.pid)) == len(reaper.find_descendants(other.pid)) == 1)
    monkeypatch.setattr(reaper, "IS_LINUX", linux)

    by_tag, by_session = reaper.find_strays(tags[0], set()), reaper.find_strays("none", {tagged.pid})

    assert by_tag == by_session
    assert sorted(by_tag)[0] == (tagged.pid, os.getpid(), tagged.pid, tagged.pid)
    assert sorted(by_tag)[1][1:] == (tagged.pid, tagged.pid, tagged.pid)
    reaper.kill(by_tag)
    assert tagged.wait(5) == -9
    assert other.poll() is None
    reaper.kill(reaper.find_strays(tags[1], set()))
    other.wait(5)


# --- what cannot be started --------------------------------------------------------


def test_a_missing_program_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-found"):
        run(["nonesuch"], tmp_path)
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-found"):
        run(["./bin/nonesuch"], tmp_path)


def test_a_directory_of_the_path_that_cannot_be_searched_is_skipped(tmp_path: Path) -> None:
    path = os.pathsep.join((f"{tmp_path}/{'a' * 300}", os.environ["PATH"]))

    assert run(["sh", "-c", "exit 3"], tmp_path, environment={"PATH": path}).exit_code == 3


def test_a_program_in_the_directory_is_not_taken_for_one_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "agent.sh").write_text("#!/bin/sh\necho hi\n")
    (tmp_path / "agent.sh").chmod(0o755)

    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-in-path"):
        run(["agent.sh"], tmp_path)

    assert run(["./agent.sh"], tmp_path).text == "hi\n"


def test_what_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, content, mode in (
        ("closed", "#!/bin/sh\n", 0o644),
        ("lost", "#!/no/such/shell -e\n", 0o755),
        ("plain", "echo hi\n", 0o755),
    ):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)

    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-executable"):
        run(["./folder"], tmp_path)
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-executable"):
        run(["./closed"], tmp_path)
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-started"):
        run(["./lost"], tmp_path)
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-started"):
        run(["./plain"], tmp_path)


def test_a_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-started"):
        run(["true"], tmp_path / "nowhere")


def test_a_guard_that_is_killed_takes_no_git_of_ours_with_it(tmp_path: Path) -> None:
    answers: list[tuple[int, str]] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            ran = run_git(tmp_path, "-c", "alias.slow=!sleep 0.05; echo whole", "slow")
            answers.append((ran.exit_code, ran.stdout))

    asking = threading.Thread(target=ask)
    asking.start()
    ended = run(["sh", "-c", "sleep 0.3; kill -9 $PPID; sleep 5"], tmp_path)
    is_over.set()
    asking.join()

    assert ended.ending is SessionEnding.CRASHED
    assert set(answers) == {(0, "whole\n")}


def test_a_program_is_told_in_full_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path)

    ended = run_program(["/bin/sh", "-c", 'env | grep "^PWD="'], directory=Path("place"), limits=Limits())

    assert ended.text == f"PWD={tmp_path}/place\n"
