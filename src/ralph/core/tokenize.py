"""Tokenization of texts for search.

Identifiers come in many spellings: `getUserName`, `get_user_name` and "get the user's name" should match. An identifier
is indexed by its parts and as a whole, words are stemmed, and text without spaces between words, such as Chinese or
Thai, is split into character pairs. Memories are stored with their words (`TOKENIZER_VERSION` identifies the rules),
and queries are tokenized by the same rules.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache

from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Stemmer(Protocol):
        """Word stemmer."""

        def stemWord(self, word: str) -> str:
            """Return the stem of a word."""


TOKENIZER_VERSION = 1
"""Version of the tokenization rules; texts indexed with another version are indexed again."""
MAX_WORD_LENGTH = 40
"""Maximum length of a word, in characters."""
MAX_CACHED_CHUNKS = 30_000
"""Number of chunks whose words are cached."""
MAX_CACHED_LISTS = 1_000
"""Number of stored lists whose strings are cached."""

STOP_WORDS = frozenset(
    # Verbs that occur in nearly every task do not help to find anything.
    "add change create ensure fix implement make remove support update write "
    "about after all also and any are because been before but can could did does done each for from get had has have"
    " her him his how into its just like make may more most must new not now off one only other our out over own per"
    " put same she should some such than that the their them then there these they this those too two under use used"
    " using via was way were what when where which while who why will with within without would you your".split()
)

FUNCTION_WORDS = frozenset(
    "a about after all also am an and any are as at be been before being between both but by can could d did do does"
    " doing don done down each else few for from get got had has have having he her here him his how i if in into is"
    " isn it its just like ll m may me might more most must my no nor not now of off on one only or other our out over"
    " own re s same shall she should so some such t than that the their them then there these they this those to too up"
    " us ve very was we were what when where which who whom whose why will with without would you your".split()
)
"""Words without meaning of their own. Task verbs are not included, because they matter in short texts."""

_NOT_NAME = r"[^\w.-]"
_HOST = r"https?://[^\s/]*"
_ASCII_CHUNK = re.compile(r"[A-Za-z0-9]++(?:[_.][A-Za-z0-9]++)*+")
_CHUNK = "(?:[^\\W_]|[\u0900-\u0dff])+(?:[_.][^\\W_]+)*"
_PART = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\\d+|(?:[^\\W\\d_A-Za-z]|[\u0900-\u0dff])+")
_ACCENTED = "[\u00c0-\u052f\u1e00-\u1fff]+"
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
_LANGUAGES = (("\u0250", "english"), ("\u0400", "greek"), ("\u0530", "russian"), ("\u0600", ""), ("\u0700", "arabic"))
"""Upper bounds of letter ranges and the stemmer for each; words in other ranges are not stemmed."""
_UNSTEMMED = _LANGUAGES[-1][0]

_stemmers: dict[str, Stemmer] = {}


def tokenize(text: str) -> list[str]:
    """Return the stemmed words of a text with repetitions, followed by its compound identifiers as a whole."""
    return joined_words(text).split()


def joined_words(text: str) -> str:
    """Return the words of `tokenize` separated by spaces, as they are indexed."""
    if not text:
        return ""
    chunk_pattern = _ASCII_CHUNK
    if not text.isascii():
        text, chunk_pattern = _normalize(text), compiled_pattern(_CHUNK)
    if "<!--" in text:
        text = _without_comments(text)
    if "://" in text:
        text = compiled_pattern(_HOST).sub(" ", text)
    if len(_stems) > MAX_CACHED_CHUNKS:
        forget_chunks()
    chunks = chunk_pattern.findall(text)
    return " ".join([*filter(None, map(_stems.__getitem__, chunks)), *filter(None, map(_names.__getitem__, chunks))])


def compound_names(text: str) -> set[str]:
    """Return the identifiers of several words in a text, as a whole: `next_job`, `getUserName`."""
    chunk_pattern = _ASCII_CHUNK if text.isascii() else compiled_pattern(_CHUNK)
    return {name for chunk in chunk_pattern.findall(text) for name in _names[chunk].split()}


def _split_chunk(chunk: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the stems and the compound identifiers in a run of letters and digits."""
    if chunk.islower() and chunk.isalpha():
        return ((stem_word(chunk[:MAX_WORD_LENGTH]),), ()) if _is_significant(chunk) else ((), ())
    if chunk.isdigit() and chunk.isascii():
        return (chunk[:MAX_WORD_LENGTH],), ()
    parts = _PART.findall(chunk)
    stems = tuple(stem_word(word[:MAX_WORD_LENGTH]) for word in map(str.lower, parts) if _is_significant(word))
    names = chunk.split(".") if len(parts) > 1 else ()
    return stems, tuple(name.lower()[:MAX_WORD_LENGTH] for name in names if len(_PART.findall(name)) > 1)


