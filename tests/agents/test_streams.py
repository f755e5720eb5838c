"""JSON lines are read as they arrive, whatever they are, and no field is trusted."""

import json

import pytest

from ralph.agents.streams import JsonLinesParser, MessageBuffer, count_at, list_at, number_at, text_at, value_at

# --- lines ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_objects_are_read_however_their_text_is_cut(size: int) -> None:
    events = [{"type": "a", "text": "Grüße\n世界 🙂"}, {"type": "b"}, {}]
    text = "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in events)
    lines = JsonLinesParser()

    found = [event for start in range(0, len(text), size) for event in lines.add(text[start : start + size])]

    assert found == events
    assert lines.finish() == []
    assert lines.last_skipped == ""


def test_an_object_is_given_as_soon_as_its_line_ends() -> None:
    lines = JsonLinesParser()

    assert lines.add('{"a": 1}') == []
    assert lines.add('\n{"b"') == [{"a": 1}]
    assert lines.add(": 2}\n\n  \n") == [{"b": 2}]


NO_OBJECTS = {
    "words": "Error: no key",
    "a list": "[1, 2]",
    "a text": '"text"',
    "a number": "3",
    "null": "null",
    "half an object": '{"a": 1',
    "two at once": "{}{}",
    "a deep list": "[" * 100_000,
    "a deep object": '{"a": ' * 100_000,
    "too many digits": f'{{"a": {"9" * 5000}}}',
}


@pytest.mark.parametrize("line", NO_OBJECTS.values(), ids=NO_OBJECTS.keys())
def test_a_line_that_is_no_object_is_skipped(line: str) -> None:
    lines = JsonLinesParser()

    found = lines.add(f'{{"a": 1}}\n{line}\n{{"b": 2}}\n')

    assert found == [{"a": 1}, {"b": 2}]
    assert lines.last_skipped[:10] == line[:10]
    assert len(lines.last_skipped) <= 200


def test_the_last_line_needs_no_end_but_has_to_be_whole() -> None:
    whole, half = JsonLinesParser(), JsonLinesParser()
    whole.add('{"a": 1}\n{"b": 2}')
    half.add('{"a": 1}\n{"b": "cut in the mid')

    assert whole.finish() == [{"b": 2}]
    assert half.finish() == []
    assert whole.last_skipped == ""
    assert half.last_skipped == '{"b": "cut in the mid'


def test_a_line_that_is_too_long_is_skipped_and_not_kept() -> None:
    lines = JsonLinesParser(line_characters=1000)

    found = lines.add('{"a": "')
    for _ in range(100):
        found += lines.add("x" * 500)
        assert sum(map(len, lines._chunks)) <= 1000
    found += lines.add('"}\n{"b": 2}\n')

    assert found == [{"b": 2}]
    assert lines.last_skipped.startswith('{"a": "x')


def test_a_line_of_just_the_longest_length_is_read() -> None:
    line = json.dumps({"a": "x" * 100})

    assert JsonLinesParser(line_characters=len(line)).add(f"{line}\n") == [{"a": "x" * 100}]
    assert JsonLinesParser(line_characters=len(line) - 1).add(f"{line}\n") == []


def test_what_a_stray_line_says_is_clean() -> None:
    lines = JsonLinesParser()

    lines.add("\x1b[31mno\tkey\x00\n")

    assert lines.last_skipped == "no key"


# --- what was said -------------------------------------------------------------------


def test_messages_are_kept_in_order_with_an_empty_line_between_them() -> None:
    said = MessageBuffer()

    kept = [said.add(message) for message in ("One.\n", "", "  \n", "\n<a>\n\nb\x1b[0m</a>", "One.")]

    assert said.text() == "One.\n\n<a>\n\nb</a>\n\nOne."
    assert kept == ["One.", "", "", "<a>\n\nb</a>", "One."]


def test_nothing_said_is_no_text() -> None:
    assert MessageBuffer().text() == ""


@pytest.mark.parametrize("length", [3, 50, 999])
def test_of_too_much_the_beginning_and_the_end_stay(length: int) -> None:
    said = MessageBuffer(max_bytes=400)
    messages = [f"{number:04d}".ljust(length, ".") for number in range(2000)]

    for message in messages:
        said.add(message)
    text = said.text()

    whole = "\n\n".join(message.strip() for message in messages)
    head, _, rest = text.partition("\n[... ")
    left_out, _, tail = rest.partition(" bytes left out ...]\n")
    assert whole.startswith(head)
    assert len(head) == 100
    assert whole.endswith(tail)
    assert len(tail) == 300
    assert int(left_out.replace(",", "")) + 400 == len(whole)
    assert said.text() == text


# --- fields --------------------------------------------------------------------------


def test_a_field_is_found_where_it_is_and_nothing_where_it_is_not() -> None:
    event = {"a": {"b": {"c": "text"}}, "list": [1], "text": "t"}

    assert value_at(event, "a", "b", "c") == "text"
    assert value_at(event, "a", "x", "c") is None
    assert value_at(event, "text", "b") is None
    assert value_at([event], "a") is None
    assert (text_at(event, "a", "b", "c"), text_at(event, "a", "b"), text_at(event, "list")) == ("text", "", "")
    assert (list_at(event, "list"), list_at(event, "text"), list_at(None, "list")) == ([1], [], [])


@pytest.mark.parametrize(
    ("value", "number", "count"),
    [
        (3, 3, 3),
        (2.5, 2.5, 2),
        (0, 0, 0),
        (True, None, None),
        ("3", None, None),
        (None, None, None),
        ([3], None, None),
        (-1, None, None),
        (float("nan"), None, None),
        (float("inf"), None, None),
        (10**400, None, None),
    ],
)
def test_only_a_sensible_number_counts(value: object, number: float | None, count: int | None) -> None:
    assert number_at({"n": value}, "n") == number
    assert count_at({"n": value}, "n") == count
