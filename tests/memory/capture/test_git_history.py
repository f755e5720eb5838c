"""History of real repositories, read as episodes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ralph.core import git as core_git
from ralph.core.errors import GitError, UsageError
from ralph.core.records import Episode, EpisodeKind, Speaker
from ralph.memory.capture import git_history
from ralph.memory.capture.commit_links import MAX_UNSURE, MAX_WAITING
from ralph.memory.capture.commit_messages import LeftOut
from ralph.memory.capture.git_history import LogCounts, count_commits, read_commits, shallow_commits
from ralph.memory.capture.passages import episode_id

DAY = 24 * 3600
START = 1_700_000_000


class History:
    """A repository to commit to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.at = START
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str, stdin: bytes = b"", **variables: str) -> str:
        environment = {
            **os.environ,
            **{"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
            **{f"GIT_{who}_NAME": "Ana" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "ana@example.com" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_DATE": f"{self.at} +0200" for who in ("AUTHOR", "COMMITTER")},
            **variables,
        }
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *words],
            cwd=self.root,
            env=environment,
            input=stdin,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode("utf-8", "replace").strip()

    def commit(self, message: str, *files: str, later: int = 3600, **variables: str) -> str:
        """Change files, commit them a while after the last commit, and return the id."""
        self.at += later
        for file in files:
            path = self.root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{message} {self.at}")
        self.git("add", "--all")
        options = ("--quiet", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim")
        self.git("commit", *options, "--file=-", stdin=message.encode(), **variables)
        return self.git("rev-parse", "HEAD")

    def import_commits(self, count: int) -> None:
        """Add many commits without files at once."""
        lines = "".join(
            f"commit refs/heads/main\ncommitter Ana <ana@example.com> {START + n} +0000\ndata <<END\nStep {n}\nEND\n\n"
            for n in range(count)
        )
        self.git("fast-import", "--quiet", stdin=lines.encode())


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "repository")


def links(root: Path, **options: str) -> dict[str, tuple[str, ...]]:
    """Read all and return the links of each commit that has some, by its subject."""
    return {one.text.split("\n")[0]: one.links for one in read_commits(root, **options) if one.links}  # type: ignore[arg-type]


# --- what is read ------------------------------------------------------------------------


def test_a_commit_becomes_an_episode(history: History) -> None:
    message = "Retry only 5xx\n\n401s locked accounts.\n\nSigned-off-by: Ana <ana@example.com>\nChange-Id: I12\n"
    id = history.commit(message, "client/retry.py", "b c.txt")

    (episode,) = read_commits(history.root)

    assert episode == Episode(
        id=episode_id(EpisodeKind.COMMIT, START + 3600, "Retry only 5xx", "401s locked accounts."),
        kind=EpisodeKind.COMMIT,
        source=id,
        agent="Ana",
        speaker=Speaker.PERSON,
        text="Retry only 5xx\n\n401s locked accounts.",
        files=("b c.txt", "client/retry.py"),
        at="2023-11-14T23:13:20.000Z",
    )


def test_newest_come_first_and_reading_stops_at_the_limit(history: History) -> None:
    history.import_commits(20_000)

    read = read_commits(history.root, limit=3)

    assert [one.text for one in read] == ["Step 19999", "Step 19998", "Step 19997"]
    assert not core_git.running_git_pids


def test_closing_the_iterator_stops_git(history: History) -> None:
    history.import_commits(20_000)
    read = read_commits(history.root)
    next(read)
    (pid,) = core_git.running_git_pids

    read.close()

    assert not core_git.running_git_pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_only_what_is_new_is_read_after_the_last_commit(history: History) -> None:
    history.commit("One", "a")
    last = history.commit("Two", "a")
    history.commit("Three", "a")

    assert [one.text for one in read_commits(history.root, after=last)] == ["Three"]
    assert count_commits(history.root, after=last) == 1


@pytest.mark.parametrize("gone", ["0" * 40, "--output=x", "", "HEAD~1"])
def test_everything_is_read_again_if_the_last_commit_is_gone(history: History, gone: str) -> None:
    history.commit("One", "a")
    history.commit("Two", "a")

    assert [one.text for one in read_commits(history.root, after=gone)] == ["Two", "One"]
    assert not (history.root / "x").exists()


def test_after_a_rebase_only_rebased_commits_are_read_again(history: History) -> None:
    base = history.commit("One", "a")
    last = history.commit("Two", "b")
    history.git("reset", "--quiet", "--hard", base)
    history.commit("Two, reworded", "b")

    assert [one.text for one in read_commits(history.root, after=last)] == ["Two, reworded"]


def test_since_a_date_counts_from_its_midnight(history: History) -> None:
    history.commit("Before", "a", later=0)  # 2023-11-14T22:13:20Z
    history.commit("After", "a", later=2 * 3600)

    assert [one.text for one in read_commits(history.root, since="2023-11-15")] == ["After"]
    assert len(list(read_commits(history.root, since="2023-11-14T22:00:00.000Z"))) == 2


def test_commits_since_a_date_are_found_behind_odd_clocks(history: History) -> None:
    history.commit("Old", "a", later=0)
    history.commit("One", "a", later=5 * DAY)
    for number in range(8):
        history.commit(f"Two {number}", "a", GIT_COMMITTER_DATE="1000000000 +0000")
    history.commit("Three", "a")
    history.commit("Rebased", "a", GIT_AUTHOR_DATE=f"{START} +0000")
    counts = LogCounts()

    read = [one.text for one in read_commits(history.root, since="2023-11-16", counts=counts)]

    assert read == ["Three", *(f"Two {number}" for number in range(7, -1, -1)), "One"]
    assert counts.left_out == {"written before 2023-11-16": 2}


def test_long_messages_and_many_files_are_cut(history: History) -> None:
    history.commit("Import\n\n" + "word " * 100_000, *(f"vendor/{n:03}" for n in range(120)))
    history.commit("Next", "a")

    newest, oldest = read_commits(history.root)

    assert newest.text == "Next"
    assert len(oldest.text) <= git_history.MAX_TEXT_LENGTH
    assert newest.files == ("a",)


def test_a_huge_list_of_files_is_cut(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_history, "MAX_RECORD_BYTES", 300)
    monkeypatch.setattr(core_git, "CHUNK_BYTES", 64)
    history.commit("One", "a")
    history.commit("Import", *(f"vendor/{n:03}" for n in range(120)))
    history.commit("Two", "b")

    read = {one.text: one.files for one in read_commits(history.root)}

    assert read["Two"] == ("b",)
    assert read["One"] == ("a",)
    assert read["Import"][:2] == ("vendor/000", "vendor/001")
    assert len(read["Import"]) <= git_history.MAX_FILES


def test_any_file_name_and_any_encoding(history: History) -> None:
    names = ("a\nb", "\u00fc ber/\x1e", "\tx")
    history.git("config", "i18n.commitEncoding", "ISO-8859-1")
    history.at += 3600
    for name in names:
        path = history.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (history.root / os.fsdecode(b"\xff")).touch()
    history.git("add", "--all")
    history.git("commit", "--quiet", "--file=-", stdin="Gr\u00f6\u00dfe".encode("latin-1"))

    (episode,) = read_commits(history.root)

    assert episode.text == "Gr\u00f6\u00dfe"
    assert set(episode.files) == {*names, "\ufffd"}


def test_dates_beyond_all_calendars(history: History) -> None:
    history.git("fast-import", "--quiet", "--date-format=raw-permissive", stdin=_dated(99_999_999_999_999))

    (episode,) = read_commits(history.root)

    assert len(episode.at) == len("2026-11-17T00:00:00.000Z")


def _dated(seconds: int) -> bytes:
    return f"commit refs/heads/main\ncommitter A <a@b> {seconds} +0000\ndata <<END\nOne\nEND\n".encode()


# --- what is left out --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("Bump version", LeftOut.VERSION_BUMP),
        ("bumping version for 16.2.1dev development", LeftOut.VERSION_BUMP),
        ("Release v1.2", LeftOut.VERSION_BUMP),
        ("v2.0.0-rc.1 (#12)", LeftOut.VERSION_BUMP),
        ("chore(release): 1.2.3 [skip ci]", LeftOut.VERSION_BUMP),
        ("build(deps): bump lodash from 4.17.20 to 4.17.21", LeftOut.VERSION_BUMP),
        ("Bump lodash from 4.17.20 to 4.17.21 (#31)", LeftOut.VERSION_BUMP),
        ("Update dependency typescript to v5", LeftOut.VERSION_BUMP),
        ("Run black", LeftOut.FORMATTING),
        ("style: apply prettier to all files", LeftOut.FORMATTING),
        ("cargo fmt (#9)", LeftOut.FORMATTING),
        ("Apply linter", LeftOut.FORMATTING),
        ("Fix lint errors", LeftOut.FORMATTING),
        ("", LeftOut.EMPTY_MESSAGE),
        ("Merge branch 'main' into topic", LeftOut.MERGE),
    ],
)
def test_commits_that_tell_nothing_are_left_out_and_counted(history: History, subject: str, reason: LeftOut) -> None:
    history.commit(subject, "a")
    counts = LogCounts()

    assert not list(read_commits(history.root, counts=counts))
    assert counts.left_out == {reason: 1}


