"""What a power cut leaves of a collector's files, or a publisher's, compared with the receipts that were given before it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from remains import Verdict, common_prefix

# A receipt is logged by a subscriber beside the publisher, which may get it a little earlier.
SLACK_NANOSECONDS = 100_000_000
RESTART_SECONDS = 60
# Sessions of which one restart takes up the latest.
RESTARTED = 2


def lines(octets):
    """Rows of a table: whole lines but for the header."""
    return max(0, octets.count(b"\n") - 1)


def prefix(octets, rows):
    """The header and so many rows."""
    place = 0
    for _ in range(rows + 1):
        place = octets.index(b"\n", place) + 1
    return octets[:place]


class Fleet:
    """The state of one recording: the contents of the disk over time, the contents of memory, and all receipts."""

    def __init__(self, place):
        self.side = (place / "side").read_text()
        disk, other = place / "files", place / "other"
        self.captures = self.sessions_of_captures(disk / "captures" if self.side == "publish" else other)
        self.receipts = []
        for line in (place / "receipts").read_text().splitlines():
            if not line.strip():
                continue
            stamp, topic, text = line.split(" ", 2)
            receipt = json.loads(text)
            seconds, fraction = stamp.split(".")
            self.receipts.append((int(seconds) * 10**9 + int(fraction.ljust(9, "0")), topic.split("/")[1], receipt))
        self.root = (disk if self.side == "publish" else other)

    @staticmethod
    def sessions_of_captures(folder):
        """By session: publisher, folder below `folder`, and tables as they came to be."""
        sessions = {}
        for cursor in sorted(folder.rglob("publish.json")):
            document = json.loads(cursor.read_text())
            tables = {path.stem: path.read_bytes() for path in cursor.parent.glob("*.csv")}
            session = (cursor.parent / "session.json").read_bytes()
            sessions[document["session"]] = (document["publisher"], cursor.parent.relative_to(folder), tables, session)
        return sessions

    def told(self, time):
        """By session: rows that receipts told of by then, and whether one said that all is there."""
        told = {}
        for when, _, receipt in self.receipts:
            if when > time:
                continue
            rows, complete = told.setdefault(receipt["session"], ({}, [False]))
            for table, count in receipt["tables"].items():
                rows[table] = max(rows.get(table, 0), count)
            complete[0] |= receipt["isComplete"]
        return {session: (rows, complete[0]) for session, (rows, complete) in told.items()}

    def examine(self, left, now):
        verdict = Verdict()
        verdict.told, verdict.lost = 0, 0
        (self.examine_collector if self.side == "collect" else self.examine_publisher)(left, now, verdict)
        return verdict

    # At the collector

    def examine_collector(self, left, now, verdict):
        told = self.told(now)
        for session, (publisher, _, tables, document) in self.captures.items():
            folder = left / "collected" / publisher / session
            rows, complete = told.get(session, ({}, False))
            for name, whole in tables.items():
                path = folder / f"{name}.csv"
                octets = path.read_bytes() if path.is_file() else b""
                good = common_prefix(whole, octets)
                rest = octets[good:]
                if rest and not rest.strip(b"\0"):
                    verdict.zeros.append(path.name)
                elif rest:
                    verdict.faults.append(f"{path.name}: octets that were never there")
                verdict.told += rows.get(name, 0)
                verdict.lost += max(0, rows.get(name, 0) - lines(whole[:good]))
            path = folder / "session.json"
            if complete and (not path.is_file() or path.read_bytes() != document):
                verdict.faults.append("session.json of a session that was confirmed is not there")
            for path in folder.glob("*.json"):
                self.expect_json(path, verdict)

    @staticmethod
    def expect_json(path, verdict):
        try:
            return json.loads(path.read_bytes())
        except ValueError:
            verdict.faults.append(f"{path.name}: no JSON")

    # At the publisher

    def examine_publisher(self, left, now, verdict):
        told = self.told(now + SLACK_NANOSECONDS)
        for session, (_, folder, tables, _) in self.captures.items():
            path = left / "captures" / folder / "publish.json"
            rows, complete = told.get(session, ({}, False))
            verdict.told += sum(rows.values())
            if not path.is_file():
                if rows and any(rows.values()):
                    verdict.faults.append("publish.json of a session that was confirmed is not there")
                continue
            cursor = self.expect_json(path, verdict)
            if cursor is None:
                continue
            if cursor["session"] != session:
                verdict.faults.append("publish.json: another session")
            if cursor["isComplete"] and not complete:
                verdict.faults.append("publish.json: complete, though no receipt said so")
            for name, place in cursor["tables"].items():
                # Rows that a later run would not send, though no receipt told of them.
                verdict.lost += max(0, place["rows"] - rows.get(name, 0))
                if len(prefix(tables[name], place["rows"])) != place["octets"]:
                    verdict.faults.append("publish.json: an invalid place")

    # A restart

    def restart(self, program, left, now):
        """Starts both sides again with what is left, and has the latest sessions published to their end."""
        told = self.told(now)
        begun = [session for session in self.captures if session in told]
        latest = sorted(begun, key=lambda session: max(when for when, _, r in self.receipts if r["session"] == session))
        faults = []
        with tempfile.TemporaryDirectory(prefix="powercut.") as scratch:
            scratch = Path(scratch)
            with Broker(scratch) as url:
                collected = self.collected(left, scratch, told)
                with Collector(program, url, collected, scratch):
                    for session in latest[-RESTARTED:]:
                        capture = self.capture(session, left, scratch, told)
                        if capture is not None:
                            faults += self.publish(program, url, session, capture, collected)
        return faults

    def collected(self, left, scratch, told):
        """The collector's folder: what is left of it, or what receipts promised."""
        folder = scratch / "collected"
        if self.side == "collect":
            if (left / "collected").is_dir():
                shutil.copytree(left / "collected", folder)
            return folder
        for session, (rows, _) in told.items():
            publisher, _, tables, _ = self.captures[session]
            place = folder / publisher / session
            place.mkdir(parents=True)
            for name, count in rows.items():
                (place / f"{name}.csv").write_bytes(prefix(tables[name], count))
        return folder

    def capture(self, session, left, scratch, told):
        """A publisher's folder: what is left of it, or the whole with a cursor that forgets all that receipts told of."""
        publisher, folder, tables, _ = self.captures[session]
        target = scratch / "capture" / session
        if self.side == "publish":
            if not (left / "captures" / folder / "publish.json").is_file():
                return None
            shutil.copytree(left / "captures" / folder, target)
            return target
        shutil.copytree(self.root / folder, target)
        rows, _ = told[session]
        places = {name: {"rows": count, "octets": len(prefix(tables[name], count)), "skipped": 0, "from": 0}
                  for name, count in rows.items()}
        cursor = {"version": 1, "session": session, "publisher": publisher, "tables": places, "isComplete": False}
        (target / "publish.json").write_text(json.dumps(cursor) + "\n")
        return target

    def publish(self, program, url, session, capture, collected):
        publisher, _, tables, _ = self.captures[session]
        before = {path.stem: lines(path.read_bytes()) for path in (collected / publisher / session).glob("*.csv")}
        try:
            ended = subprocess.run([program, "publish", capture, url, "--patience", "20"], capture_output=True, text=True, errors="replace", timeout=RESTART_SECONDS)
        except subprocess.TimeoutExpired:
            return ["ringtap publish: no end"]
        if ended.returncode:
            return [f"ringtap publish: status {ended.returncode}: {ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else ''}"]
        faults = []
        for path in capture.glob("*.csv"):
            octets = path.read_bytes()
            whole = octets[: octets.rfind(b"\n") + 1]
            there = collected / publisher / session / path.name
            got = there.read_bytes() if there.is_file() else b""
            # Octet for octet as it was recorded: all that is left of the capture, and all that the collector had.
            if not tables[path.stem].startswith(got) or len(got) < len(whole) or lines(got) < before.get(path.stem, 0):
                faults.append(f"{path.name}: not collected whole after the restart")
        return faults


class Broker:
    """A Mosquitto on a free port."""

    def __init__(self, scratch):
        self.scratch = scratch

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        configuration = self.scratch / "broker"
        configuration.write_text(f"user root\nlistener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        path = os.environ["PATH"] + ":/usr/sbin"
        self.process = subprocess.Popen([shutil.which("mosquitto", path=path), "-c", configuration], stderr=subprocess.DEVNULL)
        wait_until(lambda: is_listening(port))
        return f"mqtt://127.0.0.1:{port}/fleet"

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Collector:
    def __init__(self, program, url, folder, scratch):
        self.command = [program, "collect", url, "--output", folder, "--name", "c"]
        self.errors = scratch / "collect.err"

    def __enter__(self):
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=errors)
        wait_until(lambda: "collecting from" in self.errors.read_text(errors="replace"))

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=RESTART_SECONDS)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition):
    end = time.monotonic() + RESTART_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("a program does not start")
        time.sleep(0.02)
