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


class Sent(RequestBody):
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
    ("sent", "said"),
    [
        ({}, "name is required."),
        ({"name": ""}, "name must not be empty."),
        ({"name": "abcdef"}, "name may have at most 5 characters."),
        ({"name": 5}, "name must be a string, not an integer."),
        ({"name": None}, "name must be a string, not null."),
        ({"name": "a", "colour": "green"}, "colour must be one of red, blue."),
        ({"name": "a", "colours": ["green"]}, "colours[0] must be one of red, blue."),
        ({"name": "a", "side": "up"}, "side must be one of left, right."),
        ({"name": "a", "share": 2}, "share must be at most 1."),
        ({"name": "a", "share": "much"}, "share must be a number, not a string."),
        ({"name": "a", "count": 1.5}, "count must be an integer, not a number."),
        ({"name": "a", "is_new": "yes"}, "is_new must be true or false, not a string."),
        ({"name": "a", "tags": ["1", "2", "3"]}, "tags may have at most 2 items."),
        ({"name": "a", "plain": "A"}, "plain contains characters that are not allowed."),
        ({"name": "a", "nam": "b"}, "nam is unknown. Known names: name, colour, colours, side,"),
        ([], "The body must be an object, not a list."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_that_says_how_it_should_be(sent: Any, said: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_body(Sent, msgspec.json.encode(sent))

    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("sent", [b"{", b"\xff", b"{'a': 1}", b"[" * 5_000, b"NaN", b'{"name": "\\ud800"}'])
def test_what_is_no_json_is_said_to_be_none(sent: bytes) -> None:
    with pytest.raises((MalformedRequestError, InvalidValueError)):
        parse_body(Sent, sent)
