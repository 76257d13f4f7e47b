"""The wheel, the command, and how the program is found and fails."""

import base64
import csv
import hashlib
import importlib.metadata
import os
import pathlib
import signal
import stat
import subprocess
import sys
import sysconfig
import time
import unittest
import zipfile

import ringtap
from support import FAKE, HERE, Case


class WheelTests(Case):
    def test_module_and_program_are_those_of_the_wheel(self):
        self.assertTrue(pathlib.Path(ringtap.__file__).is_relative_to(sys.prefix), ringtap.__file__)
        command = pathlib.Path(sysconfig.get_path("scripts"), "ringtap")
        self.assertEqual(ringtap.find_program(), str(command))
        told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(told.strip(), importlib.metadata.version("ringtap"))

    def test_record_has_each_file(self):
        with zipfile.ZipFile(os.environ["RINGTAP_TEST_WHEEL"]) as wheel:
            about = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
            rows = list(csv.reader(wheel.read(about).decode().splitlines()))
            self.assertEqual([row[0] for row in rows], wheel.namelist())
            for name, digest, count in rows[:-1]:
                octets = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(octets).digest()).decode().rstrip("=")
                self.assertEqual((digest, count), (f"sha256={expected}", str(len(octets))), name)
            self.assertEqual(rows[-1], [about, "", ""])
            program = next(entry for entry in wheel.infolist() if entry.filename.endswith(".data/scripts/ringtap"))
            self.assertEqual(stat.S_IMODE(program.external_attr >> 16), 0o755)
            self.assertIn("ringtap/py.typed", wheel.namelist())
            self.assertTrue(any("/licenses/" in name for name in wheel.namelist()))

    def test_needs_nothing(self):
        needed = [text for text in importlib.metadata.requires("ringtap") or [] if "extra ==" not in text]
        self.assertEqual(needed, [])


class FindingTests(Case):
    """In a copy of the module that has no program beside it."""

    def found(self, **environment):
        copy = self.folder()
        (copy / "ringtap").symlink_to(pathlib.Path(ringtap.__file__).parent.resolve())
        # -S: not the packages of the environment.
        code = f"import sys; sys.path.insert(0, {str(copy)!r}); import ringtap; print(ringtap.find_program())"
        run = subprocess.run(
            [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment, check=False)
        return run.stdout.strip() or run.stderr.strip().splitlines()[-1]

    def test_looks_into_path_and_then_at_the_variable(self):
        folder = self.folder()
        program = folder / "ringtap"
        program.symlink_to(FAKE)
        self.assertEqual(self.found(PATH=str(folder), RINGTAP="other"), str(program))
        self.assertEqual(self.found(PATH=os.devnull, RINGTAP=str(program)), str(program))

    def test_says_what_to_do_where_there_is_none(self):
        self.assertIn("no program ringtap", self.found(PATH=os.devnull))
        self.assertIn("set RINGTAP", self.found(PATH=os.devnull))


class FailureTests(Case):
    def test_tells_that_there_is_no_such_program(self):
        for call in (ringtap.stream, ringtap.scan, lambda program: ringtap.record(None, "capture", program=program)):
            with self.fails("nowhere/ringtap", "No such file"):
                call(program="nowhere/ringtap")
        with self.fails("Permission denied"):
            ringtap.stream(program=str(HERE / "support.py"))

    def test_has_the_programs_own_words(self):
        program = self.fake(errors=["ringtap: found R02", "ringtap: it did not answer; it is off"], status=1)
        with self.fails("it did not answer; it is off (exit status 1)", status=1) as caught:
            list(ringtap.stream(program=program))
        self.assertEqual(caught.exception.errors.splitlines()[0], "ringtap: found R02")
        program = self.fake(errors=["Error: '11' is no address", "Usage: ringtap …", "  See 'ringtap --help'"], status=2)
        with self.fails("'11' is no address (exit status 2)", status=2):
            list(ringtap.scan(program=program))

    def test_tells_which_signal_ended_it(self):
        with self.fails("killed by SIGKILL", status=-9):
            list(ringtap.stream(program=self.fake(killed=9)))

    def test_warns_of_losses(self):
        for status in (3, 4):
            program = self.fake(errors=["ringtap: 3 lost of 100"], status=status)
            with self.assertWarnsRegex(ringtap.RingtapWarning, "3 lost of 100"):
                self.assertEqual(list(ringtap.stream(program=program)), [])

    def test_quotes_a_line_that_is_none(self):
        lines = ["500 samples in 1.8 s", "[1]", '{"a": NaN}', '{"a": 1', '"text"', "\N{SNOWMAN}"]
        for line in lines:
            with self.fails("does not understand", line):
                list(ringtap.stream(program=self.fake(lines=[line])))
            with self.fails("does not understand", line):
                list(ringtap.scan(program=self.fake(lines=[line])))


class RealFailureTests(Case):
    """By the program of the wheel."""

    def test_fails_as_the_program_does(self):
        with self.fails("there is no virtual peripheral 'nothing'", status=2):
            ringtap.record("virtual:nothing", self.folder() / "capture")
        with self.fails("no device named nobody found", status=1):
            ringtap.record("nobody", self.folder() / "capture", arguments=["--transport", "virtual:ring", "--timeout", "0.5"])
        with self.fails("No such file", status=1):
            list(ringtap.scan(source="replay:nowhere.btsnoop"))

    def test_does_not_overwrite(self):
        folder = self.folder()
        (folder / "file").touch()
        with self.fails("already exists", status=1):
            ringtap.record("virtual:ring", folder, count=10)


class InterruptedRecordTests(Case):
    def test_ctrl_c_ends_a_recording_well(self):
        place = self.folder() / "capture"
        code = f"import ringtap; ringtap.record('virtual:ring', {str(place)!r}, duration=60)"
        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as python:
            end = time.monotonic() + 20
            while not (place / "ppg.csv").exists() or (place / "ppg.csv").stat().st_size < 1000:
                self.assertIsNone(python.poll())
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)
            python.send_signal(signal.SIGINT)
            begun = time.monotonic()
            self.assertIn("KeyboardInterrupt", python.stderr.read())
        self.assertLess(time.monotonic() - begun, 2)
        session = ringtap.load(place).session
        self.assertEqual((session["endReason"], session["lost"]["sampleQueue"]), ("interrupted", 0))
        self.assertGreater(session["received"], 10)


if __name__ == "__main__":
    unittest.main()
