"""Patterns of English sentences by which `rules` recognizes instructions that are meant in general."""

from __future__ import annotations

import re

_ELEMENTS = {
    "name": r"nam(?:e|es|ing)",
    "function": r"functions?",
    "method": r"methods?",
    "class": r"class(?:es)?",
    "variable": r"variables?|vars?",
    "attribute": r"attributes?",
    "argument": r"(?:function |method )?(?:arguments?|args?|parameters?|params?)",
    "constant": r"constants?",
    "module": r"modules?",
    "import": r"imports?",
    "export": r"(?:default |named )?exports?",
    "docstring": r"doc-?strings?",
    "comment": r"comments?",
    "annotation": r"(?:type )?annotations?|type hints?",
    "test": r"(?:unit )?tests?",
    "commit": r"commits?|commit messages?",
    "branch": r"branch(?:es)?",
    "pull request": r"pull requests?|PRs?|merge requests?",
    "file": r"files?|filenames?",
    "dependency": r"dependenc(?:y|ies)",
    "decorator": r"decorators?",
    "assert": r"assert(?:ion)? statements?|assertions?",
    "try": r"try(?:[/-](?:except|catch))? (?:statements?|blocks?)|exception handling",
    "code": r"code|codebase",
    "log": r"logs|logging",
    "message": r"messages?",
    "identifier": r"identifiers?",
    "migration": r"migrations?",
    "component": r"components?",
}
ELEMENT_NAMES = tuple(_ELEMENTS)
ELEMENT = re.compile("|".join(rf"\b(?P<_{n}>{words})\b" for n, words in enumerate(_ELEMENTS.values())), re.IGNORECASE)
"""Things that all code has, and all work on it."""
_PLURAL_ELEMENT = (
    r"(?:names|functions|methods|classes|variables|attributes|arguments|parameters|constants|modules|imports|exports"
    r"|doc-?strings|comments|annotations|type hints|tests|commits|commit messages|branches|pull requests|PRs|files"
    r"|dependencies|decorators|assertions|statements|messages|identifiers|migrations|components|code|logs)"
)
PLURAL = re.compile(r"s$|^naming$|^code$|^codebase$|^exception handling$", re.IGNORECASE)
EVERY = re.compile(r"\b(?:all|every|each|any|no)\b(?:\s+(?:of|your|our|the|my|new|python))*\s+$", re.IGNORECASE)

_COUNT = r"(?:\d|(?:two|three|four|five|six|seven|eight|nine|ten)\b)"
"""What follows "all" where it is not general: "all 344 tests" are those of one day."""

_ONE_OFF = (
    "fix update change rename remove delete check review look run rerun refactor revert undo push continue try show"
    " tell explain add move merge list find read go finish implement debug"
)
ONE_OFF = frozenset(_ONE_OFF.split())
"""Verbs of what is mostly asked for once."""
_STANDING_VERBS = (
    "adopt annotate append apply avoid base begin break build call capitalize choose comment commit conclude cover"
    " create declare define describe do document don't end enforce export expose follow format give group handle"
    " have import incorporate indent include insert keep let limit link log maintain make mark mock name never note"
    " omit only open organize pass pin place prefer prefix prepend provide put raise rebase reference refer require"
    " return set separate sign skip sort specify split squash start stick stop store structure suffix tag test treat"
    " type use utilize validate verify wrap write edit ask touch"
)
_VERBS = rf"(?:{'|'.join((*_STANDING_VERBS.split(), *_ONE_OFF.split()))})"
_ADVERBS = r"(?:(?:always|never|only|consistently|also|not|do not|don't|ever|please)\s+)*"

_ALWAYS = (
    r"(?:^|(?<=[,:;—–] )|(?<=\byou )|(?<=\bto )|(?<=\bwe )|(?<=\band )|(?<=\bso )|(?<=\bplease )|(?<=\bthat ))"
    rf"(?:always|never)\s+{_VERBS}\b"
)

