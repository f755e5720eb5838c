"""Categories of errors, and how to recognize an error that recurs."""

from __future__ import annotations

import re

from ralph.core.text import one_line, sanitize

MAX_TEXT_LENGTH = 4000
"""Number of characters of an error that are examined."""
MAX_LINE_LENGTH = 160
"""Length of the line that stands for an error, in characters."""

TESTS_CATEGORY = "tests"
"""Category of tests that fail. That alone is no lesson: a flaky one fails whatever is done."""

# Category, pattern and advice; the first match wins. A pattern matches whole words only: `enotfound` must not be found
# in `FileNotFoundError`, nor a time-out in "runtime output".
_ERROR_CATEGORIES = tuple(
    (name, re.compile(pattern, re.IGNORECASE | re.MULTILINE), f"Avoid: {advice}")
    for name, pattern, advice in (
        (
            "merge-conflict",
            r"\bmerge conflict|^conflict \(|<<<<<<<|\bneeds merge\b",
            "Merge conflicts - update the branch first",
        ),
        (
            "out-of-memory",
            r"\bout of memory\b|\boom\b|\b(?:outof)?memoryerror\b|\bheap (?:space|limit|out)\b|\bcannot allocate\b"
            r"|\bkilled\b.{0,20}\b9\b",
            "Running out of memory - work on less at once",
        ),
        (
            "missing-module",
            r"\b(?:cannot find|can't find|no) (?:module|package)\b|\b(?:module|package) ['\"\w./@-]{0,80} ?not found\b"
            r"|\bmodulenotfound(?:error)?\b|\bimporterror\b|\bunresolved import\b|\bnoclassdeffound(?:error)?\b"
            r"|\bclassnotfound(?:exception)?\b|\bno required module provides\b",
            "Missing modules - see that every dependency is installed",
        ),
        (
            "timeout",
            r"\btimed?[ -]?outs?\b|\b(?:read|write|connect|connection|pool|gateway|socket)?_?timeout(?:error|expired"
            r"|exception)?\b|\bdeadline exceeded\b|\btook too long\b",
            "Timeouts - take smaller steps",
        ),
        (
            "permission",
            r"\bpermission denied\b|\bpermissionerror\b|\b(?:missing|insufficient|no) permissions?\b"
            r"|\baccess (?:is )?denied\b|\beacces\b|\beperm\b|\boperation not permitted\b",
            "Missing permissions - look at the rights of files and directories",
        ),
        (
            "network",
            r"\beconn(?:refused|reset)\b|\benotfound\b|\bconnection (?:refused|reset|error|aborted)\b"
            r"|\bconnection(?:refused|reset|aborted)?error\b|\bnetwork (?:is unreachable|error)\b"
            r"|\b(?:could not|cannot|failed to) (?:resolve host|connect)\b|\bname resolution\b|\bbad gateway\b"
            r"|\bservice unavailable\b",
            "Network failures - do not depend on an outside service",
        ),
        (
            "null",
            r"\bundefined\b(?!:| (?:reference|symbol|variable|name))|(?<!/)\bnull(?:pointer\w*|ptr|reference\w*)?\b"
            r"|\bnone ?type\b|\bnil\b|\bnone\b value\b",
            "Null or undefined values - check a value before using it",
        ),
        (
            "unknown-name",
            r"\bundefined (?:reference|symbol|variable|name)\b|\bundefined:|\bis not defined\b|\bnameerror\b"
            r"|\battributeerror\b|\bcannot find (?:symbol|name)\b|\bunresolved (?:name|reference)\b"
            r"|\bnot found in this scope\b|\bundeclared\b",
            "Names that do not exist - look a name up before using it",
        ),
        (
            "syntax",
            r"\bsyntax ?error\b|\binvalid syntax\b|\b(?:indentation|tab) ?error\b"
            r"|\bpars(?:e|er|ing)\b.{0,20}\b(?:error|fail)|\bunexpected (?:token|indent|end|eof)\b"
            r"|\b(?:cannot|could not|failed to|unable to) parse\b",
            "Syntax errors - let a file be parsed before it is run",
        ),
        (
            "types",
            r"\btype ?error\b|\bmismatched types\b|\bincompatible types?\b|\bis not assignable\b|\btype mismatch\b"
            r"|\berror ts\d",
            "Type errors - run the type checker before the tests",
        ),
        (
            TESTS_CATEGORY,
            r"\bassertion(?:error|failederror)?\b|\bassert\w* failed\b|\b\d+ (?:tests? )?fail(?:ed|ures|ing)\b"
            r"|\btest(?:s|[A-Z_]\w*)?(?:\[[^\]\n]{0,80}\])?(?: has| have|:)? fail(?:ed|ing|s|ures?)?\b|^fail(?:ed)?\b"
            r"|\bexpected .{1,80} (?:but|got|received|to (?:be|equal))\b",
            "Failing tests - run the tests of the changed part first",
        ),
        (
            "missing-file",
            r"\bno such file\b|\bfilenotfound(?:error|exception)?\b|\benoent\b|\bfile not found\b|\bcannot open\b",
            "Missing files - look whether a path exists before using it",
        ),
        (
            "build",
            r"\bcompil\w+ (?:error|failed)\b|\bbuild failed\b|\bcould not compile\b|\blinker\b|\bld:",
            "Build errors - build after each change",
        ),
    )
)
TOOLING_CATEGORIES = ("missing-module", "timeout", "permission", "network", "missing-file", "out-of-memory")
"""Categories of errors of tools and the environment. All others are about the change that is being made."""
_ERROR_MARK = re.compile(r"^E\s{2,}")
_LOCATION = re.compile(
    r"^(?:thread '[^']{1,200}' panicked at )?[\w./@-]+\.\w+(?:\(\d+,\d+\)|:\d+(?::\d+)?):? (?:- )?(?=\S)"
)
_SUMMARY = re.compile(
    r"\bELIFECYCLE\b|\bcommand failed\b|\bcould not compile\b|\bdue to (?:\d+|an?) previous errors?\b"
    r"|\baborting due to\b|^npm (?:err!|error) (?:code|errno|lifecycle|a complete log)|^make(?:\[\d+\])?: \*\*\*"
    r"|\bexit(?:ed)?(?: with)? (?:code|status) \d+\W*$|^found \d+ errors?\b|^error: build failed",
    re.IGNORECASE,
)
_VARYING = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?", ""),
        (r"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b", ""),
        (r"\(?\b(?:(?:took|after|in) )?\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds?|min|minutes?)\b\)?", ""),
        (
            r"[(\[]?(?:\b(?:at|in|from|on) )?(?<![\w'\"`/.@-])[\w./@-]{1,200}\.\w{1,5}"
            r"(?::\d+(?::\d+)?|\(\d+,\d+\)|,? line \d+)[)\]]?",
            "",
        ),
        (r"(?<![\w.~-])(?:/[\w.@+-]+)+/(?=[\w.@+-])", "#/"),
        (r"0x[0-9a-f]+|\d+", "#"),
        (r"\(\s*\)|\[\s*\]", ""),
    )
)
"""What differs when the same error occurs again, and what stands for it."""
_TIMES_AND_PLACES = _VARYING[:4]
_QUOTED = re.compile(r"['\"`][^'\"`]{0,80}['\"`]")
_ERROR_WORD = re.compile(r"(?:error|exception|failure|failed|panic\w*)\b", re.IGNORECASE)


