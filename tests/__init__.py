"""Tests, and programs that try faults; all of them trust the settings and memory files that they write themselves."""

import os

os.environ["RALPH_TRUST"] = "1"  # tests of trust itself unset it
