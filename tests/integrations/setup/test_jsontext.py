"""Changing a few values in a JSON text and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.integrations.setup.jsontext import InvalidJsonError, JsonText

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5).filter(lambda key: key != "new"), VALUES, max_size=4)
INDENTS = st.sampled_from([None, 0, 2, 4, "\t"])


@given(OBJECTS, INDENTS, st.booleans(), VALUES)
def test_what_is_added_is_there_and_taking_it_out_gives_the_same_text(
    value: dict[str, Any], indent: Any, has_crlf: bool, added: Any
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = text.replace("\n", "\r\n") if has_crlf else text

    changed = JsonText(text).with_value(("new",), added)

    assert changed.value == {**value, "new": added} == json.loads(changed.text)
    assert list(changed.value) == [*value, "new"]
    assert changed.without(("new",)).text == text
    if "\r" in text:
        assert changed.text.count("\n") == changed.text.count("\r\n")


@given(OBJECTS.filter(bool), INDENTS, VALUES, st.data())
def test_a_value_is_replaced_or_taken_out_in_its_place(
    value: dict[str, Any], indent: Any, other: Any, data: st.DataObject
) -> None:
    text = JsonText(json.dumps(value, indent=indent))
    key = data.draw(st.sampled_from(list(value)))

    replaced, without = text.with_value((key,), other), text.without((key,))

    assert replaced.value == {**value, key: other}
    assert list(replaced.value) == list(value)
    assert without.value == {name: one for name, one in value.items() if name != key}


def test_what_is_added_looks_like_what_is_around_it() -> None:
    text = '{\n    "a": {\n        "b": [\n            1\n        ]\n    }\n}\n'

    changed = JsonText(text).with_value(("a", "b", 1), {"c": 2})

    assert changed.text == text.replace(
        "            1\n", '            1,\n            {\n                "c": 2\n            }\n'
    )


def test_comments_and_trailing_commas_stay() -> None:
    text = '// first\n{\n  "a": 1, /* one */ // of a\n  // before the end\n}\n// last\n'

    changed = JsonText(text).with_value(("b", "c"), True)

    assert changed.text == text.replace("// of a\n", '// of a\n  "b": {\n    "c": true\n  },\n')
    assert changed.without(("b",)).text == text


FILLINGS = st.sampled_from(["", "", " ", "\n", "\n  ", " /* c, } */ ", " // d ]\n", "\r\n\t"])


@st.composite
def written_by_hand(draw: st.DrawFn, value: Any) -> str:
    """Return a value as a person might write it: comments, blanks and trailing commas anywhere."""
    if not isinstance(value, dict | list):
        return json.dumps(value)
    names = [f"{json.dumps(key)}{draw(FILLINGS)}:" for key in value] if isinstance(value, dict) else [""] * len(value)
    inner = value.values() if isinstance(value, dict) else value
    parts = [
        f"{draw(FILLINGS)}{name}{draw(FILLINGS)}{draw(written_by_hand(one))}{draw(FILLINGS)}"
        for name, one in zip(names, inner, strict=True)
    ]
    has_comma: bool = draw(st.booleans())
    end = ("," if parts and has_comma else "") + draw(FILLINGS)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + ",".join(parts) + end + closing


@given(OBJECTS, VALUES, st.data())
def test_however_a_text_is_written_it_is_changed_in_one_place_and_no_comment_is_lost(
    value: dict[str, Any], added: Any, data: st.DataObject
) -> None:
    text = data.draw(written_by_hand(value))

    changed = JsonText(text).with_value(("new", "inner"), added)
    without = changed.without(("new",))
    key = data.draw(st.sampled_from(list(changed.value)))

    assert changed.value == {**value, "new": {"inner": added}}
    assert without.value == value
    assert changed.without((key,)).value == {name: one for name, one in changed.value.items() if name != key}
    for comment in ("/* c, } */", "// d ]"):
        assert without.text.count(comment) == text.count(comment) <= changed.text.count(comment)


@given(OBJECTS, OBJECTS, INDENTS)
def test_a_text_is_updated_to_any_value(value: dict[str, Any], new: dict[str, Any], indent: Any) -> None:
    assert JsonText(json.dumps(value, indent=indent)).updated(new).value == new


def test_an_update_rewrites_only_what_differs() -> None:
    text = '{\n  "a": [1, /* one */ 2], // list\n  "b": {"c": 1 /* old */, "d": 2},\n  "e": 3\n}\n'

    updated = JsonText(text).updated({"a": [1, 2, 3], "b": {"c": 1, "d": 4}})

    assert updated.text == '{\n  "a": [1, /* one */ 2, 3], // list\n  "b": {"c": 1 /* old */, "d": 4}\n}\n'


def test_a_comment_behind_the_last_value_stays_behind_it() -> None:
    changed = JsonText('{\n  "a": 1 // of a\n}').with_value(("b",), 2)

    assert changed.text == '{\n  "a": 1, // of a\n  "b": 2\n}'


def test_of_two_values_with_one_name_the_last_counts() -> None:
    text = JsonText('{"a": {"b": 1}, "a": {"c": 2}}')

    assert text.with_value(("a", "d"), 3).text == '{"a": {"b": 1}, "a": {"c": 2, "d": 3}}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"a"}', '{"a": }', "{'a': 1}", '{"a": 1 "b": 2}', "{} {}", "[1, 2", '{"a": 01}', '{"a": NaN}'),
        *('{"a": "\n"}', '{"a": "\\x"}', "/* {}", "{,}", "tru", "[" * 5000),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InvalidJsonError, match=r"line \d+: "):
        JsonText(text)


@given(st.text(alphabet='{}[]",:/*\\ \n1at', max_size=30))
def test_whatever_the_text_it_is_read_or_refused(text: str) -> None:
    try:
        read = JsonText(text)
    except InvalidJsonError:
        with pytest.raises(ValueError):
            json.loads(text)
    else:
        assert read.text == text
