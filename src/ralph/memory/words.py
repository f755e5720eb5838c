"""The words a text is searched by.

Code is named in many ways: `getUserName`, `get_user_name` and "get the user's name" should meet. So a name counts as
its parts and as a whole; words are reduced to their stems; text without spaces between its words, as in Chinese
or Thai, counts as pairs of its characters. Memories are kept with their words (`VERSION` says by which rules), and a
question is cut into words by the same rules.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Stemmer(Protocol):
        """What gives the stems of words."""

        def stemWord(self, word: str) -> str:
            """Give a word's stem."""


VERSION = 1
"""Raised when the rules change: what was indexed by other rules is indexed anew."""
LONGEST_WORD = 40

STOP_WORDS = frozenset(
    # What nearly every task says is to be done to something is of no use for finding it.
    "add change create ensure fix implement make remove support update write "
    "about after all also and any are because been before but can could did does done each for from get had has have"
    " her him his how into its just like make may more most must new not now off one only other our out over own per"
    " put same she should some such than that the their them then there these they this those too two under use used"
    " using via was way were what when where which while who why will with within without would you your".split()
)

EMPTY_WORDS = frozenset(
    "a about after all also am an and any are as at be been before being between both but by can could d did do does"
    " doing don done down each else few for from get got had has have having he her here him his how i if in into is"
    " isn it its just like ll m may me might more most must my no nor not now of off on one only or other our out over"
    " own re s same shall she should so some such t than that the their them then there these they this those to too up"
    " us ve very was we were what when where which who whom whose why will with without would you your".split()
)
"""Words that say nothing of what a text is about. What every task does is not among them: in a short text it counts."""

_NO_NAME = re.compile(r"[^\w.-]")
_HOST = re.compile(r"https?://[^\s/]*")
_ASCII_CHUNK = re.compile(r"[A-Za-z0-9]+(?:[_.][A-Za-z0-9]+)*")
_CHUNK = re.compile("(?:[^\\W_]|[\u0900-\u0dff])+(?:[_.][^\\W_]+)*")
_PART = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\\d+|(?:[^\\W\\d_A-Za-z]|[\u0900-\u0dff])+")
_ACCENTED = re.compile("[\u00c0-\u052f\u1e00-\u1fff]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_LANGUAGES = (("\u0250", "english"), ("\u0400", "greek"), ("\u0530", "russian"), ("\u0600", ""), ("\u0700", "arabic"))
"""Up to which letter a word is taken for one of a language; where none is named, and beyond, it stays as it is."""
_UNSTEMMED = _LANGUAGES[-1][0]

_stemmers: dict[str, Stemmer] = {}


def words(text: str) -> list[str]:
    """Give the words of a text, as stems and as often as they are there, then the names of several parts as a whole."""
    chunk_of = _ASCII_CHUNK
    if not text.isascii():
        text, chunk_of = _plain(text), _CHUNK
    if "<!--" in text:
        text = _without_comments(text)
    if "://" in text:
        text = _HOST.sub(" ", text)
    stems: list[str] = []
    names: list[str] = []
    # Nearly every word was met before; but what is longer than any word is not worth keeping.
    for chunk in chunk_of.findall(text):
        found, whole = _met(chunk) if len(chunk) <= LONGEST_WORD else _cut(chunk)
        stems += found
        names += whole
    stems += names
    return stems


def _cut(chunk: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the stems in a run of letters and digits, and the names of several parts in it."""
    if chunk.islower() and chunk.isalpha():
        return ((_stem(chunk[:LONGEST_WORD]),), ()) if _is_telling(chunk) else ((), ())
    if chunk.isdigit() and chunk.isascii():
        return (chunk[:LONGEST_WORD],), ()
    parts = _PART.findall(chunk)
    stems = tuple(_stem(word[:LONGEST_WORD]) for word in map(str.lower, parts) if _is_telling(word))
    names = chunk.split(".") if len(parts) > 1 else ()
    return stems, tuple(name.lower()[:LONGEST_WORD] for name in names if len(_PART.findall(name)) > 1)


_met = lru_cache(maxsize=30_000)(_cut)


def _is_telling(word: str) -> bool:
    return word not in EMPTY_WORDS and (len(word) > 1 or word.isdigit() or not word.isascii())


def path_words(path: str) -> list[str]:
    """Give the words of a file's path: the parts of its name twice and the name as a whole, its folders once."""
    folders, _, name = path.replace("\\", "/").rpartition("/")
    parts = [word for word in words(name.rpartition(".")[0] or name) if "_" not in word]
    return [*words(folders.replace("/", " ")), *parts, *parts, _NO_NAME.sub("_", name.lower())[:LONGEST_WORD]]


def query_words(text: str, most: int) -> list[str]:
    """Give the first distinct words worth searching for: three characters or more, no stop words.

    When there is nothing but stop words, those have to do.
    """
    words = [word for word in re.findall(r"[^\W_](?:[\w./:-]*[^\W_])?", text.lower()) if len(word) > 2]
    telling = [word for word in words if word not in STOP_WORDS]
    return list(dict.fromkeys(telling or words))[:most]


def _without_comments(text: str) -> str:
    """Give a text without its HTML comments: templates of reports are full of them."""
    kept = []
    end = 0
    while (begin := text.find("<!--", end)) >= 0 and (close := text.find("-->", begin)) >= 0:
        kept.append(text[end:begin])
        end = close + 3
    return " ".join((*kept, text[end:]))


def _plain(text: str) -> str:
    """Give a text without accents and variants of letters; where words have no spaces between them, pairs do."""
    import unicodedata

    text = unicodedata.normalize("NFKC", text)[: 2 * len(text)]  # some letters become a sentence
    text = _ACCENTED.sub(lambda run: re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", run[0])), text)
    return _UNSPACED.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _stem(word: str) -> str:
    """Give the stem of a word, by the language its letters are most often used for."""
    if word.isascii():
        return _stemmer("english").stemWord(word)
    if word[0] >= _UNSTEMMED:
        return word
    language = next(language for end, language in _LANGUAGES if word[0] < end)
    return _stemmer(language).stemWord(word) if language else word


def _stemmer(language: str) -> Stemmer:
    if language not in _stemmers:
        import Stemmer  # type: ignore[import-not-found]

        _stemmers[language] = Stemmer.Stemmer(language)
    return _stemmers[language]


def texts_in(stored: str) -> tuple[str, ...]:
    """Give the texts in a list as it is stored; a damaged one has none."""
    try:
        found = json.loads(stored) if stored != "[]" else ()
    except (TypeError, ValueError):
        return ()
    return tuple(text for text in found if isinstance(text, str)) if isinstance(found, list | tuple) else ()


def rarity(held_by: int, total: int) -> float:
    """Give what a word is worth by how few of all texts it is in."""
    return math.log(1 + (max(total - held_by, 0) + 0.5) / (held_by + 0.5))
