"""What agents say when they cannot use their model: what is wrong, and when it is over."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ralph.agents.service_errors import ServiceProblem, read_service_error

HERE = ZoneInfo("Europe/Berlin")


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=HERE)


NOW, MORNING = at(17, 8), at(17, 9, 31)

RESETS = [
    ("You've hit your 5-hour limit · resets 9:31am (Europe/Berlin)", MORNING),
    ("You've hit your session limit · resets 8:31am (Europe/London)", MORNING),
    ("Session limit reached ∙ resets 9:31am", MORNING),
    (
        "You've hit your weekly limit · resets Nov 20, 7:31am (Europe/Berlin)",
        at(20, 7, 31),
    ),
    ("You've hit your limit · resets 5pm (Europe/Berlin)", at(17, 17)),
    (
        "Claude usage limit reached. Your limit will reset at 7pm (Europe/Berlin).",
        at(17, 19),
    ),
    ("You’ve hit your usage limit. Upgrade to Pro, or try again at 9:31 AM.", MORNING),
    ("You’ve hit your usage limit. … try again at Nov 20th, 2026 7:39 AM.", at(20, 7, 39)),
    ("You've hit your 5-hour limit · resets 3am (Europe/Berlin)", at(18, 3)),
    ("Your quota will reset after 1h31m0s.", MORNING),
    ("429 Too Many Requests, Retry-After: 5460", MORNING),
    ("Spending cap reached ∙ resets Jan 1, 7:00am", None),
]


@pytest.mark.parametrize(("words", "resets_at"), RESETS, ids=[words[:40] for words, _ in RESETS])
def test_the_reset_time_of_a_usage_limit_is_read(words: str, resets_at: datetime | None) -> None:
    found = read_service_error(words, NOW)

    assert found.resets_at == resets_at
    if resets_at:
        assert found.problem is ServiceProblem.USAGE_LIMIT


PROBLEMS = [
    ("claude could not use its model: Not logged in · Please run /login", ServiceProblem.LOGIN),
    ("goose could not use its model: Internal error: Missing provider", ServiceProblem.LOGIN),
    ("claude could not use its model: Invalid API key · Fix external API key", ServiceProblem.LOGIN),
    ("Failed to authenticate. API Error: 401 OAuth token has expired", ServiceProblem.LOGIN),
    ("codex could not use its model: unexpected status 401 Unauthorized: no key, url: …", ServiceProblem.LOGIN),
    ("Please set an Auth method in your settings.json or specify GEMINI_API_KEY", ServiceProblem.LOGIN),
    ("claude could not use its model: Credit balance is too low", ServiceProblem.CREDIT),
    ("To use Codex with your ChatGPT plan, upgrade to Plus", ServiceProblem.CREDIT),
    ("Quota exceeded. Check your plan and billing details.", ServiceProblem.CREDIT),
    ("There's an issue with the selected model (claude-nope-1). It may not exist", ServiceProblem.MODEL),
    ("The model `gpt-nope` does not exist or you do not have access to it.", ServiceProblem.MODEL),
    ("You have exhausted your daily quota on this model.", ServiceProblem.USAGE_LIMIT),
    ("You’ve hit your usage limit. Upgrade or try again later.", ServiceProblem.USAGE_LIMIT),
    ("API Error: Repeated 529 Overloaded errors", ServiceProblem.OUTAGE),
    ("API Error: Request rejected (429) · too many requests", ServiceProblem.OUTAGE),
    ("API Error: Connection refused (127.0.0.1)", ServiceProblem.OUTAGE),
    ("Selected model is at capacity. Please try a different model.", ServiceProblem.OUTAGE),
    ("", ServiceProblem.OUTAGE),
]


@pytest.mark.parametrize(("words", "problem"), PROBLEMS, ids=[words[:40] for words, _ in PROBLEMS])
def test_what_is_wrong_is_read_from_the_words(words: str, problem: ServiceProblem) -> None:
    assert read_service_error(words, NOW).problem is problem


@pytest.mark.parametrize(
    "words", ["resets 25:99pm", "resets Foo 99, 7am", "resets 5", "retry after 99999999999 s", "resets (x/../../etc)"]
)
def test_a_time_that_does_not_exist_is_not_waited_for(words: str) -> None:
    assert read_service_error(words, NOW).resets_at is None
