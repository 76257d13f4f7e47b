#!/usr/bin/env python3
"""Writes captures of sensors on one body, as ringtap records them, and prints how their clocks lie, as one JSON object.

bodies.py make DIRECTORY SECONDS SEED      another seed is another body
bodies.py vary DIRECTORY SECONDS SEED      and other offsets, crystals and intervals; with truth.json, for Tools/simulate --align
bodies.py grid FILE                        how far the movements of two devices in a grid are apart: milliseconds, by quarters

Everything is made here, by numpy alone: movement that comes and goes, a heart that varies, and three sensors: a ring on the hand, a
sensor on the chest with acceleration and an electrocardiogram, and a strap. Each measures by its own clock, keeps what it has measured for
a while, and sends it in the next connection event of its link.
"""

import json
import sys
from pathlib import Path

import numpy
import pandas

START = 1_700_000_000_000_000_000
EPOCH = 599_616_000_000_000_000

# How long each keeps its values, and by how much its clock is fast.
RING = {"late": 0.031, "ppm": -12.0}
CHEST = {"late": 0.653, "ppm": 16.0}
STRAP = {"late": 0.240, "ppm": 28.0}


def movement():
    """Three axes in g at 500 Hz: bursts of what is between 0.5 and 5 Hz, on a hand that turns."""
    rate = 500
    count = int((seconds + 20) * rate)
    frequencies = numpy.fft.rfftfreq(count, 1 / rate)
    band = numpy.exp(-(((frequencies - 2.2) / 1.3) ** 2))
    axes = [numpy.fft.irfft(numpy.fft.rfft(random.normal(size=count)) * band, count) for _ in range(3)]
    time = numpy.arange(count) / rate
    knots = numpy.arange(0, seconds + 40, 8)
    bursts = numpy.interp(time, knots, random.uniform(0, 1, len(knots)) ** 2)
    axes = [axis / axis.std() * 0.35 * bursts for axis in axes]
    axes[2] = axes[2] + 1
    return time, axes


def beats():
    """R waves: intervals that wander as breathing has them."""
    times, time = [], 0.4
    while time < seconds + 10:
        times.append(time)
        time += 0.86 + 0.05 * numpy.sin(2 * numpy.pi * 0.23 * time) + random.normal(0, 0.025)
    return numpy.array(times)


INTERVAL = 0.045


def vary():
    """Other offsets and crystals than above, and an interval that divides the sensors' steps or does not."""
    global INTERVAL
    for sensor in (RING, CHEST, STRAP):
        sensor["late"] = round(float(random.choice([random.uniform(0, 0.05), random.uniform(0.05, 1), random.uniform(1, 4)])), 4)
        sensor["ppm"] = round(float(random.uniform(-100, 100)), 1)
    INTERVAL = float(random.choice([0.0075, 0.015, 0.03, 0.045, 0.05, 0.1]))


def truth():
    names = {"70-CB-0D-00-A1-B2": RING, "A0-9E-1A-00-00-01": CHEST, "C4-12-34-56-78-9A": STRAP}
    devices = [{"directory": name, "lateMs": sensor["late"] * 1e3, "ppm": sensor["ppm"]} for name, sensor in names.items()]
    devices[0]["hz"] = 25.0
    document = {"group": "movement and beats, by NumPy", "hopeless": False, "search": 10, "devices": devices}
    (folder / "truth.json").write_text(json.dumps(document))


def sent(measured, sensor, interval=None):
    """When the kernel has what was complete at these times: at the next event of a link, a few tenths of a millisecond later."""
    interval = interval or INTERVAL
    ready = measured + sensor["late"]
    # All that a sensor sends comes in the events of one link.
    phase = sensor.setdefault("phase", random.uniform(0, interval))
    events = numpy.ceil((ready - phase) / interval) * interval + phase
    return START + numpy.round((events + random.uniform(0.0002, 0.0005, len(events))) * 1e9).astype(numpy.int64)


def sampled(rate, sensor):
    """When samples are taken, by the body's time, until the end."""
    period = 1 / rate / (1 + sensor["ppm"] * 1e-6)
    return random.uniform(0, 0.1) + numpy.arange(int(seconds / period)) * period


def progressive(own, stamps):
    """A time for each row as a recorder may give it while it knows no better: it wanders in the first minute."""
    best = numpy.minimum.reduce([stamps[:200] - START - own[:200] * 1e9]).min()
    wander = 12e6 * numpy.exp(-own / 20) * numpy.cos(own / 7)
    return (START + own * 1e9 + best + wander).astype(numpy.int64)


