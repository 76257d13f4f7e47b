#!/usr/bin/env python3
"""Runs ringtap on a pseudo-terminal, and reads the live view off the screen that a terminal emulator (pyte) makes of it.

terminal.py figures RINGTAP DIR      whether the view shows what the tables of the capture have
terminal.py messages RINGTAP DIR     whether messages stay in the scrollback, and of the view one frame
terminal.py resize RINGTAP DIR       whether it follows a terminal that changes its size
terminal.py end RINGTAP DIR HOW      whether the terminal is as it was, but for the last frame; HOW is key, INT, TERM or KILL
terminal.py plain RINGTAP DIR        whether there is none where none is wanted, and no colour either

One JSON object on standard output; the exit status is 1 with a message for the first thing that differs.
"""

import csv
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte

PATIENCE = 60
FRAME_END = b"\x1b[?25h"
HINT = "Ctrl-C ends"
STREAM = re.compile(
    r"^(accelerometer|ppg|spo2) +(?:([\d.]+) Hz +)?(\d+) +([\d.]+)( g)?(?: +([\d.]+) to ([\d.]+), \d+ s)?$")


class Terminal:
    """A program whose standard error is a terminal. Standard output goes into a file."""

    def __init__(self, command, folder, columns=80, rows=24, **environment):
        self.screen = pyte.HistoryScreen(columns, rows, history=1000, ratio=0.5)
        self.stream = pyte.ByteStream(self.screen)
        self.octets = b""
        self.frames = []
        self.master, slave = pty.openpty()
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.output = os.path.join(folder, "output")
        variables = dict(
            os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8", RINGTAP_NO_REMEMBER="1", XDG_STATE_HOME=folder)
        variables.pop("NO_COLOR", None)
        variables.update(environment)
        with open(self.output, "w") as output:
            self.process = subprocess.Popen(
                command, stdin=slave, stdout=output, stderr=slave, env=variables, start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def set_size(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self.set_size(columns, rows)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def scrollback(self):
        """All lines that there ever were, the oldest first."""
        width = self.screen.columns
        top = ["".join(line[x].data for x in range(width)).rstrip() for line in self.screen.history.top]
        return top + self.lines()

    def feed(self, octets):
        """Looks at the screen where a frame is whole, never in the middle of one."""
        self.octets += octets
        parts = octets.split(FRAME_END)
        for place, part in enumerate(parts):
            last = place == len(parts) - 1
            self.stream.feed(part if last else part + FRAME_END)
            if not last and not self.screen.cursor.hidden:
                self.frames.append(self.lines())

    def run(self, until=lambda: False):
        """Until a condition holds, or the program ends."""
        deadline = time.monotonic() + PATIENCE
        while not until():
            if time.monotonic() > deadline:
                raise SystemExit("nothing happened for too long:\n" + "\n".join(self.scrollback()))
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if ready:
                self.feed(os.read(self.master, 65536))
            elif self.process.poll() is not None:
                return

    def shows(self, text):
        return lambda: bool(self.frames) and any(text in line for line in self.frames[-1])

    def written(self):
        with open(self.output, encoding="utf-8") as file:
            return file.read()


def demand(condition, message, terminal=None):
    if not condition:
        screen = "\n" + "\n".join(terminal.scrollback()) if terminal else ""
        raise SystemExit(message + screen)


def capture(ringtap, folder, ring, *options):
    return [
        ringtap, "capture", "--transport", "virtual:ring,real-time," + ring, "--output", folder + "/capture",
        *options]


def demand_readable(terminal):
    """Demand that the terminal is usable after the program has ended."""
    demand(not terminal.screen.cursor.hidden, "the cursor is hidden", terminal)
    demand(pyte.modes.DECAWM in terminal.screen.mode, "long lines are not broken any more", terminal)
    for mode in (b"?1049", b"?1047", b"?47"):
        demand(mode not in terminal.octets, "there was another screen")


def demand_ended(terminal):
    """Demand that the terminal is as it was, below one view: the last frame."""
    demand_readable(terminal)
    demand(termios.tcgetattr(terminal.slave) == terminal.before, "the terminal has another mode")
    lines = terminal.scrollback()
    demand(not any(re.search(HINT + r"|^(connecting|streaming)  ", line) for line in lines), "the view goes on", terminal)
    for part in (r"^R02_A1B2  ", r"^link closed$", r"^ppg  ", r"^[\d.]+ k?B in .*  ended$"):
        demand(sum(bool(re.search(part, line)) for line in lines) == 1, f"not one '{part}'", terminal)
    demand(terminal.screen.cursor.x == 0, "the cursor is in the middle of a line", terminal)


def column(path, value):
    with open(path, encoding="utf-8") as file:
        return [(int(row["time_ns"]), value(row)) for row in csv.DictReader(file)]


def length(row):
    return sum(float(row[axis]) ** 2 for axis in ("x_g", "y_g", "z_g")) ** 0.5


def light(column):
    """A dropout has no number."""
    return lambda row: float(row[column]) if row[column] else None


def figures(ringtap, folder):
    terminal = Terminal(capture(ringtap, folder, "rate=300", "--count", "1200"), folder)
    terminal.run()
    demand(terminal.process.returncode == 0, "it failed", terminal)
    demand_ended(terminal)
    demand(terminal.written().startswith("1200 samples in "), "where is the summary?")
    tables = {
        name: column(f"{folder}/capture/{name}.csv", value)
        for name, value in (
            ("accelerometer", length), ("ppg", light("ppg_counts")), ("spo2", light("spo2_counts")))}
    seen = {name: set() for name in tables}
    for frame in terminal.frames:
        for line in frame:
            match = STREAM.match(line)
            if match:
                seen[match[1]].add(int(match[3]))
                compare(tables[match[1]], match)
    for name, counts in seen.items():
        demand(len(counts) > 3, f"{name} was seen with {counts} rows only", terminal)
    shown = re.search(r"^([\d.]+) (k?)B in ", "\n".join(terminal.frames[-1]), re.M)
    size = float(shown[1]) * (1000 if shown[2] else 1)
    files = sum(entry.stat().st_size for entry in os.scandir(folder + "/capture"))
    demand(0 < size <= files, f"{size} octets of {files}")
    return {"frames": len(terminal.frames)}


def compare(table, match):
    """One line of a stream with the rows that had come by then."""
    rows, digits = table[: int(match[3])], 3 if match[5] else 0
    values = [value for _, value in rows if value is not None]
    said = f"'{match[0]}', but "
    demand(rows[-1][1] is not None, f"{said}the last row has no value")
    demand(float(match[4]) == round(values[-1], digits), f"{said}the last value is {values[-1]}")
    if match[6]:
        edges = [float(match[6]), float(match[7])]
        # The first second sets no edge, nor do outliers, one in 200 at most.
        settled = [value for time, value in rows if value is not None and time - rows[0][0] > 1.3e9]
        beyond = [value for value in settled if not edges[0] - 1e-3 <= value <= edges[1] + 1e-3]
        demand(len(beyond) <= max(2, len(settled) / 200), f"{said}values are {beyond}")
        # No edge is further out than a value, but for the smallest span.
        least = 0.251 if match[5] else 0.0051 * edges[1] + 1e-3
        wanted = [min(values), max(values)]
        inside = wanted[0] - 1e-3 <= edges[0] and edges[1] <= wanted[1] + 1e-3
        demand(edges[1] - edges[0] <= least or inside, f"{said}values fill {wanted}")
    seconds = (rows[-1][0] - rows[0][0]) / 1e9
    if match[2] and seconds > 2:
        rate = (len(rows) - 1) / seconds
        demand(abs(float(match[2]) / rate - 1) < 0.2, f"{said}{rate} rows came a second")


def messages(ringtap, folder):
    terminal = Terminal(capture(ringtap, folder, "rate=300,disconnect-after=300", "--count", "500"), folder)
    terminal.run(until=terminal.shows("1 gap"))
    terminal.run()
    demand(terminal.process.returncode == 0, "it failed", terminal)
    demand_ended(terminal)
    lines = [line for line in terminal.scrollback() if line]
    expected = ["found R02_A1B2", "the link was lost", "streaming again"]
    demand(len(lines) >= len(expected), "messages are missing", terminal)
    text = "\n".join(lines)
    for message in expected:
        place = text.find("ringtap: " + message)
        demand(place >= 0, f"'{message}' is missing or stands elsewhere", terminal)
        text = text[place + 1 :]
    demand("ringtap: " not in text, "a message appears twice", terminal)
    return {"frames": len(terminal.frames)}


def resize(ringtap, folder):
    terminal = Terminal(capture(ringtap, folder, "rate=300"), folder)
    terminal.run(until=terminal.shows("ppg"))
    for columns, rows in ((40, 10), (200, 50), (60, 16), (80, 24)):
        terminal.resize(columns, rows)
        seen = len(terminal.frames)
        # The first frame may have been on its way.
        terminal.run(until=lambda: len(terminal.frames) >= seen + 3)
        frame = terminal.frames[-1]
        lines = [line for line in frame if line]
        size = f"{columns}x{rows}: "
        demand(len([line for line in frame if HINT in line]) == 1, size + "not one view", terminal)
        demand(sum(line == "─" * columns for line in lines) == 2, size + "not two rules", terminal)
    os.write(terminal.master, b"\x03")
    terminal.run()
    demand(terminal.process.returncode == 0, "it failed", terminal)
    return {"frames": len(terminal.frames)}


def end(ringtap, folder, how):
    terminal = Terminal(capture(ringtap, folder, "rate=300"), folder)
    terminal.run(until=terminal.shows("ppg"))
    if how == "key":
        os.write(terminal.master, b"\x03")
    else:
        terminal.process.send_signal(getattr(signal, "SIG" + how))
    terminal.run()
    if how == "KILL":
        demand(terminal.process.returncode == -signal.SIGKILL, "it still runs")
        # Keys stay unseen, as after any program that takes them one by one: shells set that right, or `reset`.
        demand_readable(terminal)
    else:
        demand(terminal.process.returncode == 0, "it failed", terminal)
        demand_ended(terminal)
        demand("; interrupted\n" in terminal.written(), "where is the summary?")
    return {"frames": len(terminal.frames)}


def plain(ringtap, folder):
    for number, (options, variables) in enumerate(((["--quiet"], {}), ([], {"TERM": "dumb"}))):
        terminal = Terminal(
            capture(ringtap, f"{folder}/{number}", "rate=300", "--count", "300", *options), folder, **variables)
        terminal.run()
        demand(terminal.process.returncode == 0, "it failed", terminal)
        demand(b"\x1b" not in terminal.octets and b"found R02" in terminal.octets, "not plain", terminal)
    command = capture(ringtap, folder + "/pipe", "rate=300", "--count", "300")
    piped = subprocess.run(command, capture_output=True, env=dict(os.environ, TERM="xterm"), check=True)
    demand(b"\x1b" not in piped.stderr + piped.stdout and b"\r" not in piped.stderr, "not plain in a pipe")
    demand(len(piped.stderr.splitlines()) == 1, f"more than a message: {piped.stderr}")
    command = capture(ringtap, folder + "/faint", "rate=300", "--count", "300")
    terminal = Terminal(command, folder, NO_COLOR="1", LC_ALL="C")
    terminal.run()
    demand(not re.search(rb"\x1b\[[\d;]*m", terminal.octets), "colours", terminal)
    view = terminal.octets.split(FRAME_END)[1:-1]
    demand(len(view) > 1 and all(octet < 0x80 for frame in view for octet in frame), "not in ASCII", terminal)
    return {}


if __name__ == "__main__":
    command, ringtap, folder, *rest = sys.argv[1:]
    print(json.dumps({"figures": figures, "messages": messages, "resize": resize, "end": end, "plain": plain}[command](ringtap, folder, *rest)))
