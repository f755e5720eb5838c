"""`ralph report`."""

from __future__ import annotations

from ralph.cli.output import NO_TERMINAL_WIDTH, is_plain, open_project, printable, terminal_width, to_json
from ralph.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.loop.report import RunReport

MAX_WIDTH = 100
"""Maximum width of a report on a terminal, in columns."""
EPILOG = """\
Examples:
  ralph report                                 the latest run
  ralph report --format html --output night.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("run", nargs="?", metavar="RUN", default="", help="id of the run (default: the latest)")
    parser.add_argument(
        "--format",
        choices=("text", "markdown", "html", "json"),
        default="text",
        help="html is one file that needs nothing else (default: text)",
    )
    parser.add_argument("--output", metavar="FILE", help="write the report to FILE")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Print the report of a run, or write it to a file."""
    with open_project(args) as project:
        report, name = project.runs.report(args.run), project.store.project_name
    if not args.output:
        text = _render(report, name, args.format, terminal_width())
        print(_without_rules(text) if is_plain() and args.format == "text" else text, end="")
        return 0
    _write(args.output, _render(report, name, args.format))
    print(f"Report written: {printable(args.output)}")
    return 0


def _render(report: RunReport, name: str, format: str, width: int = 0) -> str:
    """Return a report in a format; `width` is that of the terminal, if there is one."""
    if format == "json":
        return to_json(report) + "\n"
    from ralph.loop.report_formats import RENDERERS, render_text
    from ralph.loop.report_text import report_document

    document = report_document(report, name)
    if format == "text" and 0 < width < NO_TERMINAL_WIDTH:
        return render_text(document, min(width, MAX_WIDTH))
    return RENDERERS[format](document)


def _without_rules(text: str) -> str:
    """Return text without the lines that underline headings."""
    return "\n".join(line for line in text.split("\n") if not line or line.strip("=-"))


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            file.write(text)
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror}.") from error
