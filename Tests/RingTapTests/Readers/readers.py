#!/usr/bin/env python3
"""Reads what ringtap wrote with the programs that people use for it: NumPy, pandas, pyEDFlib, wfdb.

readers.py make DIR             writes a ring's capture whose every value is known
readers.py make-ecg DIR         the same of a chest strap's ECG
readers.py arrays CSV NPY       whether arrays hold what pandas reads of the text
readers.py open NPY             whether each array opens, and as many rows as its table's time tells
readers.py edf FILE KIND        whether it holds what `make` wrote; KIND is ring or ecg; likewise for bdf
readers.py wfdb RECORD KIND
readers.py lines CSV NDJSON     whether lines hold what pandas reads of the text

One JSON object on standard output; the exit status is 1 with a message for the first thing that differs.
"""

import csv
import json
import os
import sys
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pandas as pd

START = 1_700_000_000_123_456_789
PERIOD = 19_987_654
PAUSE = 3_000_000_000
# (first tick, count, what does not come)
LOST = [(100, 5, "all"), (200, 2, "PPG"), (300, 1, "Acc")]
RESTART, TICKS = 600, 1000
LIGHT = ["value", "max", "min", "diff"]


def light(kind, tick):
    base = tick * (7919 if kind == "ppg" else 104_729) % 65_536
    # The ends of the range too.
    base = {10: 0, 11: 65_535}.get(tick, base)
    return [base, base ^ 0x00FF, base ^ 0xFF00, 65_535 - base]


def acceleration(tick):
    return [{10: -2048, 11: 2047}.get(tick, tick * factor % 4096 - 2048) for factor in (13, 17, 1021)]


def grams(counts):
    return str((Decimal(counts) / 512).quantize(Decimal("0.000001"), ROUND_HALF_UP))


def is_lost(tick, what):
    return any(first <= tick < first + count and lost in ("all", what) for first, count, lost in LOST)


def grid():
    """(tick, place on the time axis) of the ticks that came."""
    jump = round(PAUSE / PERIOD)
    for tick in range(TICKS):
        if not is_lost(tick, "all"):
            yield tick, tick if tick < RESTART else tick + jump - 1


def ring_signals():
    """Label: values on the grid, NaN where none came."""
    length = max(place for _, place in grid()) + 1
    names = [f"{group} {name}" for group in ("SpO2", "PPG") for name in LIGHT] + ["Acc x", "Acc y", "Acc z"]
    signals = {name: np.full(length, np.nan) for name in names}
    for tick, place in grid():
        values = [("SpO2", light("spo2", tick)), ("PPG", light("ppg", tick))]
        for group, numbers in values:
            if not is_lost(tick, group):
                for name, number in zip(LIGHT, numbers):
                    signals[f"{group} {name}"][place] = number
        if not is_lost(tick, "Acc"):
            for axis, number in zip("xyz", acceleration(tick)):
                signals[f"Acc {axis}"][place] = number / 512
    return signals


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def make(folder):
    os.makedirs(folder)
    counts = [f"{name}_counts" for name in LIGHT]
    axes = ["x_counts", "y_counts", "z_counts", "x_g", "y_g", "z_g"]
    tables = {"spo2": [], "ppg": [], "accelerometer": []}
    samples = []
    before = 0
    for tick in range(TICKS):
        if is_lost(tick, "all"):
            before += 1
            continue
        time = START + (tick * PERIOD if tick < RESTART else (tick - 1) * PERIOD + PAUSE)
        row = [time, tick, before, 1 if tick < RESTART else 2]
        before = 0
        for number, (table, group, width) in enumerate([("spo2", "SpO2", 5), ("ppg", "PPG", 5),
                                                        ("accelerometer", "Acc", 7)]):
            if is_lost(tick, group):
                row += [""] * width
                continue
            stamp = time + 1_000_003 * (number + 1)
            values = light(table, tick) if width == 5 else acceleration(tick)
            if width == 7:
                values = values + [grams(value) for value in values]
            tables[table].append([stamp] + values)
            row += [stamp] + values
        samples.append(row)
    write(f"{folder}/spo2.csv", ["time_ns"] + counts, tables["spo2"])
    write(f"{folder}/ppg.csv", ["time_ns"] + counts, tables["ppg"])
    write(f"{folder}/accelerometer.csv", ["time_ns"] + axes, tables["accelerometer"])
    header = ["fitted_time_ns", "tick", "missing_before", "fit", "spo2_time_ns"]
    header += [f"spo2_{name}" for name in counts] + ["ppg_time_ns"] + [f"ppg_{name}" for name in counts]
    write(f"{folder}/samples.csv", header + ["accelerometer_time_ns"] + axes, samples)
    lost = START + RESTART * PERIOD
    session = {
        "startedAtNs": START, "streams": {"ppg": {"samples": 1, "file": "ppg.csv"}},
        "ticks": {"file": "samples.csv", "rateHz": 1e9 / PERIOD},
        "gaps": [{"cause": "link lost", "lostAtNs": lost, "firstSampleAtNs": lost + 2_000_000_000}],
    }
    with open(f"{folder}/session.json", "w") as file:
        file.write(json.dumps(session, separators=(",", ":")) + "\n")
    return {"rows": {name: len(rows) for name, rows in {**tables, "samples": samples}.items()}}


