"""What an invoice line adds up to."""

import unittest
from decimal import Decimal

from billing.lines import line_total


class LineTotal(unittest.TestCase):
    """Price times quantity, in cents."""

    def test_a_price_in_cents(self) -> None:
        self.assertEqual(line_total("19.99", 3), Decimal("59.97"))

    def test_a_price_with_half_cents(self) -> None:
        self.assertEqual(line_total("2.675", 1), Decimal("2.68"), "money is rounded half up")

    def test_an_even_cent_and_a_half(self) -> None:
        self.assertEqual(line_total("0.125", 1), Decimal("0.13"), "money is rounded half up")
