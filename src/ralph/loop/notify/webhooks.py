"""Messages of webhooks: the JSON that each service expects. Pure.

What is sent is text: characters by which a service would notify others or make a link are taken out of action.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.core.text import truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
    from urllib.parse import SplitResult

    from ralph.core.settings import NotifyConfig

MAX_CHARACTERS = {"slack": 10_000, "discord": 1_900, "ntfy": 1_300, "telegram": 4_000, "json": 50_000}
"""Maximum length of a message by format, in characters; ntfy counts up to three bytes each."""
_HOSTS = {
    "hooks.slack.com": "slack",
    "discord.com": "discord",
    "discordapp.com": "discord",
    "ntfy.sh": "ntfy",
    "api.telegram.org": "telegram",
}
"""Formats by host; a host below one of these has the same."""


@record
class WebhookRequest:
    """A POST request with a JSON body."""

    host: str
    port: int | None
    is_encrypted: bool
    path: str
    """Path and query, which often hold a secret."""
    payload: dict[str, Any]
    token: str = ""


def webhook_request(config: NotifyConfig, title: str, body: str) -> WebhookRequest:
    """Return the request that sends a message; raise `ValueError` if the URL lacks something."""
    from urllib.parse import urlsplit

    parts = urlsplit(config.webhook)
    format = config.format or _format_of(parts.hostname or "")
    path, payload = _message(format, parts, title, truncate(body, MAX_CHARACTERS[format]))
    return WebhookRequest(
        host=parts.hostname or "",
        port=parts.port,
        is_encrypted=parts.scheme == "https",
        path=path,
        payload=payload,
        token=config.token,
    )


def _format_of(host: str) -> str:
    found = (format for known, format in _HOSTS.items() if host == known or host.endswith(f".{known}"))
    return next(found, "ntfy" if host.startswith("ntfy.") else "json")


def _message(format: str, parts: SplitResult, title: str, body: str) -> tuple[str, dict[str, Any]]:
    """Return the path and query of the request, and its JSON."""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    match format:
        case "slack":
            return target, {"text": f"*{escape_markup(title)}*\n{escape_markup(body)}"}
        case "discord":
            text = truncate(_without_named_links(f"**{title}**\n{body}"), MAX_CHARACTERS[format])
            return target, {"content": text, "allowed_mentions": {"parse": []}}
        case "ntfy":
            folder, _, topic = parts.path.rpartition("/")
            if not topic:
                raise ValueError("the URL of ntfy must end with a topic")
            return f"{folder}/", {"topic": topic, "title": title, "message": body or title}
        case "telegram":
            return parts.path, {"chat_id": _chat(parts.query), "text": f"{title}\n\n{body}".strip()}
    return target, {"title": title, "text": body}


def escape_markup(text: str) -> str:
    """Return a text for Slack or a desktop, which take `<` for the beginning of a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _without_named_links(text: str) -> str:
    """Return a text in which Markdown makes no link that looks like another one."""
    return text.replace("](", "] (")


def _chat(query: str) -> int | str:
    from urllib.parse import parse_qs

    found = parse_qs(query).get("chat_id", [""])[0]
    if not found:
        raise ValueError("the URL of Telegram must end with ?chat_id=NUMBER")
    return int(found) if found.removeprefix("-").isdecimal() else found
