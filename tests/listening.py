"""What a process and those that it has started listen on, as Linux tells."""

import os
import socket
from pathlib import Path

LISTENING = "0A"


def addresses() -> set[str]:
    """The addresses on which this process or a descendant of it accepts connections."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING:
                found[f"socket:[{fields[9]}]"] = _spelt(fields[1].partition(":")[0])
    links = {link for process in family() for link in _open_files(process)}
    return {address for inode, address in found.items() if inode in links}


def family() -> list[int]:
    """This process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [os.getpid()]
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def parent_of(process: int) -> int | None:
    """The parent of a process; None if it is gone."""
    try:
        # The second field, the command, may hold spaces and parentheses: count from its end.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1])


def _open_files(process: int) -> set[str]:
    links = set()
    try:
        for entry in Path(f"/proc/{process}/fd").iterdir():
            links.add(str(entry.readlink()))
    except OSError:
        return links  # it has ended meanwhile
    return links


def _spelt(text: str) -> str:
    """An address of /proc/net/tcp or tcp6, whose words of four bytes are little-endian."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    kind = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(kind, b"".join(words)).removeprefix("::ffff:")
