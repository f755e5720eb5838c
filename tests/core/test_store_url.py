"""URLs of stores: read as the driver reads them, and shown without passwords."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from ralph.core.config import check_store_url
from ralph.core.errors import ConfigError
from ralph.core.store_url import get_password, strip_password
from ralph.trust import accept_review, review_trust

pytestmark = pytest.mark.storeless
CLEAR = [
    "postgresql://ralph:hunter2@db.example.com/ralph",
    "postgres://ralph:hunter2@[::1]:5433,db:5434/ralph?sslmode=require&service=a&passfile=/tmp/x",
    "postgresql://ralph:hunter2#?:@db/ralph",
    "postgresql://db?sslcert=/tmp/x&password=hunter2",
    "postgresql:///ralph?host=/tmp&password=hunter2&sslpassword=hunter2",
    "postgresql://a%40b:hunter2%40%2F@db",
    "postgresql://:hunter2@db/ralph",
    "postgresql://ralph:hunter2@",
    "postgresql://ralph:hunter2@db/ralph?host=other&hostaddr=127.0.0.1&port=1",
    "postgresql://ralph:hunter2@%65vil/ralph",
]
AMBIGUOUS = [
    "postgresql://ralph:@127.0.0.1:5999/hunter2@db.example.com/ralph",
    "postgresql://ralph:hunter2@hunter2@db/ralph",
    "postgresql://ralph:hunter2/hunter2@db/ralph",
    "postgresql://ralph@db/ralph?password=hunter2@hunter2",
    "postgresql://ralph@db/ralph?passwor%64=hunter2",
    "postgresql://ralph@db/ralph? password=hunter2",
    "postgresql://ralph@db/ralph?\tpassword=hunter2",
]


def read(url: str) -> dict[str, object]:
    """Return where the driver connects with a URL, without the passwords."""
    return {name: value for name, value in conninfo_to_dict(url).items() if "password" not in name}


@pytest.mark.parametrize("url", CLEAR)
def test_all_but_the_password_stays(url: str) -> None:
    check_store_url(url)

    assert read(strip_password(url)) == read(url)
    assert "hunter2" not in strip_password(url)
    assert "hunter2" in get_password(url)


@pytest.mark.parametrize("url", AMBIGUOUS)
def test_a_url_that_reads_in_several_ways_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_store_url(url)

    assert caught.value.code == "invalid-config"
    assert "hunter2" not in strip_password(url) + str(caught.value)
    assert get_password(url)


@pytest.mark.parametrize("key", ["url", "direct_url"])
@pytest.mark.parametrize(
    "changed",
    [
        "postgresql://ralph:@127.0.0.1:5999/y@db.example.com/ralph",
        "postgresql://ralph@db.example.com/ralph?host=127.0.0.1",
        "postgresql://ralph@db.example.com/ralph?%68ost=127.0.0.1",
        "postgresql://ralph@db.example.com/ralph?sslmode=disable",
        "postgresql://ralph@db.example.com,127.0.0.1/ralph",
        "postgresql://ralph@db.example.com:5999/ralph",
        "postgresql://ralph@127.0.0.1@db.example.com/ralph",
    ],
)
def test_no_change_of_where_a_store_is_stays_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, changed: str
) -> None:
    monkeypatch.delenv("RALPH_TRUST", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    urls = {"url": "postgresql://ralph@db.example.com/ralph", "direct_url": "postgresql://ralph@db.example.com/ralph"}
    write(tmp_path, urls)
    accept_review(review_trust(tmp_path))
    before = review_trust(tmp_path).is_trusted
    write(tmp_path, {**urls, key: changed})

    try:
        is_trusted = review_trust(tmp_path).is_trusted
    except ConfigError:
        is_trusted = False

    assert (before, is_trusted) == (True, False)


def write(directory: Path, urls: dict[str, str]) -> None:
    lines = [f'{name} = "{url}"' for name, url in urls.items()]
    (directory / ".ralph.toml").write_text("\n".join(["[store]", *lines, ""]))


def test_the_driver_reads_or_refuses_what_is_clear() -> None:
    with pytest.raises(ProgrammingError):
        conninfo_to_dict("postgresql://ralph@db/ralph?PASSWORD=hunter2")
    assert "hunter2" not in strip_password("postgresql://ralph@db/ralph?PASSWORD=hunter2")
