"""`lt2 --version`: this release, the commit behind it, and what it runs on."""

import platform

from lt2theory import __version__


def version_line() -> str:
    """Version and build, in one line for a bug report.

    Returns:
        Such as `lt2 0.1.0 (commit 1a2b3c4d5e6f, Python 3.11.7, torch 2.11.0, Linux x86_64)`.
    """
    from lt2theory.runs.environment import capture

    environment = capture(threads=1)
    source = environment["source"]
    commit, _, changes = (source or "").partition("+")
    packages = [
        f"{name} {environment['packages'][name]}"
        for name in ("torch", "triton")
        if environment["packages"][name] is not None
    ]
    build = [
        f"commit {commit[:12]}{'+' if changes else ''}{changes}" if source else "commit unknown",
        f"Python {platform.python_version()}",
        *packages,
        f"{platform.system()} {platform.machine()}",
    ]
    return f"lt2 {__version__} ({', '.join(build)})"
