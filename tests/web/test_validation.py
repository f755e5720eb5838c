from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from ralph.web.endpoints import RequestBody, parse_body
from ralph.web.problems import InvalidValueError, MalformedRequestError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Body(RequestBody):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=5)]
    colour: Colour | None = None
    colours: tuple[Colour, ...] = ()
    side: Literal["left", "right"] = "left"
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    count: int = 0
    is_new: bool = False
    tags: Annotated[tuple[str, ...], msgspec.Meta(max_length=2)] = ()
    plain: Annotated[str, msgspec.Meta(pattern="^[a-z]*$")] = ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, ("name",)),
        ({"name": ""}, ("name", "1")),
        ({"name": "abcdef"}, ("name", "5")),
        ({"name": 5}, ("name", "str")),
        ({"name": "a", "colour": "green"}, ("colour", "red, blue")),
        ({"name": "a", "colours": ["green"]}, ("colours[0]", "red, blue")),
        ({"name": "a", "side": "up"}, ("side", "left, right")),
        ({"name": "a", "share": 2}, ("share", "1")),
        ({"name": "a", "tags": ["1", "2", "3"]}, ("tags", "2")),
        ({"name": "a", "nam": "b"}, ("nam", "name, colour, colours, side")),
        ([], ("object",)),
    ],
)
def test_a_problem_names_the_field_and_what_it_accepts(body: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_body(Body, msgspec.json.encode(body))

    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("sent", [b"{", b"\xff", b"{'a': 1}", b"[" * 5_000, b"NaN", b'{"name": "\\ud800"}'])
def test_what_is_no_json_is_said_to_be_none(sent: bytes) -> None:
    with pytest.raises((MalformedRequestError, InvalidValueError)):
        parse_body(Body, sent)
