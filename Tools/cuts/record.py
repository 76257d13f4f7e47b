"""Records on a real file system in the test kernel, and logs what reaches its disk."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# A few minutes of a recording, and a journal of the smallest kind.
MEGABYTES = 16
# Debian's mkfs defaults for a larger disk, without the work that it leaves to the kernel.
MAKE = ["mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
# From then on what the program wrote last is on the disk by the kernel's own time, 5 s of ext4's journal.
REST_SECONDS = 7

# `side` of a fleet is on the disk: `collect` or `publish` (fleet.py).
Shape = namedtuple("Shape", "name interval command side", defaults=(None,))


def shapes():
    def capture(interval, *options):
        return ["capture", "--transport", "virtual:ring,real-time", "--no-remember", "--quiet", "--output", "walk",
                "--sync-interval", str(interval), *options]

    def log(name):
        return ["record", "--synthetic", "500", "--output", name]

    return [
        Shape("csv-btsnoop", 1, capture(1)),
        Shape("csv-pcapng", 5, capture(5, "--log-format", "pcapng")),
        Shape("npy-btsnoop", 1, capture(1, "--format", "npy")),
        Shape("npy-pcapng", 5, capture(5, "--format", "npy", "--log-format", "pcapng")),
        Shape("log-btsnoop", 1, log("walk.btsnoop")),
        Shape("log-pcapng", 1, log("walk.pcapng")),
        Shape("fleet-collector", 1, None, "collect"),
        Shape("fleet-publisher", 10, None, "publish"),
    ]


# Inside. The clock is told so that the times of rows can be compared with those of writes.
SESSION = r"""
set -e
disk=$1
shift
mkdir -p "$disk"
mount -t ext4 /dev/ubda "$disk"
# The first file that is opened has ext4 note in its superblock where it is mounted: two sectors, of which a cut may leave one, and
# no tool reads that. A disk in use has that behind it.
: >"$disk/first"
rm "$disk/first"
/sbin/fsfreeze -f "$disk"
/sbin/fsfreeze -u "$disk"
cd "$disk"
clocks() { for _ in 1 2 3 4 5 6 7 8; do echo "clock $EPOCHREALTIME"; sleep 0.05; done; }
clocks
echo begin
status=0
"$@" >/dev/null || status=$?
echo "end $status"
clocks
cp -r "$disk" "$RINGTAP_RESULTS/files"
rm -rf "$RINGTAP_RESULTS/files/lost+found"
sleep REST
echo done
"""


def build_tracer(folder):
    library = Path(folder) / "trace.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("trace.c")], check=True)
    return library


def record(shape, folder, program, seconds, tracer):
    """Leaves `base` (the disk before), `trace`, `files` (what the recording came to be) and `times` in the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    disk, base, trace = folder / "disk", folder / "base", folder / "trace"
    with open(disk, "wb") as file:
        file.truncate(MEGABYTES << 20)
    subprocess.run(MAKE + [disk], check=True, stdout=subprocess.DEVNULL)
    shutil.copyfile(disk, base)
    (folder / "results").mkdir()
    environment = dict(
        os.environ, RINGTAP_PRELOAD=str(tracer), POWERCUT_DISK=str(disk), POWERCUT_TRACE=str(trace), RINGTAP_NO_REMEMBER="1")
    if shape.side:
        run = [str(Path(__file__).with_name("fleet")), shape.side, str(program), str(seconds)]
    else:
        # `harness` is built beside ringtap.
        run = [str(program.with_name("harness") if shape.command[0] == "record" else program), *shape.command, "--duration", str(seconds)]
    inside = ["bash", "-c", SESSION.replace("REST", str(REST_SECONDS)), "session", "/tmp/powercut", *run]
    command = [ROOT / "Tools/test-kernel", "run", "--timeout", str(seconds + 300), "--results", folder / "results",
               "--disk", disk, "--", *inside]
    marks, late = {}, []
    with subprocess.Popen(
        [str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                now, words = time.time_ns(), line.split()
                if words[0] == "clock":
                    late.append(now - int(words[1].replace(".", "")) * 1000)
                else:
                    marks[words[0]] = now
                    if words[0] == "end" and words[1] != "0":
                        marks["status"] = int(words[1])
            messages = process.stderr.read()
        except BaseException:
            process.send_signal(signal.SIGTERM)
            raise
    if process.returncode or "done" not in marks:
        raise RuntimeError(f"{shape.name}: the recording failed ({process.returncode}): {messages.strip()}")
    shutil.move(folder / "results/files", folder / "files")
    if shape.side:
        shutil.move(folder / "results/receipts", folder / "receipts")
        shutil.move(folder / "results/other", folder / "other")
        (folder / "side").write_text(shape.side)
    # How far the clock inside is behind, at most: it is told with a delay.
    times = {"begin": marks["begin"], "end": marks["end"], "clockBehind": min(late), "status": marks.get("status", 0)}
    (folder / "times").write_text(json.dumps(times))
    return times
