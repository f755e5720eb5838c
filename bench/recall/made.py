"""Made-up sets, the same on every machine, for when there is no real data at hand.

They show that the measuring works, and how a ranker takes other words, other files and look-alikes. They prove nothing
about real use: whoever writes the questions also wrote the answers.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

STORES = 3
START = datetime(2024, 1, 1, tzinfo=UTC)

PARTS = (
    # folder, two files, what the fix calls it, what the one with the problem calls it, the name in the code
    ("billing", "invoice.py", "ledger.py", "invoice totals", "the amount a customer has to pay", "sum_lines"),
    ("auth", "session.py", "tokens.py", "session renewal", "staying signed in", "renewSession"),
    ("search", "index.py", "planner.py", "the inverted index", "looking for a document", "merge_postings"),
    ("upload", "chunks.py", "assembler.py", "multipart chunks", "sending a large attachment", "joinParts"),
    ("mail", "outbox.py", "templates.py", "the outgoing queue", "messages to subscribers", "flush_outbox"),
    ("cache", "eviction.py", "warmup.py", "the eviction policy", "pages that are served again", "evictOldest"),
    ("parser", "lexer.py", "grammar.py", "the token stream", "reading the settings", "next_token"),
    ("export", "sheets.py", "columns.py", "the spreadsheet writer", "the downloaded report", "writeRows"),
    ("jobs", "cron.py", "worker.py", "cron triggers", "what should happen every night", "due_at"),
    ("images", "scaler.py", "formats.py", "the thumbnail scaler", "preview pictures", "fitInside"),
    ("payments", "gateway.py", "refunds.py", "the card gateway client", "checking out", "capture_charge"),
    ("sync", "feed.py", "conflicts.py", "the change feed cursor", "two devices with the same notes", "advanceCursor"),
)
FAULTS = (
    # what the fix does, what one sees, the error
    (
        "check for an empty list before the first element is taken",
        "breaks down when there is nothing to show",
        "IndexError: list index out of range",
    ),
    (
        "compare aware datetimes in UTC",
        "is a day off in the far east",
        "TypeError: can't compare offset-naive and offset-aware datetimes",
    ),
    (
        "decode as UTF-8 whatever the platform says",
        "garbles names with accents",
        "UnicodeDecodeError: 'ascii' codec can't decode byte 0xc3 in position 4",
    ),
    (
        "release the lock in a finally block",
        "hangs for ever after one failure",
        "TimeoutError: lock not acquired after 30 s",
    ),
    (
        "retry with growing pauses when the peer resets the connection",
        "fails now and then when many are online",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ),
    (
        "use Decimal, not binary floats",
        "is wrong by a cent",
        "AssertionError: Decimal('10.00') != 9.999999999999998",
    ),
    (
        "walk the tree with a stack of our own, not by recursion",
        "dies on deeply nested input",
        "RecursionError: maximum recursion depth exceeded",
    ),
    (
        "close the cursor when its generator is given up",
        "needs more and more memory over the days",
        "ResourceWarning: unclosed cursor",
    ),
    (
        "escape the separator before splitting",
        "loses all that follows a semicolon",
        "ValueError: too many values to unpack (expected 2)",
    ),
    (
        "make the migration safe to run twice",
        "cannot be started a second time",
        "OperationalError: table already exists",
    ),
)
CHORES = (
    "Rename the folder of {part} and mend its imports",
    "{name} logs less: one line for each call",
    "The page about {plain} has new colours",
    "Type hints for {file}",
    "A faster test for {thing}",
)
ASIDES = (
    "It was fine last week.",
    "I cannot say what changed.",
    "Others here see the same.",
    "A restart helps for a while.",
    "Nothing of note in the logs.",
)


def sets() -> dict[str, list[list[Any]]]:
    """Return the events of every store, by set."""
    return {
        "made-fixes": [_fixes(random.Random(100 + n), n) for n in range(STORES)],
        "made-talk": [_talk(random.Random(200 + n), n) for n in range(STORES)],
    }


def _fixes(chance: random.Random, store: int) -> list[Any]:
    """Return a history of fixes and chores; a query describes a problem that was met before, as its finder would."""
    pairs = [(part, fault) for part in PARTS for fault in FAULTS]
    chance.shuffle(pairs)
    past = pairs[:80] + chance.choices(pairs[:80], k=25)
    chance.shuffle(past)
    events: list[Any] = []
    fixed: dict[tuple[Any, Any], list[str]] = {}
    asked: set[tuple[Any, Any]] = set()
    for day, (part, fault) in enumerate(past):
        folder, one_file, other_file, thing, plain, name = part
        at = _time(START + timedelta(days=day))
        id = f"made-fixes-{store}-{day}"
        change, seen, error = fault
        fix = {
            "id": id,
            "title": f"{thing}: {change}".capitalize(),
            "content": f"Fix in src/{folder}/{one_file}\nAt: {name}\n"
            f"Change: {change}. {chance.choice(('', error + '. '))}{chance.choice(ASIDES)}",
            "tags": [folder, chance.choice(change.split())],
            "file_refs": [f"src/{folder}/{one_file}"],
            "created_at": at,
        }
        chore_part = chance.choice(PARTS)
        words = {"part": chore_part[0], "file": chore_part[1], "thing": chore_part[3]}
        title = chance.choice(CHORES).format(**words, plain=chore_part[4], name=chore_part[5])
        chore = {
            "id": f"{id}-chore",
            "title": title,
            "content": f"{title}. {chance.choice(ASIDES)} Touches src/{chore_part[0]}/{chore_part[2]}.",
            "tags": [chore_part[0], "chore"],
            "file_refs": [f"src/{chore_part[0]}/{chore_part[2]}"],
            "created_at": at,
        }
        events.append(["add", [fix, chore]])
        fixed.setdefault((part, fault), []).append(id)
        known = [pair for pair in fixed if pair not in asked]
        if day > 20 and day % 2 == 0:
            pair = chance.choice(known)
            asked.add(pair)
            (folder, one_file, other_file, thing, plain, name), (change, seen, error) = pair
            query = {
                "title": f"{plain} {seen}".capitalize(),
                "description": f"{chance.choice(ASIDES)} {plain.capitalize()} {seen}. {chance.choice(ASIDES)}",
                "files": chance.choice(([], [f"src/{folder}/{other_file}"])),
                "errors": chance.choice(([], [error])),
                "now": at,
            }
            events.append(["query", query, list(fixed[pair])])
    return events


SPEAKERS = ("First speaker", "Second speaker")
TOPICS = (
    # what is said, what it is said of, what is asked: in about half of them with a word of what was said
    ("We took in {} from the animal shelter.", ("a grey cat", "an old hound", "two canaries"), "Which animal has {}?"),
    ("I planted {} behind the shed.", ("tomatoes", "sunflowers", "a pear tree"), "What does {} grow in the garden?"),
    ("I play {} every evening.", ("the cello", "the banjo", "the organ"), "What instrument does {} play?"),
    ("I booked the night train to {}.", ("Lisbon", "Trieste", "Narvik"), "Where is {} going to travel?"),
    ("I may no longer eat {}, the doctor says.", ("nuts", "cheese", "bread"), "What is {} not allowed to eat?"),
    ("I sold the car and bought {}.", ("a cargo bike", "a scooter", "a rowing boat"), "How does {} get around now?"),
    ("On Saturdays I volunteer at {}.", ("the library", "the harbour", "the kitchen"), "Where does {} volunteer?"),
    ("I finally finished {}.", ("my thesis", "the quilt", "the novel"), "What long work has {} completed?"),
    ("They offered me a job as {}.", ("a surveyor", "a baker", "a pilot"), "What job could {} take?"),
    ("I broke {} on the ice.", ("my wrist", "a rib", "my ankle"), "What injury did {} have?"),
    ("My brother's wedding will be in {}.", ("May", "August", "October"), "When is the wedding in the family of {}?"),
    ("I have started to learn {}.", ("Basque", "Welsh", "Finnish"), "What language does {} study?"),
    ("The roof over {} leaks.", ("the attic", "the stairs", "the bath"), "What must {} have repaired at home?"),
    ("I am nervous before every {}.", ("exam", "flight", "match"), "What makes {} nervous?"),
)
SMALL_TALK = (
    "That sounds lovely, tell me more.",
    "I had no idea. How did that come about?",
    "It rained here all day again.",
    "Sorry, the line is bad. Can you say that again?",
    "We should meet in the garden when you travel this way.",
    "My neighbour said the same about a train.",
    "I was going to ask you that.",
    "What a week. I could sleep for days.",
)


def _talk(chance: random.Random, store: int) -> list[Any]:
    """Return a conversation, then questions about what one of the two said."""
    said: list[tuple[str, str, str]] = []
    for topic, (sentence, things, _) in enumerate(TOPICS):
        for speaker, thing in zip(SPEAKERS, chance.sample(things, 2), strict=True):
            said.append((speaker, sentence.format(thing), f"{topic}-{speaker}"))
            if chance.random() < 0.4:
                said.append((speaker, f"Yes, {thing}: I think of little else.", f"{topic}-{speaker}"))
    said += [(chance.choice(SPEAKERS), chance.choice(SMALL_TALK), "") for _ in range(90)]
    chance.shuffle(said)
    turns: list[Any] = []
    answers: dict[str, list[str]] = {}
    for n, (speaker, sentence, about) in enumerate(said):
        id = f"made-talk-{store}-{n}"
        answers.setdefault(about, []).append(id)
        turns.append(
            {
                "id": id,
                "title": f"{speaker} said:",
                "content": sentence,
                "tags": [],
                "file_refs": [],
                "created_at": _time(START + timedelta(hours=n)),
            }
        )
    now = _time(START + timedelta(days=30))
    events: list[Any] = [["add", turns]]
    for topic, (_, _, question) in enumerate(TOPICS):
        for speaker in SPEAKERS:
            query = {"title": question.format(f"the {speaker.lower()}"), "now": now}
            events.append(["query", query, answers[f"{topic}-{speaker}"]])
    return events


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
