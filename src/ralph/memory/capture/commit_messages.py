"""What the message of a commit says: whether it is worth remembering, and which commits it reverts or fixes."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FORMATTING_BODY = 200
"""Length of a body above which a formatting commit may say more than that, in characters."""
MIN_ABBREVIATION = 7
"""Minimum length of an abbreviated commit id, in hexadecimal digits."""
MIN_PLAIN_ID = 12
"""Length from which digits alone, or letters alone, count as a commit id."""

_IDS = re.compile(r"[0-9a-f]{7,64}")
_REVERTED = re.compile(r"\breverts?:? (?:commits? )?\W?$", re.IGNORECASE)
_AND = re.compile(r"\W{0,3}(?:and)?\W{1,3}$")
"""What stands between two ids of a list."""
_REVERTED_PULL_REQUEST = re.compile(r"^Reverts (?:[\w.-]+/[\w.-]+)?#(\d+)", re.MULTILINE)
_FIXED = re.compile(
    r"""(?:\bfix(?:e[sd])?:? | \b(?:bug)?fix(?:up)?\ (?:of|for|to) | \bfollow[-\ ]?up\ (?:of|for|to|on)
    | \b(?:bug|regression)\ (?:in|of|from) | \b(?:introduced|broken|caused)\ (?:by|in))\s+(?:commit\s+)?\W?$""",
    re.IGNORECASE | re.VERBOSE,
)
_NAMING = ("evert", "ix", "ollow", "egression", "bug ", "ntroduced", "roken", "aused")
"""Parts of words without which a message refers to no commit; they are found faster than ids."""
_LOOK_BEHIND = 40
"""Number of characters before an id that say what is meant by it."""
_QUOTED = re.compile(r'(Revert|Reapply) "(.+)"$')
_AUTOSQUASH = re.compile(r"(?:(?:fixup|squash|amend)! )+(.+)")
_PULL_REQUEST = re.compile(r"(?: \(#(\d+)\))+$")
_FIX_SUBJECT = re.compile(r"(?:(?:bug|hot)?fix(?:e[sd])?|correct(?:s|ed)?|repair(?:s|ed)?)\b", re.IGNORECASE)
_FIXED_SUBJECT = re.compile(
    r"""(?:fix(?:e[sd])?|fix(?:up)?\ (?:of|for|to)|follow[-\ ]?up\ (?:of|for|to|on))\ ["\u201c](.+)["\u201d]""",
    re.IGNORECASE | re.VERBOSE,
)
"""Subject that names another one, as in `Fix of "Parse dates"`."""
_NAMING_MARKS = ("! ", '"', "\u201c")
"""Marks without which a subject names no other one."""

_TOOL_LINE = re.compile(
    r"""(?:[\w-]+-by | cc | change-id | reviewed-on | commit-queue | auto-submit | cr-commit-position | git-svn-id
    | differential\ revision | original-commit | [\w-]+-session(?:-id)? ):\s | \W*generated\ with\s | -+$ | $""",
    re.IGNORECASE | re.VERBOSE,
)
"""Line at the end of a message that is not its author's text."""
_TRAILER = re.compile(r"[A-Za-z][\w-]*: ")
_MERGE_SUBJECT = re.compile(r"Merge (?:pull request|branch|remote-tracking branch|tag|commit)\b")
"""Subject of a merge whose other parents were lost in a conversion or a rebase."""
_PREFIX = re.compile(r"(?:\[[^\]]*\]\s*)?(?:\w+(?:\([^)]*\))?!?:\s*)?")
"""Prefix of a subject such as `chore(api): ` or `[ci] `."""
_VERSION = r"v?\d+(?:\.\w+)+(?:[-+.]\w+)*"
_VERSION_BUMP = re.compile(
    rf"""(?:chore|build|ci)\(release\) | (?:chore|build|ci|fix)\(deps(?:-\w+)?\)
    | {_PREFIX.pattern}(?:
        (?:(?:bump(?:s|ed|ing)?|releas(?:e|es|ed|ing)|prepar(?:e|es|ing)|tag(?:s|ged)?|cut|version|set|update|back|start
            |post|pre|new|next|the|a|for|to|of|as|is|now|it|dev|development|final|package)[\s:-]+)*
            {_VERSION}(?:[\s-]*(?:dev|final|release|development|version))?
        | bump(?:s|ed|ing)?(?:\s\S+)?\sversions?(?:\s(?:number|to|for|after|post|dev|development|release|next).*)?
        | bump(?:s|ed|ing)?(?:\s\S+)?\sfor\s(?:next\s|the\s)?(?:dev|release|v?\d).*
        | (?:update|increment|increase)\sversion(?:\s(?:number|to)\b.*)?
        | (?:back\sto|start(?:ing)?(?:\snext)?)\sdev(?:elopment)?(?:\s(?:version|cycle|mode))?
        | (?:post[- ]?release|release)(?:\s(?:bump|commit|version|prep(?:aration)?))?
        | bump(?:s|ed)?\s\S+\sfrom\s{_VERSION}\sto\s{_VERSION}.*
        | update\s(?:dependency|rust\scrate|module)\s\S+\sto\s\S+.*
        | lock\sfile\smaintenance | pre-commit\sautoupdate
    )[.!]?$""",
    re.IGNORECASE | re.VERBOSE,
)
_BOT_BUMP = re.compile(rf"{_PREFIX.pattern}(?:bump|update|upgrade|pin|lock)", re.IGNORECASE)

