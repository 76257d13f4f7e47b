#!/usr/bin/env python3
"""Makes pulse-fixtures.json: plethysmograms whose beats are known, with what other programs find in them.

Needs neurokit2 0.2.13 and heartpy 1.2.7 from PyPI, with the packages they need half a gigabyte, so its output is kept
in the repository and the tests need neither:

    python3 -m venv venv && venv/bin/pip install neurokit2==0.2.13 heartpy==1.2.7
    venv/bin/python make_pulse_fixtures.py

The pulse is neurokit2's (`ppg_simulate`); the landmarks from which it draws the waves are read where it hands them to
its interpolation: the systolic peaks among them are `beats`. Values are rounded to counts as a ring sends them.
`neurokit2` and `heartpy` are the peaks that those two find in the rounded signal. `corrupted` are stretches in which
the hand shakes: noise of 0.5 … 5 Hz in the accelerometer, and the same filtered and larger than the pulse in the
light. In the walking case the noise is two harmonics of 1.75 Hz instead: as regular as a pulse. All times are seconds.
"""

import json
import sys
import warnings
from pathlib import Path

import heartpy
import neurokit2 as nk
import numpy as np
from scipy.signal import butter, sosfiltfilt

COUNTS_PER_G = 512
landmarks = None


def simulate(rate, seconds, heart_rate, seed):
    """The signal, scaled to a peak-to-peak of about 1, and the times of its systolic peaks."""
    global landmarks
    module = sys.modules["neurokit2.ppg.ppg_simulate"]
    original = module.signal_interpolate

    def spy(*arguments, **named):
        global landmarks
        if named.get("method") == "akima":
            landmarks = np.array(named["x_values"]) / 1000
        return original(*arguments, **named)

    module.signal_interpolate = spy
    try:
        signal = nk.ppg_simulate(
            duration=seconds, sampling_rate=1000, heart_rate=heart_rate, frequency_modulation=0.2,
            ibi_randomness=0.1, drift=0.2, motion_amplitude=0, powerline_amplitude=0, random_state=seed)
    finally:
        module.signal_interpolate = original
    # 1,000 a second is a multiple of each rate here: only what a ring's own slow light sensor would average away
    # could alias, and the wave has next to nothing above 10 Hz.
    signal = signal[:: 1000 // rate]
    beats = [t for t in np.sort(landmarks)[1::4] if t < seconds]
    return (signal - np.median(signal)) / 2, beats


def band_noise(random, samples, rate):
    noise = sosfiltfilt(butter(2, [0.5, min(5, 0.4 * rate)], "band", fs=rate, output="sos"), random.normal(size=samples))
    return noise / noise.std()


def walking(samples, rate):
    """Three axes of steady steps, each of unit deviation."""
    time = np.arange(samples) / rate
    wave = lambda phase: np.sin(2 * np.pi * 1.75 * time + phase) + 0.5 * np.sin(2 * np.pi * 3.5 * time + 2 * phase)
    return np.column_stack([wave(phase) / wave(phase).std() for phase in (0, 1, 2)])


def found_by_neurokit(signal, rate):
    _, information = nk.ppg_process(np.array(signal, float), sampling_rate=rate)
    return np.array(information["PPG_Peaks"]) / rate


def found_by_heartpy(signal, rate):
    filtered = heartpy.filter_signal(np.array(signal, float), [0.5, 8], rate, order=2, filtertype="bandpass")
    working, _ = heartpy.process(filtered, rate)
    kept = np.array(working["binary_peaklist"]) == 1
    return np.array(working["peaklist"])[kept] / rate


def case(name, rate, heart_rate, seed, seconds=60, corrupted=(), has_accelerometer=True, noise=0.0,
         is_walking=False):
    random = np.random.default_rng(seed)
    signal, beats = simulate(rate, seconds, heart_rate, seed)
    samples = len(signal)
    gravity = np.array([0.3, -0.5, 0.8])
    acceleration = np.outer(np.ones(samples), gravity / np.linalg.norm(gravity))
    acceleration += random.normal(0, 0.004, acceleration.shape)
    signal = signal + random.normal(0, 0.01 + noise, samples)
    shake = walking(samples, rate) if is_walking else np.column_stack([band_noise(random, samples, rate) for _ in range(3)])
    for start, end, strength in corrupted:
        part = slice(int(start * rate), int(end * rate))
        acceleration[part] += 0.25 * shake[part]
        signal[part] += strength * (0.7 * shake[part, 0] + 0.7 * shake[part, 1])
    values = np.clip(np.round(10_800 + 250 * signal), 1, 65_535).astype(int).tolist()
    axes = np.clip(np.round(acceleration * COUNTS_PER_G), -2048, 2047).astype(int).tolist()
    result = {
        "name": name, "rate": rate, "ppg": values, "beats": [round(float(t), 4) for t in beats],
        "corrupted": [[start, end] for start, end, _ in corrupted],
    }
    if has_accelerometer and corrupted:
        result["accelerometer"] = axes
    if not corrupted:
        result["neurokit2"] = [round(t, 4) for t in found_by_neurokit(values, rate).tolist()]
        result["heartpy"] = [round(t, 4) for t in found_by_heartpy(values, rate).tolist()]
    return result


def main():
    warnings.simplefilter("ignore")
    shaken = [(20, 40, 0.5), (60, 80, 1.0), (100, 120, 0.3)]
    cases = [
        case("clean 25 Hz 70/min", 25, 70, 1),
        case("clean 50 Hz 52/min", 50, 52, 2),
        case("clean 50 Hz 75/min", 50, 75, 3),
        case("clean 50 Hz 140/min", 50, 140, 4),
        case("clean 100 Hz 95/min", 100, 95, 5, seconds=40),
        case("noisy 50 Hz 80/min", 50, 80, 6, noise=0.05),
        case("shaken 50 Hz 72/min", 50, 72, 7, 120, shaken),
        case("shaken 25 Hz 90/min", 25, 90, 8, 120, shaken),
        case("shaken 50 Hz 72/min, no accelerometer", 50, 72, 9, 120, shaken, has_accelerometer=False),
        case("walking 50 Hz 66/min", 50, 66, 10, 80, [(20, 60, 1.5)], is_walking=True),
    ]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    Path(__file__).with_name("pulse-fixtures.json").write_text(f"[\n{lines}\n]\n")


main()
