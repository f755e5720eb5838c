"""Any text may be asked for: it is answered or not, but never with an error, and never slowly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.records import now
from ralph.memory.recall.query import RecallContext
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.make import set_up_project

MEGABYTE = 1_000_000
SECONDS = 2.0
TRIES = 3
"""Other tests run at the same time."""
TEXTS = {
    "english": "Docker has to run before the integration tests; see `src/run_docker.py` and getUserName()",
    "chinese": "运行测试之前必须先启动数据库服务器",
    "japanese": "設定ファイルの読み込みに失敗しました",
    "thai": "ต้องเริ่มเซิร์ฟเวอร์ฐานข้อมูลก่อนการทดสอบ",
    "arabic": "يجب تشغيل قاعدة البيانات قبل الاختبارات",
    "hebrew": "חובה להפעיל את מסד הנתונים לפני הבדיקות",
    "russian": "Перед тестами нужно запустить базу данных",
    "korean": "테스트 전에 데이터베이스를 시작해야 합니다",
    "hindi": "परीक्षण से पहले डेटाबेस चालू करें",
    "accents": "Avant les épreuves, démarrer le café français",
    "symbols": "C++ and C# are spelled with && || !! %_% \\ ' \" and $(it)",
}
OPERATORS = ("AND", "OR", "NOT", "NEAR/2", "NEAR(", "{title}", *"\"'()*^:-+%_\\")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    directory: Path = tmp_path_factory.mktemp("project")
    set_up_project(directory)
    with Project.open(directory) as opened:
        for name, text in TEXTS.items():
            added = opened.memory.add(text, type="fix", tags=[name]).memory
            while now() <= added.created_at:  # so that one of them is the newest
                time.sleep(0.001)
        yield opened


def titles(project: Project, query: str) -> list[str]:
    return [one.memory.content for one in project.memory.search(query, MemoryFilter(), 20)]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("english", "USER name"),
        ("english", "dock\x00er integration\x00"),
        ("english", "run_docker"),
        ("chinese", "启动数据库"),
        ("japanese", "読み込みに失敗"),
        ("thai", "เซิร์ฟเวอร์"),
        ("arabic", "قاعدة البيانات"),
        ("arabic", "\u202eالبيانات\u202c"),
        ("hebrew", "מסד הנתונים"),
        ("russian", "ТЕСТЫ данные"),
        ("korean", "데이터베이스를"),
        ("hindi", "डेटाबेस"),
        ("accents", "demarrer cafe"),
        ("accents", "e\u0301preuves franc\u0327ais"),
        ("symbols", "C++"),
        ("symbols", "%_%"),
        ("symbols", "\\ '"),
    ],
)
def test_text_in_any_language_is_found(project: Project, name: str, query: str) -> None:
    assert titles(project, query)[0] == TEXTS[name]


@pytest.mark.parametrize("query", ["zebra", "動物園", "حديقة", "xyz OR abc", "~~~~", "\U0001f9a6", "\uffff", "the of"])
def test_what_nobody_wrote_is_not_found(project: Project, query: str) -> None:
    assert titles(project, query) == []


@pytest.mark.parametrize("query", ["", " \n\t", "\x00", "\u200b\u2060\ufeff", "\ud800", "\x1b[31m"])
def test_a_query_without_anything_to_read_gives_the_newest(project: Project, query: str) -> None:
    assert titles(project, query)[0] == TEXTS["symbols"]


anything = st.one_of(
    st.text(),
    st.text(st.characters(categories=None), max_size=200),  # surrogates and controls too
    st.lists(st.sampled_from([*OPERATORS, "docker", "tests", "数据库", "قبل", "src/run_docker.py", "", "\x00"])).map(
        " ".join
    ),
    st.lists(st.sampled_from(OPERATORS)).map("".join),
)


@given(query=anything)
@settings(deadline=None)
def test_any_text_is_answered(project: Project, query: str) -> None:
    found = project.memory.search(query, MemoryFilter(), 20)

    assert {one.memory.content for one in found} <= set(TEXTS.values())
    assert len({one.memory.id for one in found}) == len(found)
    for one in found:
        assert sum(share for _, share in one.because) == pytest.approx(one.score, abs=1e-9)


@given(title=anything, body=anything, error=anything, path=anything, name=anything)
@settings(deadline=None, max_examples=50)
def test_any_context_is_answered(project: Project, title: str, body: str, error: str, path: str, name: str) -> None:
    context = RecallContext(
        title=title, body=body, errors=(error,), files=(path,), feature=name, hat=name, task_type=name
    )

    found = project.memory.recall(context, 20)

    assert {one.memory.content for one in found} <= set(TEXTS.values())


@given(text=anything)
@settings(deadline=None, max_examples=50)
def test_an_agent_may_be_primed_for_any_text(project: Project, text: str) -> None:
    assert {one.content for one in project.memory.prime(MemoryFilter(), 500, text=text)} <= set(TEXTS.values())


LARGE = {
    "words": "docker tests parser token lock theme ",
    "other words": "".join(f"word{n} " for n in range(1000)),
    "names": "getUserNameOf_the_docker.runTests ",
    "one word": "a",
    "one name": "aB",
    "dots": "a.",
    "folders": "a/",
    "paths": "src/" * 200 + "x.py ",
    "stop words": "the and of ",
    "operators": " ".join(OPERATORS),
    "quotes": '"',
    "wildcards": "%_\\",
    "nothing to read": "\x00\u200b",
    "blanks": " \n",
    "escapes": "\x1b[",
    "surrogates": "\ud800",
    "chinese": "启动数据库服务器",
    "arabic": "قاعدة البيانات ",
    "thai": "ฐานข้อมูล",
    "accents": "e\u0301",
    "one long letter": "\u0301",
    "ligatures": "\ufdfa",
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "comments": "<!--",
    "addresses": "https://",
    "web tokens": "eyJ",
    "keys": "AKIA",
    "passwords": "password=hunter2x ",
    "private keys": "-----BEGIN PRIVATE KEY-----",
    "logins": "://a:",
}


@pytest.mark.parametrize("name", LARGE)
def test_a_megabyte_of_anything_is_answered_soon(project: Project, name: str) -> None:
    query = (LARGE[name] * (MEGABYTE // len(LARGE[name]) + 1))[:MEGABYTE]
    asked = RecallContext(title="docker", body=query)

    for ask in (
        lambda: project.memory.search(query, MemoryFilter(), 20),
        lambda: project.memory.prime(MemoryFilter(), 500, text=query),
        lambda: project.memory.recall(asked, 20),
    ):
        assert any(seconds_of(ask) < SECONDS for _ in range(TRIES))


def seconds_of(ask: Callable[[], object]) -> float:
    start = time.process_time()
    ask()
    return time.process_time() - start


def test_of_a_megabyte_the_beginning_and_the_end_are_searched_for(project: Project) -> None:
    filler = "filler " * (MEGABYTE // 7)

    assert titles(project, f"docker {filler}")[0] == TEXTS["english"]
    assert titles(project, f"{filler} docker")[0] == TEXTS["english"]
    assert titles(project, f"{filler} docker {filler}") == []
