"""What works where there is no NumPy."""

import importlib.util
import unittest

import ringtap
from support import Case


class BareTests(Case):
    def setUp(self):
        self.assertIsNone(importlib.util.find_spec("numpy"))

    def test_records_and_tells_what_tables_need(self):
        capture = ringtap.record("virtual:ring", self.folder() / "capture", count=60)
        self.assertEqual(capture.tables, ("accelerometer", "ppg", "samples", "spo2"))
        self.assertEqual(capture.session["received"], 60)
        with self.fails("pip install numpy"):
            capture["ppg"]

    def test_tells_what_is_lost(self):
        folder = self.folder()
        (folder / "session.json").write_text(
            '{"received":155,"malformed":2,"numbered":true,"lost":{"kernelQueue":0,"missing":365}}', encoding="utf-8")
        self.assertEqual(ringtap.load(folder).lost, {"kernelQueue": 0, "missing": 365, "malformed": 2})
        (folder / "session.json").write_text("{}", encoding="utf-8")
        (folder / "ecg.csv").write_text("time_ns\n", encoding="utf-8")
        self.assertEqual(ringtap.load(folder).lost, {})


if __name__ == "__main__":
    unittest.main()
