"""What late payment costs."""

import unittest
from datetime import date
from decimal import Decimal
from unittest import mock

from billing.fees import late_fee


@mock.patch("billing.clock.today", lambda: date(2024, 3, 15))
class LateFee(unittest.TestCase):
    """On 15 March, one per cent for every full week."""

    def test_due_two_weeks_ago(self) -> None:
        self.assertEqual(
            late_fee("80.00", date(2024, 3, 1)), Decimal("1.60"), "ask billing.clock for today"
        )

    def test_half_a_cent(self) -> None:
        self.assertEqual(
            late_fee("104.50", date(2024, 3, 8)), Decimal("1.05"), "money is rounded half up"
        )

    def test_six_days_late(self) -> None:
        self.assertEqual(late_fee("80.00", date(2024, 3, 9)), Decimal("0.00"))
