"""What a capture costs a board: octets on its way to the disk, wake-ups, processor time. For Tools/Benchmarks/run."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

SECONDS = 30
# Ticks a second, three notifications each.
TICKS = (25, 50, 100)
SHAPES = (("csv", 1), ("npy", 1), ("csv", 30), ("npy", 30))


def counters(process):
    """The kernel's counters: bytes written to files, and wake-ups and processor seconds of all threads."""
    octets = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
    wakes, ticks = 0, 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines() if ":\t" in line)
        wakes += int(status["voluntary_ctxt_switches"])
        ticks += float((thread / "schedstat").read_text().split()[0]) / 1e9
    return {"write_bytes": int(octets["write_bytes"]), "wchar": int(octets["wchar"]), "wakes": wakes, "seconds": ticks}


def capture(ringtap, folder, ticks, form, interval):
    place, target = folder / "air", folder / f"board-{ticks}-{form}-{interval}"
    ring = subprocess.Popen(
        [ringtap, "emulate", "ring", "--transport", f"unix:{place}", "--quiet", "--rate", str(3 * ticks)],
        stdout=subprocess.PIPE, text=True)
    ring.stdout.readline()
    recorder = subprocess.Popen(
        [ringtap, "capture", "70:CB:0D:00:A1:B2", "--transport", f"unix:{place}", "--format", form, "--sync-interval",
         str(interval), "--output", target, "--quiet"], stderr=subprocess.DEVNULL)
    while not (target / "packets.btsnoop").exists():
        if recorder.poll() is not None:
            sys.exit("run: the capture ended early")
        time.sleep(0.1)
    time.sleep(3)  # until the start is over
    before, size = counters(recorder.pid), sum(file.stat().st_size for file in target.iterdir())
    time.sleep(SECONDS)
    after, grown = counters(recorder.pid), sum(file.stat().st_size for file in target.iterdir()) - size
    recorder.terminate()
    recorder.wait()
    ring.terminate()
    ring.communicate()
    change = {key: after[key] - before[key] for key in before}
    return {"ticks": ticks, "format": form, "interval": interval, "grown": grown} | change


def measure(ringtap, say):
    """On the checkout's disk: where /tmp is memory, nothing is written."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="board.", dir=ROOT / ".build") as folder:
        for ticks in TICKS:
            for form, interval in SHAPES:
                say(f"{ticks} ticks a second, {form}, disk every {interval} s")
                rows.append(capture(ringtap, Path(folder), ticks, form, interval))
        return {"seconds": SECONDS, "rows": rows, "filesystem": output_of("stat", "-f", "-c", "%T", folder)}


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def lines(data, machine, table):
    yield "## What a capture costs a board"
    yield ""
    yield machine
    yield ""
    yield (f"{data['seconds']} s of a steady capture in exclusive mode over a UNIX socket, release build. The source is the kernel's "
           "counters: /proc/PID/io, voluntary context switches and run time of all threads. Recorded is the growth of the files, "
           f"tables and packet log. To the disk are the pages of 4 KiB that the kernel began to write ({data['filesystem']}).")
    yield ""
    yield from table(
        ("ticks a second", "tables", "disk every", "recorded a second", "to the disk a second", "written for each octet recorded",
         "wake-ups a second", "processor"),
        ((row["ticks"], row["format"], f"{row['interval']} s", f"{row['grown'] / data['seconds'] / 1e3:.1f} kB",
          f"{row['write_bytes'] / data['seconds'] / 1e3:.1f} kB", f"{row['write_bytes'] / row['grown']:.2f}",
          f"{row['wakes'] / data['seconds']:.0f}", f"{row['seconds'] / data['seconds']:.2%}") for row in data["rows"]))