STANDING = re.compile(
    r"\b(?:from (?:now|here|this point|today) on(?:wards?)?|going forward|moving forward|henceforth|in (?:the )?future"
    r"|for (?:all )?(?:your |our )?future (?:projects|work|code)|as a (?:general )?rule|by convention)\b",
    re.IGNORECASE,
)
"""Words that say that something holds from now on."""
UNIVERSAL = re.compile(
    r"\b(?:always|never|consistently|whenever|every time|at all times|must|without exception|everywhere|importance of"
    r"|(?:don't|do not) ever|in (?:this|our) (?:project|repo|repository|codebase)|(?:in|for|to) any"
    r"|(?:across|throughout) (?:the|our) (?:project|repo|repository|codebase)"
    r"|when(?:ever)? (?:you(?:'re| are) )?\w+ing (?:your |our |the )?(?:\w+ )?\w+s"
    r"|(?:start|begin|end|prefix|suffix)\w* (?:the |their |its |all )?names?"
    r"|(?:function|method|class|variable|attribute|argument|parameter|constant|module|file|branch|test)"
    r" names"
    rf"|(?:don't|do not|avoid|no more)(?: \w+)? (?:any )?(?:\w+ )?{_PLURAL_ELEMENT}"
    rf"|we (?:use|write|name|put|keep|prefer|prefix)\b[^.;]* (?:for|in|with) (?:all |our )?{_PLURAL_ELEMENT}"
    rf"|(?:keep|prefer|limit|name|prefix|suffix|start|end) (?:all )?(?:\w+ )?{_PLURAL_ELEMENT}"
    rf"|(?:^|(?<=[,:] ))(?:\w+ )?{_PLURAL_ELEMENT} (?:must|shall|should (?:be|have|not|use|start|end|follow))"
    rf"|(?:all|every|each)(?: of)?(?: your| our| the)? (?!{_COUNT})(?:new )?\w+)\b",
    re.IGNORECASE,
)
"""Words that say that something holds for everything of its kind."""
CONVENTION = re.compile(
    r"\b(?:conventions?|(?:coding |style |our )?(?:standards?|guidelines?)|coding (?:style|practices?|instructions?)"
    r"|(?:best |these |specific |following )?practices?|style ?guide|house rules?|(?:naming|coding|project) rules?"
    r"|instructions|habits?|prefix(?:es)?|suffix(?:es)?)\b",
    re.IGNORECASE,
)
"""Words that say that rules are talked about."""
VAGUE = re.compile(
    r"\b(?:conventions?|standards?|guidelines?|practices?|rules?|instructions|habits?|consistency|style)$"
    r"|\b(?:specific|new|certain|particular|following|these|some|important|couple|few|our|your)\b.*"
    r"\b(?:conventions?|standards?|guidelines?|practices?|instructions?|aspects?|things?)\b"
    r"|^(?:update|remind|tell|inform|give|show) (?:you|us|them)\b",
    re.IGNORECASE,
)
"""An instruction to follow rules that it does not name, or the announcement of one."""
CHANGE = re.compile(
    r"\b(?:no longer|any ?more|instead(?: of)?|rather than|supersed\w*|amend\w*|replac\w*|overrul\w*|revok\w*"
    r"|from (?:now|here|today) on|going forward|(?:updat|chang|revis|switch|revers)\w*|chang\w+ (?:our|my) minds?"
    r"|previous(?:ly)?|earlier|old|new (?:rule|convention|standard|policy))\b",
    re.IGNORECASE,
)
"""Words that say that something else held before."""
GENERAL = re.compile(
    rf"\b(?:always|never|must|cannot|should not|shouldn't|may not|(?:every|each|all)\b(?! {_COUNT})|don't|do not"
    r"|avoid|not allowed|forbidden|from now on|going forward)\b",
    re.IGNORECASE,
)
"""Words by which a convention or a constraint is meant in general."""
ONCE = re.compile(
    r"\b(?:for now|this time|just once|for the moment|temporarily|yet|for this|today only|until (?:then|we|the)"
    r"|in this (?:pr|commit|branch|case|session|file|function|module|class)|never ?mind|if you (?:want|like|prefer)"
    r"|would be nice|feel free|don't hesitate|do not hesitate|reach out|let me know|i previously"
    r"|i(?:'d| had)? asked you"
    r"|i(?:'ll| will)|we used to|you (?:said|asked|told)|^you (?:never|always)"
    r"|doesn't|isn't|wasn't|didn't|did we|are we|i (?:always|never)"
    r"|it(?:'s| is| was)? (?:always|never))\b",
    re.IGNORECASE,
)
"""Words of what is asked for once, of courtesy, and of what was the case."""
REPORT = re.compile(
    r"\b(?:passes|passed|(?:tests?|checks?|builds?|suites?|gates?) (?:\w+ )?pass|completed?|done|succeed(?:s|ed)|fixed"
    r"|verified|implemented|finished|green(?=\W*$| and\b| now\b| in\b))\b",
    re.IGNORECASE,
)
"""Words of what is the case, or was."""
OBLIGATION = re.compile(
    r"\b(?:must|should|shall|always(?!-)|never(?!-)|before|until|unless|make sure|ensure|ha(?:ve|s) to|needs?|ought to"
    r"|don't|do not|avoid|may not|whenever|please|from now on|going forward)\b",
    re.IGNORECASE,
)
"""Words by which a sentence demands something."""
_NOUNS = (
    "branch build change check comment commit document export fix format group import limit link list log merge mock"
    " name release review tag test type update"
)
NOUNS = frozenset(_NOUNS.split())
"""Verbs of instructions that are also nouns."""
DESCRIBED = re.compile(
    rf"(?:{'|'.join(_NOUNS.split())})\s+"
    r"(?!(?:all|every|each|any|the|an?|your|our|my|this|these|those|only|no|new|in|with|on|for|to|from|as|at|by|before"
    r"|after|when|if|it|them|both)\b)[\w-]+(?:\s+(?!(?:that|which|who|if|when|where|and|so)\b)[\w-]+){0,3}?\s+"
    r"(?:is|are|was|were|has|have|had|pass(?:es|ed)?|fail(?:s|ed)?|completed?|done|green|succeed(?:s|ed)|verified|fixed"
    r"|implemented|finished|lives?|runs?|contains?)\b"
    rf"|(?:{'|'.join(_NOUNS.split())})(?:\s+\w+)?\s+(?:completed?|done|green|passed|finished|succeeded|verified|fixed)\s*"
    r"(?:[:,;.]|$)",
    re.IGNORECASE,
)
"""A sentence that begins with such a noun: "build artifacts are …", "test suite green"."""
NOUN_LABEL = re.compile(rf"(?:{'|'.join(_NOUNS.split())})(?:\s+\w+){{1,2}}:\s", re.IGNORECASE)
"""A label that begins with such a noun: "commit quality: …"."""
_WHO = r"(?:we|you|i|nobody|no one|everyone|everybody|(?:ai )?agents?|claude|developers?|contributors?|the team)"
_USERS = r"(?:users?|customers?|players?|guests?|clients?|owners?|admins?|visitors?|members?|buyers?|sellers?)"
_DUTY = r"(?:should|must|shall|may) (?:never|always|not)\b"
_WORK = (
    r"(?:tasks?|issues?|tickets?|prs?|pull requests?|commit\w*|push\w*|merg\w*|branch\w*|main|deploy\w*|releas\w*|ci"
    r"|tests?|code|secrets?|credentials?|passwords?|tokens?|migrations?|dependenc\w+|changelog|generated)"
)
POLICY = re.compile(
    rf"{_WHO} {_DUTY}"
    rf"|(?=.*\b{_WORK}\b)(?!(?:the|this|that|its?|their|his|her)\b|(?:\w+ )?{_USERS}\b)(?:[\w'’/-]+ ){{1,5}}{_DUTY}",
    re.IGNORECASE,
)
"""What whoever works on a project should never or always do; of one part of a program, or of its users, it is none."""
AGAIN = re.compile(
    r"\b(?:every time|remember to|don't forget to|must\b.* (?:every|each)"
    r"|(?:before|after|on|for|with|to|in) (?:(?:all|every|each)(?: of)? )?(?:your|our))\b",
    re.IGNORECASE,
)
"""Words that say that what is mostly asked for once is to be done again and again."""
SPECIFIC = re.compile(
    r"^[A-Z]{2,}-\d+:|^(?:TASK|STEP|STORY)[- ]?\d+\b|"
    r"`[^`\n]*(?:[(.]|__)[^`\n]*`|(?<![\w*./-])[A-Za-z][\w/-]*\.(?:py|[jt]sx?|go|rs|java|rb|md|toml|json|ya?ml)\b"
)
"""Names of single parts of a program, and of single tasks."""
ALWAYS = re.compile(_ALWAYS, re.IGNORECASE)
"""An instruction that holds always, or never; what something else always does is none."""
ALWAYS_FIRST = re.compile(rf"(?:(?:we|please)\s+)?(?:always|never|only)\s+{_VERBS}\b", re.IGNORECASE)
HABIT = re.compile(
    r"\b(?:(?:start|begin|stop) (?!(?:fix|work|look|implement|refactor|runn))\w+ing"
    r" (?!(?:the|this|that|with|on|it|a|an)\b(?! [\"'`@]))"
    r"|get (?:accustomed|used) to\b|(?:in(?:to)?|make it) (?:the|a) habit\b|even (?:if|when) you\b)",
    re.IGNORECASE,
)
"""What somebody should do, or no longer do, again and again."""

