"""Long specs and the descriptions of tasks above reach the tasks that they matter for."""

from __future__ import annotations

import re
from pathlib import Path

from ralph.core.records import SubtaskSigil
from ralph.loop.outline import PART_CHARACTERS, split_parts
from tests.loop.trial import DONE, Trial
from tests.make import ScriptedAgent

FILLER = "This paragraph is about something else entirely, such as the color of the sky. " * 12
SUBJECTS = ("Overview", "Login", "Search", "Export", "Printing", "Themes", "Currency rounding", "Backups", "Releases")
ROUNDING = "Amounts are in cents and rounded half to even.\n\n```python\n# never a float\nround_half_even(cents)\n```"


def long_spec() -> str:
    sections = [f"## {name}\n\n{ROUNDING if 'rounding' in name else name}\n\n{FILLER}" for name in SUBJECTS]
    return "# The shop\n\nA shop for books.\n\n" + "\n\n".join(sections)


def test_of_a_long_spec_the_parts_that_matter_are_shown_with_contents_and_the_command_to_read_others(
    trial: Trial,
) -> None:
    feature = trial.project.features.add("Shop", spec=long_spec())
    task = trial.project.tasks.add("Fix the rounding of currency amounts in carts", feature=feature.id)

    prompt = trial.project.prompts.preview(task.id)
    section = next(one for one in prompt.sections if one.name == "Feature")

    assert ROUNDING in section.text
    assert all(re.search(rf"(?m)^\d+\. +{name}", section.text) for name in SUBJECTS)
    assert section.text.count("color of the sky") < long_spec().count("color of the sky")
    assert f"ralph feature show {feature.id} --part NUMBER" in section.text
    assert "[cut]" not in section.text
    assert section.tokens <= (section.cap_tokens or 0)
    assert section.left_out


def test_the_contents_of_many_parts_list_those_that_are_not_shown(trial: Trial) -> None:
    spec = "# Shop\n\nBooks.\n\n" + "\n\n".join(f"## Shelf {n}\n\nPlank {n}. {FILLER[:500]}" for n in range(70))
    feature = trial.project.features.add("Shop", spec=spec)
    task = trial.project.tasks.add("Paint the planks", feature=feature.id)

    prompt = trial.project.prompts.preview(task.id).text
    listed = prompt[prompt.index("<contents>") : prompt.index("</contents>")].splitlines()[1:]
    hidden = [line for line in listed if re.match(r"\d+\. +Shelf", line) and "[below]" not in line]

    assert len(hidden) > 30
    assert sum("[below]" in line for line in listed) <= 3
    assert all(f"## {line.split('.', 1)[1].strip()}\n" not in prompt for line in hidden)


def test_every_part_can_be_read_by_its_number(trial: Trial) -> None:
    plan = "1. Write it.\n2. Test it."
    feature = trial.project.features.add("Shop", spec=long_spec(), plan=plan)
    task = trial.project.tasks.add("Print invoices", feature=feature.id)
    prompt = trial.project.prompts.preview(task.id).text

    number = re.search(r"(?m)^(\d+)\. +Themes\b", prompt)
    assert number
    parts = len(split_parts(long_spec()))

    assert trial.ralph("feature", "show", "Shop", "--part", number[1]).out.startswith("## Themes\n\nThemes\n")
    assert trial.ralph("feature", "show", "Shop", "--part", str(parts + 1)).out.rstrip("\n") == plan
    assert trial.ralph("feature", "show", "Shop", "--part", "99").code == 2


def test_a_text_is_the_sum_of_its_parts() -> None:
    for text in (long_spec(), FILLER * 40, "x" * 30_000, "```\n" + "# no heading\n\n" * 900 + "```\n", "", "\n\n# A\n"):
        parts = split_parts(text)
        assert "".join(part.text for part in parts) == text
        assert all(len(part.text) <= 2 * PART_CHARACTERS for part in parts)


def test_a_spec_that_is_too_long_for_prompts_is_added_with_a_warning(trial: Trial) -> None:
    file = trial.root / "spec.md"
    file.write_text(long_spec())

    assert "8,000" in trial.ralph("feature", "add", "Shop", "--spec", str(file)).err
    file.write_text("Short.")
    assert trial.ralph("feature", "update", "Shop", "--spec", str(file)).err == ""
    assert trial.project.features.show("Shop").feature.spec == "Short."


def test_a_feature_can_be_changed(trial: Trial, tmp_path: Path) -> None:
    feature = trial.project.features.add("Shop", spec="Old.", plan="Slowly.")
    trial.project.features.add("Other")

    changed = trial.project.features.update("Shop", name="Store", spec="New.")

    assert (changed.id, changed.name, changed.spec, changed.plan) == (feature.id, "Store", "New.", "Slowly.")
    assert trial.ralph("feature", "update", "Store", "--name", "Other").code == 2
    assert trial.ralph("feature", "update", "Store").code == 2


def test_the_descriptions_of_tasks_above_reach_the_parts(trial: Trial) -> None:
    project = trial.project
    epic = project.tasks.add("Epic", "Money is in cents; never use float.")
    whole = project.tasks.add("Invoices", "```\n# layout\n```", parent=epic.id)
    project.store.tasks.split(whole.id, [SubtaskSigil(title="Totals", body="Sum them up.", needs=())])
    agent = ScriptedAgent(DONE, "<verify-pass>TASK</verify-pass>")

    trial.run(agent, execution={"review": True})

    for prompt in agent.prompts[:2]:
        assert "<description>\n```\n# layout\n```\n</description>\n" in prompt
        assert "<description>\nMoney is in cents; never use float.\n</description>\n" in prompt
        assert prompt.index("Sum them up.") < prompt.index("# layout") < prompt.index("Money is in cents")


def test_a_long_description_above_is_shown_in_part(trial: Trial) -> None:
    whole = trial.project.tasks.add("Shop", long_spec())
    part = trial.project.tasks.add("Currency rounding", parent=whole.id)

    prompt = trial.project.prompts.preview(part.id).text

    assert ROUNDING in prompt
    assert f"`ralph task show {whole.id}`" in prompt
    assert prompt.count("color of the sky") < long_spec().count("color of the sky")