@pytest.mark.parametrize(
    "subject",
    [
        "Bump the retry limit to 7",
        "Bump number of results from 8 to 20",
        "Switch from black to ruff",
        "Add a linter",
        "Release the lock before the callback",
        "Fix the release date format",
        "Support version 2 of the protocol",
        "Format dates as ISO 8601",
        "Merge tags of several sources by precedence",
        "Set timeout to 2.5 seconds",
    ],
)
def test_decisions_with_similar_words_are_kept(history: History, subject: str) -> None:
    history.commit(subject, "a")

    assert [one.text for one in read_commits(history.root)] == [subject]


def test_a_formatting_commit_that_says_why_is_kept(history: History) -> None:
    history.commit("Run black\n\n" + "Lines have 100 columns, because the review tool shows no more of them. " * 3, "a")

    assert len(list(read_commits(history.root))) == 1


def test_merges_are_left_out_and_do_not_count_for_the_limit(history: History) -> None:
    history.commit("One", "a")
    history.git("checkout", "--quiet", "-b", "topic")
    history.commit("Two", "b")
    history.git("checkout", "--quiet", "main")
    history.git("merge", "--quiet", "--no-ff", "--message=Bring it in", "topic")
    counts = LogCounts()

    assert [one.text for one in read_commits(history.root, limit=2, counts=counts)] == ["Two", "One"]
    assert counts.left_out == {LeftOut.MERGE: 1}
    assert count_commits(history.root) == 2


