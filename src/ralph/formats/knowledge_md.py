"""Reader, writer and editor of knowledge files: markdown with a title and tags in YAML front matter.

People edit and commit these files, so an edit only touches the values that differ. Unknown keys, comments, order and
line endings are preserved.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import count

from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.records import Memory, record
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
    fields = _parse_front_matter(text[before.end() : after.start()])[1]
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
    """Return the file with another title, tags, feature and body; the rest is preserved byte for byte."""
    old = parse_note(text)
    before, after = _find_front_matter(text)
    newline = "\r\n" if before[0].endswith("\r\n") else "\n"
    front_matter = _FrontMatterEditor(text[before.end() : after.start()], newline)
    if note.title != old.title:
        front_matter.set("title", _quote(note.title))
    if note.tags != old.tags:
        front_matter.set_tags(old.tags, note.tags)
    if note.feature is None and old.feature is not None:
        front_matter.remove("feature")
    elif note.feature is not None and note.feature != old.feature:
        front_matter.set("feature", _quote(note.feature))
    rest = text[after.end() :]
    if note.body != old.body:
        margin = rest[: len(rest) - len(rest.lstrip())]
        body = unify_newlines(note.body).replace("\n", newline)
        rest = margin[: margin.rfind("\n") + 1] + body + rest[len(rest.rstrip()) :]
    return before[0] + front_matter.text() + after[0] + rest


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
            body=note.body,
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
        body=memory.body,
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


def _parse_front_matter(front_matter: str) -> tuple[yaml.MappingNode, dict[object, object]]:
    """Parse front matter; return the YAML node, for positions, and the values."""
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
    if not isinstance(node, yaml.MappingNode) or not isinstance(fields, dict):
        raise InvalidEntryError("its front matter has no `title: …` and `tags: …`")
    return node, fields


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


class _FrontMatterEditor:
    """Editor of front matter."""

    def __init__(self, text: str, newline: str) -> None:
        self._text = text
        self._newline = newline
        self._root = _parse_front_matter(text)[0]
        self._edits: list[tuple[int, int, str]] = []

    def text(self) -> str:
        """Return the front matter with all edits applied."""
        pieces, done = [], 0
        for start, end, new in sorted(self._edits, key=lambda edit: edit[:2]):
            pieces += [self._text[done:start], new]
            done = end
        return "".join([*pieces, self._text[done:]])

    def set(self, name: str, value: str) -> None:
        """Set a key to a value, in place or on a new line."""
        pairs = self._pairs(name)
        if pairs:
            start, end = self._span(pairs[-1][1])
            self._edits.append((start, end, value if end > start else f" {value}"))
        elif self._root.flow_style:
            end = self._span(self._root.value[-1][1])[1]
            self._edits.append((end, end, f", {name}: {value}"))
        else:
            position = self._line_end(self._span(self._pairs("tags")[-1][1])[1])
            margin = " " * self._root.start_mark.column
            self._edits.append((position, position, f"{margin}{name}: {value}{self._newline}"))

    def remove(self, name: str) -> None:
        """Remove a key with its line, or set it to null if the line has other content."""
        pairs = self._pairs(name)
        key, value = pairs[-1]
        start, end = key.start_mark.index, self._span(value)[1]
        line_start, line_end = self._text.rfind("\n", 0, start) + 1, self._line_end(end)
        is_only_content = not (self._text[line_start:start] + self._text[end:line_end]).strip()
        if is_only_content and len(pairs) == 1:
            self._edits.append((line_start, line_end, ""))
        else:
            self._edits.append((*self._span(value), "null"))

    def set_tags(self, old: tuple[str, ...], tags: tuple[str, ...]) -> None:
        """Set the list of tags with as few changed lines as possible."""
        import yaml

        key, value = self._pairs("tags")[-1]
        if not isinstance(value, yaml.SequenceNode):
            self.set("tags", _format_list(tags))
            return
        is_simple = [_to_tags([item.value]) for item in value.value] == [(tag,) for tag in old]
        if not value.flow_style and is_simple and self._edit_items(value, old, tags):
            return
        start, end = self._span(value)
        if is_simple and value.flow_style and tags[: len(old)] == old:
            end = self._span(value.value[-1])[1]
            self._edits.append((end, end, "".join(f", {_format_tag(tag)}" for tag in tags[len(old) :])))
        elif value.flow_style:
            self._edits.append((start, end, _format_list(tags)))
        else:
            colon = self._text.index(":", key.end_mark.index) + 1
            self._edits.append((colon, end, f" {_format_list(tags)}"))

    def _edit_items(self, value: yaml.SequenceNode, old: tuple[str, ...], tags: tuple[str, ...]) -> bool:
        """Edit a list that has one item per line; return False if it has another layout."""
        lines: dict[str, tuple[int, int]] = {}
        margin = ""
        for tag, item in zip(old, value.value, strict=True):
            start, end = self._span(item)
            line_start = self._text.rfind("\n", 0, start) + 1
            before = self._text[line_start:start]
            if not re.fullmatch(r"[ \t]*-[ \t]+", before):
                return False
            margin = margin or before
            lines[tag] = line_start, self._line_end(end)
        kept_tags = [tag for tag in tags if tag in lines]
        if kept_tags != [tag for tag in old if tag in tags]:
            kept_tags = []  # the order has changed, so all lines are rewritten
        position = lines[old[0]][0]
        for tag in tags:
            if tag in kept_tags:
                position = lines[tag][1]
            else:
                self._edits.append((position, position, f"{margin}{_format_tag(tag)}{self._newline}"))
        self._edits += [(*lines[tag], "") for tag in old if tag not in kept_tags]
        return True

    def _pairs(self, name: str) -> list[tuple[yaml.Node, yaml.Node]]:
        """Return all occurrences of a key; the last one is effective."""
        return [(key, value) for key, value in self._root.value if key.value == name]

    def _span(self, node: yaml.Node) -> tuple[int, int]:
        """Return the start and end of a value, without blank lines and comments after it."""
        import yaml

        if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
            return node.start_mark.index, self._span(node.value[-1])[1]
        start, end = node.start_mark.index, node.end_mark.index
        return start, start + len(self._text[start:end].rstrip())

    def _line_end(self, position: int) -> int:
        return self._text.index("\n", position) + 1