def table(path, header, *columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(header + "\n")
        for row in zip(*columns):
            file.write(",".join(str(cell) for cell in row) + "\n")


def decimals(values, count):
    return [f"{value:.{count}f}" for value in values]


def ring(time, axes):
    taken = sampled(25.0, RING)
    stamps = sent(taken, RING)
    values = [numpy.clip(numpy.round(numpy.interp(taken, time, axis) * 512 + random.normal(0, 1.5, len(taken))), -2048, 2047) for axis in axes]
    tick = numpy.arange(len(taken))
    fitted = progressive(tick / 25.0, stamps)
    head = (
        "fitted_time_ns,tick,missing_before,fit,spo2_time_ns,spo2_counts,red_max_counts,red_min_counts,red_diff_counts,"
        "ppg_time_ns,ppg_counts,led_max_counts,led_min_counts,led_diff_counts,accelerometer_time_ns,x_counts,y_counts,z_counts,x_g,y_g,z_g")
    counts = [value.astype(int) for value in values]
    empty = [""] * len(taken)
    table(
        folder / "70-CB-0D-00-A1-B2/samples.csv", head, fitted, tick, [0] * len(tick), [1] * len(tick), *[empty] * 10, stamps, *counts,
        *[decimals(value / 512, 6) for value in values])
    return taken


def chest(time, axes, heart):
    def rows(rate, name, head, columns):
        taken = sampled(rate, CHEST)
        own = numpy.round(taken * (1 + CHEST["ppm"] * 1e-6) * 1e9).astype(numpy.int64) + EPOCH
        # Frames of 36 samples, each complete with its last.
        last = numpy.minimum(numpy.arange(len(taken)) // 36 * 36 + 35, len(taken) - 1)
        frames = sent(taken[last], CHEST)
        times = progressive((own - EPOCH) / 1e9, frames)
        table(folder / f"A0-9E-1A-00-00-01/{name}.csv", "time_ns,frame_time_ns,device_time_ns," + head, times, frames, own, *columns(taken))

    def acceleration(taken):
        # Worn another way round.
        order = [axes[1], -axes[2], axes[0]]
        return [decimals(numpy.round(numpy.interp(taken, time, axis) * 1000 + random.normal(0, 3, len(taken))), 3) for axis in order]

    def ecg(taken):
        signal = random.normal(0, 12, len(taken))
        for shift, width, height in ((0, 0.011, 1100), (-0.045, 0.012, -120), (0.04, 0.012, -230), (0.27, 0.045, 260), (-0.17, 0.022, 110)):
            for beat in heart:
                first, end = numpy.searchsorted(taken, [beat + shift - 0.2, beat + shift + 0.2])
                part = taken[first:end]
                signal[first:end] += height * numpy.exp(-(((part - beat - shift) / width) ** 2) / 2)
        return [numpy.round(signal).astype(int)]

    rows(50.0, "accelerometer", "x_mg,y_mg,z_mg", acceleration)
    rows(130.0, "ecg", "ecg_uv", ecg)


def strap(heart):
    ticks = numpy.round(heart * (1 + STRAP["ppm"] * 1e-6) * 1024).astype(int)
    measured = numpy.arange(1.0, seconds, 1 / (1 + STRAP["ppm"] * 1e-6))
    stamps = sent(measured, STRAP)
    times, intervals = [], []
    for number in range(1, len(heart)):
        place = numpy.searchsorted(measured, heart[number])
        if place < len(measured):
            times.append(stamps[place])
            intervals.append(ticks[number] - ticks[number - 1])
    table(
        folder / "C4-12-34-56-78-9A/rr_intervals.csv", "time_ns,rr_1024ths,rr_ms", times, intervals,
        decimals([interval * 1000 / 1024 for interval in intervals], 3))


def apart(path):
    """By the phase of the cross spectrum, which knows nothing of correlation's peak."""
    grid = pandas.read_csv(path)
    rate = 1e9 / numpy.median(numpy.diff(grid["time_ns"]))
    sizes = []
    for unit in ("g", "mg"):
        columns = [[name for name in grid.columns if name.startswith(f"{axis}_{unit}_")] for axis in "xyz"]
        sizes.append(numpy.sqrt(sum(grid[names[0]] ** 2 for names in columns)) / (1000 if unit == "mg" else 1))
    lags = []
    for part in numpy.array_split(numpy.arange(len(grid)), 4):
        first, second = (size[part].interpolate(limit_direction="both").to_numpy() for size in sizes)
        window = numpy.hanning(len(part))
        spectra = [numpy.fft.rfft((signal - signal.mean()) * window) for signal in (first, second)]
        frequencies = numpy.fft.rfftfreq(len(part), 1 / rate)
        band = (frequencies > 0.7) & (frequencies < 5)
        cross = (spectra[0] * numpy.conj(spectra[1]))[band]
        omega = 2 * numpy.pi * frequencies[band]
        lags.append(float((numpy.abs(cross) * omega * numpy.angle(cross)).sum() / (numpy.abs(cross) * omega**2).sum() * 1e3))
    return lags


if sys.argv[1] == "grid":
    json.dump({"apartMs": apart(sys.argv[2])}, sys.stdout)
    sys.exit()
folder, seconds = Path(sys.argv[2]), float(sys.argv[3])
random = numpy.random.default_rng(int(sys.argv[4]))
if sys.argv[1] == "vary":
    vary()
time, axes = movement()
heart = beats()
ring(time, axes)
chest(time, axes, heart)
strap(heart)
if sys.argv[1] == "vary":
    # As ringtap notes it: without, a range has every interval in it that the stamps fit.
    for directory in folder.iterdir():
        change = {"timeNs": str(START - 5_000_000_000), "intervalMs": INTERVAL * 1e3, "receiveDataLength": 251}
        (directory / "session.json").write_text(json.dumps({"connection": {"changes": [change]}}))
    truth()
print(json.dumps({"ring": RING, "chest": CHEST, "strap": STRAP}))