CONNECTIVE = re.compile(
    r"^(?:(?:(?:ok(?:ay)?|great|good|yes|no|well|right|perfect|excellent|exactly|absolutely)\b\s*[,.:;!–—-]+\s+"
    r"|(?:and|also|but|so|then|now|first(?:ly)?|second(?:ly)?|third(?:ly)?|lastly"
    r"|finally|next|additionally|moreover|furthermore|likewise|similarly|in addition|remember|note|again"
    r"|(?:starting )?(?:from (?:now|here|this point|today) on(?:wards?)?|going forward|moving forward|henceforth"
    r"|in (?:the )?future|as a (?:general )?rule))\b\s*[,.:;!–—-]*\s+))+",
    re.IGNORECASE,
)
"""What may precede an instruction."""
WISH = re.compile(
    r"(?:\b(?:please|kindly)\s+(?!let|feel)"
    r"|\b(?:we|i)(?:'d| would| also| now| really|'ve decided to)*\s+(?:want|need|like|love|prefer|expect|ask|require"
    r"|encourage|advise|urge)\s+(?:(?:for )?(?:you|everyone|us|all of you|the team)\s+)?(?:to\s+)?(?:also )?"
    r"|\b(?:you|everyone|everybody|we)\s+(?:should|must|need to|have to|ought to)\s+(?:also )?"
    r"|\blet(?:'s| us)\s+(?!say|see)|\bwe(?:'re| are)\s+(?:now\s+)?going to\s+|\bwe(?:'ll| will)\s+(?:now\s+)?"
    r"|\b(?:make|be) sure\s+(?:that\s+|to\s+)?(?:you\s+|we\s+)?|\bensure\s+(?:that\s+)?(?:you\s+|we\s+)?"
    r"|\b(?:remember|don't forget|do not forget|keep in mind|bear in mind)\s*,?\s+(?:to\s+|that\s+)"
    r"|\b(?:focus|concentrate) on\s+|\bpay attention to\s+|\bget (?:in(?:to)? the habit of|accustomed to|used to)\s+"
    r"|\bthis (?:includes|means|involves)\s+(?=\w+(?:ly)? ?\w*ing\b)"
    r"|\b(?:emphasize|stress|highlight|reiterate|mention)\s+(?:that\s+|again\s+)?(?:the (?:importance|use|need) of\s+)?"
    r"|\b(?:it(?:'s| is)) (?:important|crucial|essential|vital|necessary)\s+(?:that\s+|to\s+)(?:you\s+|we\s+)?"
    r"|\b(?:thing|rule|convention|practice|guideline|standard|update|habit|change)s?\b[^,.;']{0,60}?\bis "
    r"(?:that\s+|to\s+)?(?=\w)"
    r"|\bwe (?=(?:always|never|only|now|consistently|prefix|suffix|start|end|begin|use|write|name|put|keep|prefer)\b)"
    rf"|(?={_ALWAYS}))"
    r"(?:start\s+(?=\w+ing\b))?",
    re.IGNORECASE,
)
"""What precedes an instruction that is worded as a wish, a duty or a habit."""
FOR_ALL_FIRST = re.compile(r"(?:all|every|each|your|our)\b", re.IGNORECASE)
FOR_ALL = re.compile(r"[^.;:]*\b(?:your|our|all|every|each) ", re.IGNORECASE)
TOPIC = re.compile(
    r"(?:^|(?<=[,;:—–] )|(?<=\band )|(?<=\bso )|(?<=\bnow )|(?<=\balso ))(?:when(?:ever)?|while|for|regarding"
    r"|concerning|as for)\s+(?P<topic>[^,.;:\"]{3,70})[,:]",
    re.IGNORECASE,
)
"""What a sentence says that it is about, as in "for method names, …"."""
VERB_FORM = re.compile(
    rf"{_ADVERBS}{_VERBS}\b|(?:always |consistently )?[a-z]{{2,}}ing\b|(?:always|never|only|no)\s+\w+", re.IGNORECASE
)
"""How a part of an instruction may begin."""
IMPERATIVE = re.compile(
    rf"{_ADVERBS}{_VERBS}\b(?!\s+(?:is|are|was|were|will|on)\b)|(?:always|never)\s+\w+|no\s+\w+(?:\s+\w+)?s\b",
    re.IGNORECASE,
)
"""How an instruction begins."""
ALL_MUST = re.compile(
    r"(?:(?:all|every|each|your|our)\b[^,.;]{1,60}?|(?:\w+ )?"
    + _PLURAL_ELEMENT
    + r")\s+(?:must|should|shall|needs?|has to|have to|are to|may|start|starts|end|ends|begin|begins|include|includes"
    r"|have|has|use|uses|follow|follows)\b",
    re.IGNORECASE,
)
"""How an instruction about all things of a kind begins."""

