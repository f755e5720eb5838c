"""Words that say nothing about the subject of a text."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

COMMON_STEMS = frozenset(
    (
        "absolut accept actual add afterward again ago agre ahead allow almost alon along alreadi alright although "
        "alway amaz anoth answer anybodi anymor anyon anyth anyway anywher apart appar appear appreci approxim around "
        "asid ask assert assertionerror away awesom back bad bare basic becam becom began begin behind believ below "
        "besid best better beyond big bigger bit bother brief briefli bring brought build bunch busi care certain "
        "chanc chang check cheer choos chose clear code colleagu come commit complet confirm confus consid continu "
        "contrari cool correct coupl cours creat current decid definit depend deserv detail diff differ difficult "
        "direct doubt dure earli earlier easi easier easili effort eight either elsewher enough ensur entir error "
        "especi essenti even evening eventu ever everi everybodi everyon everyth everywher exact excel except exist "
        "expect explain explan extend extrem fact fail failur fair familiar far favor feel felt file final find fine "
        "finish first five fix follow forget forgot forward found four frequent friend fulli funni further gave "
        "general give given glad go gone good great guess guy handl happen happi hard hate hear heard hello help henc "
        "hey hi hmm honest hope howev huge hurri idea ideal imagin immedi implement imposs impress inde instead intend "
        "interest introduc involv issu keep kept kind knew know known larg last late later latest latter learn least "
        "leav left less let like line liter littl long longer look lose lost lot love low luck luckili main make manag "
        "mani manner matter mayb mean meant meanwhil mend mention mind minor miss mistak moment morn most move much "
        "myself name natur near necessari necessarili need neither never nevertheless new next nice nine nobodi none "
        "nope normal noth notic nowher obvious occasion occur odd offer often ok okay old onc ongo opinion opposit "
        "option ordinari origin otherwis ought ourselv overal overview paragraph part particular pass peopl per "
        "perfect perhap pick piec plain pleas plenti point possibl practic prefer pretti previous probabl problem "
        "proceed proper pull push py pytest python question quick quiet quit ran rather read readi real realiz realli "
        "reason recent recommend reconsid redo refactor regard relat remain rememb remind remov renam repeat replac "
        "repli rid right rough run said saw say second see seem seen sens sentenc serious seven sever short show shown "
        "sigh similar simpl simpler simpli sinc situat six slight small soon sorri sort sound speak special specif "
        "spend stand start stay step stick still stop straight strang stuff sudden suggest sum summar suppos sure "
        "surpris take taken talk tell ten terribl test text thank thing think third thought three throughout thus till "
        "today togeth told tomorrow tonight took total toward traceback tri troubl true truli truth turn twice two "
        "typic understand understood undo unfortun unittest unless unlik until unusu updat use useless usual various "
        "wait want watch way welcom well went whatev whenev wherea wherev whether while whole will wish wonder word "
        "work worri wors worst worth wow write written wrong wrote yeah yep yes yesterday yet yourself"
    ).split()
)
"""Stems of words that occur in any request, in nearly every task, or in the output of nearly every failing test.

A memory that has only these in common with a query is not about the same thing: "yes, go on with the second option"
asks for nothing. Words that name a subject in some projects ("order", "version", "state") are not among them.
"""


def everyday_shares(words: Iterable[str]) -> dict[str, float]:
    """Return how much of a word each counts: less, the more prompts about nothing in particular have it."""
    from ralph.memory.recall.everyday_words import STEMS

    shares = dict.fromkeys(words, 1.0)
    for count, stems in STEMS.items():
        padded = f" {stems} "  # splitting takes longer than these few look-ups
        for word in shares:
            if f" {word} " in padded:
                shares[word] = 1 / (1 + count)
    return shares
