"""Refuses file systems on which several processes cannot share an SQLite WAL file."""

from __future__ import annotations

import re
from pathlib import Path

from streaminfer.bus.protocol import BusError

MOUNTS = Path("/proc/self/mounts")

NETWORK_TYPES = frozenset(
    {
        "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone",
        "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "pvfs2",
        "smb2", "smb3", "smbfs",
    }
)  # fmt: skip


def _unescaped(field: str) -> str:
    """A field of the mounts table, in which space, tab, newline and backslash are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that holds an absolute path; of mounts on the same point, the last one."""
    best, found = -1, "unknown"
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(_unescaped(fields[1]))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), fields[2]
    return found


def refuse_network(path: Path, mounts: str) -> None:
    """Raises BusError if `path` is on a network file system: its locks and shared memory do not hold."""
    kind = file_system(path, mounts)
    if kind in NETWORK_TYPES:
        raise BusError(
            f"{path} is on a network file system ({kind}), on which SQLite's shared memory and locks lose data; "
            "give the embedded bus a directory on a local disk, or use a Kafka bus to share it between machines"
        )