_FORMATTING_WORDS = frozenset(
    """autofix autoformat autoformatting autopep8 biome black clang-format dprint eslint flake8 fmt format formatted
    formatter formatting gofmt gofumpt goimports indentation isort ktlint lint linter linters linting lints pep8
    prettier reformat reformatted reformatting rubocop ruff rustfmt scalafmt shfmt spotless swiftformat
    whitespace whitespaces yapf""".split()
)
_FILLER_WORDS = frozenset(
    """a again all and appease applied apply auto automatic automatically by cargo check checks clean cleanup code
    codebase error errors everything everywhere file files fix fixed fixes go import imports issue issues line
    lines make mix more npm of on only over python ran remove rerun run running satisfy some sort sorting source
    style the to trailing up via warning warnings whole with yarn""".split()
)
_COMMON_WORDS = frozenset(
    """added adds after allow also avoid before bugfix build change changed changes code correct does ensure error
    errors file files fixed fixes fixing from function handle hotfix improve instead into issue issues make
    making missing more move only properly remove rename return returns should some support test tests that
    their them this update updated updates used using value values when with without wrong""".split()
)
_WORD = re.compile(r"[\w-]+")


class LeftOut(StrEnum):
    """Why a commit is not worth remembering."""

    MERGE = "merges"
    VERSION_BUMP = "version bumps"
    FORMATTING = "formatting commits"
    EMPTY_MESSAGE = "without a message"


class Commit(NamedTuple):
    """A commit as `git log` lists it; a tuple, because there may be a million of them."""

    id: str
    parents: tuple[str, ...]
    authored: int
    """Author date in Unix seconds; a rebase keeps it."""
    committed: int
    """Commit date in Unix seconds; `git log` is ordered by it."""
    author: str
    subject: str
    body: str
    """Rest of the message, without trailers."""
    files: tuple[str, ...]


@record
class Reference:
    """Another commit that a message names, not always by its full id."""

    link: str
    """`reverts` or `fixes`."""
    key: str
    """Start of its id, `subject:` and its subject, or `pull-request:` and its number."""


def without_trailers(body: str) -> str:
    """Return the body of a message without the lines that tools add at its end, such as `Signed-off-by:`."""
    lines = body.rstrip().split("\n")
    kept: list[str] = []
    while lines and (_TOOL_LINE.match(lines[-1]) or _TRAILER.match(lines[-1])):
        line = lines.pop()
        if not _TOOL_LINE.match(line):
            kept.append(line)
    return "\n".join([*lines, *([""] if kept else []), *reversed(kept)]).strip()


def reason_to_leave_out(commit: Commit) -> LeftOut | None:
    """Return why a commit tells nothing worth remembering, or None if it may."""
    if len(commit.parents) > 1 or _MERGE_SUBJECT.match(commit.subject):
        return LeftOut.MERGE
    if not commit.subject:
        return LeftOut.EMPTY_MESSAGE
    if _is_version_bump(commit):
        return LeftOut.VERSION_BUMP
    return LeftOut.FORMATTING if _is_formatting(commit) else None