def classify_error(error: str) -> tuple[str, str]:
    """Return the category of an error and the advice for it; both are empty for an unknown error."""
    lines = _top_level_lines(error)
    # The error name is more reliable than the code and the stack frames printed with it.
    for text in ("\n".join(filter(_ERROR_WORD.search, lines)), "\n".join(lines)):
        for name, pattern, advice in _ERROR_CATEGORIES:
            if pattern.search(text):
                return name, advice
    return "", ""


def error_line(error: str) -> str:
    """Return the line of an error that says what went wrong, without the place in a file that it begins with."""
    lines = _top_level_lines(error)
    telling = [line for line in lines if not is_error_summary(line)]
    line = next(iter([*filter(_ERROR_WORD.search, telling), *filter(_ERROR_WORD.search, lines), *lines]), "")
    return one_line(without_location(without_error_mark(line)), MAX_LINE_LENGTH)


def without_location(line: str) -> str:
    """Return an error without the place in a file that it begins with."""
    return _LOCATION.sub("", line)


def without_time_and_place(line: str) -> str:
    """Return an error without when it happened, how long it took and where in a file."""
    for pattern, _ in _TIMES_AND_PLACES:
        line = pattern.sub("", line)
    return " ".join(line.split()).rstrip(" ,;:([") or line


def without_error_mark(line: str) -> str:
    """Return a line without the letter by which pytest marks errors."""
    return _ERROR_MARK.sub("", line)


def is_error_summary(line: str) -> bool:
    """Return whether a line only says that something failed: the error itself is in another line."""
    return bool(_SUMMARY.search(line))


def normalized_error(line: str, *, with_names: bool = False) -> str:
    """Return an error line without what differs from time to time and from place to place, to recognize it again.

    That is times, durations, places in files, directories, addresses and numbers. Names in quotes are left out as well,
    unless they are asked for: the file that is missing is what an error is about.
    """
    text = line.lower()
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    if not with_names:
        text = _QUOTED.sub("#", text)
    return " ".join(text.split()).rstrip(" .,;:([")


def _top_level_lines(error: str) -> list[str]:
    """Return the unindented lines at the start and end of an error, which excludes quoted code."""
    half = MAX_TEXT_LENGTH // 2
    text = sanitize(error if len(error) <= MAX_TEXT_LENGTH else f"{error[:half]}\n{error[-half:]}")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line for line in lines if not line[0].isspace()] or lines
