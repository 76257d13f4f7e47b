"""What reached a disk, in order, and what a power cut leaves of it."""

import bisect
import struct
from pathlib import Path

SECTOR = 512
HEAD = struct.Struct("<QQII")  # trace.c
WRITE, BARRIER, ZEROS = ord("W"), ord("F"), ord("Z")
KINDS = ("prefix", "torn", "cache")


class Trace:
    """The writes of a recording, on top of a disk as it was made."""

    def __init__(self, image, path):
        self.image = Path(image).read_bytes()
        self.data = memoryview(Path(path).read_bytes())
        self.entries, place = [], 0
        while place < len(self.data):
            time, offset, length, kind = HEAD.unpack_from(self.data, place)
            place += HEAD.size
            self.entries.append((kind, offset, length, time, place))
            if kind == WRITE:
                place += length
        self.writes = [number for number, entry in enumerate(self.entries) if entry[0] != BARRIER]
        self.barriers = [number for number, entry in enumerate(self.entries) if entry[0] == BARRIER]

    def __len__(self):
        return len(self.entries)

    def time(self, number):
        """When the entry was begun, in nanoseconds since the Unix epoch."""
        return self.entries[number][3]

    def first_write_after(self, time):
        return next(number for number in self.writes if self.entries[number][3] >= time)

    def rates(self, begin, end):
        """Octets written and flushes of the disk, each a second, between two times."""
        between = [entry for entry in self.entries if begin <= entry[3] < end]
        octets = sum(entry[2] for entry in between if entry[0] == WRITE)
        flushes = sum(entry[0] == BARRIER for entry in between)
        return round(octets / (end - begin) * 1e9), round(flushes / (end - begin) * 1e9, 1)

    def octets(self, number):
        kind, _, length, _, place = self.entries[number]
        return self.data[place : place + length] if kind == WRITE else bytes(length)

    def barrier_before(self, number):
        """How many entries the disk has for certain when that entry is begun: those up to the last barrier."""
        place = bisect.bisect_left(self.barriers, number)
        return self.barriers[place - 1] + 1 if place else 0


class Disk:
    """The image of a disk at a time that only advances."""

    def __init__(self, trace):
        self.trace, self.content, self.count = trace, bytearray(trace.image), 0

    def advance(self, count):
        """Takes the first `count` entries."""
        assert count >= self.count
        for number in range(self.count, count):
            put(self.content, self.trace, number)
        self.count = count

    def cut(self, number, kind, random):
        """What a power cut leaves while entry `number`, a write, is on its way.

        prefix: all before. torn: of this write the first sectors as well. cache: of what was written since the last barrier
        any sectors, of this write too.
        """
        trace = self.trace
        safe = trace.barrier_before(number)
        self.advance(safe)
        content = bytearray(self.content)
        if kind == "cache":
            share = random.choice((0.02, 0.25, 0.5, 0.75, 0.98))
            for entry in range(safe, number + 1):
                if trace.entries[entry][0] != BARRIER:
                    sectors = trace.entries[entry][2] // SECTOR
                    put(content, trace, entry, [random.random() < share for _ in range(sectors)])
            return content
        for entry in range(safe, number):
            put(content, trace, entry)
        if kind == "torn":
            sectors = trace.entries[number][2] // SECTOR
            # All of a single one is the prefix of the next write.
            kept = random.randrange(1, sectors) if sectors > 1 else 0
            put(content, trace, number, [place < kept for place in range(sectors)])
        return content


def put(content, trace, number, chosen=None):
    kind, offset, length, _, _ = trace.entries[number]
    if kind == BARRIER:
        return
    octets = trace.octets(number)
    if chosen is None:
        content[offset : offset + length] = octets
        return
    for place, wanted in enumerate(chosen):
        if wanted:
            begin = place * SECTOR
            content[offset + begin : offset + begin + SECTOR] = octets[begin : begin + SECTOR]