@pytest.mark.parametrize(
    "trailer", ["Co-authored-by: B <b@c>", "Reviewed-by: B <b@c>", "Change-Id: I1", "git-svn-id: http://x@1 abc"]
)
def test_trailers_are_dropped_at_the_end_only(history: History, trailer: str) -> None:
    history.commit(f"Title\n\nSay: {trailer}\nwhy it is\n\nNote: keep this\n{trailer}\n", "a")

    (episode,) = read_commits(history.root)

    assert episode.text == f"Title\n\nSay: {trailer}\nwhy it is\n\nNote: keep this"


# --- links -------------------------------------------------------------------------------


def test_a_revert_is_linked_by_the_id_it_names(history: History) -> None:
    id = history.commit("Add a cache", "a")
    history.commit(f'Revert "Add a cache"\n\nThis reverts commit {id}.\n', "a")

    assert links(history.root) == {'Revert "Add a cache"': (f"reverts:{id}",)}


def test_a_revert_without_id_is_linked_to_the_newest_earlier_commit_with_the_subject(history: History) -> None:
    history.commit("Add a cache (#1)", "a")
    id = history.commit("Add a cache (#2)", "a")
    history.commit('Revert "Add a cache" (#3)', "a")
    history.commit("Add a cache (#4)", "a")

    assert links(history.root) == {'Revert "Add a cache" (#3)': (f"reverts:{id}",)}


def test_a_revert_is_linked_by_the_number_of_the_pull_request(history: History) -> None:
    id = history.commit("Add a cache (#1)", "a")
    history.commit("Add a cache (#2)", "a")
    history.commit('Revert "Add a cache" (#3)\n\nReverts someone/project#1', "a")

    assert links(history.root) == {'Revert "Add a cache" (#3)': (f"reverts:{id}",)}


def test_a_reapplied_commit_is_linked_to_its_revert(history: History) -> None:
    id = history.commit("Add a cache", "a")
    revert = history.commit('Revert "Add a cache"', "a")
    history.commit('Reapply "Add a cache"', "a")

    assert links(history.root) == {
        'Reapply "Add a cache"': (f"reverts:{revert}",),
        'Revert "Add a cache"': (f"reverts:{id}",),
    }


def test_a_reapplied_pull_request_is_linked_to_its_revert(history: History) -> None:
    history.commit("Add a cache (#12)", "a")
    revert = history.commit('Revert "Add a cache (#12)" (#15)\n\nReverts someone/project#12', "a")
    history.commit('Reapply "Add a cache (#12)"', "a")

    assert links(history.root)['Reapply "Add a cache (#12)"'] == (f"reverts:{revert}",)