def _is_version_bump(commit: Commit) -> bool:
    subject = _PULL_REQUEST.sub("", commit.subject)
    is_bot = commit.author.endswith(("[bot]", "-bot")) or commit.author in ("dependabot", "renovate")
    return bool(_VERSION_BUMP.match(subject)) or (is_bot and bool(_BOT_BUMP.match(subject)))


def _is_formatting(commit: Commit) -> bool:
    """Return whether the subject consists of words about formatting; `Add ruff` or `Switch to black` does not."""
    if len(commit.body) > MAX_FORMATTING_BODY:
        return False
    prefix = _PREFIX.match(commit.subject)
    words = _WORD.findall(_PULL_REQUEST.sub("", commit.subject[prefix.end() if prefix else 0 :]).lower())
    known = _FORMATTING_WORDS.intersection(words)
    return bool(known) and all(word in known or word in _FILLER_WORDS for word in words)


def is_fix(subject: str) -> bool:
    """Return whether a subject begins as that of a fix, with or without a prefix."""
    prefix = _PREFIX.match(subject)
    return bool(_FIX_SUBJECT.match(subject) or _FIX_SUBJECT.match(subject, prefix.end() if prefix else 0))


def telling_words(subject: str) -> frozenset[str]:
    """Return the words of a subject that say what it is about, shortened so that forms of a word agree."""
    prefix = _PREFIX.match(subject)
    words = re.findall(r"[a-z_]{4,}", subject[prefix.end() if prefix else 0 :].lower())
    return frozenset(word[:5] for word in words if word not in _COMMON_WORDS)


def subject_keys(subject: str) -> Iterator[str]:
    """Yield the keys by which other messages may refer to a commit with this subject."""
    if subject.endswith(")") and (found := _PULL_REQUEST.search(subject)):
        yield f"pull-request:{found[1]}"
    yield f"subject:{_plain(subject)}"


def _plain(subject: str) -> str:
    """Return a subject without numbers of pull requests, also in what it quotes."""
    if subject.endswith(")"):
        subject = _PULL_REQUEST.sub("", subject)
    quoted = _QUOTED.match(subject) if subject.endswith('"') else None
    return f'{quoted[1]} "{_plain(quoted[2])}"' if quoted else subject


def find_references(subject: str, body: str) -> Iterator[Reference]:
    """Yield the commits that a message says it reverts or fixes."""
    named = list(_named_in(f"{subject}\n{body}"))
    links = {one.link for one in named}
    yield from dict.fromkeys(named)
    if "reverts" not in links:
        yield from (Reference(link="reverts", key=key) for key in _reverted_by(subject, body))
    if "fixes" in links or not any(mark in subject for mark in _NAMING_MARKS):
        return
    if found := _AUTOSQUASH.match(subject) or _FIXED_SUBJECT.match(subject):
        yield Reference(link="fixes", key=f"subject:{_plain(found[1])}")


def _named_in(message: str) -> Iterator[Reference]:
    """Yield the commits that a message names by their ids."""
    if not any(word in message for word in _NAMING):
        return
    link, end = "", 0
    for found in _IDS.finditer(message):
        before = message[max(end, found.start() - _LOOK_BEHIND) : found.start()]
        if not (link and _AND.fullmatch(before)):
            link = "reverts" if _REVERTED.search(before) else "fixes" if _FIXED.search(before) else ""
        if link and _is_id(found[0]) and not message[found.end() : found.end() + 1].isalnum():
            yield Reference(link=link, key=found[0])
        end = found.end()


def _is_id(word: str) -> bool:
    """Return whether hexadecimal digits are an id and not a number or a word."""
    return len(word) >= MIN_PLAIN_ID or not (word.isdecimal() or word.isalpha())


def _reverted_by(subject: str, body: str) -> Iterator[str]:
    """Yield the keys of commits that a message says it reverts, not naming their ids."""
    if "Revert" not in subject and "revert" not in subject and "Reapply" not in subject:
        return
    if found := _REVERTED_PULL_REQUEST.findall(body):
        yield from (f"pull-request:{number}" for number in found)
        return
    subject = _plain(subject)
    if quoted := _QUOTED.match(subject):
        yield f'subject:Revert "{quoted[2]}"' if quoted[1] == "Reapply" else f"subject:{quoted[2]}"
    elif subject.lower().startswith("revert: "):
        yield f"subject:{subject[len('revert: ') :]}"
