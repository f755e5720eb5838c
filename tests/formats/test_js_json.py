from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.formats.js_json import MAX_JSON_DEPTH, checksum, dumps, loads

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)

# --- numbers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-7.0, "-7"),
        (0.5, "0.5"),
        (-0.25, "-0.25"),
        (0.1 + 0.2, "0.30000000000000004"),
        (43500.5, "43500.5"),
        (2 / 3, "0.6666666666666666"),
        (0.000001, "0.000001"),
        (0.00000123, "0.00000123"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (-1.25e-10, "-1.25e-10"),
        (1e16, "10000000000000000"),
        (1.5e17, "150000000000000000"),
        (1e20, "100000000000000000000"),
        (1.2345678901234567e20, "123456789012345670000"),
        (1e21, "1e+21"),
        (1.5e21, "1.5e+21"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 3, "-9007199254740996"),
        (12345678901234567890, "12345678901234567000"),
        (10**21, "1e+21"),
        (10**400, "null"),
        (math.nan, "null"),
        (-math.inf, "null"),
        (True, "true"),
    ],
)
def test_a_number_is_written_as_javascript_writes_it(value: float, written: str) -> None:
    assert dumps(value) == written


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_value(value: float) -> None:
    assert float(dumps(value)) == value


# --- text and structure ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("naïve café ✓ 😀", '"naïve café ✓ 😀"'),
        ('a "b" \\ /', '"a \\"b\\" \\\\ /"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ("\x00\x1f\x7f", '"\\u0000\\u001f\x7f"'),
        ("\u2028\ufeff", '"\u2028\ufeff"'),
        ("\ud83d", '"\\ud83d"'),
        ("\ude00\ud83d", '"\\ude00\\ud83d"'),
        ("\ud83d\ude00", '"😀"'),
    ],
)
def test_only_what_needs_it_is_escaped(text: str, written: str) -> None:
    assert dumps(text) == written


def test_compact_text_has_no_spaces() -> None:
    assert dumps({"a": [1, None, {"b": []}], "c": {}}) == '{"a":[1,null,{"b":[]}],"c":{}}'


def test_indented_text_has_one_item_a_line_and_nothing_in_empty_brackets() -> None:
    written = dumps({"a": [1, {"b": []}], "c": {}, "d": ()}, indent=2)

    assert written == '{\n  "a": [\n    1,\n    {\n      "b": []\n    }\n  ],\n  "c": {},\n  "d": []\n}'


def test_keys_that_are_small_whole_numbers_come_first_by_size() -> None:
    value = {"b": 1, "10": 2, "9": 3, "01": 4, "-1": 5, "4294967294": 6, "4294967295": 7}

    assert dumps(value) == '{"9":3,"10":2,"4294967294":6,"b":1,"01":4,"-1":5,"4294967295":7}'


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        dumps([{1}])


def test_the_checksum_is_that_of_the_compact_text() -> None:
    assert checksum([]) == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    assert checksum([{"a": 1.0, "b": "ü\ud800"}]) == checksum(({"a": 1, "b": "ü\ud800"},))


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    assert loads(dumps(value)) == value
    assert loads(dumps(value, indent=2)) == value


# --- reading -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expecting value (line 1, column 1)"),
        ('{"a": 1,\n "b" 2}', "expecting ':' delimiter (line 2, column 6)"),
        ("[1] x", "extra data (line 1, column 5)"),
        ("9" * 5000, "it has a number with too many digits"),
        ("[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1), "it is nested too deeply"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a":' * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_not_json_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        loads(text)

    assert str(refused.value) == why


def test_a_whole_number_beyond_what_a_double_can_tell_apart_is_read_as_one() -> None:
    assert loads("[9007199254740993, 1000000000000000000000]") == [9007199254740992.0, 1e21]


def test_a_byte_order_mark_and_deep_but_sane_nesting_are_read() -> None:
    assert loads('\ufeff{"a": 1}') == {"a": 1}
    assert loads("[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH)


def test_numbers_that_json_does_not_have_are_left_to_the_readers() -> None:
    found = loads('[NaN, -Infinity, 1e999, 1, "a"]')

    assert str(found) == "[nan, -inf, inf, 1, 'a']"


@pytest.mark.slow
def test_ten_megabytes_in_one_piece_take_little_time() -> None:
    started = time.process_time()

    for text in ("[" * 10**7, "1" * 10**7, '"' + "a" * 10**7):
        with pytest.raises(ValueError):
            loads(text)

    assert time.process_time() - started < 5
