"""Captures that something has damaged are loaded, or a `RingtapError` names the file: nothing else is raised, and nothing is waited for."""

import json
import os
import pathlib
import random
import shutil
import socket
import unittest
import warnings

import ringtap
from ringtap import _capture
from support import Case

SEED = 0x39


def read_all(path):
    """Whatever a program may ask of a capture."""
    capture = ringtap.load(path)
    for one in capture.devices.values():
        repr(one), one.address, one.lost
        for name in one.tables:
            table = one[name]
            len(table), repr(table)
            for column in table.columns:
                table[column].sum() if table[column].dtype.kind in "iuf" else list(table[column])
            if table.units.get(table.columns[0]) == "ns":
                table.time.max(initial=table.time[0]) if len(table) else None


class DamageTests(Case):
    @classmethod
    def setUpClass(cls):
        cls.place = Case.folder(cls)
        ringtap.record("virtual:ring,rate=300", cls.place / "csv", count=60)
        ringtap.record("virtual:ring,rate=300", cls.place / "npy", count=60, format="npy")
        cls.addClassCleanup(setattr, _capture, "READ_SECONDS", _capture.READ_SECONDS)
        _capture.READ_SECONDS = 0

    @classmethod
    def addCleanup(cls, function, *arguments, **options):
        cls.addClassCleanup(function, *arguments, **options)

    def copy(self, kind, name="damaged"):
        path = self.place / name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.place / kind, path)
        return path

    def changed(self, chance, octets, others):
        """Cut, with changed bits, with a part of another file, with a part removed or repeated, or nothing of its own."""
        data = bytearray(octets)
        place = chance.randrange(len(data) + 1)
        end = min(len(data), place + chance.choice([1, 8, 100]))
        way = chance.randrange(7)
        if way == 0:
            return bytes(data[:place])
        if way == 1:
            for _ in range(chance.choice([1, 1, 2, 8, 64])):
                if data:
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif way == 2:
            data[place:end] = chance.choice(others)[: chance.choice([4, 128, 5000])]
        elif way == 3:
            del data[place:end]
        elif way == 4:
            data[place:place] = data[place:end] * chance.choice([1, 50])
        elif way == 5:
            return chance.choice(others)
        else:
            data[place:end] = chance.choice([
                b"[" * 100_000, b"9" * 5000, b"9" * 18, b"-1", b"NaN", b"null", b"{}", b"\xff\xfe", b"\0" * 20, b"\n", b",", b'"',
                b"1e999", b"(" * 300, b"\x93NUMPY", b"PK\x03\x04", b"\x1f\x8b\x08", b"|O", b"<M8[ns]", b"9223372036854775808"])
        return bytes(data)

    def test_mutated_captures(self):
        chance = random.Random(SEED)
        loaded = refused = 0
        for kind in ("csv", "npy"):
            path = self.copy(kind)
            files = sorted(file for file in path.rglob("*") if file.suffix in (".json", ".csv", ".npy"))
            whole = {file: file.read_bytes() for file in files}
            others = [*whole.values(), b"", b"[]", b"null", b"1", b"{}", bytes(64), b"\x93NUMPY\x01\x00", b"PK\x03\x04" + bytes(40)]
            for number in range(1000):
                touched = chance.sample(files, chance.choice([1, 1, 1, 2]))
                for file in touched:
                    file.write_bytes(self.changed(chance, whole[file], others))
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ringtap.RingtapWarning)
                        read_all(path)
                    loaded += 1
                except ringtap.RingtapError as error:
                    self.assertIn(str(path), str(error))
                    refused += 1
                except BaseException:
                    print(f"{kind}, mutation {number} of {[str(file) for file in touched]}")
                    raise
                for file in touched:
                    file.write_bytes(whole[file])
        self.assertGreater(min(loaded, refused), 200)

    def test_what_is_no_regular_file(self):
        """A pipe is not waited for."""
        for kind, name in [
                ("csv", "session.json"), ("csv", "ppg.csv"), ("npy", "session.json"), ("npy", "columns.json"), ("npy", "ppg/time_ns.npy")]:
            for make in (os.mkfifo, os.mkdir, self.bind, lambda path: os.symlink("/dev/zero", path), lambda path: os.symlink(path, path)):
                path = self.copy(kind)
                os.remove(path / name)
                # The path of a socket is short.
                make(str(path / name))
                with self.fails(name):
                    read_all(path)

    def bind(self, path):
        place = os.getcwd()
        os.chdir(os.path.dirname(path))
        try:
            with socket.socket(socket.AF_UNIX) as found:
                found.bind(os.path.basename(path))
        finally:
            os.chdir(place)

    def test_documents_of_another_kind(self):
        for text, words in [
                ("[]", "no JSON object"), ("null", "no JSON object"), ("7", "no JSON object"), ("[" * 100_000, "session.json"),
                ('{"formatVersion":99}', "format 99"), ('{"formatVersion":"1"}', "no number"), ('{"formatVersion":true}', "no number"),
                ('{"lost":{"disk":-1}}', "lost.disk"), ('{"lost":{"disk":"0"}}', "lost.disk"), ('{"lost":[]}', "no lost")]:
            path = self.copy("csv")
            (path / "session.json").write_text(text, encoding="utf-8")
            with self.fails("session.json", words):
                ringtap.load(path).lost  # pylint: disable=expression-not-assigned
        (path / "session.json").write_bytes(b'{"device":"\xff"}')
        with self.fails("session.json"):
            ringtap.load(path)

    def test_tables_of_format_1(self):
        """Text that was written before `session.json` had a version, and arrays with its columns."""
        fixtures = pathlib.Path(__file__).resolve().parents[2] / "CaptureToolsTests/Fixtures/format-1"
        for device, tables in (("ring", ["ppg", "samples", "spo2"]), ("strap", ["accelerometer"])):
            capture = ringtap.load(fixtures / device)
            for name in tables:
                with self.fails(str(fixtures / device / name), "format 1", "import"):
                    capture[name]  # pylint: disable=pointless-statement
        path = self.copy("npy")
        index = (path / "columns.json").read_text()
        session = {key: value for key, value in json.loads((path / "session.json").read_text()).items() if key != "formatVersion"}
        (path / "session.json").write_text(json.dumps(session))
        self.assertGreater(len(ringtap.load(path)["ppg"]), 0)
        (path / "columns.json").write_text(index.replace("ppg_counts", "value_counts"))
        with self.fails(str(path / "ppg"), "format 1"):
            ringtap.load(path)["ppg"]  # pylint: disable=expression-not-assigned

    def test_what_has_no_end_has_no_losses(self):
        path = self.copy("csv")
        session = json.loads((path / "session.json").read_text())
        self.assertEqual(ringtap.load(path).lost["disk"], 0)
        (path / "session.json").write_text(json.dumps({**session, "endedAtNs": None}))
        self.assertEqual(ringtap.load(path).lost, {})


if __name__ == "__main__":
    unittest.main()
