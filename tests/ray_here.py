"""Ray for tests: on 127.0.0.1 only, silent to the outside, and with no file in the user's home."""

from types import ModuleType

import pytest

ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray reads the token once a process: all tests of a session must use the same.
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0" * 64,
}


def ray_here(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import Ray for a test; skip the test where it is not installed."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    pytest.importorskip("ray")
    import ray.cluster_utils

    return ray.cluster_utils