class _ChunkCache(dict[str, str]):
    """Stems or compound identifiers by chunk. Most words repeat; longer chunks would only fill the memory."""

    def __init__(self, part: int) -> None:
        self._part = part

    def __missing__(self, chunk: str) -> str:
        parts = _split_chunk(chunk)
        if len(chunk) <= MAX_WORD_LENGTH:
            _stems[chunk], _names[chunk] = (" ".join(part) for part in parts)
        return " ".join(parts[self._part])


_stems, _names = _ChunkCache(0), _ChunkCache(1)


def forget_chunks() -> None:
    """Empty the caches of chunks."""
    _stems.clear()
    _names.clear()


def _is_significant(word: str) -> bool:
    return word not in FUNCTION_WORDS and (len(word) > 1 or word.isdigit() or not word.isascii())


@lru_cache(maxsize=5_000)
def tokenize_path(path: str) -> tuple[str, ...]:
    """Return the words of a path: directories once, parts of the file name twice, and the whole name."""
    folders, _, name = path.replace("\\", "/").rpartition("/")
    parts = [word for word in tokenize(name.rpartition(".")[0] or name) if "_" not in word]
    whole_name = compiled_pattern(_NOT_NAME).sub("_", name.lower())[:MAX_WORD_LENGTH]
    return (*tokenize(folders.replace("/", " ")), *parts, *parts, whole_name)


def search_terms(text: str, limit: int) -> list[str]:
    """Return the first distinct words worth searching for: three characters or more, no stop words.

    If there are only stop words, those are returned.
    """
    words = [word for word in re.findall(r"[^\W_](?:[\w./:-]*[^\W_])?", text.lower()) if len(word) > 2]
    significant = [word for word in words if word not in STOP_WORDS]
    return list(dict.fromkeys(significant or words))[:limit]


def _without_comments(text: str) -> str:
    """Return a text without HTML comments, which are frequent in report templates."""
    parts = []
    end = 0
    while (begin := text.find("<!--", end)) >= 0 and (close := text.find("-->", begin)) >= 0:
        parts.append(text[end:begin])
        end = close + 3
    return " ".join((*parts, text[end:]))


def _normalize(text: str) -> str:
    """Return a text without accents and letter variants, with unspaced scripts split into character pairs."""
    import unicodedata

    text = unicodedata.normalize("NFKC", text)[: 2 * len(text)]  # some characters expand to many
    text = compiled_pattern(_ACCENTED).sub(
        lambda run: re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", run[0])), text
    )
    return compiled_pattern(_UNSPACED).sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def stem_word(word: str) -> str:
    """Return the stem of a word, with the stemmer for its script."""
    if word.isascii():
        return _stemmer("english").stemWord(word)
    if word[0] >= _UNSTEMMED:
        return word
    language = next(language for end, language in _LANGUAGES if word[0] < end)
    return _stemmer(language).stemWord(word) if language else word


def _stemmer(language: str) -> Stemmer:
    if language not in _stemmers:
        import Stemmer  # type: ignore[import-not-found]

        _stemmers[language] = Stemmer.Stemmer(language, 0)  # chunks are cached, which holds their stems too
    return _stemmers[language]


@lru_cache(MAX_CACHED_LISTS)
def parse_string_list(stored: str) -> tuple[str, ...]:
    """Return the strings of a stored JSON list; empty if it is damaged."""
    try:
        values = json.loads(stored) if stored != "[]" else ()
    except (TypeError, ValueError):
        return ()
    return tuple(text for text in values if isinstance(text, str)) if isinstance(values, list | tuple) else ()


def inverse_document_frequency(document_frequency: int, total: int) -> float:
    """Return the inverse document frequency of a word."""
    return math.log(1 + (max(total - document_frequency, 0) + 0.5) / (document_frequency + 0.5))
