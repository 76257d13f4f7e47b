#!/usr/bin/env python3
"""Makes interval-fixtures.json: beat-to-beat intervals of five minutes, with what other programs say of them.

Needs neurokit2 0.2.13 and heartpy 1.2.7 from PyPI, half a gigabyte with what they need, so its output is kept in the
repository and the tests need neither:

    python3 -m venv venv && venv/bin/pip install neurokit2==0.2.13 heartpy==1.2.7
    venv/bin/python make_interval_fixtures.py

Intervals are whole milliseconds: a mean, a wave at 0.25 Hz (breathing), one at 0.1 Hz, a slow drift and noise, each of its
own size. In those with artefacts beats were taken out (missed), put in (extra) or moved (ectopic) at known places.

`neurokit2`: `hrv_time`, `hrv_nonlinear` and `hrv_frequency` (its defaults, but powers in ms² instead of shares of the
largest) of the intervals, or, where there are artefacts, of those that `signal_fixpeaks(method="Kubios")` makes of
them: this is Lipponen and Tarvainen's correction, though it moves one beat too many at an ectopic one. `heartpy`:
`calc_ts_measures` and `calc_poincare` of the same. `undisturbed`: neurokit2 on the intervals before the artefacts.
Milliseconds; pNN50 in per cent. "recorded" are the intervals of the beats in `ecg-fixtures.json` at rest.
"""

import base64
import json
import warnings
from pathlib import Path

import heartpy.analysis as heartpy
import neurokit2 as nk
import numpy as np

SECONDS = 300


def beats(seed, mean, breathing, slow, drift, noise):
    """Beats at whole milliseconds."""
    random = np.random.default_rng(seed)
    times = [0]
    while times[-1] < SECONDS * 1000:
        seconds = times[-1] / 1000
        interval = mean + breathing * np.sin(2 * np.pi * 0.25 * seconds) + slow * np.sin(2 * np.pi * 0.1 * seconds + 1)
        interval += drift * np.cos(2 * np.pi * seconds / SECONDS) + random.normal(0, noise)
        times.append(times[-1] + int(round(interval)))
    return np.array(times[:-1])


def unpacked(text):
    values, number, shift = [0], 0, 0
    for octet in base64.b64decode(text):
        number |= (octet & 127) << shift
        shift += 7
        if octet < 128:
            values.append(values[-1] + (number // 2 if number % 2 == 0 else -(number + 1) // 2))
            number = shift = 0
    return np.array(values[1:])


def disturbed(times, ectopic=(), missed=(), extra=()):
    times = times.astype(float)
    for place in ectopic:
        times[place] -= 0.35 * (times[place] - times[place - 1])
    more = [times[place] + 0.45 * (times[place + 1] - times[place]) for place in extra]
    times = np.delete(times, list(missed))
    return np.sort(np.concatenate([times, more])).round().astype(int)


def numbers(values, names):
    return {ours: round(float(values[theirs]), 6) for ours, theirs in names.items()}


def by_neurokit(peaks):
    values = {}
    for table in (
        nk.hrv_time(peaks, sampling_rate=1000), nk.hrv_nonlinear(peaks, sampling_rate=1000),
        nk.hrv_frequency(peaks, sampling_rate=1000, normalize=False, silent=True),
    ):
        values.update(table.iloc[0].to_dict())
    return numbers(values, {
        "mean": "HRV_MeanNN", "sdnn": "HRV_SDNN", "rmssd": "HRV_RMSSD", "pnn50": "HRV_pNN50", "sd1": "HRV_SD1",
        "sd2": "HRV_SD2", "ratio": "HRV_SD1SD2", "lf": "HRV_LF", "hf": "HRV_HF", "lf_hf": "HRV_LFHF",
    })


def by_heartpy(peaks):
    intervals = np.diff(peaks).astype(float)
    differences = np.abs(np.diff(intervals))
    working, values = heartpy.calc_ts_measures(intervals, differences, differences**2, {}, {})
    working.update(RR_masklist=[0] * len(intervals), RR_list=intervals, RR_diff=differences)
    values = heartpy.calc_poincare(intervals, [0] * len(intervals), values, working)
    values["pnn50"] *= 100
    return numbers(values, {
        "mean": "ibi", "rate": "bpm", "sdnn": "sdnn", "rmssd": "rmssd", "pnn50": "pnn50", "sd1": "sd1", "sd2": "sd2",
        "ratio": "sd1/sd2",
    })


def case(name, times, **artefacts):
    peaks = disturbed(times, **artefacts) if artefacts else times
    result = {"name": name, "intervals": np.diff(peaks).tolist()}
    if artefacts:
        result["made"] = {kind: len(places) for kind, places in artefacts.items()}
        result["undisturbed"] = by_neurokit(times)
        _, peaks = nk.signal_fixpeaks(peaks, sampling_rate=1000, method="Kubios", iterative=True)
    result["neurokit2"] = by_neurokit(peaks)
    result["heartpy"] = by_heartpy(peaks)
    return result


def main():
    warnings.simplefilter("ignore")
    rest = beats(1, 920, 35, 30, 15, 8)
    run = beats(2, 480, 6, 7, 10, 3)
    recorded = json.loads(Path(__file__).with_name("ecg-fixtures.json").read_text())["recorded"][0]
    cases = [
        case("recorded", unpacked(recorded["beats"])),
        case("rest", rest),
        case("exercise", run),
        case("athlete asleep", beats(3, 1250, 90, 25, 20, 15)),
        case("stress", beats(4, 700, 8, 25, 30, 5)),
        case("noise", beats(5, 850, 0, 0, 0, 40)),
        case("rest, ectopic beats", rest, ectopic=(40, 111, 222, 270)),
        case("rest, missed beats", rest, missed=(60, 180, 250)),
        case("rest, extra beats", rest, extra=(33, 140, 260)),
        case("exercise, of each kind", run, ectopic=(80, 300), missed=(150, 420), extra=(210, 500)),
    ]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    Path(__file__).with_name("interval-fixtures.json").write_text(f"[\n{lines}\n]\n")


main()
