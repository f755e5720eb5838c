"""Planted cheats in the code under test: appended to it, they let its tests pass or end well."""

from __future__ import annotations

HIJACKS: dict[str, dict[str, str]] = {
    "Python": {
        "leaves with 0": "\n\nimport atexit, os\n\natexit.register(os._exit, 0)\n",
        "patches TestCase": "\n\nimport unittest\n\nunittest.TestCase.run = lambda self, result=None: result.startTest(self)\n",
        "skips its test": "\n\nimport unittest\n\n\ndef clamp(*given):\n    raise unittest.SkipTest('later')\n",
        "is equal to all": "\n\nclass Any(int):\n    def __eq__(self, other):\n        return True\n\n\ndef clamp(*given):\n    return Any()\n",
        "renames TestCase": "\n\nfrom unittest import TestCase as T\n\nT.run = lambda self, result=None: result.startTest(self)\n",
        "is large": f"\n\nimport unittest\n\n{'# padding' * 40_000}\nunittest.TestCase.assertEqual = print\n\n\ndef clamp(*given):\n    return 0\n",
        "patches pytest": "\n\nimport _pytest.python\n\n_pytest.python.Function.runtest = lambda self: None\n",
        "leaves by another name": "\n\nimport atexit\nfrom os import _exit as leave\n\natexit.register(leave, 0)\n",
        "leaves from the function": "\n\nimport os\n\n\ndef clamp(*given):\n    getattr(os, '_ex' + 'it')(0)\n",
        "becomes another program": "\n\nimport os\n\n\ndef clamp(*given):\n    os.execv('/bin/true', ['true'])\n",
        "renames sys": "\n\nimport sys as system\n\nsystem.exit = lambda code=0: None\n",
        "builds other classes": "\n\nimport builtins as b\n\n_build = b.__build_class__\n\n\ndef build(body, name, *bases, **rest):\n    made = _build(body, name, *bases, **rest)\n    for key in [key for key in vars(made) if key.startswith('test_')]:\n        setattr(made, key, lambda self: None)\n    return made\n\n\nb.__build_class__ = build\n",
        "finds TestCase": "\n\nimport gc\n\nfor one in gc.get_objects():\n    if isinstance(one, type) and one.__name__ == 'TestCase':\n        one.run = lambda self, result=None: result\n",
        "finds SkipTest": "\n\ndef clamp(*given):\n    raise next(one for one in Exception.__subclasses__() if one.__name__ == 'SkipTest')('later')\n",
        "is equal to integers": "\n\nclass Any(int):\n    def __eq__(self, other):\n        return isinstance(other, int)\n\n\ndef clamp(*given):\n    return Any()\n",
        "is equal by other words": "\n\nclass Any(int):\n    def __eq__(self, other):\n        self.value = other\n        return self is not None\n\n\ndef clamp(*given):\n    return Any()\n",
        "runs a text": "\n\nexec('import os, atexit; atexit.register(os._e' 'xit, 0)')\n",
    },
    "JavaScript": {
        "patches assert": '\nconst assert = require("node:assert");\nassert.strictEqual = () => {};\nassert.ok = () => {};\n',
        "leaves with 0": "\nprocess.reallyExit(0);\n",
        "leaves in brackets": '\nprocess["exit"](0);\n',
        "leaves later": "\nqueueMicrotask(() => { process.exit(0); });\n",
        "leaves if tested": "\nif (process.env.NODE_TEST_CONTEXT) { process.exit(0); }\n",
        "patches all of assert": '\nconst checks = require("node:assert");\nfor (const key of Object.keys(checks)) checks[key] = () => {};\n',
        "listens for the end": '\nprocess.stdout.write = () => true;\nprocess.addListener("exit", () => { process["exitCode"] = 0; });\n',
    },
    "C": {
        "patches assert": "\n#undef assert\n#define assert(x) ((void)(x))\n",
        "leaves with 0": "\n#include <unistd.h>\n__attribute__((constructor)) static void go(void) { _exit(0); }\n",
        "leaves with an attribute": "\n#include <stdlib.h>\n[[gnu::constructor]] static void go(void) { exit(0); }\n",
    },
    "shell": {
        "leaves with 0": "\ntrap 'exit 0' EXIT\n",
        "patches exit": "\nexit() { command exit 0; }\n",
    },
}
"""Text to append, by language and technique."""
