from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.records import MemorySource, replace
from ralph.core.text import one_line, sanitize
from ralph.formats.imported import InvalidEntryError, parse_tags
from ralph.formats.knowledge_md import (
    MAX_FRONT_MATTER_CHARS,
    KnowledgeNote,
    format_note,
    parse_note,
    read_knowledge_md,
    unused_file_name,
    update_note,
)

NOW = "2026-03-01T12:00:00.000Z"

FILE = """\
---
title: "Benchmarks need nightly"
tags: [testing, cargo]
feature: "speed"
created_at: "2026-02-17T12:00:00Z"
---

Run them with `cargo +nightly bench`.

---

The rule above ends nothing.
"""

NOTE = KnowledgeNote(
    title="Benchmarks need nightly",
    tags=("testing", "cargo"),
    body="Run them with `cargo +nightly bench`.\n\n---\n\nThe rule above ends nothing.",
    feature="speed",
    created_at="2026-02-17T12:00:00.000Z",
)


def a_file(front: str, body: str = "Text.\n") -> str:
    return f"---\n{front}\n---\n{body}"


def refusal(text: str) -> str:
    """Give the reason why a text is no note."""
    with pytest.raises(InvalidEntryError) as caught:
        parse_note(text)
    return str(caught.value)


# --- reading ---------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_has_a_title_tags_a_feature_a_date_and_a_body(mark: str, newline: str) -> None:
    assert parse_note(mark + FILE.replace("\n", newline)) == NOTE


def test_a_feature_and_a_date_may_be_missing() -> None:
    assert parse_note(a_file("title: A\ntags: [b]")) == KnowledgeNote(title="A", tags=("b",), body="Text.")
    assert parse_note(a_file("title: A\ntags: [b]\nfeature:\ncreated_at: ~")) == KnowledgeNote(
        title="A", tags=("b",), body="Text."
    )
    assert parse_note(a_file("title: A\ntags: [b]\nfeature: [x]\ncreated_at: some day")).created_at == ""


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("""'Error: "x" # y'""", 'Error: "x" # y'),
        ('"Error: \\"x\\" # y"', 'Error: "x" # y'),
        ("It's --- here", "It's --- here"),
        ("2024-01-01", "2024-01-01"),
        ("1.10", "1.10"),
        ("yes", "yes"),
        ("|\n  two\n  lines", "two lines"),
        (">-\n  two\n  lines", "two lines"),
        ("plain\n  and on", "plain and on"),
        ("A # a comment", "A"),
        ('"\\e[31mred\\u200b"', "red"),
    ],
)
def test_a_title_is_what_people_would_read(written: str, title: str) -> None:
    assert parse_note(a_file(f"title: {written}\ntags: [b]")).title == title


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("[A, b, a]", ("a", "b")),
        ("\n  - a\n  - B c", ("a", "b c")),
        ("\n- a\n-\n- b", ("a", "b")),
        ("a, b ,, c", ("a", "b", "c")),
        ("one", ("one",)),
        ("[3.10, yes, 2024-01-01, 007, null]", ("3.10", "yes", "2024-01-01", "007")),
        ('["a,b", !!int "3"]', ("a,b", "3")),
    ],
)
def test_tags_may_be_a_list_or_a_text_of_any_words(written: str, tags: tuple[str, ...]) -> None:
    assert parse_note(a_file(f"title: A\ntags: {written}")).tags == tags


@pytest.mark.parametrize(
    "written",
    ["2026-02-17T12:00:00Z", "2026-02-17 12:00:00", "'2026-02-17T13:00:00.000+01:00'", "2026-02-17T12:00:00.0Z"],
)
def test_a_date_may_be_text_or_a_timestamp_of_yaml(written: str) -> None:
    assert parse_note(a_file(f"title: A\ntags: [b]\ncreated_at: {written}")).created_at == NOTE.created_at


def test_the_last_of_two_equal_keys_counts() -> None:
    assert parse_note(a_file("title: A\ntags: [b]\ntitle: C")).title == "C"


@pytest.mark.parametrize("end", ["---", "..."])
def test_front_matter_ends_at_a_line_of_its_own(end: str) -> None:
    text = f"---\ntitle: a --- b\ntags: [c]\nmore: |\n  ---\n{end}\n---\nText.\n"

    note = parse_note(text)

    assert (note.title, note.body) == ("a --- b", "---\nText.")


