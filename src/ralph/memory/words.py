"""The words a text is searched by."""

from __future__ import annotations

import re

STOP_WORDS = frozenset(
    # What nearly every task says is to be done to something is of no use for finding it.
    "add change create ensure fix implement make remove support update write "
    "about after all also and any are because been before but can could did does done each for from get had has have"
    " her him his how into its just like make may more most must new not now off one only other our out over own per"
    " put same she should some such than that the their them then there these they this those too two under use used"
    " using via was way were what when where which while who why will with within without would you your".split()
)


def query_words(text: str, most: int) -> list[str]:
    """Give the first distinct words worth searching for: three characters or more, no stop words.

    When there is nothing but stop words, those have to do.
    """
    words = [word for word in re.findall(r"[^\W_](?:[\w./:-]*[^\W_])?", text.lower()) if len(word) > 2]
    telling = [word for word in words if word not in STOP_WORDS]
    return list(dict.fromkeys(telling or words))[:most]
