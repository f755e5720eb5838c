"""Cues by which sentences are judged: what speaks for keeping one, what against it, and for which memory type.

The weights are fitted to the tuning half of the labeled sentences (`python -m bench.learning.fit`) and rounded; those
of plans, reports, courtesies and guesses are lower than fitted, because sessions have more of these than the set.
"""

from __future__ import annotations

from ralph.core.records import record


@record
class Cue:
    """A feature of a sentence, with its weight and the memory types it speaks for."""

    name: str
    weight: float
    pattern: str
    types: tuple[str, ...] = ()
    is_cased: bool = False
    """Whether the case of letters matters: names are told by it."""


_NAME = (
    r"`[^`\n]+`|\"[^\"\n]{2,60}\"|“[^”\n]{2,60}”|(?<!\w)'[^'\s]{1,40}'|\w\(\)|\w::\w|\w_\w|(?<!\w)_\w|\b[a-z]+[A-Z]\w"
    r"|\b[A-Z]\w*[a-z][A-Z]|\b[A-Z][A-Z0-9]+s?\b|(?<![\w-])--?[a-z][\w-]+\b|\b[\w-]+/[\w./-]*"
    r"|(?<=[a-z,;:)] )[A-Z][a-z]\w+"
    r"|\b[a-z_]\w*\.[A-Za-z_]\w+|\b(?:lower|upper|snake|camel|kebab|pascal)[-_ ]?case\b|\b[a-z]+ \d+(?:\.\d+)*\b"
)
_FAILURE = (
    r"\b(?:fail(?:s|ed|ure|ures)?|breaks?|broke|crash(?:es)?|panics?|hangs?|throws?|raises?|times? out|swallows?"
    r"|silently"
    r"|leak(?:s|ing)?|races?|injection|quadratic|wrong|missing|mismatch|reject(?:s|ed)?|ignores?|los(?:es|t)"
    r"|drops?|skips?"
    r"|deadlocks?|corrupts?|overflows?|overwrit(?:es|ten)|off by|out of (?:memory|sync)"
    r"|broken|flaky|errors?|orphaned|bypass(?:es)?|refuses?|collides?|collisions|shifts|stale|unbounded|vulnerable)\b"
)
_CONVENTION = (
    r"\b(?:named|prefix(?:ed|es)?|suffix(?:ed|es)?|naming|numbered|indent(?:ed|ation)?|line length|use tabs|\w+ spaces"
    r"|docstrings?"
    r"|annotations?|type hints|decorator|commit messages?|changelog entries|uppercase|lowercase|alphabetical\w*)\b"
    r"|\b(?:names?|messages?|files?|tests?|entries|identifiers) (?:\w+ ){0,2}?"
    r"(?:start|end|begin|use|include|read|contain|match|follow)s?\b"
    r"|\b(?:start|end|begin)(?:s|ing)? (?:\w+ ){0,4}?(?:with|in) ['`\"._]|\b(?:snake|camel|kebab|pascal)[-_ ]?case\b"
)

