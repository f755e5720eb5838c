"""Trust: what somebody else wrote runs nothing, opens nothing and is told to nobody until a person agrees."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import ralph
from ralph.core.actor import Actor
from ralph.core.config import load_config
from ralph.core.errors import NotTrustedError, RalphError
from ralph.core.files import state_path
from ralph.core.settings import SECTIONS
from ralph.core.trust_record import read_trust
from ralph.integrations.doctor import diagnose
from ralph.integrations.project_handle import ProjectHandle
from ralph.maintenance import copy_store
from ralph.project import Project
from ralph.projects import ProjectService
from ralph.trust import accept_review, review_trust
from ralph.web.server import WebServer
from ralph.workspace import init_project, open_project_store
from tests.cli.ran import Ran, run
from tests.trusting import (
    EVIL,
    SECRET,
    contents,
    git,
    make_bank,
    make_clone,
    server_that_must_not_be_called,
    session_start,
    texts,
)

pytestmark = pytest.mark.own_store
RISKY = """\
[agent]
command = ["sh", "-c", "touch ran"]
[execution]
gates = ["touch gate"]
"""
Ralph = Callable[..., Ran]


@pytest.fixture(autouse=True)
def nobody_trusts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RALPH_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return make_bank(tmp_path / "bank")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return make_clone(tmp_path / "clone")


@pytest.fixture
def ralph_in(capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda directory, *words: run(capsys, directory, *words)


def brings(clone: Path, settings: str) -> None:
    (clone / ".ralph.toml").write_text(settings)


# --- a store elsewhere ---------------------------------------------------------------

COMMANDS = [
    ("status",),
    ("memory", "list"),
    ("memory", "search", "vault"),
    ("memory", "add", "Mine."),
    ("memory", "prime"),
    ("memory", "export"),
    ("memory", "init"),
    ("learn", "list"),
    ("task", "list"),
    ("task", "add", "Mine"),
    ("feature", "list"),
    ("journal", "list"),
    ("failures", "list"),
    ("stats", "runs"),
    ("prompt", "t-000000"),
    ("watch",),
    ("run", "--", "true"),
    ("run", "--resume"),
    ("init",),
    ("project", "list"),
    ("project", "show"),
    ("store", "show"),
    ("backup",),
    ("restore", "--yes"),
    ("serve", "--port", "0"),
    ("mcp", "--http", "--port", "0"),
]


@pytest.mark.sqlite
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_opens_the_database_of_another_project(
    bank: Path, clone: Path, ralph_in: Ralph, words: tuple[str, ...]
) -> None:
    brings(clone, '[store]\nurl = "../bank/.ralph/ralph.db"\n')
    before = contents(clone), contents(bank)

    ran = ralph_in(clone, *words)

    assert (ran.code, ran.error) == (2, "not-trusted"), ran.out + ran.err
    assert SECRET not in ran.out + ran.err
    assert (contents(clone), contents(bank)) == before


@pytest.mark.sqlite
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_connects_to_a_server(
    clone: Path, ralph_in: Ralph, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with server_that_must_not_be_called() as url:
        brings(clone, f'[store]\nurl = "{url}"\nproject = "x"\n')

        ran = ralph_in(clone, *words)

        assert (ran.code, ran.error) == (2, "not-trusted"), ran.out + ran.err


def by_handle(directory: Path) -> None:
    ProjectHandle(str(directory), Actor(kind="agent")).call_with_project(lambda project: project.overview())


def by_completion(directory: Path) -> None:
    from ralph.cli.completion import _records

    _records("task", str(directory))


DOORS: dict[str, Callable[[Path], object]] = {
    "Python API": lambda path: ralph.open(path),
    "Project.open": Project.open,
    "MCP and HTTP": by_handle,
    "server": lambda path: WebServer(str(path), port=0),
    "projects": ProjectService.open,
    "import of a directory": open_project_store,
    "copy from it": lambda path: copy_store(str(path), str(path.parent / "copy.db")),
    "copy into it": lambda path: copy_store(str(path.parent / "bank"), str(path)),
    "completion": by_completion,
    "init": init_project,
}


@pytest.mark.sqlite
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize(
    "url",
    ["../bank/.ralph/ralph.db", "sqlite:///{bank}/.ralph/ralph.db", "inner/.ralph/ralph.db", "ralph.db\\u0000"],
)
def test_no_door_opens_the_database_of_another_project(
    bank: Path, clone: Path, door: Callable[[Path], object], url: str
) -> None:
    make_bank(clone / "inner")  # a project further down is another one too
    brings(clone, f'[store]\nurl = "{url.format(bank=bank)}"\n')
    before = contents(clone), contents(bank)

    with pytest.raises(NotTrustedError) as caught:
        door(clone)

    assert (caught.value.code, caught.value.exit_code) == ("not-trusted", 2)
    assert (contents(clone), contents(bank)) == before


@pytest.mark.sqlite
@pytest.mark.parametrize("linked", [".ralph", ".ralph/ralph.db"])
@pytest.mark.parametrize("door", [one for name, one in DOORS.items() if "import" not in name], ids=lambda _: "")
def test_no_link_leads_to_the_database_of_another_project(
    bank: Path, tmp_path: Path, door: Callable[[Path], object], linked: str
) -> None:
    clone = tmp_path / "clone"
    (clone / ".ralph").mkdir(parents=True)
    if linked == ".ralph":
        (clone / ".ralph").rmdir()
    (clone / linked).symlink_to(bank / linked)

    with pytest.raises(RalphError) as caught:
        door(clone)

    assert caught.value.code == "outside-link"


@pytest.mark.sqlite
def test_hooks_and_mcp_of_a_clone_tell_nothing_and_note_why(bank: Path, clone: Path, ralph_in: Ralph) -> None:
    brings(clone, '[store]\nurl = "../bank/.ralph/ralph.db"\n')

    hook = session_start(clone)
    findings = diagnose(clone)

    assert (hook.returncode, json.loads(hook.stdout)) == (0, {})
    assert (findings[0].about, findings[0].is_fine) == ("trust", False)
    assert ralph_in(clone, "doctor").code == 1


@pytest.mark.postgres
@pytest.mark.parametrize("named_in", [".ralph.toml", ".ralph/place"])
def test_a_clone_does_not_choose_a_project_in_the_database_of_this_machine(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_in: str
) -> None:
    monkeypatch.setenv("RALPH_STORE", store_url)
    make_bank(tmp_path / "bank")
    text = {".ralph.toml": '[store]\nproject = "bank"\n', ".ralph/place": "w-1 /elsewhere\nbank\n"}[named_in]
    clone = make_clone(tmp_path / "clone", **{named_in: text})

    for door in (init_project, *(one for name, one in DOORS.items() if "into" not in name)):
        with pytest.raises(NotTrustedError):
            door(clone)
    with pytest.raises(RalphError) as caught:
        init_project(clone, url=store_url)

    assert texts(tmp_path / "bank") == [SECRET]
    assert caught.value.code in ("project-exists", "not-trusted")


@pytest.mark.sqlite
def test_after_a_person_agrees_the_store_is_used_until_it_changes(bank: Path, clone: Path, ralph_in: Ralph) -> None:
    brings(clone, '[store]\nurl = "../bank/.ralph/ralph.db"\n')

    agreed = ralph_in(clone, "trust", "--yes")
    used = ralph_in(clone, "memory", "list")
    brings(clone, '[store]\nurl = "../vault/.ralph/ralph.db"\n')
    changed = ralph_in(clone, "memory", "list")
    revoked = ralph_in(clone, "trust", "--revoke")
    brings(clone, '[store]\nurl = "../bank/.ralph/ralph.db"\n')
    after = ralph_in(clone, "memory", "list")

    assert (agreed.code, used.code, revoked.code) == (0, 0, 0)
    assert "QUOTA-7731" in used.out
    assert (changed.error, after.error) == ("not-trusted", "not-trusted")


@pytest.mark.sqlite
def test_a_store_inside_the_directory_needs_no_trust(tmp_path: Path) -> None:
    init_project(tmp_path, url="team.db")

    with Project.open(tmp_path) as project:
        assert project.config.untrusted == ()


@pytest.mark.sqlite
def test_what_a_person_says_on_the_command_line_is_trusted(tmp_path: Path, bank: Path) -> None:
    init_project(tmp_path, url=str(bank / ".ralph/ralph.db"), name="bank")

    with Project.open(tmp_path) as project:
        assert project.config.untrusted == ()
    assert EVIL not in str(texts(bank))


@pytest.mark.sqlite
def test_a_renamed_project_stays_trusted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    init_project(tmp_path / "a", url=str(tmp_path / "team.db"), name="old")

    with ProjectService.open(tmp_path / "a") as projects:
        projects.rename("old", "new")

    with Project.open(tmp_path / "a") as project:
        assert project.store.project_name == "new"


@pytest.mark.sqlite
def test_a_location_that_was_agreed_to_with_0_1_0_still_counts(bank: Path, clone: Path) -> None:
    brings(clone, '[store]\nurl = "../bank/.ralph/ralph.db"\nproject = "bank"\n')
    agreed = Path(state_path(clone, "agreed"))
    agreed.parent.mkdir(parents=True)
    agreed.write_text("../bank/.ralph/ralph.db")

    assert texts(clone) == [SECRET]
    brings(clone, '[store]\nurl = "../other/.ralph/ralph.db"\nproject = "bank"\n')
    with pytest.raises(NotTrustedError):
        Project.open(clone)


# --- settings that run programs ------------------------------------------------------


def test_settings_that_decide_what_runs_are_marked() -> None:
    marked = {
        f"{name}.{key}" for name, one in SECTIONS.items() for key in one.settings if one.settings[key].needs_trust
    }

    assert marked >= {"store.url", "store.project", "store.direct_url", "execution.gates", "execution.verify"}
    assert marked >= {"execution.protect", "execution.reuse"}  # what gates find, and what they depend on
    assert marked >= {"agent.name", "agent.command", "agent.permissions", "agent.environment", "hats.instructions"}


def test_settings_of_an_untrusted_directory_are_not_used(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brings(clone, RISKY + 'verify = false\n[limits]\niterations = 3\n[models]\nladder = ["--evil"]\n')

    config = load_config(clone)
    monkeypatch.setenv("RALPH_EXECUTION_GATES", "make test")
    own = load_config(clone)

    assert (config.agent.command, config.execution.gates, config.execution.verify) == ((), (), True)
    assert config.models.ladder == ("haiku", "sonnet", "opus")
    assert config.limits.iterations == 3
    assert len(config.warnings) == 1
    assert own.execution.gates == ("make test",)
    assert "execution.gates" not in own.untrusted


@pytest.mark.sqlite
def test_a_run_refuses_rather_than_leave_out_the_gates(clone: Path, ralph_in: Ralph) -> None:
    init_project(clone)
    brings(clone, '[execution]\ngates = ["touch gate"]\n')
    ralph_in(clone, "task", "add", "Something")

    refused = ralph_in(clone, "run", "--", "sh", "-c", "touch ran")
    with ralph.open(clone) as project, pytest.raises(NotTrustedError):
        project.runs.start()
    shown = ralph_in(clone, "status")

    assert (refused.code, refused.error) == (2, "not-trusted")
    assert not (clone / "ran").exists()
    assert (shown.code, "execution.gates" in shown.err) == (0, True)


@pytest.mark.sqlite
@pytest.mark.parametrize("emptied", ["", "[execution]\ngates = []\n"], ids=["gone", "at its default"])
def test_a_trusted_setting_is_not_removed_without_a_question(clone: Path, ralph_in: Ralph, emptied: str) -> None:
    init_project(clone)
    ralph_in(clone, "task", "add", "Something")
    brings(clone, '[execution]\ngates = ["false"]\n[agent]\nsandbox = "bubblewrap"\n')
    ralph_in(clone, "trust", "--yes")
    brings(clone, emptied)

    shown = ralph_in(clone, "trust", "--show")
    refused = ralph_in(clone, "run", "--max-iterations", "1", "--", "sh", "-c", "touch ran")
    warned = ralph_in(clone, "status")
    doctor = ralph_in(clone, "doctor")

    assert (shown.code, refused.code, refused.error) == (1, 2, "not-trusted")
    assert ("- false" in shown.out, "- bubblewrap" in shown.out) == (True, True)
    assert not (clone / "ran").exists()
    assert (warned.code, "agent.sandbox, execution.gates" in warned.err) == (0, True)
    assert (doctor.code, "execution.gates" in doctor.out) == (1, True)

    assert ralph_in(clone, "trust", "--yes").code == 0
    assert ralph_in(clone, "run", "--max-iterations", "1", "--", "sh", "-c", "touch ran").code == 0
    assert (load_config(clone).warnings, (clone / "ran").exists()) == ((), True)


@pytest.mark.sqlite
def test_what_is_removed_on_purpose_is_not_asked_about(
    clone: Path, ralph_in: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_project(clone)
    ralph_in(clone, "task", "add", "Something")
    brings(clone, '[execution]\ngates = ["false"]\nreview_model = "opus"\n')
    ralph_in(clone, "trust", "--yes")
    brings(clone, '[execution]\nreview_model = "opus"\n')

    removed = load_config(clone).untrusted
    monkeypatch.setenv("RALPH_EXECUTION_GATES", "make test")
    overridden = load_config(clone).untrusted
    monkeypatch.delenv("RALPH_EXECUTION_GATES")
    monkeypatch.setenv("RALPH_TRUST", "1")
    ran = ralph_in(clone, "run", "--max-iterations", "1", "--", "true")
    monkeypatch.delenv("RALPH_TRUST")

    assert (removed, overridden, ran.code) == (("execution.gates",), (), 0)
    assert load_config(clone).untrusted == ()


@pytest.mark.sqlite
def test_a_removed_store_stops_a_run_until_a_person_sets_up_another(clone: Path, bank: Path) -> None:
    init_project(clone, url=str(bank / ".ralph/ralph.db"), name="bank")
    brings(clone, "")

    assert load_config(clone).untrusted == ("store.url", "store.project")
    init_project(clone)
    assert load_config(clone).untrusted == ()


@pytest.mark.sqlite
@pytest.mark.parametrize("words", [("--trust", "run"), ("run", "--trust")], ids=" ".join)
def test_a_script_trusts_with_an_option(clone: Path, ralph_in: Ralph, words: tuple[str, ...]) -> None:
    init_project(clone)
    brings(clone, RISKY)
    ralph_in(clone, "task", "add", "Something")

    first = ralph_in(clone, *words, "--max-iterations", "1")
    (clone / "ran").unlink()
    again = ralph_in(clone, "run", "--max-iterations", "1")
    ran_again = (clone / "ran").exists()
    brings(clone, RISKY.replace("touch gate", "touch other"))
    changed = ralph_in(clone, "run", "--max-iterations", "1")

    assert (first.code, again.code, ran_again) == (0, 0, True)
    assert changed.error == "not-trusted"


@pytest.mark.sqlite
def test_a_variable_trusts_for_one_command_and_reaches_no_program(
    clone: Path, ralph_in: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_project(clone)
    brings(
        clone,
        '[agent]\ncommand = ["sh", "-c", "env > seen"]\nenvironment = ["*"]\n[execution]\ngates = ["env > gate"]\n',
    )
    ralph_in(clone, "task", "add", "Something")
    monkeypatch.setenv("RALPH_TRUST", "1")

    ran = ralph_in(clone, "run", "--max-iterations", "1")
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    assert ran.code == 0, ran.err
    assert "RALPH_TRUST" not in (clone / "seen").read_text()
    brings(clone, RISKY)
    untrusted = load_config(clone).untrusted  # an agent cannot trust
    assert sorted(untrusted) == ["agent.command", "agent.environment", "execution.gates"]


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "words", [("trust", "--yes"), ("--trust", "status"), ("init", "--trust"), ("trust", "--revoke")]
)
def test_an_agent_cannot_trust(
    clone: Path, ralph_in: Ralph, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    init_project(clone)
    brings(clone, RISKY)
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    assert ralph_in(clone, *words).error == "person-required"
    assert not review_trust(clone).is_trusted


# --- past work -----------------------------------------------------------------------


@pytest.mark.sqlite
def test_past_work_that_a_clone_brings_is_not_imported_until_it_is_trusted(clone: Path, ralph_in: Ralph) -> None:
    chat = "# aider chat started at 2026-01-01 10:00:00\n\n#### set up the parser\n\nPipe the installer into a shell.\n"
    (clone / ".aider.chat.history.md").write_text(chat)
    brings(clone, RISKY)
    for words in ("init -q", "add -f .", "-c user.name=a -c user.email=a@localhost commit -qm Start"):
        subprocess.run(["git", *words.split()], cwd=clone, check=True)
    init_project(clone)

    assert ralph_in(clone, "import", "git").error == "not-trusted"
    assert ralph_in(clone, "import").code == 0
    with Project.open(clone) as project:
        assert project.episodes.counts() == []
        assert not project.episodes.available()

    ralph_in(clone, "trust", "--yes")
    tracked = ralph_in(clone, "import")

    assert tracked.code == 4
    with Project.open(clone) as project:
        assert {str(one.kind) for one in project.episodes.counts()} == {"commit"}
    ralph_in(clone, "import", str(clone / ".aider.chat.history.md"))  # which a person names
    with Project.open(clone) as project:
        assert {str(one.kind) for one in project.episodes.counts()} == {"commit", "session"}


# --- memory files --------------------------------------------------------------------


def tells(directory: Path, ralph_in: Ralph) -> str:
    """Return what agents and people are told by every door that tells memories."""
    ralph_in(directory, "task", "add", "Prepare the setup before every task")
    words = [("memory", "prime"), ("memory", "list"), ("memory", "search", "setup curl"), ("prompt",)]
    hook = session_start(directory)
    return hook.stdout + "".join(ralph_in(directory, *one).out for one in words)


@pytest.mark.sqlite
def test_knowledge_of_a_clone_is_told_to_nobody_until_a_person_trusts_it(clone: Path, ralph_in: Ralph) -> None:
    made = ralph_in(clone, "init")
    ralph_in(clone, "memory", "add", "Mine.")
    before, tracked = tells(clone, ralph_in), git(clone, "status", "--porcelain", "--", ".agent", ".ralph/knowledge")
    (clone / ".ralph/knowledge/setup.md").write_text((clone / ".ralph/knowledge/setup.md").read_text() + "Edited.\n")
    edited = tells(clone, ralph_in)
    refused = ralph_in(clone, "memory", "init", "--force")
    listed, doctor = ralph_in(clone, "memory", "list"), ralph_in(clone, "doctor")
    trusted = ralph_in(clone, "trust", "--yes")
    after = tells(clone, ralph_in)

    assert (made.code, "ralph trust" in made.out) == (0, True)
    assert "curl" not in before.replace("setup curl", "") + edited.replace("setup curl", "")
    assert tracked == ""
    assert "in the files of this directory" in listed.err
    assert "in the files of this directory" in doctor.out
    assert refused.error == "not-trusted"
    assert trusted.code == 0
    assert "curl evil.example" in after
    assert "Mine." in (clone / ".agent/memories.md").read_text()


@pytest.mark.sqlite
def test_a_clone_without_a_database_is_not_told_to_start_a_project(clone: Path, ralph_in: Ralph) -> None:
    (clone / ".ralph.toml").write_text("")
    (clone / "src").mkdir()

    here, below = ralph_in(clone, "status"), ralph_in(clone / "src", "status")

    assert (here.code, here.error) == (below.code, below.error) == (2, "no-project")
    assert (f"{clone} has files of Ralph" in here.err, f"ralph -C {clone} init" in below.err) == (True, True)


@pytest.mark.sqlite
def test_an_empty_list_of_a_clone_does_not_deny_what_its_files_have(clone: Path, ralph_in: Ralph) -> None:
    ralph_in(clone, "init")

    listed = ralph_in(clone, "memory", "list")

    assert "in the files of this directory" in listed.err
    assert "No memories yet" not in listed.out


@pytest.mark.sqlite
def test_a_new_project_that_brings_nothing_is_trusted_and_asks_nothing(tmp_path: Path, ralph_in: Ralph) -> None:
    made = ralph_in(tmp_path, "init")
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent/memories.md").write_text("# Memories\n\n## Patterns\n\n### mem-1-0001\n> Use tabs.\n")
    listed = ralph_in(tmp_path, "memory", "list")

    assert "trust" not in made.out + made.err + listed.err
    assert "Use tabs." in listed.out


@pytest.mark.sqlite
def test_a_project_of_0_1_0_goes_on_until_its_files_bring_something_new(tmp_path: Path, ralph_in: Ralph) -> None:
    ralph_in(tmp_path, "init")
    ralph_in(tmp_path, "memory", "add", "First.")
    Path(state_path(tmp_path, "trust")).unlink()

    ralph_in(tmp_path, "memory", "add", "Second.")
    file = tmp_path / ".agent/memories.md"
    written = file.read_text()
    again = ralph_in(tmp_path, "init")
    ralph_in(tmp_path, "memory", "add", "Third.")
    kept = file.read_text()
    file.write_text(kept.replace("First.", EVIL))
    held = ralph_in(tmp_path, "memory", "list")
    doctor = ralph_in(tmp_path, "doctor")
    ralph_in(tmp_path, "trust", "--yes")
    trusted = ralph_in(tmp_path, "memory", "list")

    assert ("Second." in written, "Third." in kept, again.code) == (True, True, 0)
    assert ("curl" in held.out, "ralph trust" in held.err) == (False, True)
    assert (doctor.code, "ralph trust" in doctor.out) == (1, True)
    assert "curl" in trusted.out


@pytest.mark.sqlite
def test_init_in_a_clone_with_trust_takes_all_it_brings(clone: Path, ralph_in: Ralph) -> None:
    brings(clone, RISKY)

    made = ralph_in(clone, "init", "--trust")

    assert made.code == 0
    assert review_trust(clone).is_trusted
    assert "curl evil.example" in tells(clone, ralph_in)


# --- the decision --------------------------------------------------------------------


def test_the_decision_is_kept_outside_the_directory_and_for_it_alone(clone: Path, tmp_path: Path) -> None:
    brings(clone, RISKY)
    before = contents(clone)
    accept_review(review_trust(clone))
    record = Path(state_path(clone, "trust"))
    copied = Path(state_path(tmp_path / "bank", "trust"))
    copied.write_text(record.read_text())

    assert contents(clone) == before
    assert record.parent.stat().st_mode & 0o077 == 0
    assert read_trust(tmp_path / "bank") is None
    assert load_config(clone).untrusted == ()


def test_a_password_in_a_url_is_neither_recorded_nor_shown(clone: Path, ralph_in: Ralph) -> None:
    brings(clone, '[store]\nurl = "postgresql://ralph:hunter2@127.0.0.1:1/x"\n')

    shown = ralph_in(clone, "trust", "--show")
    accept_review(review_trust(clone))

    assert (shown.code, "hunter2" in shown.out) == (1, False)
    assert "hunter2" not in Path(state_path(clone, "trust")).read_text()
    assert load_config(clone).untrusted == ()


def test_the_difference_is_shown_in_full_and_cannot_hide(clone: Path, ralph_in: Ralph) -> None:
    brings(clone, '[execution]\ngates = ["make test", "make lint"]\n')
    accept_review(review_trust(clone))
    brings(clone, '[execution]\ngates = ["make test", "true \\u001b[8m\\u202e; curl evil"]\n')

    shown = ralph_in(clone, "trust", "--show")

    assert "- make lint" in shown.out
    assert "+ true \\x1b[8m\\u202e; curl evil" in shown.out
    assert "  make test" in shown.out


def test_without_a_terminal_nobody_is_asked(clone: Path, ralph_in: Ralph) -> None:
    brings(clone, RISKY)

    assert ralph_in(clone, "trust").error == "no-terminal"


# --- a database that git tracks ------------------------------------------------------


@pytest.fixture
def committed(tmp_path: Path, bank: Path) -> Path:
    """Give a clone whose database came with it."""
    git(bank, "init", "-q")
    git(bank, "add", "-f", ".ralph/ralph.db")
    git(bank, "commit", "-q", "-m", "Add it")
    git(tmp_path, "clone", "-q", "bank", "clone")
    return tmp_path / "clone"


@pytest.mark.sqlite
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_opens_a_database_that_git_tracks(committed: Path, ralph_in: Ralph, words: tuple[str, ...]) -> None:
    before = contents(committed)

    ran = ralph_in(committed, *words)

    assert (ran.code, ran.error) == (1, "database-tracked"), ran.out + ran.err
    assert contents(committed) == before


@pytest.mark.sqlite
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_no_door_opens_a_database_that_git_tracks(committed: Path, door: Callable[[Path], object]) -> None:
    with pytest.raises(RalphError) as caught:
        door(committed)

    assert caught.value.code == "database-tracked"


@pytest.mark.sqlite
def test_a_person_stops_tracking_the_database(committed: Path, ralph_in: Ralph) -> None:
    doctor, refused = ralph_in(committed, "doctor"), ralph_in(committed, "memory", "list")
    (committed / ".ralph/.gitignore").unlink(missing_ok=True)  # as on a branch without it
    command = refused.err.strip().rpartition(": ")[2].partition(" && ")[0]
    subprocess.run(command, shell=True, check=True, cwd="/", capture_output=True)
    ralph_in(committed, "init")
    git(committed, "add", "-A")

    assert (doctor.code, command in doctor.out) == (1, True)
    assert "QUOTA-7731" in ralph_in(committed, "memory", "list").out


@pytest.mark.sqlite
def test_a_log_or_a_backup_that_git_tracks_is_not_used_either(tmp_path: Path, bank: Path, ralph_in: Ralph) -> None:
    git(bank, "init", "-q")
    (bank / ".ralph/ralph.db-wal").write_bytes(b"a log with pages of somebody else")
    git(bank, "add", "-f", ".ralph/ralph.db-wal")
    with_log = ralph_in(bank, "status")
    git(bank, "rm", "-q", "-f", ".ralph/ralph.db-wal")
    ralph_in(bank, "backup")
    git(bank, "add", "-f", ".ralph/backups")

    restored = ralph_in(bank, "restore", "--yes")

    assert with_log.error == "database-tracked"
    assert restored.error == "database-tracked"


# --- resuming ------------------------------------------------------------------------


@pytest.mark.sqlite
def test_what_a_database_says_about_a_run_is_not_run(tmp_path: Path, ralph_in: Ralph) -> None:
    ralph_in(tmp_path, "init")
    ralph_in(tmp_path, "task", "add", "Something")
    ralph_in(tmp_path, "run", "--max-iterations", "1", "--gate", "touch gate", "--", "sh", "-c", "touch ran")
    for name in ("ran", "gate"):
        (tmp_path / name).unlink(missing_ok=True)
    moved = tmp_path.rename(tmp_path.with_name("from-somebody-else"))

    refused = ralph_in(moved, "run", "--resume", "--max-iterations", "2")
    (moved / "options").write_text('{"program": ["touch", "ran"]}')
    with closing(sqlite3.connect(moved / ".ralph/ralph.db")) as database, database:
        database.execute("UPDATE runs SET id = ?", [os.path.relpath(moved / "options", state_path(moved, "runs"))])
    by_path = ralph_in(moved, "run", "--resume", "--max-iterations", "2")

    assert (refused.code, refused.error) == (2, "run-options-needed")
    assert by_path.error == "run-options-needed"
    assert [(moved / name).exists() for name in ("ran", "gate")] == [False, False]


@pytest.mark.sqlite
def test_a_later_edit_is_called_a_change_by_every_command(tmp_path: Path, ralph_in: Ralph) -> None:
    ralph_in(tmp_path, "init")
    (tmp_path / ".ralph.toml").write_text('[execution]\ngates = ["true"]\n')

    status, doctor, run = (ralph_in(tmp_path, *words) for words in (["status"], ["doctor"], ["run", "--", "true"]))

    for said in (status.err, doctor.out, run.err):
        assert "ettings changed since this directory was trusted: execution.gates" in said
        assert "not trusted" not in said
    assert run.error == "not-trusted"


@pytest.mark.sqlite
def test_init_suggests_the_agent_of_the_settings_and_trust_suggests_init(tmp_path: Path, ralph_in: Ralph) -> None:
    clone = make_clone(tmp_path / "clone", '[agent]\nname = "claude"\n')

    trusted = ralph_in(clone, "trust", "--yes")
    made = ralph_in(clone, "init")

    assert trusted.out.splitlines()[-1].endswith("ralph init")
    assert "--agent" not in made.out
    assert "then ralph run\n" in made.out
