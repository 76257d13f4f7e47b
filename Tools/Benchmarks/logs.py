"""`ringtap log stats` and `import` against tshark, for Tools/Benchmarks/run."""

import math
import os
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def ring_log(path, count=1_000_000):
    """A link, and a ring's raw stream of 25 ticks a second, in btsnoop."""
    def record(packet, flags, time):
        return struct.pack(">IIIIq", len(packet), len(packet), flags, 0, 0x00DCDDB30F2F8000 + time) + packet

    def frame(*octets):
        octets = bytes(octets) + bytes(15 - len(octets))
        pdu = bytes([0x1B, 0x12, 0]) + octets + bytes([sum(octets) & 0xFF])
        return struct.pack("<BHHHH", 2, 0x2040, len(pdu) + 4, len(pdu), 4) + pdu

    start = bytes.fromhex("043e13010040000000b2a1000dcb7018000000480000")
    time = 1_700_000_000_000_000
    with open(path, "wb") as file:
        file.write(b"btsnoop\0" + struct.pack(">II", 1, 1002) + record(start, 3, time))
        for number in range(1, count):
            tick, part = divmod(number - 1, 3)
            light = round(10_700 + 200 * math.sin(tick * 2 * math.pi * 1.2 / 25))
            octets = (
                (0xA1, 1, 0, 160, 0, 194, 0, 114, 0, 149),
                (0xA1, 2, light >> 8, light & 0xFF, 0x2A, 0xCD, 0x29, 0xC1, 1, 12),
                (0xA1, 3, 0x17, 4, 0x12, 3, 0x0B, 0xD))[part]
            file.write(record(frame(*octets), 3, time + tick * 40_000 + part * 100))


def cost(*command):
    """Seconds by the clock and of the processor, and MiB at most."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        sys.exit(f"run: {command[0]}: status {status}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(ringtap, folder, say):
    """In turn, so that what else the machine does meets all of them."""
    subprocess.run([ROOT / "Tools/install", "peers"], check=True, stdout=subprocess.DEVNULL)
    log, capture = folder / "log", folder / "capture"
    ring_log(log)
    commands = {
        "`ringtap log stats`": [ringtap, "log", "stats", log],
        "`tshark -q -z io,phs`": ["tshark", "-q", "-z", "io,phs", "-r", log],
        "`ringtap import`": [ringtap, "import", log, "-o", capture],
        "`tshark -T json`": ["tshark", "-T", "json", "-r", log],
    }
    rounds = {name: [] for name in commands}
    for number in range(3):
        for name, command in commands.items():
            # Its output is gigabytes: once is enough.
            if number and "json" in name:
                continue
            shutil.rmtree(capture, ignore_errors=True)
            rounds[name].append(cost(*command))
            say(f"{name}: {rounds[name][-1][0]:.2f} s")
    return {name: [statistics.median(column) for column in zip(*rows)] for name, rows in rounds.items()}


def lines(data, machine, table):
    def ratio(ours, theirs):
        return data[theirs][0] / data[ours][0]

    yield from ("## Packet logs", "", machine, "")
    yield "A log of 1,000,000 packets (52 MB) of a ring's raw stream. Medians of three runs in turn; `tshark -T json` ran once."
    yield ""
    yield from table(
        ("command", "wall", "processor", "memory"),
        [(name, f"{cost[0]:.2f} s", f"{cost[1]:.2f} s", f"{cost[2]:.0f} MiB")
         for name, cost in data.items() if name != "machine"])
    stats = ratio("`ringtap log stats`", "`tshark -q -z io,phs`")
    imported = ratio("`ringtap import`", "`tshark -T json`")
    yield f"`log stats` is {stats:.0f} times as fast as `io,phs`, `import` {imported:.0f} times as `-T json`."
    yield ""
