"""What is left of a recording's files, compared with what they came to be."""

import bisect
import io
import json
import struct
from pathlib import Path

import numpy

BTSNOOP_EPOCH_MICROSECONDS = 0x00DCDDB30F2F8000
EPOCH = 0
# Rows of the sensor's clock are written when it is known, a second later or four (Captures.md): of what else is there they can be made
# again.
DERIVED = "samples"


class Rows:
    """Units of a file with their times: where each ends, and the latest time up to there."""

    def __init__(self, ends, times):
        self.ends, self.times = ends, times

    def kept(self, byte_count):
        return bisect.bisect_right(self.ends, byte_count)

    def first_missing(self, kept):
        """The earliest time of what is missing."""
        return min(self.times[kept:], default=None)


def csv_rows(octets):
    ends, times, place = [], [], octets.index(b"\n") + 1
    while (end := octets.find(b"\n", place)) >= 0:
        ends.append(end + 1)
        times.append(int(octets[place : octets.index(b",", place)]))
        place = end + 1
    return Rows(ends, times)


def btsnoop_rows(octets):
    ends, times, place = [], [], 16
    while place + 24 <= len(octets):
        _, length, _, _, microseconds = struct.unpack_from(">IIIIQ", octets, place)
        place += 24 + length
        ends.append(place)
        times.append((microseconds - BTSNOOP_EPOCH_MICROSECONDS) * 1000)
    return Rows(ends, times)


def pcapng_rows(octets):
    ends, times, place = [], [], 0
    while place + 12 <= len(octets):
        kind, length = struct.unpack_from("<II", octets, place)
        if kind == 6:
            high, low = struct.unpack_from("<II", octets, place + 12)
            ends.append(place + length)
            times.append(high << 32 | low)  # if_tsresol is 9
        place += length
    return Rows(ends, times)


READERS = {".csv": csv_rows, ".btsnoop": btsnoop_rows, ".pcapng": pcapng_rows}


class Verdict:
    """What is left after one cut."""

    def __init__(self):
        # Texts: what no reader could make sense of, or what is wrong.
        self.faults = []
        # Files that end with bytes that the program did not write.
        self.zeros = []
        # By file or table: the earliest time of what is missing.
        self.missing = {}
        # For a fleet: the number of rows that receipts confirmed, and how many of them are missing.
        self.told = self.lost = None


class Reference:
    """The files of a recording at its end, as the kernel had them."""

    def __init__(self, folder):
        self.files, self.rows, self.tables = {}, {}, {}
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                self.files[str(path.relative_to(folder))] = path.read_bytes()
        for name, octets in self.files.items():
            suffix = Path(name).suffix
            if suffix in READERS:
                self.rows[name] = READERS[suffix](octets)
            elif suffix == ".npy":
                table = str(Path(name).parent)
                self.tables.setdefault(table, {})[name] = numpy.load(io.BytesIO(octets))

    def times(self, table):
        """The first column: other programs' time of a row."""
        first = "fitted_time_ns" if Path(table).name == DERIVED else "time_ns"
        return self.tables[table][f"{table}/{first}.npy"]

    def examine(self, folder, _now):
        verdict = Verdict()
        for name, octets in self.files.items():
            path = Path(folder) / name
            left = path.read_bytes() if path.is_file() else None
            if name in self.rows:
                self.examine_rows(name, octets, left, verdict)
            elif path.suffix == ".json" and left is not None:
                try:
                    json.loads(left)
                except ValueError:
                    verdict.faults.append(f"{path.name}: {describe(left)}, no JSON")
        for table, columns in self.tables.items():
            self.examine_table(table, columns, Path(folder), verdict)
        return verdict

    def examine_rows(self, name, octets, left, verdict):
        rows = self.rows[name]
        good = common_prefix(octets, left or b"")
        if left and good < len(left):
            if not left[good:].strip(b"\0"):
                verdict.zeros.append(Path(name).name)
            else:
                verdict.faults.append(f"{Path(name).name}: octets that were never there")
        kept = rows.kept(good)
        if kept < len(rows.times):
            verdict.missing[name] = rows.first_missing(kept)

    def examine_table(self, table, columns, folder, verdict):
        lengths = {}
        for name, whole in columns.items():
            path = folder / name
            lengths[name] = 0
            # A file that is not there yet holds nothing.
            if not path.is_file():
                continue
            try:
                array = numpy.load(path)
            except (ValueError, EOFError, OSError) as error:
                verdict.faults.append(f"npy: {kind_of(error, path)}")
                continue
            lengths[name] = len(array)
            if len(array) > len(whole) or array.tobytes() != whole[: len(array)].tobytes():
                verdict.faults.append("npy: wrong values")
                lengths[name] = int(numpy.argmin(numpy.equal(array.view("u1"), whole[: len(array)].view("u1"))))
        kept = min(lengths.values())
        times = self.times(table)
        if lengths[self.name_of_times(table)] > kept:
            verdict.faults.append("npy: time_ns has more rows than another column")
        if kept < len(times):
            verdict.missing[table] = int(times[kept:].min())

    def name_of_times(self, table):
        return f"{table}/{'fitted_time_ns' if Path(table).name == DERIVED else 'time_ns'}.npy"


def common_prefix(whole, left):
    if whole.startswith(left):
        return len(left)
    low, high = 0, min(len(whole), len(left))
    while low < high:
        middle = (low + high + 1) // 2
        if whole[:middle] == left[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def describe(octets):
    if not octets:
        return "empty"
    return "zeros" if not octets.strip(b"\0") else "torn"


def kind_of(error, path):
    size = path.stat().st_size
    if size == 0:
        return "empty file"
    if size < 128 or not path.read_bytes()[:128].strip(b"\0"):
        return "no head"
    return "head claims more than there is"
