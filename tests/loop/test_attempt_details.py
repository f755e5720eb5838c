"""What attempts were told and how they were checked: bounded, without secrets, and at no risk to the run."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from ralph.core.records import Prompt, PromptSection
from ralph.loop import attempt_details
from ralph.loop.attempt_details import DetailsFile, latest_details, read_details
from ralph.loop.options import RunOptions
from ralph.loop.run_log import LIVE_FOLDER
from ralph.store.episodes import EpisodeFilter
from tests.loop.trial import DONE, Trial
from tests.make import ScriptedAgent, begin

KEY = "sk-ant-" + "api03-" + "Zq7" * 12


def folder(trial: Trial) -> Path:
    return trial.root / LIVE_FOLDER / attempt_details.FOLDER


def worked(trial: Trial, *gates: str, is_kept: bool = True) -> str:
    """Return the run that worked on a task whose description holds a secret."""
    trial.project.tasks.add("Accept tabs", body=f"The key is {KEY}.")
    trial.run(ScriptedAgent(DONE), RunOptions(iterations=1), execution={"gates": gates}, episodes={"capture": is_kept})
    return trial.project.store.runs.latest(1)[0].id


def test_a_run_keeps_the_prompt_and_the_output_of_gates(trial: Trial) -> None:
    run = worked(trial, "echo all is well", f"echo {KEY}; exit 3")

    details = read_details(trial.root, run, 1)

    assert details is not None
    assert details.prompt is not None
    assert "Accept tabs" in details.prompt.text
    assert [(one.kind, one.passed) for one in details.checks] == [("gate", True), ("gate", False)]
    assert "all is well" in details.checks[0].output
    whole = zlib.decompress((folder(trial) / f"{run}.1.z").read_bytes()).decode()
    assert KEY not in whole
    assert (folder(trial) / f"{run}.1.z").stat().st_mode & 0o077 == 0


def test_nothing_is_kept_if_transcripts_are_not(trial: Trial) -> None:
    run = worked(trial, is_kept=False)

    assert read_details(trial.root, run, 1) is None


def test_forgetting_past_work_erases_it_from_prompts_too(trial: Trial) -> None:
    run = worked(trial)
    project = trial.project

    project.episodes.forget(EpisodeFilter(matching="no such words"))
    assert read_details(trial.root, run, 1)
    project.episodes.forget(EpisodeFilter(matching="accept TABS"))

    assert read_details(trial.root, run, 1) is None


FOREIGN = (
    b"",
    b"not compressed",
    b"x" * 2_000_000,
    zlib.compress(b"[]"),
    zlib.compress(b'{"prompt": 7, "checks": []}'),
    zlib.compress(b'{"prompt": null, "checks": ' + b"[" * 50_000),
    zlib.compress(b'"' + b"a" * 20_000_000),
)


@pytest.mark.parametrize("content", FOREIGN, ids=range(len(FOREIGN)))
def test_what_ralph_did_not_write_is_not_read(trial: Trial, content: bytes) -> None:
    folder(trial).mkdir(parents=True)
    (folder(trial) / "run-1.1.z").write_bytes(content)

    assert read_details(trial.root, "run-1", 1) is None
    assert list(latest_details(trial.root, 10)) == []


def test_no_link_is_followed(trial: Trial, tmp_path: Path) -> None:
    run = worked(trial)
    name = f"{run}.1.z"
    (folder(trial) / name).rename(tmp_path / name)
    (folder(trial) / name).symlink_to(tmp_path / name)

    assert read_details(trial.root, run, 1) is None
    assert read_details(trial.root, "../../x", 1) is None


def test_a_folder_that_cannot_be_written_harms_no_run(trial: Trial) -> None:
    folder(trial).parent.mkdir(parents=True, exist_ok=True)
    folder(trial).write_text("in the way")

    worked(trial)

    assert trial.project.overview().done == 1


def test_only_the_latest_are_kept(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_details, "MAX_KEPT", 10)
    project = trial.project
    project.tasks.add("Accept tabs")
    _, attempt = begin(project.store, project.store.runs.start("test").id)
    prompt = Prompt(text="Do it.", tokens=2, sections=(PromptSection(name="task", text="Do it.", tokens=2),))
    folder(trial).mkdir(parents=True)
    for number in range(10):
        (folder(trial) / f"old.{number}.z").write_bytes(b"")
        os.utime(folder(trial) / f"old.{number}.z", (number, number))

    DetailsFile(trial.root, attempt, prompt).save()

    kept = {path.name for path in folder(trial).iterdir()}
    assert len(kept) == 10
    assert "old.0.z" not in kept
    assert read_details(trial.root, attempt.run_id, attempt.iteration)
