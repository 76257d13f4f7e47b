#!/usr/bin/env python3
"""Reads what ringtap wrote with the programs that people use for it: NumPy, pandas, pyEDFlib, wfdb.

readers.py make DIR             writes a ring's capture whose every value is known
readers.py make-ecg DIR         the same of a chest strap's ECG
readers.py make-polar DIR       the same with its acceleration, of another rate and begun later, and a heart rate
readers.py polar FILE KIND      whether it holds what `make-polar` wrote; KIND is edf, bdf or wfdb
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
LOST = [(100, 5, "all"), (200, 2, "ppg"), (300, 1, "accelerometer")]
# (first tick, count, which readings the ring did not take)
DROPOUTS = [(10, 1, ("spo2", "ppg")), (400, 3, ("spo2", "ppg")), (500, 2, ("ppg",))]
RESTART, TICKS = 600, 1000
LIGHT = {
    "spo2": ["spo2_counts", "red_max_counts", "red_min_counts", "red_diff_counts"],
    "ppg": ["ppg_counts", "led_max_counts", "led_min_counts", "led_diff_counts"],
}
AXES = ["x_g", "y_g", "z_g"]


def light(kind, tick):
    """The first is None where the ring took no reading."""
    if any(first <= tick < first + count and kind in kinds for first, count, kinds in DROPOUTS):
        return [None, 0x00FF, 0xFF00, 65_534]
    # The ends of the range too.
    base = 65_535 if tick == 11 else (tick * (7919 if kind == "ppg" else 104_729) + 1) % 65_536
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
    signals = {name: np.full(length, np.nan) for name in LIGHT["spo2"] + LIGHT["ppg"] + AXES}
    for tick, place in grid():
        for stream, names in LIGHT.items():
            if not is_lost(tick, stream):
                for name, number in zip(names, light(stream, tick)):
                    signals[name][place] = np.nan if number is None else number
        if not is_lost(tick, "accelerometer"):
            for axis, number in zip(AXES, acceleration(tick)):
                signals[axis][place] = number / 512
    return signals


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def make(folder):
    os.makedirs(folder)
    axes = ["x_counts", "y_counts", "z_counts"] + AXES
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
        for number, (table, width) in enumerate([("spo2", 5), ("ppg", 5), ("accelerometer", 7)]):
            if is_lost(tick, table):
                row += [""] * width
                continue
            stamp = time + 1_000_003 * (number + 1)
            values = light(table, tick) if width == 5 else acceleration(tick)
            if width == 7:
                values = values + [grams(value) for value in values]
            tables[table].append([stamp] + values)
            row += [stamp] + values
        samples.append(row)
    for table, names in LIGHT.items():
        write(f"{folder}/{table}.csv", ["time_ns"] + names, tables[table])
    write(f"{folder}/accelerometer.csv", ["time_ns"] + axes, tables["accelerometer"])
    header = ["fitted_time_ns", "tick", "missing_before", "fit", "spo2_time_ns"]
    header += LIGHT["spo2"] + ["ppg_time_ns"] + LIGHT["ppg"]
    write(f"{folder}/samples.csv", header + ["accelerometer_time_ns"] + axes, samples)
    lost = START + RESTART * PERIOD
    session = {
        "formatVersion": 2, "startedAtNs": str(START), "streams": {"ppg": {"samples": 1, "file": "ppg.csv"}},
        "ticks": {"file": "samples.csv", "rateHz": 1e9 / PERIOD},
        "gaps": [{"cause": "link lost", "lostAtNs": str(lost), "firstSampleAtNs": str(lost + 2_000_000_000)}],
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
        rows.append([START + ecg_place(number) * ECG_PERIOD, START + ecg_place(last) * ECG_PERIOD,
                     ECG_CLOCK + ecg_place(number) * ECG_PERIOD, ecg(number)])
    write(f"{folder}/ecg.csv", ["time_ns", "frame_time_ns", "device_time_ns", "ecg_uv"], rows)
    return {"rows": {"ecg": len(rows)}}


def ecg_signals():
    values = np.full(ecg_place(ECG_FRAME * ECG_FRAMES - 1) + 1, np.nan)
    for number in range(ECG_FRAME * ECG_FRAMES):
        values[ecg_place(number)] = ecg(number)
    return {"ecg_uv": values}


# Its acceleration: 50 samples a second in frames of 36, seven lost, begun 0.731 s after the ECG by its own clock.
ACC_PERIOD, ACC_FRAME, ACC_FRAMES, ACC_LOST_BEFORE, ACC_LOST = 20_000_870, 36, 60, 25, 7
ACC_LATE = 731_000_000


def axes(number):
    return [number * factor % 4000 - 2000 for factor in (13, 17, 1021)]


def acc_place(number):
    return number + (ACC_LOST if number >= ACC_LOST_BEFORE * ACC_FRAME else 0)


def make_polar(folder):
    result = make_ecg(folder)
    rows = []
    for number in range(ACC_FRAME * ACC_FRAMES):
        last = (number // ACC_FRAME + 1) * ACC_FRAME - 1
        # The kernel's stamps have it 4 ms too late.
        rows.append([START + ACC_LATE + 4_000_000 + acc_place(number) * ACC_PERIOD,
                     START + ACC_LATE + 4_000_000 + acc_place(last) * ACC_PERIOD,
                     ECG_CLOCK + ACC_LATE + acc_place(number) * ACC_PERIOD] + [f"{n}.000" for n in axes(number)])
    header = ["time_ns", "frame_time_ns", "device_time_ns", "x_mg", "y_mg", "z_mg"]
    write(f"{folder}/accelerometer.csv", header, rows)
    write(f"{folder}/heart_rate.csv", ["time_ns", "bpm", "contact", "energy_kj"], [[START, 60, 1, ""]])
    result["rows"]["accelerometer"] = len(rows)
    return result


def polar_signals():
    """Label: rate, samples before the first one, values."""
    signals = {"ecg_uv": (1e9 / ECG_PERIOD, 0, ecg_signals()["ecg_uv"])}
    values = np.full((acc_place(ACC_FRAME * ACC_FRAMES - 1) + 1, 3), np.nan)
    for number in range(ACC_FRAME * ACC_FRAMES):
        values[acc_place(number)] = axes(number)
    for axis, label in enumerate(["x_mg", "y_mg", "z_mg"]):
        signals[label] = (1e9 / ACC_PERIOD, round(ACC_LATE / ACC_PERIOD), values[:, axis])
    return signals


def polar(path, kind):
    signals = polar_signals()
    worst = {}
    if kind == "wfdb":
        import wfdb
        with open(f"{path}/RECORDS") as file:
            records = file.read().split()
        name = os.path.basename(path)
        check(records == [f"{name}_ecg", f"{name}_accelerometer"], f"records: {records}")
        late = {f"{name}_ecg": 0, f"{name}_accelerometer": ACC_LATE + 4_000_000}
        for record in records:
            read = wfdb.rdrecord(f"{path}/{record}")
            check(pd.Timestamp(read.base_datetime).value == (START + late[record]) // 1000 * 1000, f"start of {record}")
            for number, label in enumerate(read.sig_name):
                rate, _, values = signals.pop(label)
                check(abs(read.fs / rate - 1) < 1e-9, f"rate of {label}")
                check(np.allclose(read.p_signal[:, number], values, rtol=0, atol=1e-9, equal_nan=True), label)
        check(not signals, f"missing: {signals.keys()}")
        return {"worst": 0.0}
    import pyedflib
    file = pyedflib.EdfReader(path)
    check(file.getSignalLabels() == list(signals), f"labels: {file.getSignalLabels()}")
    for number, (label, (rate, lead, values)) in enumerate(signals.items()):
        check(file.getPhysicalDimension(number) == unit(label), f"unit of {label}")
        # 130.0000 and 49.9978 are nearly, but not quite, 13 to 5: no short record has whole samples of both.
        check(abs(file.getSampleFrequency(number) / rate - 1) < 2.5e-5, f"rate of {label}")
        read = edf_signal(file, number)
        check(np.isnan(read[:lead]).all() and np.isnan(read[lead + len(values):]).all(), f"around {label}")
        read = read[lead:lead + len(values)]
        check((np.isnan(read) == np.isnan(values)).all(), f"missing values of {label}")
        worst[label] = float(np.nanmax(np.abs(read - values)))
    notes = {text: round(onset * 1e9) for onset, _, text in zip(*file.readAnnotations())}
    for text, want in [(f"{ECG_LOST} missing (ecg)", ECG_LOST_BEFORE * ECG_FRAME * ECG_PERIOD),
                       (f"{ACC_LOST} missing (accelerometer)",
                        (round(ACC_LATE / ACC_PERIOD) + ACC_LOST_BEFORE * ACC_FRAME) * ACC_PERIOD)]:
        check(abs(notes.get(text, -1) - want) <= 100_000, f"note '{text}': {notes}")
    return {"worst": max(worst.values())}


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
                want = want.fillna(int(index["missingInteger"])).to_numpy(np.int64)
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
            check(int(table["startNs"]) == expected[first].iloc[0], f"start of {name}")
            check(int(table["endNs"]) == expected[first].iloc[-1], f"end of {name}")
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


def edf_signal(file, number):
    """As the guide says: what has the lowest digital value is no value."""
    signal, digital = file.readSignal(number), file.readSignal(number, digital=True)
    signal[digital == file.getDigitalMinimum(number)] = np.nan
    return signal


def unit(label):
    return {"g": "g", "uv": "uV", "counts": "counts", "mg": "mg"}[label.split("_")[-1]]


def expected_notes(kind, length):
    period = PERIOD if kind == "ring" else ECG_PERIOD
    notes = [(0, None, "Recording starts"), (length * period, None, "Recording ends")]
    if kind == "ecg":
        first = ECG_LOST_BEFORE * ECG_FRAME
        return notes + [(first * period, ECG_LOST * period, f"{ECG_LOST} missing (all)")]
    for first, count, what in LOST:
        notes.append((first * period, count * period, f"{count} missing ({what})"))
    for first, count, kinds in DROPOUTS:
        notes.append((first * period, count * period, f"dropout ({','.join(kinds)})"))
    jump = round(PAUSE / PERIOD)
    notes.append((RESTART * period, (jump - 1) * period, f"{jump - 1} missing (all)"))
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
        check(file.getPhysicalDimension(number) == unit(label), f"unit of {label}")
        check(abs(file.getSampleFrequency(number) * period / 1e9 - 1) < 1e-6, f"rate of {label}")
        read = edf_signal(file, number)
        check(len(read) >= length, f"length of {label}")
        check((np.isnan(read[:length]) == np.isnan(values)).all(), f"missing values of {label}")
        worst = max(worst, float(np.nanmax(np.abs(read[:length] - values))))
        check(np.isnan(read[length:]).all(), f"the rest of the last record of {label}")
        ends = file.getPhysicalMaximum(number) - file.getPhysicalMinimum(number)
        steps.append(ends / (file.getDigitalMaximum(number) - file.getDigitalMinimum(number)))
    start = START // 100_000 * 1_000
    seconds = int(pd.Timestamp(file.getStartdatetime().replace(microsecond=0)).value // 10**9)
    # getStartdatetime returns tenths of the microseconds; the attribute is in units of 100 ns.
    check(seconds * 10**7 + file.starttime_subsecond == start, "start")
    found = [(round(onset * 1e9), None if length < 0 else round(length * 1e9), text)
             for onset, length, text in zip(*file.readAnnotations())]
    for onset, duration, text in expected_notes(kind, length):
        check(any(abs(onset - a) <= 100_000 and text == c and
                  (duration == b or None not in (duration, b) and abs(duration - b) <= 100_000)
                  for a, b, c in found), f"no note '{text}' at {onset}: {found}")
    check(len(found) == len(expected_notes(kind, length)), f"notes: {found}")
    check("lowest digital = no value" in file.getRecordingAdditional(), file.getRecordingAdditional())
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
        check(read.units[number] == unit(label), label)
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
                if column.endswith("_ns") and value is not None:
                    # A number would be rounded by others.
                    check(isinstance(value, str), f"{name}.{column} is no text")
                    value = int(value)
                check(pd.isna(want) if value is None else abs(want - value) <= 0.51e-6, f"{name}.{column}")
    return {"rows": {name: len(objects) for name, objects in rows.items()}}


COMMANDS = {"make": make, "make-ecg": make_ecg, "arrays": arrays, "open": open_all, "edf": edf, "wfdb": record,
            "make-polar": make_polar, "polar": polar, "lines": lines}

if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
