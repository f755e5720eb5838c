"""Statements that change how a gate ends, whatever the tests say. Pure.

They replace the checks themselves (an assertion method, a test tool) or the exit status of the process. Ordinary code
does neither. Code that recognizes that it is being tested and then gives the expected answer is not found this way.
"""

from __future__ import annotations

import re

from ralph.loop.integrity.protected import STANDARD_MODULES, TEST_TOOLS, is_test_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SCANNED_BYTES = 2 * 1024 * 1024
"""Size of a source file up to which it is searched, in bytes."""
TOO_LARGE = "too large to be searched"
"""What is found in a source file above that size."""
_TOOLS = r"(?:unittest|pytest|_pytest|doctest|builtins|__builtins__)"
_MODULES = "|".join(sorted(map(re.escape, STANDARD_MODULES | TEST_TOOLS)))
_PYTHON = {
    "ends whatever loads it": r"^(?:sys\.)?exit\(\s*0?\s*\)|^os\.exec\w+\(",
    "leaves the process with status 0": r"\bos\._exit\(\s*(?:0\s*)?\)|\b_exit\(\s*0\s*\)|\bos\.kill\(\s*os\.getpid\(\)",
    "replaces a test tool": (
        rf"\b{_TOOLS}(?:\.\w+)+[ \t]*=[^=]|\bsetattr\(\s*{_TOOLS}\b"
        rf"|\b(?:TestCase|TestResult|TextTestRunner|TestProgram)\.\w+\s*=[^=]"
        r"|\b(?:Session|Item|Function)\.(?:_?runtest\w*|perform_collect|collect|setup|tests\w+|exitstatus|_\w+)\s*=[^=]"
        r"|\bsetattr\(\s*(?:\w+\.)*(?:TestCase|TestResult|TextTestRunner)\b"
    ),
    "replaces a loaded module": (
        rf"\bsys\.modules\[\s*['\"](?:{_MODULES})(?:\.[\w.]+)?['\"]\s*\]\s*=[^=]"
        rf"|\bsys\.modules\.(?:update|setdefault|__setitem__)\(\s*\{{?\s*['\"](?:{_MODULES})\b"
    ),
    "replaces the exit of the process": (
        r"^[ \t]*(?:sys\.exit|os\._exit|builtins\.exit)\s*=[^=]|\batexit\.register\([^)\n]*exit"
    ),
    "installs an import hook": (
        r"\bsys\.(?:meta_path|path_hooks)\s*(?:\.(?:insert|append|extend)\b|\[[^\]\n]*\]\s*=[^=]|\+?=[^=])"
        r"|=\s*sys\.(?:meta_path|path_hooks)\s*$"
    ),
    "is equal to everything": (
        r"\bdef __eq__\([^)]*\)[^:\n]*:\s*(?:(?:#[^\n]*|\"{3}[^\"]*\"{3})\s*)*return True\b"
        r"|\b__eq__\s*=\s*lambda\b[^:\n]*:\s*True\b"
    ),
    "ends the test run": r"\bpytest\.exit\(|\bsession\.exitstatus\s*=|\bexitstatus\s*=\s*0",
}
_JAVASCRIPT = {
    "ends whatever loads it": r"^process\.exit\(\s*0?\s*\)",
    "replaces the exit of the process": (
        r"\bprocess\.(?:exit|reallyExit|abort|kill)\s*=[^=]|\bprocess\.reallyExit\("
        r"|\bprocess\.(?:on|once|prependListener)\(\s*['\"](?:exit|beforeExit)['\"][\s\S]{0,200}?(?:exitCode|exit\()"
        r"|\bprocess\.exitCode\s*=\s*0\b|\bdefineProperty\(\s*process\b"
    ),
    "replaces a test tool": (
        r"\bassert(?:\.strict)?(?:\.\w+)?\.(?:equal|strictEqual|deepEqual|deepStrictEqual|ok|throws|rejects|fail|match"
        r"|notEqual|notStrictEqual)\s*=[^=]|require\(\s*['\"](?:node:)?(?:assert|test)(?:/strict)?['\"]\s*\)(?:\.\w+)+\s*=[^=]"
        r"|\bexpect\.extend\b[\s\S]{0,80}\b(?:toBe|toEqual)\b|\bglobalThis\.(?:test|it|describe|expect|assert)\s*=[^=]"
        r"|\bObject\.(?:assign|defineProperty)\(\s*(?:assert|test|nodeTest)\b"
    ),
    "replaces a loaded module": (
        r"\bModule\.(?:_load|_resolveFilename|prototype\.require)\s*=[^=]|\bModule\._extensions"
        r"|\brequire\.cache\[[^\]]*\]\s*=[^=]"
    ),
}
_C = {
    "replaces the exit of the process": (
        r"__attribute__\s*\(\s*\(\s*(?:constructor|destructor)|\[\[gnu::_*(?:con|de)structor"
        r"|\.(?:init|fini)_array\b|\b_exit\s*\(\s*0|\b_Exit\s*\(\s*0"
        r"|\bquick_exit\s*\(|\bsignal\s*\(\s*SIGABRT"
    ),
    "replaces a test tool": (
        r"#\s*(?:define|undef)\s+(?:assert|abort|exit|main|CHECK|(?:ASSERT|EXPECT)(?:_\w+)?|strcmp|memcmp)\b|#\s*define\s+NDEBUG"
        r"|\b__assert_fail\b|\bvoid\s+abort\s*\("
        r"|^(?:[\w*]+[ \t*]+)+(?:str(?:n?case|n)?cmp|memcmp|abort|exit|_exit|raise|atexit)\s*\([^;{]*\)\s*\{"
    ),
}
_SHELL = {
    "replaces the exit of the process": (
        r"\btrap\b[^\n]*\bexit 0\b(?![^\n]*['\"](?:\s+(?:SIG)?(?:TERM|INT|HUP|QUIT))+\s*$)"
        r"|\btrap\b[^\n]*\bexit(?:['\"]\s+(?:EXIT|0)|\s+EXIT)\b"
    ),
    "replaces a test tool": (
        r"^[ \t]*(?:function\s+)?(?:exit|test|grep|diff|cmp|set|return)\s*\(\)|^[ \t]*alias\s+\w+=|\[\s*\(\)\s*\{"
    ),
}
_RUST = {
    "replaces the exit of the process": r"\bprocess::exit\(\s*0\s*\)|\bset_hook\(|#\[ctor\]|\blibc::_?exit\(\s*0",
    "is equal to everything": r"\bfn\s+eq\s*\([^)]*\)\s*->\s*bool\s*\{\s*true\s*\}",
}
_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx")
_OUTSIDE: dict[str, dict[str, tuple[str, str]]] = {
    ".py": {
        "reads the variables of its caller": (r"\bf_locals\b|\bgetargvalues\(", ""),
        "asks whether it is tested": (
            r"\bPYTEST_(?:CURRENT_TEST|VERSION|XDIST\w*|RUN\w*)\b"
            r"|['\"](?:unittest|_?pytest)['\"]\s+(?:not\s+)?in\s+(?:sys\.)?modules\b",
            "",
        ),
    },
    **{
        suffix: {"asks whether it is tested": (r"\bNODE_TEST_CONTEXT\b|\bJEST_WORKER_ID\b|\bVITEST\w*\b", "")}
        for suffix in _SCRIPTS
    },
    **{
        suffix: {"ends the process": (r"\bexit\s*\(\s*(?:0|EXIT_SUCCESS)\s*\)", r"\bmain\s*\(")}
        for suffix in (".c", ".h", ".cc", ".cpp", ".hpp")
    },
    ".rs": {"ends the process": (r"\b_?exit\s*\(\s*0\s*\)", r"\bfn\s+main\s*\(")},
}
"""What only tests and programs do, rather than the code under test, and what shows that a file is a program."""
_PRODUCT = {
    ".py": r"^[ \t]*(?:import|from)[ \t]+(?:\w+[ \t]*,[ \t]*)*(?:unittest|_?pytest|nose2?)\b"
    r"|\b(?:__import__|import_module)\(\s*['\"](?:unittest|_?pytest)\b"
    r"|\bsys\.modules(?:\.get\(|\[)\s*['\"](?:unittest|_?pytest)\b",
    **dict.fromkeys(
        _SCRIPTS,
        r"(?:\brequire\(|\bfrom|\bimport)\s*['\"](?:node:test|vitest|@jest/globals|mocha|ava)['\"]",
    ),
}
"""Use of a test tool, which only tests have."""
_TOOL_NAMES = (b"unittest", b"pytest", b"nose", b"assert", b"node:test", b"vitest", b"@jest", b"mocha", b"'ava'")
_TEST_USE = "uses a test tool outside of tests"
_PYTHON_ALIASES = re.compile(
    r"^[ \t]*import[ \t]+(?:unittest|_?pytest)(?:\.\w+)*[ \t]+as[ \t]+(\w+)"
    r"|^[ \t]*from[ \t]+(?:unittest|_?pytest)(?:\.\w+)*[ \t]+import[ \t]+\w+[ \t]+as[ \t]+(\w+)",
    re.MULTILINE,
)
_JAVASCRIPT_ALIASES = re.compile(
    r"\b(?:const|let|var)\s+(\w+)\s*=\s*require\(\s*['\"](?:node:)?(?:assert|test)(?:/strict)?['\"]"
    r"|\bimport\s+(\w+)\s+from\s+['\"](?:node:)?(?:assert|test)(?:/strict)?['\"]"
)
"""Other names of test tools."""
_CHILD = re.compile(
    r"^([ \t]*)if[ \t]+(?:not[ \t]+(\w+)|(\w+)[ \t]*==[ \t]*0|not[ \t]+os\.fork\(\)|os\.fork\(\)[ \t]*==[ \t]*0)[ \t]*:"
    r"[^\n]*\n(?:(?:\1[ \t]+[^\n]*)?\n)*",
    re.MULTILINE,
)
"""What only a forked process does, which has to leave without running the tests a second time."""
_BY_SUFFIX = {
    **dict.fromkeys((".py",), _PYTHON),
    **dict.fromkeys(_SCRIPTS, _JAVASCRIPT),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".hpp"), _C),
    **dict.fromkeys((".sh", ".bash", ".bats"), _SHELL),
    **dict.fromkeys((".rs",), _RUST),
}
_TRIGGERS: dict[str, tuple[bytes, ...]] = {
    suffix: tuple(word.encode() for word in words.split())
    for suffixes, words in (
        (
            ".py",
            "exit( exec _exit getpid sys.modules meta_path path_hooks __eq__ pytest.exit exitstatus sys.exit"
            " unittest.TestCase unittest.case unittest.result unittest.main TestCase. TestResult. TextTestRunner."
            " TestProgram. Session. Item. Function. _pytest. builtins. doctest. setattr(unittest setattr(pytest"
            " setattr(_pytest pytest.Item pytest.Function f_locals getargvalues PYTEST_ modules",
        ),
        (
            ".js .mjs .cjs .ts .mts .cts .jsx .tsx",
            "process.exit process.really process.abort process.kill process.on( process.once process.prepend"
            " defineProperty Object.assign assert. assert/ expect.extend globalThis. Module. require.cache"
            " NODE_TEST JEST_WORKER VITEST",
        ),
        (
            ".c .h .cc .cpp .hpp",
            "constructor destructor _array exit _Exit SIGABRT define undef __assert_fail abort cmp raise",
        ),
        (".sh .bash .bats", "trap () alias function"),
        (".rs", "exit set_hook ctor PartialEq"),
    )
    for suffix in suffixes.split()
}
"""Text without which a file is not worth a closer look."""
_COMPILED_PRODUCT = {suffix: re.compile(pattern, re.MULTILINE) for suffix, pattern in _PRODUCT.items()}
_COMPILED_OUTSIDE = {
    suffix: {what: (re.compile(pattern), re.compile(unless or r"(?!)")) for what, (pattern, unless) in rules.items()}
    for suffix, rules in _OUTSIDE.items()
}
_COMPILED = {
    suffix: {what: re.compile(pattern, re.MULTILINE) for what, pattern in patterns.items()}
    for suffix, patterns in _BY_SUFFIX.items()
}


