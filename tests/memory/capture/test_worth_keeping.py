from __future__ import annotations

import pytest

from ralph.memory.capture.cues import CUES
from ralph.memory.capture.handover import extract_at_completion, extract_at_handover
from ralph.memory.capture.worth_keeping import PLACE_TYPES, assess

AT = "2026-03-01T00:00:00.000Z"

KEPT = [
    ("explorer", "Imports must use the workspace name, never relative paths, otherwise tsc -b fails."),
    ("planner", "We will use a mutex instead of a channel because only one counter is shared."),
    ("critic", "Never call os.Exit in library code."),
    ("explorer", "The `orders` table is partitioned by month, so queries without a date scan everything."),
    ("planner", "Uploads are limited to 20 MB by the proxy."),
    ("completion", "Run migrations before the integration tests, otherwise the `events` table is missing."),
    ("completion", "The import error was fixed by adding `src` to PYTHONPATH instead of patching sys.path."),
    ("final", "The API rejects more than 10 requests per second per key, so the importer must throttle itself."),
    ("person", "Never commit generated files, the CI job builds them."),
    ("person", "please never push tags by hand, the release job looks for them in `ci/tags.txt`"),
    ("completion", "The thumbnailer requires `libvips` 8.12 or later on the build machine."),
    ("completion", "`cargo nextest` needs `--test-threads 1` here, the suites share one port."),
    ("critic", "Do not print headers in `proxy/`: they carry session cookies."),
    ("person", "Use zod for validation instead of hand-written checks, because we already ship it."),
]
NOISE = [
    ("explorer", "I looked at the routes, the models and the tests."),
    ("explorer", "The code is well structured and easy to follow."),
    ("explorer", "The project uses Kotlin and has a changelog."),
    ("planner", "Acceptance criteria: the page lists all orders."),
    ("planner", "Step 3: wire the new option through to the runner."),
    ("planner", "The creator must run all tests before finishing."),
    ("critic", "Please add a test for the error path."),
    ("critic", "LGTM apart from the comments above."),
    ("completion", "All 87 tests pass and the linter is clean."),
    ("completion", "Implemented the endpoint and added three tests."),
    ("completion", "failure: cmd=cargo fmt, exit=1, error='rustfmt diff', next=run cargo fmt"),
    ("final", "Let me know if you want me to change anything."),
    ("final", "Done! The login page works now and all tests are green."),
    ("person", "Never mind, it works now."),
    ("person", "You must have missed the second file."),
    ("person", "I always forget how this works."),
    ("person", "Can you fix the failing test?"),
    ("person", "Please only change the first one for now."),
]


@pytest.mark.parametrize(("place", "sentence"), KEPT)
def test_rules_choices_causes_and_facts_are_kept(place: str, sentence: str) -> None:
    assert assess(sentence, place).is_kept


@pytest.mark.parametrize(("place", "sentence"), NOISE)
def test_reports_plans_and_courtesies_are_not(place: str, sentence: str) -> None:
    assert not assess(sentence, place).is_kept


@pytest.mark.parametrize(
    ("place", "sentence", "kind"),
    [
        ("planner", KEPT[1][1], "decision"),
        ("planner", KEPT[4][1], "constraint"),
        ("critic", KEPT[2][1], "pitfall"),
        ("completion", KEPT[5][1], "pattern"),
        ("completion", KEPT[6][1], "fix"),
        ("explorer", "Handlers live in `internal/api/` and go through `Manager`.", "architecture"),
        ("explorer", "The build requires Node 20 and pnpm 9.", "dependency"),
        ("explorer", "`src/loader.rs` reads all files into one buffer.", "architecture"),
        ("completion", "Test files are named after the module with the suffix `_test.py`.", "convention"),
        ("person", KEPT[8][1], "constraint"),
    ],
)
def test_the_type_follows_from_the_cues_and_the_place(place: str, sentence: str, kind: str) -> None:
    assert assess(sentence, place).kind == kind


def test_an_assessment_names_what_it_is_based_on() -> None:
    found = assess("Never call os.Exit in library code.", "critic")

    assert {"absolute", "name"} <= set(found.cues)
    assert set(found.cues) <= {cue.name for cue in CUES}


def test_where_it_was_said_counts() -> None:
    sentence = "`cargo test` hangs when the database is on a network drive."

    assert assess(sentence, "critic").score > assess(sentence, "completion").score > assess(sentence, "person").score


def test_every_place_has_its_types() -> None:
    assert set(PLACE_TYPES) == {"explorer", "planner", "critic", "completion", "final", "person"}


def test_what_was_lost_at_handovers_is_kept() -> None:
    explorer = f"I read the tsconfig files.\n\n- {KEPT[0][1]}\n- The repository uses TypeScript."
    planner = f"Plan for the counter:\n\n{KEPT[1][1]} I will write the test first."
    critic = f"Thanks, nearly there.\n\n1. {KEPT[2][1]}\n2. Please rename `tmp`."

    found = [
        *extract_at_handover("explorer", "planner", explorer, AT),
        *extract_at_handover("planner", "creator", planner, AT),
        *extract_at_handover("critic", "creator", critic, AT),
        *extract_at_completion(f"Added the step. {KEPT[5][1]} All tests pass.", [], AT),
    ]

    assert [memory.content for memory in found] == [KEPT[0][1], KEPT[1][1], KEPT[2][1], KEPT[5][1]]
    assert [memory.confidence for memory in found] == [0.5, 0.5, 0.6, 0.5]
