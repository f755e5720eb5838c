"""Every door of the HTTP server and of MCP, tried by those who must not come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.project import Project
from tests.faults.api import doors, routes, untried
from tests.make import set_up_project
from tests.web.asking import Served
from tests.web.test_auth import DOORS, Door, head, raw

pytestmark = pytest.mark.sqlite


def test_no_route_of_the_app_is_forgotten(project: Project) -> None:
    assert len(routes(project.root)) > 50
    assert untried(project.root) == set()


def test_who_must_not_come_in_is_refused(tmp_path: Path) -> None:
    shown = doors(tmp_path, 12, 1)

    assert shown.lost == 0
    assert shown.tried > 12 * 70


def test_there_is_a_door_for_each_call_page_and_file() -> None:
    assert len(DOORS) > 80


def test_a_body_whose_length_is_said_in_two_ways_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    set_up_project(tmp_path)
    with Project.open(tmp_path) as project:
        served = Served(tmp_path, project)
        try:
            door = Door(method="GET", path="/api/tasks")
            both = head(served, door, "Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n"
            junk = head(served, door, "Transfer-Encoding: chunked") + b"ZZ\r\n{}\r\n0\r\n\r\n"

            assert raw(served, both)[0] == 400
            assert raw(served, junk)[0] in (200, 400)
        finally:
            served.close()
    assert "Traceback" not in capfd.readouterr().err
