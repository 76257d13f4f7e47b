"""How soon a device that nobody has seen streams: ATT requests and time. For Tools/Benchmarks/run.

Inside the test kernel (`first.py RINGTAP`) each client connects to each device by turns, every time with all new: controller,
device, bus, daemon, stored devices. BlueZ's btmon logs each run. Afterwards, outside, tshark counts in those logs: neither is
ours, and both see what passes the kernel whoever sends it.
"""

import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from kernel import Scene, controller, start_daemon

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROUNDS = 7
PATIENCE = 60
# Values that each run waits for; the first is what counts. A ring's stream is looked at for some seconds where all that the stream
# did not need is asked meanwhile, and where all was asked before.
COUNT, LONG_COUNT = 20, 450
BLUEZ_DEVICES = Path("/var/lib/bluetooth")
QUEUE = Path("/proc/sys/net/core/rmem_default")

# How each is emulated: often enough that the wait for its next sample is short beside the link's.
DEVICES = {
    "ring": ("ring", ["--quiet", "--rate", "75"]),
    "heart-rate": ("heart-rate strap", ["--rate", "25"]),
    "thermometer": ("thermometer", ["--rate", "25"]),
    "core": ("CORE", ["--rate", "25"]),
    "polar": ("Polar, ECG", ["--rate", "25"]),
}
COMMANDS = {"ring": "capture", "core": "thermometer"}
CLIENTS = {
    "raw": "ringtap, raw mode",
    "coexist": "ringtap, coexist mode",
    "exclusive": "ringtap, exclusive mode",
    "bleak": "bluetoothd + bleak",
    "bumble": "google/bumble",
}
ALL, SOME = tuple(CLIENTS), ("raw", "bleak")
RUNS = [(kind, client) for kind in DEVICES for client in (ALL if kind in ("ring", "heart-rate") else SOME)]
LONG = {("ring", client) for client in SOME}

# Core 5.4, Vol 3, Part F, 3.4: requests that a client may send.
REQUESTS = {0x02, 0x04, 0x06, 0x08, 0x0A, 0x0C, 0x0E, 0x10, 0x12, 0x16, 0x18, 0x20}
NOTIFICATION = 0x1B
# The monitor's packets: data sent and received.
SENT, RECEIVED = 4, 5
# LE Connection Complete, its enhanced form, and LE Connection Update Complete.
CONNECTED, UPDATED = (0x01, 0x0A), 0x03


# --- Inside the test kernel ---


