"""Reader, writer and editor of knowledge files: markdown with a title and tags in YAML front matter.

People edit and commit these files, so an edit only touches the lines of the values that differ. Unknown keys, order
and line endings are preserved.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import count

from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.records import Memory, record, replace
from ralph.core.text import clean, one_line, sanitize, slugify
from ralph.formats.imported import InvalidEntryError, imported_memory, parse_tags, parse_timestamp, stored_title
from ralph.formats.planned import ReadProblem, unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import yaml

    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading

MAX_FRONT_MATTER_CHARS = 64 * 1024
"""Maximum length of the front matter, in characters."""
MAX_FRONT_MATTER_BRACKETS = 1000
"""Maximum number of `[` and `{` in front matter; the parse time is quadratic in it."""
MAX_SLUG_CHARS = 80
"""Maximum length of the slug in a file name, in characters."""
MAX_FILE_NAME_BYTES = 240
"""Maximum length of a file name, in bytes."""

_START = re.compile(r"\ufeff?---\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)\r?$\n?", re.MULTILINE)
_KEY = re.compile(r"([A-Za-z_]+)[ \t]*:")
_PLAIN_TAG = re.compile(r"[^\W\d_][\w./-]*")
_YAML_KEYWORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@record
class KnowledgeNote:
    """The content of a knowledge file."""

    title: str
    tags: tuple[str, ...]
    body: str
    feature: str | None = None
    created_at: str = ""


def parse_note(text: str) -> KnowledgeNote:
    """Parse a knowledge file; raise `InvalidEntryError` if it has no title, tags or text."""
    before, after = _find_front_matter(text)
    content = text[after.end() :].strip()
    if len(content) > MAX_BODY_LENGTH:
        raise InvalidEntryError(f"it has {len(content):,} characters, and the limit is {MAX_BODY_LENGTH:,}")
    fields = _parse_front_matter(text[before.end() : after.start()])
    title, tags, body = _to_line(fields.get("title")), _to_tags(fields.get("tags")), sanitize(content)
    if not title or not tags:
        raise InvalidEntryError(f"it has no {'tags' if title else 'title'}")
    if not body:
        raise InvalidEntryError("it has no text below the front matter")
    try:
        created_at = parse_timestamp(fields.get("created_at"))
    except InvalidEntryError:
        created_at = ""
    return KnowledgeNote(
        title=title, tags=tags, body=body, feature=_to_line(fields.get("feature")) or None, created_at=created_at
    )


def update_note(text: str, note: KnowledgeNote) -> str:
    """Return the file with another title, tags, feature and body; all other lines are preserved."""
    old = parse_note(text)
    before, after = _find_front_matter(text)
    newline = "\r\n" if before[0].endswith("\r\n") else "\n"
    old_front_matter = front_matter = text[before.end() : after.start()]
    if note.title != old.title:
        front_matter = _set_key(front_matter, "title", _quote(note.title), newline)
    if note.tags != old.tags:
        front_matter = _set_key(front_matter, "tags", _format_list(note.tags), newline)
    if note.feature != old.feature:
        value = None if note.feature is None else _quote(note.feature)
        front_matter = _set_key(front_matter, "feature", value, newline)
    rest = text[after.end() :]
    if note.body != old.body:
        margin = rest[: len(rest) - len(rest.lstrip())]
        body = unify_newlines(note.body).replace("\n", newline)
        rest = margin[: margin.rfind("\n") + 1] + body + rest[len(rest.rstrip()) :]
    updated = before[0] + front_matter + after[0] + rest
    if _is_note(updated, note):
        return updated
    # The front matter has an unusual layout, so it is written anew, with all keys.
    return before[0] + _dump(old_front_matter, note).replace("\n", newline) + after[0] + rest


def _is_note(text: str, note: KnowledgeNote) -> bool:
    """Return whether a file has the content of a note."""
    try:
        return replace(parse_note(text), created_at=note.created_at) == note
    except InvalidEntryError:
        return False


def _dump(front_matter: str, note: KnowledgeNote) -> str:
    import yaml

    fields = _parse_front_matter(front_matter) | {"title": note.title, "tags": list(note.tags), "feature": note.feature}
    if note.feature is None:
        del fields["feature"]
    return str(yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=MAX_FRONT_MATTER_CHARS))


def _set_key(front_matter: str, name: str, value: str | None, newline: str) -> str:
    """Return front matter with the lines of a key replaced by one, or removed if the value is None."""
    line = "" if value is None else f"{name}: {value}{newline}"
    # The lines of a key: itself, then indented lines and list items.
    found = list(re.finditer(rf"^{name}[ \t]*:.*\n(?:(?:[ \t]+\S.*|-[ \t].*)\n)*", front_matter, re.MULTILINE))
    if not found:
        return front_matter + line
    last = found[-1]
    return front_matter[: last.start()] + line + front_matter[last.end() :]


def format_note(note: KnowledgeNote) -> str:
    """Return the text of a new file."""
    lines = [f"title: {_quote(note.title)}", f"tags: {_format_list(note.tags)}"]
    if note.feature is not None:
        lines.append(f"feature: {_quote(note.feature)}")
    if note.created_at:
        lines.append(f"created_at: {_quote(note.created_at)}")
    return "\n".join(["---", *lines, "---", "", unify_newlines(note.body), ""])


def unused_file_name(title: str, taken: Collection[str]) -> str:
    """Return a name for a new file that differs from all taken ones, ignoring case."""
    names = {name.casefold() for name in taken}
    stem = slugify(title, MAX_SLUG_CHARS) or "entry"
    for number in count(1):
        ending = f"-{number}.md" if number > 1 else ".md"
        max_bytes = MAX_FILE_NAME_BYTES - len(ending)
        name = (
            stem[: MAX_SLUG_CHARS + len(".md") - len(ending)].encode()[:max_bytes].decode(errors="ignore").rstrip("-")
        )
        if (name + ending).casefold() not in names:
            return name + ending
    raise AssertionError("unreachable")


def is_knowledge_md(sample: FileSample) -> bool:
    """Return whether a file has front matter with a title, and tags, a date or a feature."""
    if not sample.text.startswith("---\n"):
        return False
    keys = set()
    for row in sample.start[4:].split("\n"):
        if row.rstrip() in ("---", "..."):
            break
        if found := _KEY.match(row):
            keys.add(found[1].lower())
    return "title" in keys and not keys.isdisjoint({"tags", "created_at", "feature"})


def read_knowledge_md(text: str, at: str) -> Reading:
    """Return the memory of a knowledge file, or the problem that makes it invalid."""
    try:
        note = parse_note(text)
        memory = imported_memory(
            kind="knowledge",
            title=note.title,
            content=note.body,
            at=at,
            tags=note.tags,
            feature=note.feature,
            created_at=note.created_at,
        )
    except InvalidEntryError as error:
        return (), (ReadProblem(line=1, why=f"Nothing imported: {error}."),)
    return (memory,), ()


def is_knowledge(memory: Memory) -> bool:
    """Return whether a memory can be written as a knowledge file."""
    return memory.kind == "knowledge" and bool(memory.tags)


def note_of(memory: Memory) -> KnowledgeNote:
    """Return the content of the file of a memory."""
    return KnowledgeNote(
        title=memory.title,
        tags=memory.tags,
        body=memory.content,
        feature=memory.feature,
        created_at=memory.created_at,
    )


def write_knowledge_files(memories: Iterable[Memory]) -> Iterator[tuple[str, str]]:
    """Yield knowledge entries as files, each with a unique name."""
    taken: set[str] = set()
    for memory in memories:
        name = unused_file_name(memory.title, taken)
        taken.add(name)
        yield name, format_note(note_of(memory))


# --- front matter ----------------------------------------------------------------------


def _find_front_matter(text: str) -> tuple[re.Match[str], re.Match[str]]:
    """Return the matches of the opening and closing line of the front matter."""
    before = _START.match(text)
    if not before:
        raise InvalidEntryError("it has no front matter (the first line must be `---`)")
    after = _END.search(text, before.end())
    if not after:
        raise InvalidEntryError("its front matter has no closing `---` line")
    if after.start() - before.end() > MAX_FRONT_MATTER_CHARS:
        raise InvalidEntryError(f"its front matter is longer than {MAX_FRONT_MATTER_CHARS:,} characters")
    return before, after


def _parse_front_matter(front_matter: str) -> dict[object, object]:
    """Return the values of front matter."""
    import yaml

    if front_matter.count("[") + front_matter.count("{") > MAX_FRONT_MATTER_BRACKETS:
        raise InvalidEntryError(f"its front matter has more than {MAX_FRONT_MATTER_BRACKETS:,} brackets")
    loader = None
    try:
        loader = _loader()(front_matter)
        node = loader.get_single_node()
        fields = loader.construct_document(node) if node else None
    except InvalidEntryError:
        raise
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise InvalidEntryError(
            f"its front matter is not valid YAML ({one_line(clean(str(error.problem)), 80)}{where})"
        ) from None
    except RecursionError:
        raise InvalidEntryError("its front matter is nested too deeply") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise InvalidEntryError(f"its front matter is not valid YAML ({one_line(clean(str(error)), 80)})") from None
    finally:
        if loader:
            loader.dispose()
    if not isinstance(fields, dict):
        raise InvalidEntryError("its front matter has no `title: …` and `tags: …`")
    return fields


@cache
def _loader() -> type[yaml.SafeLoader]:
    """Return a loader that keeps numbers, dates and booleans as text, and only resolves null."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith(":null")]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            # Aliases can expand a few lines of YAML to gigabytes, and no file needs them.
            event = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise InvalidEntryError("its front matter has an alias (&name or *name), which is not allowed")
            return super().compose_node(parent, index)

    return Loader


def _to_line(value: object) -> str:
    """Return a scalar as one line of text, and an empty string for a list or mapping."""
    return "" if value is None or isinstance(value, list | dict) else stored_title(sanitize(str(value)))


def _to_tags(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return parse_tags([item if isinstance(item, list | dict) else str(item) for item in value if item is not None])
    return parse_tags(value if value is None or isinstance(value, dict) else str(value))


def _quote(text: str) -> str:
    """Return text as a quoted YAML string."""
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}"
        for character in json.dumps(text, ensure_ascii=False)
    )


def _format_list(tags: Iterable[str]) -> str:
    return f"[{', '.join(map(_format_tag, tags))}]"


def _format_tag(tag: str) -> str:
    return tag if _PLAIN_TAG.fullmatch(tag) and tag.lower() not in _YAML_KEYWORDS else _quote(tag)
