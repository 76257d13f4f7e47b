"""What the tests share. They run in an environment that has the wheel, and see only that."""

import atexit
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from decimal import ROUND_HALF_UP, Decimal

import ringtap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# The stand-in, as a program that starts fast whatever `python3` is.
FOLDER = tempfile.TemporaryDirectory(prefix="ringtap-fake-")
atexit.register(FOLDER.cleanup)
FAKE = FOLDER.name + "/fake"
with open(FAKE, "w", encoding="utf-8") as file:
    file.write(f"#!{sys.executable} -IS\n" + (HERE / "fake_ringtap.py").read_text(encoding="utf-8"))
os.chmod(FAKE, 0o755)
RING = "70:CB:0D:00:A1:B2"
PPG = {
    "stream": "table", "device": RING, "kind": "ring", "name": "R02_A1B2", "table": "ppg", "columns": [
        {"name": "time_ns", "dtype": "<i8", "unit": "ns"}, {"name": "ppg_counts", "dtype": "<f4", "unit": "counts"},
        {"name": "led_max_counts", "dtype": "<u2", "unit": "counts"}]}
TEMPERATURE = {
    "stream": "table", "device": RING, "kind": "thermometer", "name": None, "table": "temperature", "columns": [
        {"name": "time_ns", "dtype": "<i8", "unit": "ns"}, {"name": "state", "dtype": "<U12"},
        {"name": "temperature_celsius", "dtype": "<f8", "unit": "Cel"}]}
SAMPLE = {"device": RING, "table": "ppg", "time_ns": "1795605862043365463", "ppg_counts": 10625, "led_max_counts": 10957}
END = {"stream": "end", "device": RING, "reason": "interrupted", "rows": 1, "lost": 0}
HAS_STREAM = "--to " in subprocess.run(
    [ringtap.find_program(), "capture", "--help"], capture_output=True, text=True, check=True).stdout


class Case(unittest.TestCase):
    def folder(self):
        """One that goes with the test."""
        path = pathlib.Path(tempfile.mkdtemp(prefix="ringtap-python-"))
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def fake(self, **plan):
        """Lets the stand-in do something; its path."""
        before = os.environ.get("FAKE")
        os.environ["FAKE"] = json.dumps(plan)

        def restore():
            os.environ.pop("FAKE", None)
            if before is not None:
                os.environ["FAKE"] = before

        self.addCleanup(restore)
        return FAKE

    @contextlib.contextmanager
    def fails(self, *words, status=None):
        """Whether it raises a `RingtapError` with these words."""
        with self.assertRaises(ringtap.RingtapError) as caught:
            yield caught
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertEqual(caught.exception.status, status)


def is_running(identifier):
    """Whether the process runs. A zombie does not."""
    try:
        with open(f"/proc/{identifier}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def rounded(number, text):
    """A number with as many decimals as the text has, half away from zero."""
    return str(Decimal(number).quantize(Decimal(1).scaleb(-len(text.partition(".")[2])), ROUND_HALF_UP))
