"""One power cut after the other: makes the disk, lets e2fsck repair it, and looks at the files."""

import json
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

from disk import Disk, Trace
from fleet import Fleet
from remains import DERIVED, Reference

# One cut of so many is read by ringtap as well.
READ_EVERY = 50
READ_SECONDS = 60
# Exit statuses of e2fsck for a good disk: clean, or repaired.
GOOD = (0, 1)


class Worker:
    """Of one process."""

    program, keep, folder, place, trace, reference = None, None, None, None, None, None
    kept = set()

    @classmethod
    def prepare(cls, program, keep):
        cls.program, cls.keep = program, keep
        # In memory, where there is room: a disk is written for each cut.
        cls.folder = tempfile.TemporaryDirectory(prefix="powercut.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)

    @classmethod
    def run(cls, batch):
        index, place, cuts = batch
        if cls.place != place:
            cls.place, cls.trace = place, Trace(place / "base", place / "trace")
            cls.reference = Fleet(place) if (place / "side").exists() else Reference(place / "files")
            cls.behind = json.loads((place / "times").read_text())["clockBehind"]
        disk = Disk(cls.trace)
        return index, [cls.cut(disk, *cut) for cut in cuts]

    @classmethod
    def cut(cls, disk, number, kind, seed):
        generator = random.Random(seed)
        folder = Path(cls.folder.name)
        image, left = folder / "disk", folder / "left"
        with open(image, "r+b" if image.exists() else "w+b") as file:
            file.write(disk.cut(number, kind, generator))
        # Preening is what a start of Debian does; it replays the journal. Force, as the journal alone would satisfy it.
        repair = subprocess.run(["e2fsck", "-fp", image], capture_output=True, text=True)
        damage = "" if repair.returncode in GOOD else repair.stdout.strip() or f"status {repair.returncode}"
        if damage:
            subprocess.run(["e2fsck", "-fy", image], capture_output=True)
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        subprocess.run(["debugfs", "-R", f"rdump / {left}", image], check=True, capture_output=True)
        # The clock inside is behind; a row has its time.
        now = cls.trace.time(number) - cls.behind
        verdict = cls.reference.examine(left, now)
        missing = {}
        for name, time in verdict.missing.items():
            what = "packets" if name in ("walk.btsnoop", "walk.pcapng") or "packets." in name else "tables"
            if Path(name).stem == DERIVED:
                what = "clock"
            if now > time:
                missing[what] = max(missing.get(what, 0), now - time)
        faults = verdict.faults
        is_read = seed % READ_EVERY == 0
        if is_read:
            faults += cls.reference.restart(cls.program, left, now) if isinstance(cls.reference, Fleet) else cls.read(left)
        result = {"kind": kind, "disk": damage, "faults": sorted(set(faults)), "zeros": verdict.zeros, "missing": missing,
                  "read": is_read, "number": number, "told": verdict.told, "lost": verdict.lost}
        cls.save(result, left)
        return result

    @classmethod
    def read(cls, left):
        """What ringtap itself says of it: it may refuse, with a message, and never crash."""
        other = "csv" if any(left.rglob("*.npy")) else "npy"
        commands = []
        if (left / "walk").is_dir():
            commands += [["report", left / "walk", "--output", left / "report.html"],
                         ["convert", left / "walk", "--to", other, "--output", left / "converted"]]
        commands += [["log", "stats", path] for path in [*left.rglob("*.btsnoop"), *left.rglob("*.pcapng")]]
        faults = []
        for command in commands:
            try:
                ended = subprocess.run(
                    [cls.program, *command], capture_output=True, text=True, errors="replace", timeout=READ_SECONDS,
                    env=dict(os.environ, RINGTAP_NO_REMEMBER="1"))
            except subprocess.TimeoutExpired:
                faults.append(f"ringtap {command[0]}: no end")
                continue
            crashed = ended.returncode < 0 or ended.returncode > 4 or "Fatal error" in ended.stderr
            if crashed or ended.returncode and not ended.stderr.strip():
                faults.append(f"ringtap {' '.join(map(str, command[:1]))}: status {ended.returncode}")
        return faults

    @classmethod
    def save(cls, result, left):
        """The first of each finding, for a look at it."""
        for finding in result["faults"] + [f"{name} zeros" for name in result["zeros"]]:
            if cls.keep and (cls.place.name, finding) not in cls.kept:
                cls.kept.add((cls.place.name, finding))
                target = cls.keep / f"{cls.place.name}-{result['number']}-{result['kind']}-{finding.replace('/', '-').replace(' ', '-')}"
                shutil.copytree(left, target, dirs_exist_ok=True)
                (target / "result").write_text(json.dumps(result))
