"""`ralph notify`."""

from __future__ import annotations

import sys

from ralph.cli.output import action_adder, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    action_adder(parser, test)("test", test, "Send a test notification everywhere that you are notified")


def test(args: argparse.Namespace) -> int:
    """Send a test notification; fail unless all targets took it."""
    from ralph.core.config import load_notify_config, personal_file
    from ralph.loop.notify.sending import send_test
    from ralph.workspace import actor_for_file

    config = load_notify_config()
    problems = send_test(config, actor_for_file(personal_file()))
    for problem in problems:
        print(printable(problem), file=sys.stderr)
    if not problems:
        print(f"Sent. Runs notify you of: {', '.join(config.on) or 'nothing'}.")
    return 1 if problems else 0