def test_secrets_and_invisible_characters_are_not_read() -> None:
    key = "ghp" + "_" + "a1B2" * 9

    note = parse_note(a_file(f"title: A\u200b {key}\ntags: [b]", f"The key is {key}.\x00\n"))

    assert (note.title, note.body) == ("A [redacted]", "The key is [redacted].")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no front matter"),
        ("# Words\n", "it has no front matter"),
        ("\n" + FILE, "it has no front matter"),
        ("----\ntitle: A\n---\n", "it has no front matter"),
        ("---\ntitle: A\ntags: [b]\n", "its front matter has no closing"),
        ("---\ntitle: A\ntags: [b]\n --- \nText.", "its front matter has no closing"),
        ("---\n---\nText.", "its front matter has no `title"),
        (a_file("- title"), "its front matter has no `title"),
        (a_file("tags: [b]"), "it has no title"),
        (a_file("title:\ntags: [b]"), "it has no title"),
        (a_file("title: [A]\ntags: [b]"), "it has no title"),
        (a_file("title: A"), "it has no tags"),
        (a_file("title: A\ntags: []"), "it has no tags"),
        (a_file("title: A\ntags: [[b]]"), "one of its tags or files is not a string"),
        (a_file("title: A\ntags: {b: c}"), "its tags or files are not a list"),
        (a_file("title: A\ntags: [b]", " \n\u200b\n"), "it has no text"),
        ("---\ntitle: A\ntags: [b]\n---", "it has no text"),
        (a_file("title: A\ntags: [b]", "x" * (MAX_BODY_LENGTH + 1)), "it has 100,001 characters"),
        (
            a_file("title: A\ntags: [b]\nmore: " + "x" * MAX_FRONT_MATTER_CHARS),
            "its front matter is longer than 65,536",
        ),
        (a_file("title: &a A\ntags: [b]"), "its front matter has an alias"),
        (a_file("title: A\ntags: [b]\nmore: *a"), "its front matter has an alias"),
        (
            a_file("title: A: B\ntags: [b]"),
            "its front matter is not valid YAML (mapping values are not allowed here, line 2)",
        ),
        (a_file("title: A\ntags: [b\n"), "its front matter is not valid YAML"),
        (a_file("title: A\x07\ntags: [b]"), "its front matter is not valid YAML"),
        (a_file("title: !!python/name:os.system\ntags: [b]"), "its front matter is not valid YAML"),
        (a_file("? [a]\n: b\ntitle: A\ntags: [b]"), "its front matter is not valid YAML"),
    ],
)
def test_what_is_no_note_is_refused_with_the_reason(text: str, why: str) -> None:
    assert refusal(text).startswith(why)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        a_file("[" * 60_000),
        a_file("a: " + "[" * 900),
        a_file("- " * 30_000),
        a_file("title: A\ntags: [b]\nmore: !!int " + "9" * 60_000),
        a_file("title: A\ntags: [b]\n" + "---x\n" * 10_000),
        "---\n" + "x" * 10_000_000,
        "---\n" + "--- \n" * 1_000_000,
        a_file("title: A\ntags: [b]", "\n" * 5_000_000 + "`" * 200_000),
        a_file("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"),
    ],
    ids=["brackets", "depth", "dashes", "number", "markers", "long", "no end", "body", "aliases"],
)
def test_a_hostile_file_is_refused_soon(text: str) -> None:
    started = time.process_time()

    refusal(text)

    assert time.process_time() - started < 5


def test_a_file_becomes_a_memory() -> None:
    (memory,), problems = read_knowledge_md(FILE, NOW)

    assert (memory.id, memory.kind, memory.title, memory.content) == ("", "knowledge", NOTE.title, NOTE.body)
    assert (memory.tags, memory.feature, memory.created_at) == (NOTE.tags, "speed", NOTE.created_at)
    assert (memory.source, memory.confidence) == (MemorySource.IMPORTED, 0.7)
    assert problems == ()
    assert read_knowledge_md(a_file("title: A\ntags: [b]"), NOW)[0][0].created_at == NOW


def test_a_file_without_front_matter_is_one_problem() -> None:
    memories, problems = read_knowledge_md("words", NOW)

    assert memories == ()
    assert [problem.line for problem in problems] == [1]


# --- writing -----------------------------------------------------------------------------


