"""What `Tools/powercut` does once Python is there: records, cuts the power, and tells what is left."""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cut import Worker
from disk import KINDS, Trace
from record import ROOT, build_tracer, record, shapes

# Cuts that one process takes at a time: it plays the disk from the start up to the first.
BATCH = 40
# Additional age that is promised, by table: packets wait to be put in order, rows of the sensor's clock for later ones.
ALLOWED_SECONDS = {"tables": 0, "packets": 0.1, "clock": 4}


def say(text):
    print(f"powercut: {text}", file=sys.stderr, flush=True)


def options():
    parser = argparse.ArgumentParser(prog="Tools/powercut", add_help=False, allow_abbrev=False)
    parser.add_argument("--cuts", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", default="")
    parser.add_argument("--program", type=Path, default=ROOT / ".build/release/ringtap")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    if words.cuts < 1 or words.seconds < 1:
        parser.error("--cuts and --seconds take 1 or more")
    words.shapes = [shape for shape in shapes() if any(text in shape.name for text in words.shapes.split(","))]
    if not words.shapes:
        parser.error("no recording has such a name")
    for program in (words.program, words.program.with_name("harness")):
        if not os.access(program, os.X_OK):
            parser.error(f"no program at {program}: swift build -c release --product {program.name}")
    return words


def record_all(words, folder):
    """Two at a time: each has a processor of its own."""
    tracer = build_tracer(folder)
    subprocess.run([ROOT / "Tools/test-kernel", "build", "--disk"], check=True)

    def one(shape):
        place = folder / shape.name
        if not (place / "times").exists():
            shutil.rmtree(place, ignore_errors=True)
            record(shape, place, words.program.resolve(), words.seconds, tracer)
        return place

    with ThreadPoolExecutor(max(1, os.cpu_count() // 2)) as pool:
        return list(pool.map(one, words.shapes))


def plan(place, count, seed):
    """Cuts of one recording, in the order of their writes."""
    trace, times = Trace(place / "base", place / "trace"), json.loads((place / "times").read_text())
    first = trace.first_write_after(times["begin"])
    writes = [number for number in trace.writes if number >= first]
    generator = random.Random(f"{seed} {place.name}")
    # At each write, as far as they go, and then at any.
    chosen = generator.sample(writes, min(count, len(writes))) + generator.choices(writes, k=max(0, count - len(writes)))
    return sorted((number, KINDS[index % len(KINDS)], generator.getrandbits(32)) for index, number in enumerate(chosen))


def cut_all(words, places, show):
    share, rest = divmod(words.cuts, len(places))
    batches = []
    for index, place in enumerate(places):
        cuts = plan(place, share + (index < rest), words.seed)
        batches += [(index, place, cuts[at : at + BATCH]) for at in range(0, len(cuts), BATCH)]
    results, done = [[] for _ in places], 0
    with multiprocessing.Pool(os.cpu_count(), initializer=Worker.prepare, initargs=(words.program.resolve(), words.keep)) as pool:
        for index, batch in pool.imap_unordered(Worker.run, batches):
            results[index] += batch
            done += len(batch)
            show(done)
    return results


def summary(shape, place, results):
    """What the table says of one recording."""
    times = json.loads((place / "times").read_text())
    line = {"recording": shape.name, "interval": shape.interval, "cuts": len(results)}
    for kind in KINDS:
        line[kind] = sum(result["kind"] == kind for result in results)
    line["damaged"] = sum(result["disk"] != "" for result in results)
    line["unreadable"] = sum(bool(result["faults"]) for result in results)
    line["zeros"] = sum(bool(result["zeros"]) for result in results)
    line["read"] = sum(result["read"] for result in results)
    line["missing"] = {}
    for what in ALLOWED_SECONDS:
        ages = [result["missing"][what] for result in results if what in result["missing"]]
        line["missing"][what] = round(max(ages) / 1e9, 3) if ages else None
    line["clockBehindMs"] = round(times["clockBehind"] / 1e6, 1)
    line["written"], line["flushes"] = Trace(place / "base", place / "trace").rates(times["begin"], times["end"])
    # The cut with the most: each cut has the same rows before it.
    told = [result["told"] for result in results if result["told"] is not None]
    line["confirmed"], line["lost"] = (max(told), sum(result["lost"] for result in results)) if told else (None, None)
    line["faults"] = {}
    for result in results:
        for fault in {*result["faults"], *(f"{name}: zeros at its end" for name in result["zeros"])}:
            line["faults"][fault] = line["faults"].get(fault, 0) + 1
    return line


def late(line):
    return [what for what, age in line["missing"].items() if age is not None and age > line["interval"] + ALLOWED_SECONDS[what]]


def table(lines):
    heads = ["recording", "sync", "written", "cuts", *KINDS, "damaged", "unreadable", "zeros", *(f"missing, {what}" for what in ALLOWED_SECONDS), "confirmed", "of them lost"]
    rows = [heads]
    for line in lines:
        ages = ("–" if age is None else f"{age:.2f} s" for age in line["missing"].values())
        rows.append([line["recording"], f"{line['interval']} s", f"{line['written'] / 1e3:.0f} kB/s", *(
            str(line[key]) for key in ("cuts", *KINDS, "damaged", "unreadable", "zeros")), *ages, *("–" if line[key] is None else str(line[key]) for key in ("confirmed", "lost"))])
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    for row in rows:
        print("  ".join(cell.ljust(width) if place < 1 else cell.rjust(width) for place, (cell, width) in enumerate(zip(row, widths))))
    for line in lines:
        for fault, count in sorted(line["faults"].items(), key=lambda item: -item[1]):
            print(f"{line['recording']}: {fault}: {count} of {line['cuts']} cuts")
        for what in late(line):
            print(f"{line['recording']}: {what} of {line['missing'][what]:.2f} s before the cut are missing")


def main():
    words = options()

    def show(done):
        if sys.stderr.isatty():
            end = "\n" if done == words.cuts else ""
            print(f"\r\x1b[Kpowercut: {done} of {words.cuts} cuts", end=end, file=sys.stderr, flush=True)

    os.nice(10)
    with tempfile.TemporaryDirectory(prefix="powercut.") as scratch:
        folder = words.traces or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        say(f"recording {len(words.shapes)} times {words.seconds} s")
        places = record_all(words, folder.resolve())
        say("cutting")
        results = cut_all(words, places, show)
        lines = [summary(shape, place, result) for shape, place, result in zip(words.shapes, places, results)]
    if words.json:
        for line in lines:
            print(json.dumps(line))
    else:
        table(lines)
    return any(line["unreadable"] or line["zeros"] or line["damaged"] or line["lost"] or late(line) for line in lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        say(error)
        sys.exit(1)
