"""What is paid with VAT."""

import unittest
from decimal import Decimal

from billing.vat import with_vat


class WithVat(unittest.TestCase):
    """The amount and its tax."""

    def test_a_round_amount(self) -> None:
        self.assertEqual(with_vat("100.00", "0.19"), Decimal("119.00"))

    def test_half_a_cent_of_tax(self) -> None:
        self.assertEqual(with_vat("10.50", "0.19"), Decimal("12.50"), "money is rounded half up")

    def test_half_a_cent_on_an_even_one(self) -> None:
        self.assertEqual(with_vat("7.50", "0.19"), Decimal("8.93"), "money is rounded half up")