def test_a_new_file_has_the_shape_of_the_others() -> None:
    assert format_note(NOTE) == FILE.replace("12:00:00Z", "12:00:00.000Z")
    assert format_note(
        KnowledgeNote(title='Error: "x" # y', tags=("c++", "yes", "3.11", "a b", "über", "null"), body="Text.")
    ) == ('---\ntitle: "Error: \\"x\\" # y"\ntags: ["c++", "yes", "3.11", "a b", über, "null"]\n---\n\nText.\n')


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
LINES = WORDS.map(lambda text: one_line(sanitize(text)))
TITLES = st.one_of(
    LINES, st.sampled_from(["null", "~", "- a", "a: b", "#", "'", '"', "\\", "[", "&a", "*", "%", "---"])
)
TAGS = st.lists(TITLES, min_size=1, max_size=4).map(lambda tags: parse_tags(list(parse_tags(tags)))).filter(bool)
NOTES = st.builds(
    KnowledgeNote,
    title=TITLES.filter(bool),
    tags=TAGS,
    body=st.lists(TITLES, min_size=1, max_size=4).map(lambda lines: sanitize("\n".join(lines))).filter(bool),
    feature=st.one_of(st.none(), TITLES.filter(bool)),
    created_at=st.sampled_from(["", NOTE.created_at]),
)


@given(NOTES)
def test_any_note_is_read_back_as_it_was_written(note: KnowledgeNote) -> None:
    assert parse_note(format_note(note)) == note


# --- rewriting ---------------------------------------------------------------------------

STYLES = {
    "title": ["title: A", "title : 'A'", '"title": "A" # why', "title: >\n  A\n", "title:\n  A # why", "? title\n: A"],
    "tags": [
        "tags: [a, b, c]",
        "tags: [a, # why\n  b, 'c',\n]  # more",
        "tags:\n- a\n- b\n- c",
        "tags: # why\n  - a # x\n  # between\n  - 'b'\n\n  - c\n# after",
        "tags:\n  -\n    a\n  - b\n  - c",
        "tags: a, b, c # why",
        "tags: !!seq [a, b, c]",
        "tags: [a, ~, b, B, c]",
        "tags:\n  - a\n  - ~\n  - b\n  - c",
    ],
    "feature": [
        "",
        "feature: f",
        "feature: 'f' # why",
        "feature:",
        "feature: # why",
        "feature: null",
        "feature: |\n  f\n",
    ],
    "other": ["", "# a comment", "other: {a: [1, 2]}", "more: |\n  title: X\n  tags: [y]", "title: old", "\n"],
}


@st.composite
def files(draw: st.DrawFn) -> str:
    """Make a file as people write them."""
    parts = draw(st.permutations([draw(st.sampled_from(styles)) for styles in STYLES.values()]))
    front = "\n".join(part for part in [*parts, "created_at: 2026-02-17T12:00:00Z"] if part)
    if draw(st.integers(0, 9)) == 0:
        front = (
            "{ title: A, tags: [a, b, c], x: [1],\n  feature: f, }" if draw(st.booleans()) else "{title: A, tags: [b]}"
        )
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    body = draw(st.sampled_from(["Text.", "\nText.\n", "\n\n  Text.\n\n---\nMore.  \n\n"]))
    text = draw(st.sampled_from(["", "\ufeff"])) + a_file(front, body)
    return text.replace("\n", newline)


@given(files())
def test_a_note_that_says_the_same_leaves_the_file_as_it_is(text: str) -> None:
    assert update_note(text, parse_note(text)) == text


CHANGED_TAGS = st.one_of(TAGS, st.permutations(["a", "b", "c", "d"]).map(lambda tags: tuple(tags[:3])))


@settings(max_examples=30)
@given(files(), NOTES, CHANGED_TAGS)
def test_a_rewritten_file_says_what_it_should(text: str, note: KnowledgeNote, tags: tuple[str, ...]) -> None:
    old = parse_note(text)

    changed = update_note(text, replace(note, tags=tags))

    assert parse_note(changed) == replace(note, tags=tags, created_at=old.created_at)
    assert update_note(changed, parse_note(changed)) == changed
    assert changed.startswith("\ufeff") == text.startswith("\ufeff")
    assert ("\r\n" in text) == ("\r\n" in changed)
    assert changed.count("\n") == changed.count("\r\n") or "\r\n" not in text


KEPT = [
    "# before",
    "other: {a: [1, 2]} # kept",
    "more: |",
    "  title: X",
    "created_at: 2026-02-17  # by hand",
    "# after",
]


