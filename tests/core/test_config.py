"""Settings: one registry, from which loading, the template and the docs derive."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ralph.core.config import load_config, variable_name
from ralph.core.config_file import config_template, set_toml_values, to_toml
from ralph.core.errors import ConfigError
from ralph.core.records import replace
from ralph.core.settings import SECTIONS, Config

pytestmark = pytest.mark.storeless


def load(directory: Path, toml: str = "", **variables: str) -> Config:
    (directory / ".ralph.toml").write_text(toml)
    return load_config(directory, {"RALPH_TRUST": "1", **variables})


def uncommented(template: str) -> str:
    lines = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else line for line in template.splitlines()
    ]
    return "\n".join(lines)


def test_the_template_sets_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, config_template()) == Config()


def test_every_setting_of_the_template_can_be_uncommented(tmp_path: Path) -> None:
    toml = uncommented(config_template())
    examples = [setting.example for section in SECTIONS.values() for setting in section.settings.values()]
    without_examples = "\n".join(
        line for line in toml.splitlines() if not any(one and line.startswith(one) for one in examples)
    )

    assert load(tmp_path, without_examples) == Config()
    assert load(tmp_path, toml).warnings == ()
    listed = {
        (name, key) for name, section in SECTIONS.items() for key, one in section.settings.items() if one.is_listed
    }
    parsed = tomllib.loads(toml)
    parsed["memories.filter"] = parsed["memories"].pop("filter")
    assert {(name, key) for name, table in parsed.items() for key in table} == listed


def test_a_section_can_be_added_to_the_template(tmp_path: Path) -> None:
    config = load(tmp_path, f'{config_template()}\n[agent]\nname = "codex"\n\n[execution]\nmax_retries = 7\n')

    assert (config.agent.name, config.execution.max_retries, config.warnings) == ("codex", 7, ())


def test_a_section_that_is_there_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[agent\] .* 1 and 4") as problem:
        load(tmp_path, '[agent]  # which one\nname = "codex"\n\n[agent]\nmodel = "best"\n')

    assert "git" not in str(problem.value)  # the file need not be in a repository


@pytest.mark.parametrize("toml", ["max_retries = 7\n", "[agent]\nmax_retries = 7\n"])
def test_a_setting_without_its_header_is_told_where_it_belongs(tmp_path: Path, toml: str) -> None:
    (warning,) = load(tmp_path, toml).warnings

    assert "It belongs under [execution]." in warning


@pytest.mark.parametrize(
    ("section", "key"),
    [(name, key) for name, one in SECTIONS.items() for key, setting in one.settings.items() if setting.item is None],
)
def test_every_setting_has_a_variable(tmp_path: Path, section: str, key: str) -> None:
    setting = SECTIONS[section].settings[key]
    values = {bool: "no", int: "7", float: "7.5", str: "all", tuple: "one"}
    choices = [one for one in setting.choices if one]
    text = choices[-1] if choices else values[type(setting.default)]
    if key == "url":
        text = "team.db"
    if key == "endpoint":
        text = "http://localhost:4318"

    config: object = load(tmp_path, **{variable_name(section, key): text})

    for name in (*section.split("."), key):
        config = getattr(config, name)
    assert config == (text,) if isinstance(setting.default, tuple) else str(config).lower() in (text, "false")


@pytest.mark.parametrize(
    "toml",
    [
        "[execution]\nlease_seconds = 0",
        "[execution]\nverify = 1",
        "[models]\nwindow = true",
        "[models]\nladder = []",
        '[models]\nladder = ["a", "a"]',
        "[models.prices]\nopus = [1]",
        "models = 3",
        "[models]\nprices = 3",
        '[hats]\norder = ["cook"]',
        "[hats.instructions]\ncritic = 3",
        "[memories.filter]\nrecent = 40000",
        '[memories.filter]\ntypes = "fix"',
        '[store]\nurl = "mysql://db"',
        "[execution",
    ],
)
def test_a_value_that_does_not_fit_is_refused(tmp_path: Path, toml: str) -> None:
    with pytest.raises(ConfigError):
        load(tmp_path, toml)


def test_tables_keep_the_defaults_that_they_do_not_set(tmp_path: Path) -> None:
    config = load(tmp_path, '[models.prices]\nmine = [1, 2]\n[memories.filter]\ntags = ["a"]\n')

    assert config.models.prices["mine"] == (1.0, 2.0)
    assert config.models.prices["opus"] == (5.0, 25.0)
    assert config.memories.filter.tags == ("a",)


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rename `execution.retries` to `max_retries`, and `models.costs` to `prices`."""
    for name, key, alias in (("execution", "max_retries", "retries"), ("models", "prices", "costs")):
        section = SECTIONS[name]
        settings = section.settings | {key: replace(section.settings[key], aliases=(alias,))}
        monkeypatch.setitem(SECTIONS, name, replace(section, settings=settings))


@pytest.mark.usefixtures("renamed")
def test_a_renamed_setting_is_read_by_its_old_name_with_a_warning(tmp_path: Path) -> None:
    from_file = load(tmp_path, "[execution]\nretries = 7\n[models.costs]\nmine = [1, 2]\n")
    from_variable = load(tmp_path, RALPH_EXECUTION_RETRIES="8")

    assert (from_file.execution.max_retries, from_variable.execution.max_retries) == (7, 8)
    assert from_file.models.prices["mine"] == (1.0, 2.0)
    retries, prices = from_file.warnings
    assert "execution.max_retries" in retries
    assert "models.prices" in prices
    (warning,) = from_variable.warnings
    assert "RALPH_EXECUTION_MAX_RETRIES" in warning


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize("toml", ["retries = 7\nmax_retries = 5", "max_retries = 5\nretries = 7"])
def test_the_new_name_of_a_setting_overrides_the_old_one(tmp_path: Path, toml: str) -> None:
    both = {"RALPH_EXECUTION_MAX_RETRIES": "5", "RALPH_EXECUTION_RETRIES": "7"}

    assert load(tmp_path, f"[execution]\n{toml}\n").execution.max_retries == 5
    assert load(tmp_path, **both).execution.max_retries == 5


@pytest.mark.usefixtures("renamed")
def test_a_renamed_setting_is_listed_only_by_its_new_name() -> None:
    assert "# max_retries = 3" in config_template()
    assert "# retries" not in config_template()


def test_settings_are_changed_in_place() -> None:
    toml = '# mine\n[agent]\nname = "x" # why\n\n[store]\nproject = "a" # that one\n'

    changed = set_toml_values(toml, "store", {"project": "Ü b", "url": "db.sqlite"})

    assert changed.startswith('# mine\n[agent]\nname = "x" # why\n\n[store]\nproject = "Ü b" # that one\n')
    assert tomllib.loads(changed)["store"] == {"project": "Ü b", "url": "db.sqlite"}
    assert tomllib.loads(set_toml_values(config_template(), "store", {"project": "b"}))["store"] == {"project": "b"}


def test_defaults_are_written_as_people_write_them() -> None:
    assert [to_toml(one) for one in (True, 600.0, 0.5, "a", ("a", "b"))] == ["true", "600", "0.5", '"a"', '["a", "b"]']


@pytest.mark.parametrize("line", ['[memories.filter]\ntypes = ["patern"]', '[hats.kinds]\ncritic = ["pitfal"]'])
def test_a_memory_type_with_a_typo_is_an_error_that_names_the_valid_ones(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=r"architecture, dependency, decision.*pitfall"):
        load(tmp_path, line)