@pytest.mark.parametrize(
    "message",
    [
        'Handle tabs\n\nFixes: {short} ("Parse lines")',
        "Handle tabs\n\nThis is a fix for {short}.",
        "Handle tabs\n\nA follow-up to commit `{short}`: tabs were lost.",
        "Handle tabs\n\nThe regression in {short} is gone.",
        "fixup! Parse lines",
        "fix of {short}: tabs are lost",
        'Fix of "Parse lines"',
        'Fixes "Parse lines" (#12)',
    ],
)
def test_a_fix_is_linked_to_what_it_names(history: History, message: str) -> None:
    id = history.commit("Parse lines", "a")
    history.commit("Other", "a")
    history.commit(message.format(short=id[:9]), "b")

    assert list(links(history.root).values()) == [(f"fixes:{id}",)]


@pytest.mark.parametrize(
    "body", ["Fixes: #1234567", "Fixes 1234567", "This fixes defaced pages", "See commit {short}", "Fixes x{short}"]
)
def test_numbers_words_and_mentions_are_no_links(history: History, body: str) -> None:
    id = history.commit("Parse lines", "a")
    history.commit("Handle tabs\n\n" + body.format(short=id[:9]), "b")

    assert links(history.root) == {}


def test_several_commits_reverted_at_once(history: History) -> None:
    one, two = history.commit("One", "a"), history.commit("Two", "a")
    history.commit(f"Go back\n\nThis reverts commits {one[:12]} and {two[:12]}.", "a")

    assert links(history.root) == {"Go back": (f"reverts:{one}", f"reverts:{two}")}


def test_a_fix_soon_after_a_commit_about_the_same_files_is_linked_to_it(history: History) -> None:
    history.commit("Parse lines", "parser.py")
    id = history.commit("Parse quoted lines", "parser.py", "CHANGELOG.md")
    history.commit("Draw charts", "charts.py")
    history.commit("fix: quotes in the middle of lines", "parser.py", "CHANGELOG.md")

    assert links(history.root) == {"fix: quotes in the middle of lines": (f"fixes:{id}",)}


@pytest.mark.parametrize(
    ("subject", "files", "later"),
    [
        ("Fix quoted lines", ("parser.py",), 4 * DAY),
        ("Fix quoted lines", ("other.py",), 3600),
        ("Fix quoted lines", ("parser.py", "a", "b", "c"), 3600),
        ("Explain quoted lines", ("parser.py",), 3600),
    ],
    ids=["later", "other file", "many files", "no fix"],
)
def test_other_changes_of_the_same_files_are_not_linked(
    history: History, subject: str, files: tuple[str, ...], later: int
) -> None:
    history.commit("Parse quoted lines", "parser.py")
    history.commit(subject, *files, later=later)

    assert links(history.root) == {}
    assert len(list(read_commits(history.root))) == 2


@pytest.mark.parametrize("subject", ["Fix rounding error", "[shop] Correct the sum", "hotfix"])
@pytest.mark.parametrize(("line", "is_linked"), [(3, True), (8, False)])
def test_a_fix_of_the_same_lines_is_linked_whatever_its_words(
    history: History, subject: str, line: int, is_linked: bool
) -> None:
    def change(message: str, number: int) -> str:
        lines = (history.root / "z.py").read_text().split("\n")
        lines[number] = f"-- {message}"
        (history.root / "z.py").write_text("\n".join(lines))
        return history.commit(message)

    history.root.joinpath("z.py").write_text("\n".join(f"line {n}" for n in range(10)))
    history.commit("Begin", later=30 * DAY)
    id = change("Compute shipping costs", 3)
    change(subject, line)

    assert links(history.root, head="HEAD") == ({subject: (f"fixes:{id}",)} if is_linked else {})


def test_many_fixes_are_compared_in_few_calls_of_git(history: History) -> None:
    for number in range(MAX_UNSURE + 3):
        history.commit(f"Step {number}", f"{number}.py")
        history.commit("Fix rounding error", f"{number}.py")

    assert len([one for one in read_commits(history.root) if one.links]) == MAX_UNSURE + 3


def test_links_reach_back_behind_the_last_import(history: History) -> None:
    id = history.commit("Add a cache (#1)", "a")
    last = history.commit("Other", "b")
    history.commit('Revert "Add a cache" (#2)', "a")
    history.commit(f"Handle tabs\n\nFixes: {id[:9]}", "b")

    assert links(history.root, after=last) == {
        'Revert "Add a cache" (#2)': (f"reverts:{id}",),
        "Handle tabs": (f"fixes:{id}",),
    }


