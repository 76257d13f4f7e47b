"""What the Python receivers of the comparison have in common: counting, and one JSON line at the end."""

import json
import struct
import time

# For each kind: the characteristic that notifies, and the one that takes the start command.
SERVICES = {
    "ring": ("6e400003-b5a3-f393-e0a9-e50e24dcca9e", "6e400002-b5a3-f393-e0a9-e50e24dcca9e"),
    "source": ("7d1a0002-6f2b-4c58-9a3e-52494e475441", None),
    "heart-rate": ("00002a37-0000-1000-8000-00805f9b34fb", None),
    "thermometer": ("00002a1e-0000-1000-8000-00805f9b34fb", None),
    "core": ("00002101-5b1e-4347-b07c-97b514dae121", None),
    "polar": ("fb005c82-02e7-f387-1cad-8acd2d8df0c8", "fb005c81-02e7-f387-1cad-8acd2d8df0c8"),
}
# The documented command that switches a ring's raw stream on.
START = bytes.fromhex("a10400000000000000000000000000a5")
# And Polar's own example for ECG: 130 Hz, 14 bits.
STARTS = {"ring": START, "polar": bytes.fromhex("02000001820001010e00")}
# After this many seconds of silence the stream counts as ended.
SILENCE = 2.0


class Count:
    """Counts values; of an emulated source's takes the time that they carry (CLOCK_MONOTONIC of this kernel)."""

    def __init__(self, kind, wanted):
        self.kind = kind
        self.wanted = wanted
        self.begin = time.monotonic_ns()
        self.first = self.last = None
        self.received = 0
        self.latencies = []

    def take(self, value):
        now = time.monotonic_ns()
        if self.kind == "ring" and value[0] != 0xA1:
            return
        if self.first is None:
            self.first = now
        self.last = now
        self.received += 1
        if self.kind == "source":
            self.latencies.append(now - struct.unpack_from("<q", value, 4)[0])

    @property
    def is_over(self):
        if self.received >= self.wanted:
            return True
        since = self.last or self.begin + 20 * 10**9
        return time.monotonic_ns() - since > SILENCE * 10**9

    def show(self):
        line = {"received": self.received}
        if self.first is not None:
            line["firstMilliseconds"] = (self.first - self.begin) / 1e6
            line["seconds"] = (self.last - self.first) / 1e9
        if self.latencies:
            ranked = sorted(self.latencies)
            ranks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1}
            line["latencyMicroseconds"] = {
                name: ranked[int(part * (len(ranked) - 1))] / 1e3 for name, part in ranks.items()}
        print(json.dumps(line), flush=True)