def is_scanned(path: str) -> bool:
    """Return whether a file is in a language in which such statements are known."""
    return _suffix(path) in _COMPILED


def find_hijacks(path: str, content: bytes) -> frozenset[str]:
    """Return the statements in a source file that change how a gate ends."""
    suffix = _suffix(path)
    if suffix not in _COMPILED:
        return frozenset()
    if len(content) > MAX_SCANNED_BYTES:
        return frozenset({TOO_LARGE})
    text = ""
    patterns: dict[str, re.Pattern[str]] = {}
    if any(word in content for word in _TRIGGERS[suffix]):
        patterns.update(_COMPILED[suffix])
        if suffix in _COMPILED_OUTSIDE and not is_test_path(path):
            text = content.decode("utf-8", "replace")
            rules = _COMPILED_OUTSIDE[suffix].items()
            patterns.update({what: pattern for what, (pattern, unless) in rules if not unless.search(text)})
    if suffix in _COMPILED_PRODUCT and any(word in content for word in _TOOL_NAMES):
        text = text or content.decode("utf-8", "replace")
        patterns.update(_patterns_of_tools(path, suffix, text))
    if not patterns:
        return frozenset()
    text = _without_children(text or content.decode("utf-8", "replace"))
    return frozenset(
        f"{what}: {found.group(0).strip().splitlines()[0][:80]}"
        for what, pattern in patterns.items()
        for found in [pattern.search(text)]
        if found
    )


