"""Text that wants to run in a browser is text on every page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.pages import Structure, innocent, look, payloads

pytestmark = pytest.mark.sqlite


@pytest.mark.slow
def test_pages_with_payloads_are_made_of_what_innocent_pages_are_made_of(tmp_path: Path) -> None:
    usual = innocent(tmp_path / "usual")

    elements, bad, pages = look(tmp_path / "hostile", payloads(80, 1)[40:])

    assert bad == []
    assert elements - usual == set()
    assert pages > 40


def test_there_are_hundreds_of_payloads() -> None:
    assert len(set(payloads(1_000, 1))) == 1_000


@pytest.mark.parametrize(
    "page",
    [
        "<p onclick=x>",
        "<script>alert(1)</script>",
        "<a href='JavaScript:x'>",
        "<script src=//evil.example/x.js></script>",
        "<iframe srcdoc=x>",
        "<script type=application/json>{</script>",
    ],
)
def test_what_must_not_be_in_a_page_would_be_seen(page: str) -> None:
    assert Structure(page).bad != []
