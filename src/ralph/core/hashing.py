"""SHA-256 without OpenSSL, which takes milliseconds to load and is not faster for short texts."""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]  # before Python 3.12
    except ImportError:  # not in every implementation of Python
        from hashlib import sha256


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of a short text in hexadecimal digits."""
    return str(sha256(content).hexdigest())
