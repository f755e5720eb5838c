"""When an invoice is overdue."""

import unittest
from datetime import date
from unittest import mock

from billing.overdue import is_overdue


@mock.patch("billing.clock.today", lambda: date(2024, 3, 15))
class Overdue(unittest.TestCase):
    """On 15 March."""

    def test_due_yesterday(self) -> None:
        self.assertTrue(is_overdue(date(2024, 3, 14)))

    def test_due_today(self) -> None:
        self.assertFalse(is_overdue(date(2024, 3, 15)), "ask billing.clock for today")
