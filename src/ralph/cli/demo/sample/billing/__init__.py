"""Invoices: what they add up to, when they are due, and what is late."""
