"""Reports as plain text, Markdown and a self-contained HTML file."""

from __future__ import annotations

import re
from html import escape

from ralph.loop.report import read_report
from ralph.loop.report_text import report_document, short_lines, summary_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ralph.loop.report_text import ReportDocument, ReportSection, ReportTable
    from ralph.store import Store

TEXT_WIDTH = 80
"""Width of a text report that is not for a terminal, in columns."""
MIN_WIDTH = 40
"""Width below which lines are not wrapped any further, in columns."""
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~])")


def report_text(store: Store, root: Path | str, run_id: str) -> str:
    """Return a short report of a run as plain text, for a notification."""
    report = read_report(store, root, run_id)
    return "\n".join((*summary_lines(report), *short_lines(report))) + "\n"


# --- plain text -----------------------------------------------------------------------------


def render_text(document: ReportDocument, width: int = TEXT_WIDTH) -> str:
    """Render a report as plain text with lines of at most `width` columns, except for commands."""
    width = max(width, MIN_WIDTH)
    lines = [document.title, "=" * min(len(document.title), width), ""]
    for sentence in document.summary:
        lines += _wrap(sentence, "", "", width)
    for section in document.sections:
        lines += ["", section.title, "-" * len(section.title), *_text_section(section, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _text_section(section: ReportSection, width: int) -> Iterator[str]:
    for paragraph in section.paragraphs:
        yield from _wrap(paragraph, "", "", width)
    for item in section.items:
        yield from _wrap(item.text, "- ", "  ", width)
        for detail in item.details:
            yield from _wrap(detail, "  ", "  ", width)
        if item.command:
            yield f"    {item.command}"
    for index, table in enumerate(section.tables):
        yield from ["", *_text_table(table, width)] if index else _text_table(table, width)
    if section.more:
        yield from _wrap(section.more, "  ", "  ", width)
    if section.command:
        yield f"    {section.command}"


def _text_table(table: ReportTable, width: int) -> Iterator[str]:
    rows = [table.headings, *table.rows]
    numbers = [max(len(row[column]) for row in rows) for column in range(1, len(table.headings))]
    first = min(max(len(row[0]) for row in rows), max(12, width - sum(numbers) - 2 * len(numbers)))
    for row in rows:
        name = row[0] if len(row[0]) <= first else row[0][: first - 1].rstrip() + "…"
        cells = (cell.rjust(size) for cell, size in zip(row[1:], numbers, strict=True))
        yield "  ".join((name.ljust(first), *cells))


def _wrap(text: str, initial: str, subsequent: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text,
        width,
        initial_indent=initial,
        subsequent_indent=subsequent,
        break_on_hyphens=False,
        break_long_words=False,
    )


# --- Markdown -------------------------------------------------------------------------------


def render_markdown(document: ReportDocument) -> str:
    """Render a report as Markdown."""
    lines = [f"# {_quoted(document.title)}", "", *map(_quoted, document.summary)]
    for section in document.sections:
        lines += ["", f"## {section.title}", "", *_markdown_section(section)]
    return "\n".join(lines) + "\n"


def _markdown_section(section: ReportSection) -> Iterator[str]:
    if section.paragraphs:
        yield " ".join(map(_quoted, section.paragraphs))
        if section.items or section.tables:
            yield ""
    for item in section.items:
        yield f"- {_quoted(item.text)}"
        yield from (f"  - {_quoted(detail)}" for detail in item.details)
        if item.command:
            yield f"  - `{item.command}`"
    for index, table in enumerate(section.tables):
        yield from ["", *_markdown_table(table)] if index else _markdown_table(table)
    if section.more:
        yield from ("", _quoted(section.more))
    if section.command:
        yield from ("", f"    {section.command}")


def _markdown_table(table: ReportTable) -> Iterator[str]:
    yield f"| {' | '.join(table.headings)} |"
    yield f"|{'---|' + '---:|' * (len(table.headings) - 1)}"
    for row in table.rows:
        yield f"| {' | '.join(map(_quoted, row))} |"


def _quoted(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


# --- HTML -----------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #8886; }
p { margin: .25rem 0; }
ul { padding-left: 1.2rem; }
li { margin: .4rem 0; overflow-wrap: anywhere; }
.detail { opacity: .75; }
.summary { font-size: 1.1rem; }
code { font: .9em ui-monospace, monospace; padding: .1rem .3rem; border-radius: .3rem; background: #8882; }
table { border-collapse: collapse; width: 100%; margin: .75rem 0; }
th, td { text-align: right; white-space: nowrap; padding: .2rem .5rem; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal; overflow-wrap: break-word; }
@media (max-width: 30rem) { table { font-size: .85rem; } th, td { padding: .2rem; } }
"""


def render_html(document: ReportDocument) -> str:
    """Render a report as an HTML file that needs nothing else."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    body = "\n".join(
        (
            f"<h1>{escape(document.title)}</h1>",
            *(f'<p class="summary">{escape(one)}</p>' for one in document.summary),
            *map(_html_section, document.sections),
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="content-security-policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _html_section(section: ReportSection) -> str:
    parts = [f"<section>\n<h2>{escape(section.title)}</h2>", *(f"<p>{escape(one)}</p>" for one in section.paragraphs)]
    if section.items:
        rows = (
            f"<li>{escape(one.text)}"
            + "".join(f'<div class="detail">{escape(detail)}</div>' for detail in one.details)
            + (f"<div><code>{escape(one.command)}</code></div>" if one.command else "")
            + "</li>"
            for one in section.items
        )
        parts.append("<ul>\n" + "\n".join(rows) + "\n</ul>")
    parts += map(_html_table, section.tables)
    parts += [f"<p>{escape(section.more)}</p>"] if section.more else []
    parts += [f"<p><code>{escape(section.command)}</code></p>"] if section.command else []
    return "\n".join((*parts, "</section>"))


def _html_table(table: ReportTable) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in table.headings)
    rows = "\n".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


RENDERERS: dict[str, Callable[[ReportDocument], str]] = {
    "text": render_text,
    "markdown": render_markdown,
    "html": render_html,
}
"""Formats of a report, each with its renderer."""

__all__ = ["RENDERERS", "render_html", "render_markdown", "render_text", "report_document", "report_text"]