@given(NOTES)
def test_keys_and_comments_of_others_stay_in_their_order(note: KnowledgeNote) -> None:
    lines = [*KEPT[:2], "title: A", *KEPT[2:4], "tags: [a]", *KEPT[4:]]

    changed = update_note(a_file("\n".join(lines)), note)

    assert [line for line in changed.split("\n---", 1)[0].split("\n") if line in KEPT] == KEPT


def front_of(text: str) -> str:
    return text[4:].partition("\n---")[0]


@pytest.mark.parametrize(
    ("front", "changes", "expected"),
    [
        ("title: A # x\ntags: [b]", {"title": "B"}, 'title: "B"\ntags: [b]'),
        ("title: A\ntags: [b] # x", {"title": "B"}, 'title: "B"\ntags: [b] # x'),
        ("title: A\ntags:\n - b # x\n # y\n - c\nx: y", {"tags": ("b", "d")}, "title: A\ntags: [b, d]\nx: y"),
        ("title: A\ntags:\n- b\n- c\nx: y", {"tags": ("c", "b")}, "title: A\ntags: [c, b]\nx: y"),
        ("title: A\ntags: b, c", {"tags": ("b", "d")}, "title: A\ntags: [b, d]"),
        ("title: A\ntags: [b]\nx: y", {"feature": "f"}, 'title: A\ntags: [b]\nx: y\nfeature: "f"'),
        ("title: A\ntags: [b]\nfeature: f\nx: y", {"feature": None}, "title: A\ntags: [b]\nx: y"),
        ("  title: A\n  x: y\n  tags: [b]", {"feature": "f"}, "title: A\nx: y\ntags:\n- b\nfeature: f"),
        ("{title: A, tags: [b], x: y}", {"title": "B"}, "title: B\ntags:\n- b\nx: y"),
        ("title: A\ntags: [b]\ntitle: C", {"title": "D"}, 'title: A\ntags: [b]\ntitle: "D"'),
    ],
)
def test_only_the_value_that_changed_is_written_anew(front: str, changes: dict[str, object], expected: str) -> None:
    text = a_file(front)

    changed = update_note(text, replace(parse_note(text), **changes))

    assert front_of(changed) == expected


def test_a_new_body_keeps_the_blank_lines_around_it() -> None:
    note = replace(parse_note(FILE), body="New.\n\ntext")

    assert update_note(FILE, note) == FILE[: FILE.index("Run them")] + "New.\n\ntext\n"
    assert update_note(a_file("title: A\ntags: [b]", "  old"), note).endswith("---\nNew.\n\ntext")


def test_a_secret_in_a_file_is_not_touched_by_a_change_beside_it() -> None:
    text = a_file("title: A\ntags: [b]", "password=hunter22hunter\n")

    changed = update_note(text, replace(parse_note(text), title="B"))

    assert changed == text.replace("title: A", 'title: "B"')


def test_what_is_no_note_cannot_be_rewritten() -> None:
    with pytest.raises(InvalidEntryError):
        update_note("words", NOTE)


# --- names and links ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "taken", "name"),
    [
        ("Rust's testing: a guide!", [], "rust-s-testing-a-guide.md"),
        ("Foo--Bar", [], "foo-bar.md"),
        ("???", [], "entry.md"),
        ("", ["entry.md"], "entry-2.md"),
        ("Foo", ["FOO.md", "foo-2.MD", "other.md"], "foo-3.md"),
        ("../../etc/passwd", [], "etc-passwd.md"),
        ("a" * 100, [], "a" * 80 + ".md"),
        ("a" * 100, ["a" * 80 + ".md"], "a" * 78 + "-2.md"),
        ("日" * 100, [], "日" * 79 + ".md"),
        ("日" * 100, ["日" * 79 + ".md"], "日" * 78 + "-2.md"),
        ("a" * 79 + " b", [], "a" * 79 + ".md"),
    ],
)
def test_a_file_is_named_for_its_title(title: str, taken: list[str], name: str) -> None:
    assert unused_file_name(title, taken) == name


@given(st.text(max_size=300), st.integers(0, 12))
def test_any_title_has_a_name_that_is_free_and_short_enough(title: str, number: int) -> None:
    taken: list[str] = []
    for _ in range(number):
        taken.append(unused_file_name(title, taken).upper())

    name = unused_file_name(title, taken)

    assert len(name.encode()) <= 240
    assert len(name) <= 83
    assert name.casefold() not in {one.casefold() for one in taken}
    assert not set(name) & set('/\\:*?"<>|\n\x00 ')
