"""What can be asked over HTTP, told by the functions that answer: their annotations are read, checked and documented.

A function gets the project, then what its path names, then `query` and `body` if it has them: records whose fields say
what may be sent. What it gives is what is answered, as JSON; its docstring is its description.
"""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from ralph.records import fields_of, record
from ralph.server.complaints import sentence
from ralph.server.problems import InvalidValueError, MalformedRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.project import Project

    Act = Callable[..., Any]

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

_IN_PATH = re.compile(r"\{(\w+)\}")


class Query(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be said after the `?`."""


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be sent as JSON."""


class Listing(msgspec.Struct, Generic[T]):
    """Some of many things; `next` is the cursor that gives those after them."""

    items: list[T]
    next: str | None = None


@record
class Piece:
    """A piece of an answer that is too large to be made at once; the next one is made when this one is on its way."""

    text: bytes
    then: Callable[[Project], Piece] | None
    """Makes the next piece, in whatever thread; None after the last one."""
    is_text: bool = False
    """Whether the answer is plain text, not JSON; the first piece says so."""


@record
class Call:
    """One thing that can be asked for."""

    method: str
    path: str
    act: Act
    tag: str
    status: int
    """When all went well."""
    names: tuple[str, ...]
    """What its path names, in order."""
    query: type[Query] | None
    body: type[Body] | None
    gives: Any
    """The type of the answer; None when it has no content."""
    or_text: bool = False
    """Whether it may give plain text instead."""

    @property
    def summary(self) -> str:
        """What it is good for, in a line."""
        return (self.act.__doc__ or "").strip().partition("\n")[0]

    @property
    def description(self) -> str:
        """What else there is to know."""
        return inspect.cleandoc((self.act.__doc__ or "").strip().partition("\n")[2]).strip()


class Calls:
    """A group of calls, filled by the functions that answer them."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[Call] = []

    def get(self, path: str, gives: Any = None, *, or_text: bool = False) -> Callable[[F], F]:
        """Let a function answer GET on a path.

        One that answers in pieces says of what type they are together, and whether they may be plain text.
        """
        return self._add("GET", path, 200, gives, or_text)

    def post(self, path: str, status: int = 200) -> Callable[[F], F]:
        """Let a function answer POST on a path; 201 when something is made."""
        return self._add("POST", path, status)

    def put(self, path: str) -> Callable[[F], F]:
        """Let a function answer PUT on a path."""
        return self._add("PUT", path, 200)

    def delete(self, path: str) -> Callable[[F], F]:
        """Let a function answer DELETE on a path."""
        return self._add("DELETE", path, 200)

    def _add(self, method: str, path: str, status: int, gives: Any = None, or_text: bool = False) -> Callable[[F], F]:
        def add(act: F) -> F:
            hints = get_type_hints(act, include_extras=True)
            self.all.append(
                Call(
                    method=method,
                    path=path,
                    act=act,
                    tag=self.tag,
                    status=status,
                    names=names_in(path),
                    query=hints.get("query"),
                    body=hints.get("body"),
                    gives=gives or hints["return"],
                    or_text=or_text,
                )
            )
            return act

        return add


def names_in(path: str) -> tuple[str, ...]:
    """Give what a path names, in order."""
    return tuple(_IN_PATH.findall(path))


# --- reading --------------------------------------------------------------------------


def query_of(kind: type[Query], said: Sequence[tuple[str, str]]) -> Query:
    """Give what a query says; a name that may be said several times gathers what was said."""
    several = _said_several_times(kind)
    values: dict[str, Any] = {}
    for name, value in said:
        if name in several:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise InvalidValueError(f"{name} may be said only once.")
        else:
            values[name] = value
    return _checked(kind, lambda: msgspec.convert(values, kind, strict=False))


@cache
def _said_several_times(kind: type[Query]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind) if _is_list(field.type))


def body_of(kind: type[Body], sent: bytes) -> Body:
    """Give what a body says."""
    if not sent:
        sent = b"{}"  # a body whose fields can all be left out can be left out itself
    return _checked(kind, lambda: msgspec.json.decode(sent, type=kind))


def _checked(kind: type[msgspec.Struct], read: Callable[[], T]) -> T:
    try:
        return read()
    except msgspec.ValidationError as error:
        raise InvalidValueError(sentence(kind, str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequestError(f"The body is not JSON that can be read: {error}.") from None


def _is_list(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(_is_list(one) for one in get_args(kind))
    if origin is Annotated:
        return _is_list(get_args(kind)[0])
    return kind is list or origin is list


# --- answering ------------------------------------------------------------------------


def answer(call: Call, project: Project, path: Sequence[str], query: Query | None, body: Body | None) -> bytes | Piece:
    """Do what a call asks for, and give the answer as JSON, or its first piece."""
    told: dict[str, Any] = {}
    if call.query:
        told["query"] = query
    if call.body:
        told["body"] = body
    given = call.act(project, *path, **told)
    return given if isinstance(given, Piece) else encode(given)


def encode(value: object) -> bytes:
    """Give records, lists and mappings as JSON; what is in no text is put as `?`."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        # Half of a character, which came in by a way around `text.accept`: the rest of the answer is worth having.
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain), ensure_ascii=False).encode("utf-8", "replace")


def _plain(value: object) -> object:
    if hasattr(value, "__slots__"):
        return fields_of(value)
    return str(value)