# A chest strap: 130 samples a second in frames of 73, values that 16 bits do not hold, ten samples lost.
ECG_PERIOD, ECG_FRAME, ECG_FRAMES, ECG_LOST_BEFORE, ECG_LOST = 7_692_308, 73, 40, 20, 10
ECG_CLOCK = 599_616_000_000_000_000


def ecg(number):
    return (number * 7919) % 200_001 - 100_000


def ecg_place(number):
    return number + (ECG_LOST if number >= ECG_LOST_BEFORE * ECG_FRAME else 0)


def make_ecg(folder):
    os.makedirs(folder)
    rows = []
    for number in range(ECG_FRAME * ECG_FRAMES):
        last = (number // ECG_FRAME + 1) * ECG_FRAME - 1
        rows.append([START + ecg_place(last) * ECG_PERIOD, ECG_CLOCK + ecg_place(number) * ECG_PERIOD, ecg(number)])
    write(f"{folder}/ecg.csv", ["time_ns", "device_time_ns", "ecg_uv"], rows)
    return {"rows": {"ecg": len(rows)}}


def ecg_signals():
    values = np.full(ecg_place(ECG_FRAME * ECG_FRAMES - 1) + 1, np.nan)
    for number in range(ECG_FRAME * ECG_FRAMES):
        values[ecg_place(number)] = ecg(number)
    return {"ECG": values}


def check(condition, message):
    if not condition:
        sys.exit(f"differs: {message}")


def text_table(path):
    # Times do not fit a float, and some are empty.
    header = pd.read_csv(path, nrows=0).columns
    return pd.read_csv(path, dtype={name: "Int64" for name in header if name.endswith("_ns")},
                       keep_default_na=False, na_values=[""])


def arrays(text, folder):
    with open(f"{folder}/columns.json") as file:
        index = json.load(file)
    check(index["complete"], "the index is not complete")
    rows = {}
    for name, table in index["tables"].items():
        expected = text_table(f"{text}/{name}.csv")
        check(list(expected.columns) == [column["name"] for column in table["columns"]], f"columns of {name}")
        check(table["rows"] == len(expected), f"rows of {name}")
        frame = {}
        for column in table["columns"]:
            array = np.load(f"{folder}/{column['file']}")
            view = np.load(f"{folder}/{column['file']}", mmap_mode="r")
            check(array.dtype == np.dtype(column["dtype"]), f"type of {name}.{column['name']}")
            check(array.shape == view.shape == (len(expected),), f"shape of {name}.{column['name']}")
            frame[column["name"]] = array
            want = expected[column["name"]]
            if column["name"].endswith("_ns"):
                want = want.fillna(index["missingInteger"]).to_numpy(np.int64)
                check((array == want).all(), f"{name}.{column['name']}")
            elif array.dtype.kind == "U":
                check((array == want.fillna("").to_numpy(str)).all(), f"{name}.{column['name']}")
            else:
                # The text has six digits, or three.
                digits = 0.51e-6 if column.get("unit") == "g" else 0.5e-3 if array.dtype == np.float64 else 0
                check(np.allclose(array.astype(float), want.to_numpy(float), rtol=0, atol=digits, equal_nan=True),
                      f"{name}.{column['name']}")
        check(len(pd.DataFrame(frame)) == len(expected), f"{name} as a frame")
        if len(expected):
            first = expected.columns[0]
            check(table["startNs"] == expected[first].iloc[0], f"start of {name}")
            check(table["endNs"] == expected[first].iloc[-1], f"end of {name}")
        rows[name] = len(expected)
    return {"rows": rows, "rateHz": index["tables"].get("samples", {}).get("rateHz")}


def open_all(folder):
    with open(f"{folder}/columns.json") as file:
        index = json.load(file)
    rows, last = {}, 0
    for name, table in index["tables"].items():
        times = np.load(f"{folder}/{table['columns'][0]['file']}", mmap_mode="r")
        for column in table["columns"]:
            path = f"{folder}/{column['file']}"
            view = np.load(path, mmap_mode="r")
            check(len(np.load(path)) == len(view) >= len(times), f"{path} has {len(view)} of {len(times)}")
            # A claim never covers what was not written: no stamp is zero.
            check(column is not table["columns"][0] or len(view) == 0 or view.min() > 10**18, f"a stamp of {path}")
        rows[name] = len(times)
        last = max(last, int(times[-1]) if len(times) else 0)
    return {"rows": rows, "complete": index["complete"], "lastNs": last}


def held(values):
    """The last value that came; before the first one, that."""
    return pd.Series(values).ffill().bfill().to_numpy()


def expected_notes(kind, length):
    period = PERIOD if kind == "ring" else ECG_PERIOD
    notes = [(0, None, "Recording starts"), (length * period, None, "Recording ends")]
    if kind == "ecg":
        first = ECG_LOST_BEFORE * ECG_FRAME
        return notes + [(first * period, ECG_LOST * period, f"{ECG_LOST} missing (all), last held")]
    for first, count, what in LOST:
        notes.append((first * period, count * period, f"{count} missing ({what}), last held"))
    jump = round(PAUSE / PERIOD)
    notes.append((RESTART * period, (jump - 1) * period, f"{jump - 1} missing (all), last held"))
    notes.append(((RESTART + jump - 1) * period, None, "sensor clock began anew"))
    return notes + [(RESTART * period, 2_000_000_000, "link lost: link lost")]


def edf(path, kind):
    import pyedflib
    signals = ring_signals() if kind == "ring" else ecg_signals()
    period = PERIOD if kind == "ring" else ECG_PERIOD
    length = len(next(iter(signals.values())))
    file = pyedflib.EdfReader(path)
    check(file.getSignalLabels() == list(signals), "labels")
    worst, steps = 0.0, []
    for number, (label, values) in enumerate(signals.items()):
        unit = "g" if label.startswith("Acc") else "uV" if label == "ECG" else "counts"
        check(file.getPhysicalDimension(number) == unit, f"unit of {label}")
        check(abs(file.getSampleFrequency(number) * period / 1e9 - 1) < 1e-6, f"rate of {label}")
        read = file.readSignal(number)
        check(len(read) >= length, f"length of {label}")
        worst = max(worst, float(np.abs(read[:length] - held(values)).max()))
        check((read[length:] == read[length - 1]).all(), f"the rest of the last record of {label}")
        ends = file.getPhysicalMaximum(number) - file.getPhysicalMinimum(number)
        steps.append(ends / (file.getDigitalMaximum(number) - file.getDigitalMinimum(number)))
    start = START // 100_000 * 1_000
    seconds = int(pd.Timestamp(file.getStartdatetime().replace(microsecond=0)).value // 10**9)
    # What getStartdatetime calls microseconds is a tenth of them; the attribute has 100 ns.
    check(seconds * 10**7 + file.starttime_subsecond == start, "start")
    found = [(round(onset * 1e9), None if length < 0 else round(length * 1e9), text)
             for onset, length, text in zip(*file.readAnnotations())]
    for onset, duration, text in expected_notes(kind, length):
        check(any(abs(onset - a) <= 100_000 and text == c and
                  (duration == b or None not in (duration, b) and abs(duration - b) <= 100_000)
                  for a, b, c in found), f"no note '{text}' at {onset}: {found}")
    check(len(found) == len(expected_notes(kind, length)), f"notes: {found}")
    header = file.getHeader()
    check(header["patientname"] == "X" and not header["patientcode"] and not header["sex"], "somebody is named")
    return {"signals": len(signals), "samples": length, "worst": worst, "steps": sorted(set(steps))}


def record(path, kind):
    import wfdb
    signals = ring_signals() if kind == "ring" else ecg_signals()
    period = PERIOD if kind == "ring" else ECG_PERIOD
    read = wfdb.rdrecord(path)
    check(read.sig_name == list(signals), "labels")
    check(abs(read.fs * period / 1e9 - 1) < 1e-9, "rate")
    for number, (label, values) in enumerate(signals.items()):
        check(np.array_equal(read.p_signal[:, number], values, equal_nan=True), label)
        check(read.units[number] == ("g" if label.startswith("Acc") else "uV" if label == "ECG" else "counts"), label)
    check(pd.Timestamp(read.base_datetime).value == START // 1_000 * 1_000, "start")
    with open(path + ".hea") as file:
        sums = [int(line.split()[6]) for line in file.read().splitlines()[1:] if not line.startswith("#")]
    # wfdb's own check sums, of what it read.
    check(sums == [value - 65_536 if value > 32_767 else value for value in
                   wfdb.rdrecord(path, physical=False).calc_checksum()], "check sums")
    return {"signals": len(signals), "samples": read.sig_len, "format": read.fmt[0],
            "missing": int(np.isnan(read.p_signal).sum())}


def lines(text, path):
    rows = {}
    with open(path) as file:
        for line in file:
            row = json.loads(line)
            rows.setdefault(row.pop("table"), []).append(row)
    for name, objects in rows.items():
        expected = text_table(f"{text}/{name}.csv")
        check(len(objects) == len(expected), f"rows of {name}")
        for column in expected.columns:
            for want, row in zip(expected[column], objects):
                value = row[column]
                check(pd.isna(want) if value is None else abs(want - value) <= 0.51e-6, f"{name}.{column}")
    return {"rows": {name: len(objects) for name, objects in rows.items()}}


COMMANDS = {"make": make, "make-ecg": make_ecg, "arrays": arrays, "open": open_all, "edf": edf, "wfdb": record,
            "lines": lines}

if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
