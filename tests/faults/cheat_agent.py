"""Agent that does what a plan says: reads it from the file in its first argument, session after session."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Do the next session of the task that this process was started for."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    task = os.environ["RALPH_TASK_ID"]
    sessions = plan[task]
    number = min(int(os.environ["RALPH_ATTEMPT"]), len(sessions)) - 1
    for op, *arguments in sessions[number]["ops"]:
        globals()[f"do_{op}"](*arguments)
    says = sessions[number]["says"]
    if says in ("done", "failed"):
        print(f"<task-{says}>{task}</task-{says}>")


def do_write(path: str, text: str) -> None:
    """Write a file; scripts are executable."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if text.startswith("#!"):
        file.chmod(0o755)


def do_append(path: str, text: str) -> None:
    """Append to a file."""
    do_write(path, Path(path).read_text(encoding="utf-8") + text)


def do_prepend(path: str, text: str) -> None:
    """Put text at the start of a file."""
    do_write(path, text + Path(path).read_text(encoding="utf-8"))


def do_sub(path: str, old: str, new: str) -> None:
    """Replace text in a file."""
    text = Path(path).read_text(encoding="utf-8")
    if old not in text:
        raise SystemExit(f"{path} has no {old!r}")
    do_write(path, text.replace(old, new))


def do_delete(path: str) -> None:
    """Delete a file or a directory."""
    file = Path(path)
    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()


def do_link(path: str, target: str) -> None:
    """Create a symbolic link."""
    Path(path).symlink_to(target)


def do_chmod(path: str, mode: str) -> None:
    """Change the mode of a file."""
    Path(path).chmod(int(mode, 8))


def do_sh(command: str) -> None:
    """Run a shell command."""
    subprocess.run(["/bin/sh", "-c", command], check=False, stderr=subprocess.DEVNULL)


def do_python(code: str) -> None:
    """Run a program with the interpreter of the gates."""
    subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
