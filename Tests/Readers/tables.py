#!/usr/bin/env python3
"""Reads what tables mean with pandas, NumPy, pyEDFlib and wfdb: names of columns, dropouts.

tables.py names FILE            whether pandas takes each name of the file, a list in JSON, as an attribute of its own
tables.py dropouts CSV NPY EDF WFDB
                                how many values of the light each program reads as NaN, in all the same places

One JSON object on standard output; the exit status is 1 with a message for the first thing that differs.
"""

import json
import os
import sys

import numpy as np
import pandas as pd

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from readers import check, edf_signal


def names(path):
    with open(path) as file:
        given = json.load(file)
    check(given, "no names")
    for name in given:
        check(name.isidentifier() and not hasattr(pd.DataFrame, name), f"'{name}' is no attribute of its own")
        frame = pd.DataFrame({name: [1.5]})
        check(getattr(frame, name).iloc[0] == 1.5, f"'{name}' is not the column")
    return {"names": len(given)}


def dropouts(text, folder, edf_file, record_path):
    import pyedflib
    import wfdb
    ppg, spo2 = (pd.read_csv(f"{text}/{name}.csv") for name in ("ppg", "spo2"))
    frame = pd.read_csv(f"{text}/samples.csv")
    check(list(frame.tick) == list(range(len(frame))) and frame.accelerometer_time_ns.notna().all(), "ticks are missing")
    check(list(frame.ppg_counts.isna()) == list(ppg.ppg_counts.isna()), "ppg.csv")
    check(list(frame.spo2_counts.isna()) == list(spo2.spo2_counts.isna()), "spo2.csv")
    read, file = wfdb.rdrecord(record_path), pyedflib.EdfReader(edf_file)
    labels = file.getSignalLabels()
    found = {}
    for name in ("ppg", "spo2"):
        column = f"{name}_counts"
        missing = frame[column].isna().to_numpy()
        check(frame[column].min() > 0, f"a 0 in {column}")
        array = np.load(f"{folder}/{name}/{column}.npy")
        check(array.dtype == np.float32 and (np.isnan(array) == missing).all(), f"NumPy's {column}")
        signal = edf_signal(file, labels.index(column))[:len(frame)]
        check(np.array_equal(signal, frame[column], equal_nan=True), f"pyEDFlib's {column}")
        signal = read.p_signal[:, read.sig_name.index(column)]
        check(np.array_equal(signal, frame[column], equal_nan=True), f"wfdb's {column}")
        # The LED's columns are complete nevertheless.
        check(frame[[f"{'led' if name == 'ppg' else 'red'}_max_counts"]].notna().all().all(), f"the LED of {column}")
        found[name] = int(missing.sum())
        onsets, _, notes = file.readAnnotations()
        told = {round(onset * file.getSampleFrequency(0)) for onset, note in zip(onsets, notes)
                if note.startswith("dropout") and name in note}
        check(told == {place for place in np.flatnonzero(missing) if place == 0 or not missing[place - 1]},
              f"notes of {column}: {sorted(told)}")
    return found


COMMANDS = {"names": names, "dropouts": dropouts}

if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
