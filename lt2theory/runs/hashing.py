"""The identity of a configuration: a canonical JSON text and a short hash of it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HASH_DIGITS = 12
"""48 bits: two of a thousand different configurations collide with a chance of 2e-9."""


def canonical_json(value: Any) -> str:
    """One text a value: sorted keys, no spaces, shortest floats.

    Args:
        value: Anything JSON can hold.

    Returns:
        The text; equal values give equal texts, whatever the order of their keys.

    Raises:
        ValueError: A number is not finite.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def config_hash(config: Mapping[str, Any]) -> str:
    """Short name of a configuration.

    Args:
        config: The configuration as plain JSON values.

    Returns:
        The first 12 hexadecimal digits of the SHA-256 of the canonical JSON.
    """
    digest = hashlib.sha256(canonical_json(dict(config)).encode())
    return digest.hexdigest()[:HASH_DIGITS]


def file_sha256(path: Path) -> str:
    """Hash a file.

    Args:
        path: The file.

    Returns:
        The 64 hexadecimal digits of its SHA-256.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