def start_log(scene, log):
    """BlueZ's monitor with a queue that loses nothing: the default holds some 300 packets."""
    before = QUEUE.read_text()
    QUEUE.write_text("8388608")
    program = subprocess.Popen(
        ["btmon", "-w", log], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    scene.programs.append(program)
    # Its header has 16 octets; what follows is of the channel, so it listens.
    while program.poll() is None and not (log.exists() and log.stat().st_size > 16):
        time.sleep(0.02)
    QUEUE.write_text(before)
    return program


def forget():
    """What bluetoothd and ringtap keep of devices."""
    for place in (*BLUEZ_DEVICES.iterdir(), Path("/tmp/capture"), Path("/tmp/state")):
        shutil.rmtree(place, ignore_errors=True)


def client_command(ringtap, kind, client, address):
    count = LONG_COUNT if (kind, client) in LONG else COUNT
    if client == "bleak":
        return [os.environ["BLEAK_PYTHON"], HERE / "clients/bleak_client.py", kind, count, address, "start"]
    if client == "bumble":
        return [os.environ["PEER_PYTHON"], HERE / "clients/bumble_client.py", kind, count, address, "hci-socket:0"]
    return [ringtap, COMMANDS.get(kind, kind), address, "--mode", client, "--count", count, "--output", "/tmp/capture",
            "--quiet"]


def run(ringtap, kind, client, log):
    """One client, one device, one log; when the client's program began, in nanoseconds since the epoch."""
    forget()
    scene = Scene()
    try:
        monitor = start_log(scene, log)
        device = scene.start(ringtap, "emulate", kind, "--vhci", "--real-time", *DEVICES[kind][1])
        address = device.stdout.readline().split()[2]
        if client in ("bleak", "coexist"):
            start_daemon(scene)
            subprocess.run(["bluetoothctl", "power", "on"], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
        elif client in ("bumble", "exclusive"):
            controller("off")
        began = time.time_ns()
        program = scene.start(
            *client_command(ringtap, kind, client, address), stderr=subprocess.PIPE,
            env=os.environ | {"XDG_STATE_HOME": "/tmp/state"})
        _, errors = program.communicate(timeout=PATIENCE)
        if program.returncode:
            raise RuntimeError(f"{kind}, {client}: status {program.returncode}: {errors}")
        if monitor.poll() is not None:
            raise RuntimeError(f"btmon ended early: {monitor.returncode}")
        monitor.terminate()
        monitor.wait()
        return began
    finally:
        scene.end()


def main():
    ringtap, results = sys.argv[1], Path(os.environ["RINGTAP_RESULTS"])
    begins = {}
    for number in range(int(os.environ.get("ROUNDS", ROUNDS))):
        for kind, client in RUNS:
            name = f"{kind}-{client}-{number}"
            begins[name] = run(ringtap, kind, client, results / f"{name}.btsnoop")
            print(name, file=sys.stderr, flush=True)
    (results / "begins.json").write_text(json.dumps(begins) + "\n")


# --- Outside ---


def packets(log):
    """Time, direction, ATT opcode and handle, LE event and interval of each packet that has one of them, as tshark has them."""
    fields = ("frame.time_epoch", "hci_mon.opcode", "btatt.opcode", "btatt.handle", "bthci_evt.le_meta_subevent",
              "bthci_evt.le_con_interval")
    told = subprocess.run(
        ["tshark", "-r", log, "--disable-protocol", "btgatt", "-Y", "btatt.opcode || bthci_evt.le_meta_subevent", "-T", "fields",
         "-E", "separator=|", "-E", "occurrence=f", *(word for field in fields for word in ("-e", field))],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for line in told.splitlines():
        moment, *numbers = line.split("|")
        seconds, fraction = moment.split(".")
        yield int(seconds + fraction.ljust(9, "0")), *(int(number, 0) if number else None for number in numbers)


def look(log, began):
    """The requests before the stream, the link's intervals until then, and its times from the command and from the link; the
    requests after its beginning, and its longest pause."""
    seen = list(packets(log))
    handles = collections.Counter(handle for _, way, opcode, handle, *_ in seen if (way, opcode) == (RECEIVED, NOTIFICATION))
    if not handles:
        sys.exit(f"run: no notification in {log}")
    # The stream has the most notifications.
    stream = handles.most_common(1)[0][0]
    requests, intervals, linked = 0, [], None
    for place, (moment, way, opcode, handle, event, interval) in enumerate(seen):
        if (way, opcode, handle) == (RECEIVED, NOTIFICATION, stream):
            return {"requests": requests, "intervals": " then ".join(intervals), "fromLink": (moment - linked) / 1e6,
                    "fromCommand": (moment - began) / 1e6} | follow(seen[place:], stream)
        if way == SENT and opcode in REQUESTS:
            requests += 1
        elif event in CONNECTED:
            requests, intervals, linked = 0, [f"{interval * 1.25:g}"], moment
        elif event == UPDATED:
            intervals.append(f"{interval * 1.25:g}")


def follow(seen, stream):
    """The requests while a stream runs, and its longest pause in ms."""
    stamps = [moment for moment, way, opcode, handle, *_ in seen if (way, opcode, handle) == (RECEIVED, NOTIFICATION, stream)]
    later = sum(way == SENT and opcode in REQUESTS for moment, way, opcode, *_ in seen if moment < stamps[-1])
    return {"later": later, "longestPause": max(after - before for before, after in zip(stamps, stamps[1:])) / 1e6}


def measure(ringtap, folder, say):
    """All of it in one run of one test kernel."""
    pythons = {}
    for group in ("peers", "python", "benchmarks"):
        told = subprocess.run([ROOT / "Tools/install", group], check=True, stdout=subprocess.PIPE, text=True).stdout
        pythons[group] = told.strip()
    results = folder / "first"
    subprocess.run(
        [ROOT / "Tools/test-kernel", "run", "--timeout", "2400", "--results", results, "--", "/usr/bin/python3", HERE / "first.py",
         ringtap],
        check=True, env=os.environ | {"PEER_PYTHON": pythons["python"], "BLEAK_PYTHON": pythons["benchmarks"]})
    say("counting with tshark")
    begins = json.loads((results / "begins.json").read_text())
    return {"rounds": len(begins) // len(RUNS), "rows": count(results, begins)}


def count(results, begins):
    """Least, median and most of each client with each device."""
    rows = []
    for kind, client in RUNS:
        runs = [look(results / f"{name}.btsnoop", began) for name, began in begins.items()
                if name.rsplit("-", 1)[0] == f"{kind}-{client}"]
        rows.append(
            {"device": kind, "client": client, "intervals": sorted({run["intervals"] for run in runs})}
            | {key: spread([run[key] for run in runs])
               for key in ("requests", "fromLink", "fromCommand", "later", "longestPause")})
    return rows


def spread(values):
    return [round(value) for value in (min(values), statistics.median(values), max(values))]


def span(spread):
    """A median with the least and the most; only one number where they are the same."""
    least, median, most = (f"{value:,}" for value in spread)
    return least if least == most else f"{median} ({least} … {most})"


def lines(data, machine, table):
    yield "## The first sample of a device never seen"
    yield ""
    yield machine
    yield ""
    yield (f"Medians of {data['rounds']} rounds in one run of the test kernel (minimum … maximum). In each round, every client "
           "connects to every device in turn, each time with a new controller, device, daemon and device store. The device is "
           "`ringtap emulate … --vhci --real-time`. Its link is as slow as a real link: a request takes one connection event, "
           "and its response the next. The device sends at 25 Hz (a ring sends three notifications each time), and sends no "
           "requests. All clients know the address. tshark determines requests and times from a log of btmon. Requests are the "
           "ATT requests of both sides before the kernel receives the first notification of the stream. Times are in ms until "
           "this notification, from LE Connection Complete and from the start of the program.")
    yield ""
    yield from table(
        ("device", "client", "ATT requests before it", "interval until then, ms", "from the link", "from the command"),
        ((DEVICES[row["device"]][0], CLIENTS[row["client"]], span(row["requests"]),
          ", ".join(row["intervals"]), span(row["fromLink"]), span(row["fromCommand"]))
         for row in data["rows"]))
    yield ("Requests that a stream does not need are sent while it runs, and must not delay it. The first "
           f"{LONG_COUNT // 75} seconds of a ring's stream in the same run, for clients that send these requests during the "
           "stream, and for clients that send all requests before it:")
    yield ""
    yield from table(
        ("ring", "ATT requests while it streams", "longest pause of the stream, ms"),
        ((CLIENTS[row["client"]], span(row["later"]), span(row["longestPause"]))
         for row in data["rows"] if (row["device"], row["client"]) in LONG))
    yield ("After a fast start, the longest pause occurs when the interval changes from 15 to 50 ms. With 50 ms from the "
           "beginning, the longest pause was 51 (49 … 53) with 16 requests and 50 (49 … 53) without requests (2026-11-26, "
           "before raw mode had the fast start).")
    yield ""
    yield ("The time from the command includes the start of the program (for bleak and bumble, of Python) and the search for "
           "the device. A scan finds an emulated device after some ms, and a real device at its next advertisement. bleak may "
           "miss a report that arrives so soon; its next scan begins ten seconds later, which explains times of 13 s and more.")
    yield ""


if __name__ == "__main__":
    main()
