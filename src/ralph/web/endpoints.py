"""Declaration of API endpoints from annotated functions.

A function receives the project, its path parameters, and `query` and `body` if it declares them: structs that define
and validate what clients may send. Its return value is the JSON response, and its docstring the API documentation.
"""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from ralph.core.records import record, record_fields
from ralph.web.problems import InvalidValueError, MalformedRequestError
from ralph.web.validation import validation_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")


class QueryParams(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Query parameters of an endpoint."""


class RequestBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """JSON body of a request."""


class Listing(msgspec.Struct, Generic[T]):
    """Page of items; `next` is the cursor of the following page."""

    items: list[T]
    next: str | None = None


@record
class RawResponse:
    """Response that is already encoded."""

    text: bytes
    is_text: bool = False
    """Whether it is plain text instead of JSON."""
    file_name: str = ""
    """Name under which browsers save it; empty to show it."""


@record
class Endpoint:
    """API endpoint."""

    method: str
    path: str
    handler: Callable[..., Any]
    tag: str
    status: int
    """HTTP status on success."""
    path_parameters: tuple[str, ...]
    """Path parameters, in order."""
    query: type[QueryParams] | None
    body: type[RequestBody] | None
    response_type: Any
    """Type of the response; None if it has no content."""
    text_types: tuple[str, ...] = ()
    """Content types of text that the response may be instead."""
    is_local: bool = False
    """Whether it steers runs, which is only possible on the machine of the server."""

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def description(self) -> str:
        """Rest of the docstring."""
        return inspect.cleandoc((self.handler.__doc__ or "").strip().partition("\n")[2]).strip()


class EndpointGroup:
    """Group of endpoints to which functions are added by decorators."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[Endpoint] = []

    def get(self, path: str, response_type: Any = None, *, text_types: tuple[str, ...] = ()) -> Callable[[F], F]:
        """Register a function for GET on a path.

        A function that returns a `RawResponse` declares its type, and which text it may be instead.
        """
        return self._add("GET", path, 200, response_type, text_types)

    def post(self, path: str, status: int = 200, *, is_local: bool = False) -> Callable[[F], F]:
        """Register a function for POST on a path, with status 201 if it creates something."""
        return self._add("POST", path, status, is_local=is_local)

    def put(self, path: str) -> Callable[[F], F]:
        """Register a function for PUT on a path."""
        return self._add("PUT", path, 200)

    def delete(self, path: str) -> Callable[[F], F]:
        """Register a function for DELETE on a path."""
        return self._add("DELETE", path, 200)

    def _add(
        self,
        method: str,
        path: str,
        status: int,
        response_type: Any = None,
        text_types: tuple[str, ...] = (),
        *,
        is_local: bool = False,
    ) -> Callable[[F], F]:
        def add(handler: F) -> F:
            hints = get_type_hints(handler, include_extras=True)
            self.all.append(
                Endpoint(
                    method=method,
                    path=path,
                    handler=handler,
                    tag=self.tag,
                    status=status,
                    path_parameters=path_parameter_names(path),
                    query=hints.get("query"),
                    body=hints.get("body"),
                    response_type=response_type or hints["return"],
                    text_types=text_types,
                    is_local=is_local,
                )
            )
            return handler

        return add


def path_parameter_names(path: str) -> tuple[str, ...]:
    """Return the names of the parameters in a path, in order."""
    return tuple(_PATH_PARAMETER.findall(path))


# --- requests -------------------------------------------------------------------------


def parse_query(kind: type[QueryParams], parameters: Sequence[tuple[str, str]]) -> QueryParams:
    """Parse query parameters; those declared as lists may be repeated."""
    repeatable = _list_parameters(kind)
    values: dict[str, Any] = {}
    for name, value in parameters:
        if name in repeatable:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise InvalidValueError(f"{name} may be given only once.")
        else:
            values[name] = value
    return _validated(kind, lambda: msgspec.convert(values, kind, strict=False))


@cache
def _list_parameters(kind: type[QueryParams]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind) if _is_list(field.type))


def parse_body(kind: type[RequestBody], raw: bytes) -> RequestBody:
    """Parse a JSON body."""
    if not raw:
        raw = b"{}"  # a body with only optional fields may be omitted
    return _validated(kind, lambda: msgspec.json.decode(raw, type=kind))


def _validated(kind: type[msgspec.Struct], parse: Callable[[], T]) -> T:
    try:
        return parse()
    except msgspec.ValidationError as error:
        raise InvalidValueError(validation_message(kind, str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequestError(f"The body is not valid JSON: {error}.") from None


def _is_list(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(_is_list(one) for one in get_args(kind))
    if origin is Annotated:
        return _is_list(get_args(kind)[0])
    return kind is list or origin is list


# --- responses ------------------------------------------------------------------------


def encode_json(value: object) -> bytes:
    """Encode records, lists and mappings as JSON, with `?` for characters that cannot be encoded."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:  # an unpaired surrogate in the output of an agent
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain), ensure_ascii=False).encode("utf-8", "replace")


def _plain(value: object) -> object:
    if hasattr(value, "__slots__"):
        return record_fields(value)
    return str(value)
