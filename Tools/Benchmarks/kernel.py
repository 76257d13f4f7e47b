#!/usr/bin/env python3
"""The comparison inside the test kernel: one emulated peripheral, the same stream, one receiver after the other.

Usage: kernel.py RINGTAP BARE RESULTS [RECEIVER...]     (started by `Tools/Benchmarks/run kernel`)

Four runs each: a few notifications, to know what starting costs; the stream of a ring as fast as it goes; the stream at 2,083/s with everybody who receives stopped for
200 ms, and a source at 400/s whose values carry their time. Processor time is utime + stime of all processes of the
receiver (its daemon included, the peripheral's not) by /proc, which this kernel samples 100 times a second.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent.parent / "Tests/KernelTests/Peers"
RING, SOURCE = "70:CB:0D:00:A1:B2", "70:CB:0D:00:50:C0"
TICK = os.sysconf("SC_CLK_TCK")
# Ring frames per second that a link at LE 2M can carry.
STALL_RATE = 2083
PATIENCE = 120

RECEIVERS = {
    "capture": "ringtap capture",
    "bare": "bare recv() loop",
    "bleak-start": "bluetoothd + bleak, StartNotify",
    "bleak-acquire": "bluetoothd + bleak, AcquireNotify",
    "bumble": "google/bumble",
    "gatttool": "gatttool",
}


def processor_seconds(pid):
    """utime + stime of a process and its threads, and its greatest resident memory in KiB."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    peak = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return (int(fields[11]) + int(fields[12])) / TICK, peak[0] if peak else 0


class Scene:
    """Programs that end together."""

    def __init__(self):
        self.programs = []

    def start(self, *command, **options):
        program = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options)
        self.programs.append(program)
        return program

    def end(self):
        for program in reversed(self.programs):
            program.kill()
            program.wait()
        self.programs = []


def controller(command):
    subprocess.run([PEERS / "controller", command, "0"], check=True)


def start_daemon(scene):
    bus = scene.start("dbus-daemon", "--system", "--nofork", "--nopidfile", "--print-address")
    bus.stdout.readline()
    daemon = scene.start("/usr/libexec/bluetooth/bluetoothd", "-n", stderr=subprocess.DEVNULL)
    for _ in range(100):
        listing = subprocess.run(
            ["timeout", "2", "bluetoothctl", "list"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if "Controller" in listing.stdout:
            break
        time.sleep(0.1)
    return [bus.pid, daemon.pid]


def receiver_command(receiver, kind, count, address, binaries, folder):
    ringtap, bare = binaries
    python, bleak = os.environ["PEER_PYTHON"], os.environ["BLEAK_PYTHON"]
    if receiver == "capture":
        if kind == "ring":
            return [ringtap, "capture", address, "--mode", "raw", "--count", count, "--output", folder, "--json"]
        return [ringtap, "bench", "notify", address, "--mode", "raw", "--count", count, "--settling", 0,
                "--duration", 60, "--json"]
    if receiver == "bare":
        return [bare, count, "--address", address] + (["--source"] if kind == "source" else [])
    if receiver.startswith("bleak"):
        return [bleak, HERE / "clients/bleak_client.py", kind, count, address, receiver.split("-")[1]]
    if receiver == "bumble":
        return [python, HERE / "clients/bumble_client.py", kind, count, address, "hci-socket:0"]
    return [python, HERE / "clients/gatttool_client.py", kind, count, address, "0x000a"]


class Run:
    """One receiver, one stream."""

    def __init__(self, receiver, kind, count, rate, binaries, stall=0.0):
        self.receiver, self.kind, self.count = receiver, kind, count
        self.scene = Scene()
        address = RING if kind == "ring" else SOURCE
        options = ["--quiet"] if kind == "ring" else ["--payload", "20"]
        self.peripheral = self.scene.start(
            binaries[0], "emulate", kind, "--vhci", "--rate", rate, "--count", count, *options)
        self.peripheral.stdout.readline()
        daemons = []
        if receiver.startswith("bleak"):
            daemons = start_daemon(self.scene)
            subprocess.run(["bluetoothctl", "power", "on"], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        elif receiver == "bumble":
            controller("off")
        self.folder = folder = Path(f"/tmp/capture-{receiver}-{rate}-{count}")
        self.line = self.measure(
            receiver_command(receiver, kind, count, address, binaries, folder), daemons, stall)
        self.peripheral.send_signal(signal.SIGINT)
        rest = self.peripheral.stdout.read()
        self.line["sent"] = next((int(word) for word in rest.split() if word.isdigit()), None)
        self.scene.end()

    def tables(self):
        """The rows of a capture of ringtap's; its first sample counts from the start of the program."""
        return [path.read_text().splitlines() for path in self.folder.glob("*.csv")]

    def measure(self, command, daemons, stall):
        before = sum(processor_seconds(pid)[0] for pid in daemons)
        begin, begin_ns = time.monotonic(), time.time_ns()
        program = self.scene.start(*command, stderr=subprocess.DEVNULL)
        pids = [program.pid] + daemons
        if self.receiver == "gatttool":
            pids = [int(program.stdout.readline().split()[1])]
        used, stalled = {}, False
        while program.poll() is None and time.monotonic() - begin < PATIENCE:
            for pid in pids:
                # One that has ended has its time still, but no memory.
                now = processor_seconds(pid) or (0, 0)
                used[pid] = tuple(map(max, now, used.get(pid, (0, 0))))
            if stall and not stalled:
                # Connected long before, and streaming for some seconds more.
                if time.monotonic() - begin > (6 if daemons else 4):
                    stalled = True
                    for pid in pids:
                        os.kill(pid, signal.SIGSTOP)
                    time.sleep(stall)
                    for pid in pids:
                        os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)
        if program.poll() is None:
            program.kill()
        lines = [line for line in program.stdout.read().splitlines() if line.startswith("{")]
        result = json.loads(lines[-1]) if lines else {}
        result["cpuSeconds"] = sum(u[0] for u in used.values()) - before
        result["residentKilobytes"] = sum(u[1] for u in used.values())
        if firsts := [row[1].split(",")[0] for row in self.tables() if len(row) > 1]:
            result["firstMilliseconds"] = (min(map(int, firsts)) - begin_ns) / 1e6
        return result


def main():
    binaries, results = sys.argv[1:3], Path(sys.argv[3])
    wanted = sys.argv[4:] or list(RECEIVERS)
    count = int(os.environ.get("COUNT", 20000))
    rows = {}
    for receiver in wanted:
        row = rows[receiver] = {"name": RECEIVERS[receiver]}
        for name, arguments in {
            "start": ("ring", 500, 100000, binaries),
            "saturation": ("ring", count, 100000, binaries),
            "stall": ("ring", STALL_RATE * 8, STALL_RATE, binaries, 0.2),
            "latency": ("source", 2000, 400, binaries),
        }.items():
            try:
                row[name] = Run(receiver, *arguments).line
            except Exception as error:  # noqa: BLE001: one receiver that fails must not hide the others
                row[name] = {"error": repr(error)}
            print(receiver, name, json.dumps(row[name]), file=sys.stderr, flush=True)
        results.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
