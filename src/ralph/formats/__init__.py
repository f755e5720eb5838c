"""Readers and writers of file formats. Most are pure: text in, records out."""
