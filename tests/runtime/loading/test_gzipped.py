"""Files in gzip: expanded as they are read, with a bound, and told apart from damaged ones."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from streaminfer.runtime.loading import files
from streaminfer.runtime.loading.files import MAX_LINE, FileError, read_csv, read_ndjson
from streaminfer.runtime.loading.gzipped import lines_of
from streaminfer.runtime.loading.readers import Reader
from streaminfer.runtime.loading.sources import OPENERS
from streaminfer.spec import parse_spec
from streaminfer.wire.events.formats import format_of

ONE = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
LINES = b"".join(b'{"k":%d,"x":%d}\n' % (i, i * 7919 % 1009) for i in range(20_000))


def _read(path: Path) -> int:
    with lines_of(path) as lines:
        return sum(1 for _ in read_ndjson(ONE, lines, str(path)))


def test_bytes_are_those_of_the_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "f.ndjson.gz"
    path.write_bytes(gzip.compress(LINES))
    with lines_of(path) as lines:
        seen = [lines.n_read for _ in lines]
        assert lines.n_read == path.stat().st_size
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[10_000] < path.stat().st_size


def test_several_members_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "F.CSV.GZ"
    path.write_bytes(gzip.compress(b"k\n1\n2") + gzip.compress(b"3\n4\n"))
    with lines_of(path) as lines:
        assert [json.loads(row) for row in read_csv(ONE, lines, "f")] == [{"k": 1}, {"k": 23}, {"k": 4}]


@pytest.mark.parametrize("kept", [0, 5, 12, 0.3, 0.9, -9, -1])
def test_a_file_that_is_cut_off(tmp_path: Path, kept: float) -> None:
    path, packed = tmp_path / "f.ndjson.gz", gzip.compress(LINES)
    path.write_bytes(packed[: int(kept * len(packed)) if 0 < kept < 1 else int(kept)])
    with pytest.raises(FileError, match=r"f.ndjson.gz: the gzip file is cut off after line \d+; get the file again"):
        _read(path)


@pytest.mark.parametrize(("reader", "begin"), [(read_csv, b"k\n1\n"), (read_ndjson, b'{"k": 1}\n')])
@pytest.mark.parametrize("blank", [b"\n", b"\r\n"])
def test_a_small_file_of_blank_lines_does_not_fill_the_memory(
    tmp_path: Path, reader: Reader, begin: bytes, blank: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BLANK", 50_000)
    path = tmp_path / "f.gz"
    for many, fails in ((20_000, False), (200_000, True)):
        path.write_bytes(gzip.compress(begin + blank * many + begin.splitlines()[-1]))
        with lines_of(path) as lines:
            parts = OPENERS[reader](ONE, lines, "f", format_of(ONE), True).parts()
            if fails:
                with pytest.raises(FileError, match=r"f.gz: line \d+ ends more than 50000 bytes of blank lines"):
                    list(parts)
            else:
                assert sum(part.n for part in parts) == 2


def test_a_file_that_is_damaged_or_something_else(tmp_path: Path) -> None:
    path, packed = tmp_path / "f.ndjson.gz", bytearray(gzip.compress(LINES))
    packed[-6] ^= 1
    for data in (bytes(packed), LINES, gzip.compress(LINES) + b"more", packed[:2000] + bytes(50) + packed[2050:]):
        path.write_bytes(data)
        with pytest.raises(FileError, match=r"f.ndjson.gz: is damaged, or is not gzip, after line \d+ \("):
            _read(path)


def test_a_line_that_expands_without_end_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "f.ndjson.gz"
    with gzip.open(path, "wb", 1) as out:
        for _ in range(100):
            out.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=f"line 1 has more than the {MAX_LINE} bytes of a record"):
            _read(path)
        assert tracemalloc.get_traced_memory()[1] < 8 * MAX_LINE
    finally:
        tracemalloc.stop()
