"""Recall quality, side by side with others: what each finds for the same queries over the same memories."""
