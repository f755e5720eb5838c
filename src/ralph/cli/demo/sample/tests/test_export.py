"""What other programs read."""

import csv
import unittest

from billing.export import to_csv


class ToCsv(unittest.TestCase):
    """One line for each invoice."""

    def test_plain_names(self) -> None:
        self.assertEqual(to_csv([("R-1", "Ada Ltd", "12.50")]), "R-1,Ada Ltd,12.50\n")

    def test_a_name_with_a_comma(self) -> None:
        (row,) = csv.reader(to_csv([("R-2", "Ada, Byron & Co", "0.13")]).splitlines())
        self.assertEqual(len(row), 3, "a comma in a name splits it")