REASON = re.compile(
    r"\s*(?:,?\s+(?:as (?:it|this|they|we|that)|because|since (?:it|this|we)|so (?:that|we|it)|which"
    r"|this (?:will|is|way|helps)"
    r"|to (?:help|ensure|make sure|improve|maintain|keep|indicate|handle|enforce|provide|verify"
    r"|enhance|facilitate|avoid)"
    r"|in order to|especially|whenever possible|as we discussed|if possible"
    r"|for (?:better|consistency|clarity|readability))\b"
    r"|\s+[–—-]\s|;|:\s).*$",
    re.IGNORECASE | re.DOTALL,
)
"""What follows an instruction to explain it."""
TRAILING = re.compile(
    r"[\s,]*(?:\b(?:from (?:now|here|today) on(?:wards?)?|going forward|moving forward|please|as well|too|by the way"
    r"|okay|ok|got it|starting (?:now|today)|in (?:the )?future|for (?:all )?future (?:projects|work)|now)\b"
    r"[\s,.!?]*)+$",
    re.IGNORECASE,
)
"""What follows an instruction and adds nothing."""
AND_END = re.compile(r"[\s,]+(?:and|so|but|that|to)$", re.IGNORECASE)
AND = re.compile(r",?\s+(?:and|while|but)\s+(?:also\s+|then\s+|to\s+)?", re.IGNORECASE)
PIECE = re.compile(r"[,:;–—]\s+")
NEGATIVE = re.compile(
    r"\b(?:never|no|not|don't|avoid|stop|without|cannot|can't|mustn't|shouldn't|no longer|refrain|drop|omit)\b",
    re.IGNORECASE,
)
CONDITION = re.compile(r",?\s+(?:even (?:if|when|though)|if|unless|as in|like)\b.*$", re.IGNORECASE)
PRONOUN = re.compile(
    r"\b(?:them|it|they|these|those|this|that|the name|the names|its name|their names)\b", re.IGNORECASE
)
AFFIX = re.compile(r"\b(?:start|begin|prefix|prepend|end|suffix|append|finish|conclude)\w*\b", re.IGNORECASE)
"""Words about what names start or end with."""
BEFORE_NAMES = re.compile(r"\s+names?\b", re.IGNORECASE)
VALUE = re.compile(
    r"(?<![\w'’])[\"'“‘`](?P<quoted>[^\s\"'“”‘’`][^\"'“”‘’`\n]{0,39}?)[,.]?[\"'”’`](?!\w)"
    r"|(?P<plain>@\w[\w.]*|\b\w*_\w*\b|\b[A-Z]\w*[a-z][A-Z]\w*\b|\b(?:UPPER|lower)\w*\b|(?<!\S)--?\w[\w-]+|\b\d+(?:\.\d+)?\b)",
    re.ASCII,
)
"""Names, figures and quoted words."""
REPLACED = re.compile(
    r"(?:,\s*)?\b(?:instead of|rather than|no longer(?: using| use)?|(?<=, )(?:not|never)(?: using| use)?)\s+(?:the )?"
    r"[\"'`]?(?P<value>[\w@][\w.@/+#-]*\w|\w)[\"'`]?",
    re.IGNORECASE,
)
"""What a rule says that something else takes the place of."""
USED = re.compile(
    r"\b(?:use|using|prefer|with)\s+(?:the )?(?P<value>[\w@][\w.@/+#-]*(?: \w+)??)"
    r"(?=\s+(?:for|in|as|to|when|instead|rather|everywhere|and|or|now|only)\b|[,.;]|$)",
    re.IGNORECASE,
)
"""What a rule wants to be used."""
WORD = re.compile(r"[a-z][a-z'-]*[a-z]|[^\W\d_a-zA-Z]{2,}", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?])[\"'”’)]?\s+(?=[\"'“‘`(\[A-Z0-9@])|\n+")
NOT_SUBJECT = frozenset(
    "a about add adding adopt all always also an and any are as at be begin by code consistently do each every for from"
    " go going have i if in include includes including into is it its like make my name named names naming need never"
    " new no not now of on only or our please should start such sure that the their them these they this those to use"
    " used using want we when whenever while will with within you your even don't ensure must put write"
    " writing keep".split()
)
"""Words that do not tell what a rule is about."""