def _patterns_of_tools(path: str, suffix: str, text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield what to look for in a file that names a test tool: its use in a product, or changes by another name."""
    if not is_test_path(path):
        yield _TEST_USE, _COMPILED_PRODUCT[suffix]
    aliases = _PYTHON_ALIASES if suffix == ".py" else _JAVASCRIPT_ALIASES
    if names := {name for found in aliases.finditer(text) for name in found.groups() if name}:
        alias = f"(?:{'|'.join(map(re.escape, sorted(names)))})"
        changed = rf"^[ \t]*{alias}(?:\.\w+)+[ \t]*=[^=]|\bsetattr\(\s*{alias}\b"
        yield "replaces a test tool by another name", re.compile(changed, re.MULTILINE)


def is_test_use(found: str) -> bool:
    """Return whether a statement that was found only shows that a file is a test, or uses a test tool like one."""
    return found.startswith(_TEST_USE)


def _without_children(text: str) -> str:
    """Return a text without the exits of forked processes."""
    if "os.fork(" not in text:
        return text
    forked = {*re.findall(r"(\w+)\s*=\s*os\.fork\(\)", text), None}

    def replace(found: re.Match[str]) -> str:
        is_child = found.group(2) in forked and found.group(3) in forked
        return re.sub(r"\bos\._exit\(", "os.leave(", found.group(0)) if is_child else found.group(0)

    return _CHILD.sub(replace, text)


def _suffix(path: str) -> str:
    return f".{path.rpartition('.')[2]}"