CUES = (
    # What speaks for a sentence.
    Cue(
        name="obligation",
        weight=1.0,
        types=("constraint",),
        pattern=(
            r"\b(?:must(?:n't)?(?! have\b)|(?:has|have) to (?!do\b)|needs?(?: to| an?|(?= `))"
            r"|shall|(?:is|are) (?:required"
            r"|mandatory|forbidden|pinned)|may (?:not|only|never)|not allowed|required|requires"
            r"|should (?:not|never|only|always))\b"
        ),
    ),
    Cue(
        name="absolute",
        weight=1.7,
        types=("constraint", "pattern"),
        is_cased=True,
        pattern=(r"\b(?:[Nn]ever(?! mind)|[Aa]lways|ALWAYS|NEVER|NOT|ONLY|strictly|exactly|every other)\b"),
    ),
    Cue(
        name="only",
        weight=1.2,
        types=("constraint",),
        pattern=(r"\b(?:only|solely|exclusively|except|nothing but|nobody|no new|not even)\b"),
    ),
    Cue(
        name="limit",
        weight=1.3,
        types=("constraint",),
        pattern=(
            r"\b(?:at most|at least|no more than|no longer than|up to|limited|capped?|maximum|minimum|below|above"
            r"|expires?"
            r"|within|per (?:second|minute|request|key)|timeouts?|limits?|truncated)\b.{0,30}\d"
            r"|\b(?:limited|capped|restricted|truncated) (?:to|at)\b|\d+ (?:attempts|rows|requests|seconds|minutes"
            r"|days)\b"
        ),
    ),
    Cue(
        name="prohibition first",
        weight=0.8,
        types=("constraint",),
        pattern=(
            r"^(?:(?:please )?(?:never(?! mind)|always|avoid)|don't|do not"
            r"|no (?!further|blocking|issues|problem)\w+ \w+)\b"
        ),
    ),
    Cue(name="universal", weight=0.8, types=("constraint",), pattern=r"^(?:all|every|each|only)\b"),
    Cue(
        name="choice",
        weight=1.3,
        types=("decision",),
        pattern=(
            r"\b(?:instead of|rather than|in favou?r of|chose|chosen|decided|ruled out|went with|settled on|opted"
            r"|prefer|kept"
            r"|stay(?:s|ed)? (?:on|with)|on purpose|deliberately|intentionally"
            r"|switched|picked|superseding|decision|agreement)\b|, not (?:in|by|the"
            r"|per)\b|\band not\b"
        ),
    ),
    Cue(
        name="own choice",
        weight=1.0,
        types=("decision", "decision"),
        pattern=(
            r"^(?:i|we)(?: have|'ve| will|'ll)? (?:chose|choose|decided|picked|opted|went with|prefer|keep|kept"
            r"|settled|ruled out"
            r"|switch(?:ed)?|stay(?:ed)?|use)\b.*\b(?:because|since|so that|instead of|rather than|over|until)\b"
        ),
    ),
    Cue(
        name="reason",
        weight=1.4,
        types=("decision",),
        pattern=(
            r"\b(?:because|since|so that|otherwise|or else|to avoid|due to|as (?:it|they)|in order to|until"
            r"|therefore)\b"
            r"|, so\b|, which\b"
        ),
    ),
    Cue(name="aside", weight=0.9, pattern=r"[\w`)];? (?:-|–|—) \w|[\w`)]: [`\w]|;\s"),
    Cue(name="failure", weight=0.4, types=("pitfall",), pattern=_FAILURE),
    Cue(
        name="fails when",
        weight=0.3,
        types=("pitfall",),
        pattern=(
            rf"{_FAILURE}.{{0,80}}\b(?:when|if|on|for|with|because|unless|in|after|during|as soon as|instead of"
            rf"|during|so|by)\b"
            rf"|\b(?:when|if|with|without|after)\b.{{3,100}}{_FAILURE}|\b(?:causes|refetches|reshuffles|falls back"
            rf"|points to)\b"
        ),
    ),
    Cue(
        name="fix",
        weight=0.5,
        types=("fix", "fix"),
        pattern=(
            r"\b(?:fixed by|solved|goes away|workaround|the fix|resolved by|came from|caused by|failed because"
            r"|cured by)\b"
        ),
    ),
    Cue(
        name="structure",
        weight=0.8,
        types=("architecture",),
        pattern=(
            r"\b(?:lives?|sits?|resides?|registered|declared|defined|stored|kept|read|configured|enforced|created"
            r"|generated"
            r"|derived|written|exposed|evaluated|verified|located|organi[sz]ed|structured|grouped|implemented"
            r"|wired|loaded|polled|done) (?:[\w,]+ ){0,3}?(?:in|under|at|by|from"
            r"|through|via|as"
            r"|with|on|after)\b|\b(?:go|goes|flows?|pass|passes|enters?) (?:only )?through\b|\b(?:is"
            r"|are) (?:all )?in `?[\w.-]+/"
            r"|\b(?:owns?|wraps?|implements?|inherits?|extends?|composing|composes|delegates?|dispatch(?:es)?"
            r"|shares?|parses|precedence"
            r"|emits?|emitted|scans?|returns?|consists?)\b"
        ),
    ),
    Cue(name="uses", weight=0.1, types=("architecture", "dependency"), pattern=r"\buses?\b"),
    Cue(
        name="handles",
        weight=0.1,
        types=("architecture",),
        pattern=(
            r"\b(?:reads?|writes?|stores?|creates?|runs? in|hash(?:es)?|receives?|appl(?:y|ies)|overrides?|keeps?"
            r"|treats?|compares?|hold)\b"
        ),
    ),
    Cue(
        name="dependency",
        weight=0.3,
        is_cased=True,
        types=("dependency", "dependency"),
        pattern=(
            r"\b(?:depends? on|requires? [\w`]+ v?\d|needs? [\w`]+ v?\d|pinned|locked to|stuck on|MSRV"
            r"|(?:is|are) (?:needed|required)"
            r"|lockfile|not available|[Rr]equires? Python|vendored)\b|\w`? ?(?:>=|==|~=) ?v?\d|\bv\d+\.\d"
            r"|\b(?:[A-Z][\w.]+|`\w+`|pnpm|npm) v?\d+(?:\.\d+)*\b"
        ),
    ),
    Cue(
        name="procedure",
        weight=0.8,
        types=("pattern", "pattern"),
        pattern=(
            r"^(?:to (?:add|create|run|update|change)|when(?:ever)? \w+ing|use|run|prefer|set|wrap|keep|override"
            r"|pass|apply)\b"
            r"|\b(?:every|each) (?:new )?[\w`]+ (?:must|[a-z]+s)\b"
            r"|^[A-Z]\w+s (?:all |always )?(?:use|take|return|follow|share|extend|wrap|go through)\b"
        ),
    ),
    Cue(name="convention", weight=1.2, types=("convention", "convention"), pattern=_CONVENTION),
    Cue(
        name="announced",
        weight=0.5,
        pattern=(
            r"^(?:(?:new |the )?(?:policy|rule|decision|constraint|key|important|gotchas?|patterns?|convention"
            r"|note(?: that)?)"
            r"s?(?: (?:discovered|encountered|learned|found))?(?::| that)|going forward|from now on)|\bfrom now on,"
            r"|\bper the\b"
        ),
    ),
    Cue(
        name="request for good",
        weight=1.0,
        types=("convention",),
        pattern=(
            r"\b(?:I(?:'d| would) like|I want|I need|I expect) you to\b|^it's important that you\b"
            r"|\bwe (?:always |only |never )?(?:use|deploy|run|keep|stay|write|ship|are stuck|start|adhere)\b"
        ),
    ),
    Cue(name="name", weight=0.4, pattern=_NAME, is_cased=True),
    # What speaks against it.
    Cue(
        name="narrative",
        weight=-0.9,
        pattern=(
            r"^(?:\W*)(?:i|i'm|i'll|i've|i'd|i\b.{0,12}\b(?:looked|ran|read)|let me|let's|we'll|we(?: can| could"
            r"| should| need)\b"
            r"|here(?:'s| is| are)|looking|reading|checking|opened|ran|reviewed|based on|now,? i|now i|sorry"
            r"|you can)\b|\bI (?:never|always|only|just)\b"
        ),
    ),
    Cue(name="first person", weight=-1.6, is_cased=True, pattern=r"\b(?:I|I'm|I'll|I've|I'd|my|me|myself)\b"),
    Cue(name="second person", weight=-1.1, pattern=r"\b(?:you|your|you're|you've|you'd|yourself)\b"),
    Cue(
        name="evident",
        weight=-2.0,
        pattern=(
            r"^(?:the|this|our) (?:repo(?:sitory)?|project|code ?base|code|app(?:lication)?|package)"
            r" (?:uses?|has|contains|is (?:an?|written in|mostly))\b|^there (?:is|are) (?:an?|\d+) "
        ),
    ),
    Cue(
        name="deed",
        weight=-1.5,
        pattern=(
            r"^(?:[\w ]{0,30}implemented:|\W*)?\s?(?:added|adds|adding|created|implemented|wrote|updated"
            r"|refactored|moved"
            r"|renamed|removed|removing|deleted|fixed|fixes|made|extracted|changed|replaced|introduced|wired|built"
            r"|extended"
            r"|tested|verified|validated|documented|committed|bumped|finished|completed|improved|minor corrections"
            r"|typo)\b"
        ),
    ),
    Cue(
        name="order",
        weight=-1.4,
        pattern=(
            r"^(?:\W*)(?:please(?! (?:never|always|avoid)\b)"
            r"|add|create|implement|write|update|refactor|move|rename|remove|delete|fix|make"
            r"|extract|change"
            r"|replace|introduce|read|wire|ensure|build|define|extend|test (?:it|the|that|whether)|verify|check|review"
            r"|consider|investigate|look|start"
            r"|finish|open|edit|return|support|handle|continue|run the|combine|filter|rewrite|think|keep up|take)\b"
        ),
    ),
    Cue(
        name="report",
        weight=-1.5,
        pattern=(
            r"\b(?:tests? (?:all )?pass(?:es|ed)?|all pass|(?:is|are) (?:all )?(?:green|clean)|passed"
            r"|works? (?:now|again)"
            r"|the build (?:broke|is (?:red|broken))"
            r"|successfully|as (?:expected|requested)|no (?:further|blocking|issues)|went from|screenshot|the diff"
            r"|\d+ files)\b"
            r"|^(?:files?(?=:| changed| touched| modified)"
            r"|commit:|verif\w+|status|results?|summary|estimated|risks?|minor|done|task|overall"
            r"|co-authored)\b(?! messages?)"
            r"|: none\b|\bLGTM\b"
        ),
    ),
    Cue(
        name="plan",
        weight=-2.5,
        pattern=(
            r"^(?:next|now|then|todo|will|the (?:creator|planner|critic|editor|explorer)|first(?:ly)?|second(?:ly)?,"
            r"|finally|acceptance(?: criteri\w+)?|goals?|scope|step \d|phase \d|plan|after that|implementation order"
            r"|\d\.)\b"
            r"|\b(?:i'll|i will|we will add|going to|out of scope|next steps?|(?<!or )later(?: on)?(?![-\w])"
            r"|should (?:start|decide"
            r"|look)"
            r"|follow-up:|this plan|the refactor would)\b"
        ),
    ),
    Cue(
        name="pointer",
        weight=-1.5,
        pattern=(
            r"\b(?:see|look (?:at|into)|as (?:described|discussed|mentioned)|listed)"
            r" (?:its|the|above|below|before|my|it|this|that|them|here)\b|\bplease\b(?! (?:never|always|avoid|use)\b)"
            r"|\bthe (?:failing|broken) (?:test|build|gate)\b"
        ),
    ),
    Cue(
        name="scope",
        weight=-4.0,
        pattern=(
            r"^(?:only|just) (?:\S+ ){1,4}?(?:changes?|(?:has|have|needs?) to (?:be )?changed?|is (?:needed|left))\b"
            r"|\bno (?:new|other|further) \w+ (?:is|are) (?:needed|required)\b"
            r"|^(?:one|two|a few|small|minor) (?:small )?(?:changes?|files?)\b"
            r"|\b(?:not done|after all|(?:goes|go|sent) back)\b"
            r"|^[A-Z][a-z]+ (?:in|at|on|with|to|from|by) .{0,60}\bonly\W?$"
        ),
    ),
    Cue(
        name="passing",
        weight=-0.3,
        pattern=(
            r"\b(?:now|currently|for now|at the moment|today|yesterday|tomorrow|this (?:session|task|pr|change"
            r"|diff|attempt"
            r"|iteration|commit|review|patch|week|machine)|again|so far|here|earlier|previously|the first patch)\b"
        ),
    ),
    Cue(
        name="guess",
        weight=-1.0,
        pattern=(
            r"\b(?:might|maybe|perhaps|possibly|probably|seems?|looks? like|i think|i guess|not sure|could|would"
            r"|potentially"
            r"|sounds? like|likely|i assume|i believe|suspect|unclear|wonder\w*|considered|usually|typical\w*)\b"
        ),
    ),
    Cue(
        name="refers back",
        weight=-2.3,
        pattern=(
            r"^(?:ok|okay|absolutely|precisely|maybe|almost|just|something|before,|on top of that|good call"
            r"|always good|my|even|the"
            r" (?:whole|only|original|bigger|challenge|rationale|core)|it|it's|its|this|that|that's|they|they're"
            r"|these|those|both|so|and|but|also|plus|as a result"
            r"|another|which|he|she"
            r"|there|for (?:most|parallelism)|like|especially|specifically|right|yeah|yes|no,|exactly|agreed"
            r"|potentially)\b"
        ),
    ),
    Cue(
        name="past",
        weight=-1.0,
        pattern=(
            r"\b(?:was|were|had|did|took|tried|happened|traced to|found|noticed|saw|ended up|came (?:with|through)"
            r"|used to"
            r"|weren't|wasn't|didn't|couldn't|been)\b"
        ),
    ),
    Cue(
        name="courtesy",
        weight=-1.6,
        pattern=(
            r"\b(?:thanks?|thank you|appreciate\w*|welcome|hesitate|sorry|glad|happy|excited|feel free"
            r"|good (?:question|point|job"
            r"|catch|opportunity)|well done|sounds good|pleasure|honou?r|hi|hey|hello|congrat\w*|nice|great"
            r"|let me know|spot on)\b"
        ),
    ),
    Cue(
        name="chatty",
        weight=-0.8,
        pattern=(
            r"\b(?:actually|really|definitely|basically|essentially|pretty|quite|super|totally|kind of|sort of|a bit"
            r"|a lot|immensely|perfectly|though|anyway|honestly|obviously|of course|essentially|potentially"
            r"|particularly"
            r"|mostly|mainly|generally|relatively|more of a|we'd|there's|here's|that's|what's|it's|you're|we're)\b"
        ),
    ),
    Cue(
        name="people",
        weight=-0.8,
        pattern=(
            r"\b(?:team|colleagues?|compan(?:y|ies)|feedback|skills?|mindset|mentor\w*|culture|career"
            r"|vacations?"
            r"|meetings?|employees?|expectations|enthusiasm|communication|balance|collaboration|habits?"
            r"|conventions? consistent"
            r"|everyone|everybody's|concerns|questions)\b"
        ),
    ),
    Cue(
        name="praise",
        weight=-1.2,
        pattern=(
            r"\b(?:solid|well structured|well organi[sz]ed|easy to follow|robust\w*|significant\w*|low risk|readab\w+"
            r"|maintainab\w+|importan(?:t|ce)|crucial|consisten(?:t|cy)|good understanding|simplified|helps?"
            r"|clear(?:er)?)\b"
        ),
    ),
    Cue(name="short", weight=-1.0, pattern=r"^\S+(?: \S+){0,5}$"),
)
"""Everything a sentence is judged by."""
