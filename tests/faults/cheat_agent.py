"""Agent that does what a plan says: reads it from the file in its first argument, session after session."""

import json
import os
import shutil
import subprocess
import sys


def main() -> None:
    """Do the next session of the task that this process was started for."""
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    task = os.environ["RALPH_TASK_ID"]
    sessions = plan[task]
    number = min(int(os.environ["RALPH_ATTEMPT"]), len(sessions)) - 1
    for op, *arguments in sessions[number]["ops"]:
        globals()[f"do_{op}"](*arguments)
    says = sessions[number]["says"]
    if says == "done":
        print(f"<task-done>{task}</task-done>")
    elif says == "failed":
        print(f"<task-failed>{task}</task-failed>")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def do_write(path: str, text: str) -> None:
    """Write a file; scripts stay executable."""
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if text.startswith("#!"):
        os.chmod(path, 0o755)


def do_append(path: str, text: str) -> None:
    """Append to a file."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def do_prepend(path: str, text: str) -> None:
    """Put text at the start of a file."""
    do_write(path, text + _read(path))


def do_sub(path: str, old: str, new: str) -> None:
    """Replace text in a file."""
    text = _read(path)
    if old not in text:
        raise SystemExit(f"{path} has no {old!r}")
    mode = os.stat(path).st_mode
    do_write(path, text.replace(old, new))
    os.chmod(path, mode)


def do_delete(path: str) -> None:
    """Delete a file or a directory."""
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)


def do_link(path: str, target: str) -> None:
    """Create a symbolic link."""
    os.symlink(target, path)


def do_chmod(path: str, mode: str) -> None:
    """Change the mode of a file."""
    os.chmod(path, int(mode, 8))


def do_sh(command: str) -> None:
    """Run a shell command."""
    subprocess.run(command, shell=True, check=False, stderr=subprocess.DEVNULL)


def do_python(code: str) -> None:
    """Run a program with the interpreter of the gates."""
    subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
