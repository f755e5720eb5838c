"""Amounts of money."""

from decimal import ROUND_HALF_UP, Decimal


def cents(amount: Decimal) -> Decimal:
    """Round an amount to cents the way our accountants do."""
    return amount.quantize(Decimal("0.01"), ROUND_HALF_UP)
