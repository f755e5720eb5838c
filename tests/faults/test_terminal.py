"""What drives a terminal, or hides in a text, is gone before it is stored, printed or put into a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.agents.supervisor.output import OutputBuffer, TextForwarder
from ralph.cli.output import printable
from ralph.cli.progress import printable_line
from ralph.core.text import clean, neutralize, sanitize
from tests.faults.terminal import DANGEROUS, marked, payloads, raw_in, run

PAYLOADS = list(enumerate(payloads(), start=1))


@pytest.mark.slow
@pytest.mark.sqlite
def test_no_command_prints_what_would_drive_a_terminal(tmp_path: Path) -> None:
    shown = run(tmp_path, 20, 3)

    assert shown.lost == 0
    assert shown.tried > 30


@pytest.mark.storeless
def test_there_are_hundreds_of_payloads_and_each_would_be_seen_if_it_were_printed() -> None:
    assert len(PAYLOADS) > 400
    assert [payload for number, payload in PAYLOADS if not raw_in(marked(number, payload))] == []
    assert [payload for number, payload in PAYLOADS if not raw_in(f"{marked(number, payload)}\n", is_live=True)] == []


@pytest.mark.storeless
@pytest.mark.parametrize("cleaning", [clean, printable, printable_line, sanitize, neutralize])
def test_every_way_text_takes_leaves_nothing_of_them(cleaning: object) -> None:
    assert callable(cleaning)
    left = [payload for number, payload in PAYLOADS if DANGEROUS.search(cleaning(marked(number, payload)))]

    assert left == []


@pytest.mark.storeless
@pytest.mark.parametrize("step", [1, 3, 7, 65536])
def test_what_an_agent_prints_is_clean_however_it_is_cut_into_pieces(step: int) -> None:
    heard: list[str] = []
    broadcast, kept = TextForwarder(heard.append), OutputBuffer(64, 10**6)
    text = "\n".join(marked(number, payload) for number, payload in PAYLOADS).encode() + bytes(range(0x80, 0xA0))

    for at in range(0, len(text), step):
        broadcast.add(text[at : at + step])
        kept.add(text[at : at + step])
    broadcast.finish()

    assert not DANGEROUS.search("".join(heard))
    assert not DANGEROUS.search(kept.text())
    assert "A1A" in "".join(heard)
