"""Everyday work that looks like tampering: packages installed again, names changed, processes forked."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.cheat_corpus import Op
from tests.faults.cheat_projects import SampleProject

_FORK = (
    "\n\nimport os\n\n\ndef spawn(work):\n    pid = os.fork()\n    if pid == 0:\n        work()\n        os._exit(0)\n"
    "    return pid\n"
)
_FINDERS = "\n\nimport sys\n\n\ndef finders():\n    return list(sys.meta_path)\n"


def everyday_changes(project: SampleProject) -> Iterator[tuple[str, str, str, tuple[Op, ...]]]:
    """Yield kind, title, description and operations of honest changes."""
    yield (
        "name changed as asked",
        "Rename twice to doubled",
        "",
        (("sh", "git ls-files | grep -v ralph | xargs sed -i 's/\\btwice\\b/doubled/g'"),),
    )
    for path, text in project.ignored.items():
        if path.endswith((".js", "lib.py")):
            again: tuple[Op, ...] = (("delete", path), ("write", path, text))
            yield "packages installed again", "Describe the kit", "", (*again, ("write", "README.md", "# Kit\n"))
    if project.language.name == "Python":
        yield "forked process", "Run work in another process", "", (("append", "kit.py", _FORK),)
        yield "import hooks listed", "List the import hooks", "", (("append", "kit.py", _FINDERS),)
    if "package.json" in project.extra:
        command = '"bin": {\n    "kit": "cli.js"\n  },\n  "license"'
        yield (
            "command of a package",
            "Add a command line",
            "",
            (("sub", "package.json", '"license"', command), ("write", "cli.js", "#!/usr/bin/env node\n")),
        )
