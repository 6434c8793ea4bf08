"""Network file systems are found in the mounts table and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import BusError
from streaminfer.bus.sqlite import filesystem

MOUNTS = r"""/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/vdb /home/local xfs rw 0 0
//nas/share /mnt/with\040space cifs rw 0 0
user@host: /mnt/ssh fuse.sshfs rw 0 0
/dev/vdc /twice ext4 rw 0 0
mds:/ /twice ceph rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/bus", "ext4"),
        ("/home/me/bus", "nfs4"),
        ("/home/local/bus", "xfs"),
        ("/homestead/bus", "ext4"),
        ("/mnt/with space/bus", "cifs"),
        ("/mnt/ssh", "fuse.sshfs"),
        ("/twice/bus", "ceph"),
    ],
)
def test_the_deepest_and_last_mount_counts(path: str, kind: str) -> None:
    assert filesystem.file_system(Path(path), MOUNTS) == kind


def test_an_unknown_place_is_not_taken_for_a_network() -> None:
    assert filesystem.file_system(Path("/a"), "") == "unknown"
    filesystem.refuse_network(Path("/a"), "")


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "ceph", "glusterfs", "lustre", "afs"]
)
def test_network_types_are_refused_with_what_to_do(kind: str) -> None:
    mounts = f"/dev/vda / ext4 rw 0 0\nthere /net {kind} rw 0 0\n"
    filesystem.refuse_network(Path("/local/bus"), mounts)
    with pytest.raises(BusError, match="local disk") as caught:
        filesystem.refuse_network(Path("/net/bus"), mounts)
    assert kind in str(caught.value)
    assert "/net/bus" in str(caught.value)


def test_a_bus_is_not_opened_on_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("server:/ / nfs rw 0 0\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    with pytest.raises(BusError, match="nfs"):
        EmbeddedBus(tmp_path / "bus")
    assert not (tmp_path / "bus").exists()