def test_a_reference_to_a_commit_that_is_not_there_is_kept_as_it_is(history: History) -> None:
    history.commit('Revert "Something"\n\nThis reverts commit 0123abc.', "a")
    history.commit('Revert "Something else"', "a")

    assert links(history.root) == {'Revert "Something"': ("reverts:0123abc",)}
    assert len(list(read_commits(history.root))) == 2


def test_no_commit_is_lost_if_too_many_wait(history: History) -> None:
    lines = "".join(
        f'commit refs/heads/main\ncommitter A <a@b> {START + n} +0000\ndata <<END\nRevert "{n}"\nEND\n\n'
        for n in range(2 * MAX_WAITING)
    )
    history.git("fast-import", "--quiet", stdin=lines.encode())

    assert len({one.id for one in read_commits(history.root)}) == 2 * MAX_WAITING


# --- repositories of all kinds -----------------------------------------------------------


def test_a_directory_outside_any_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_commits(tmp_path)

    assert refused.value.code == "no-repository"
    assert count_commits(tmp_path) == 0


def test_a_repository_without_commits_has_no_history(history: History) -> None:
    assert not list(read_commits(history.root))
    assert count_commits(history.root) == 0


def test_a_shallow_clone_tells_no_files_of_its_last_commit(history: History, tmp_path: Path) -> None:
    history.commit("One", "a", "b")
    history.commit("Two", "a")
    history.commit("Three", "b")
    history.git("clone", "--quiet", "--depth=2", f"file://{history.root}", str(tmp_path / "clone"))

    read = list(read_commits(tmp_path / "clone"))

    assert [(one.text, one.files) for one in read] == [("Three", ("b",)), ("Two", ())]
    assert shallow_commits(tmp_path / "clone")
    assert not shallow_commits(history.root)


def test_a_clone_without_trees_fetches_nothing(history: History, tmp_path: Path) -> None:
    history.commit("One", "a")
    history.git("config", "uploadpack.allowFilter", "true")
    history.git(
        "clone", "--quiet", "--no-checkout", "--filter=tree:0", f"file://{history.root}", str(tmp_path / "clone")
    )
    history.root.rename(tmp_path / "moved")

    (episode,) = read_commits(tmp_path / "clone")

    assert (episode.text, episode.files) == ("One", ())


def test_a_submodule_and_its_superproject_have_histories_of_their_own(history: History, tmp_path: Path) -> None:
    history.commit("Inner", "a")
    outer = History(tmp_path / "outer")
    outer.git("submodule", "--quiet", "add", str(history.root), "lib")
    outer.commit("Outer")

    assert [one.text for one in read_commits(outer.root)] == ["Outer"]
    assert [one.text for one in read_commits(outer.root / "lib")] == ["Inner"]


def test_below_the_top_only_what_changed_there_is_read(history: History) -> None:
    history.commit("Top", "a")
    history.commit("Below", "packages/api/x.py", "packages/web/y.js")
    below = history.root / "packages" / "api"

    assert [(one.text, one.files) for one in read_commits(below)] == [("Below", ("x.py",))]
    assert count_commits(below) == 1


def test_replacements_do_not_hide_history(history: History) -> None:
    history.commit("One", "a")
    id = history.commit("Two", "a")
    history.git("replace", "--graft", id)

    assert [one.text for one in read_commits(history.root)] == ["Two", "One"]


def test_what_a_person_configured_for_git_log_does_not_matter(history: History) -> None:
    history.commit("One", "a/b")
    for name, value in (
        *(
            ("color.ui", "always"),
            ("log.showSignature", "true"),
            ("format.pretty", "fuller"),
            ("diff.relative", "true"),
        ),
        *(("log.date", "relative"), ("diff.renames", "copies"), ("log.decorate", "full"), ("core.pager", "false")),
    ):
        history.git("config", name, value)

    assert [(one.text, one.files) for one in read_commits(history.root)] == [("One", ("a/b",))]


def test_a_damaged_repository_is_an_error_after_what_could_be_read(history: History) -> None:
    first = history.commit("One", "a")
    history.commit("Two", "a")
    object_file = history.root / ".git" / "objects" / first[:2] / first[2:]
    object_file.chmod(0o600)
    object_file.write_bytes(b"")

    read: list[Episode] = []
    with pytest.raises(GitError) as failed:
        read.extend(read_commits(history.root))

    assert failed.value.code == "git-failed"
