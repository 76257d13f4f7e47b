"""Captures as arrays: equal to their text, to the last digit, whichever form they are in."""

import concurrent.futures
import csv
import json
import pathlib
import shutil
import subprocess
import unittest

import numpy
import pandas
import xarray

import ringtap
from support import RING, Case, rounded

SMALLEST = -(1 << 63)
STRAP = "70:CB:0D:00:18:0D"


def run(*words):
    subprocess.run([ringtap.find_program(), *map(str, words)], check=True, capture_output=True)


def cell(value, text):
    """Format a value like the text table, with the same number of decimals."""
    if isinstance(value, numpy.str_):
        return str(value)
    if isinstance(value, numpy.integer):
        return "" if value == SMALLEST else str(value)
    return "" if numpy.isnan(value) else rounded(float(value), text)


class Compared(Case):
    def same_as_text(self, capture, folder):
        """Each cell of all tables is what the text says."""
        names = sorted(path.stem for path in folder.glob("*.csv"))
        self.assertEqual(sorted(capture.tables), names)
        for name in names:
            with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
                header, *rows = csv.reader(file)
            table = capture[name]
            self.assertEqual((table.columns, len(table)), (tuple(header), len(rows)), name)
            for place, column in enumerate(header):
                for value, row in zip(table[column], rows):
                    self.assertEqual(cell(value, row[place]), row[place], f"{name}.{column}")

    def same_types(self, one, other):
        self.assertEqual(sorted(one.tables), sorted(other.tables))
        for name in one.tables:
            for column in one[name].columns:
                self.assertEqual(one[name][column].dtype, other[name][column].dtype, f"{name}.{column}")
            self.assertEqual(one[name].units, other[name].units, name)


class RingTests(Compared):
    """One recording of the emulated ring, played again into text and into arrays."""

    @classmethod
    def setUpClass(cls):
        cls.place = Case.folder(cls)
        # A dropout now and then, and fractions of a microsecond.
        ringtap.record("virtual:ring,dropout=0.05", cls.place / "live", count=600, arguments=["--log-format=pcapng"])
        replay = f"replay:{cls.place}/live/packets.pcapng,speed=max"
        cls.text = ringtap.record(replay, cls.place / "text")
        cls.arrays = ringtap.record(replay, cls.place / "arrays", format="npy")

    @classmethod
    def addCleanup(cls, function, *arguments, **options):
        cls.addClassCleanup(function, *arguments, **options)

    def test_text_is_as_it_was_recorded(self):
        self.same_as_text(self.text, self.place / "live")
        self.same_as_text(ringtap.load(self.place / "live"), self.place / "text")

    def test_arrays_are_what_the_text_says(self):
        self.same_as_text(self.arrays, self.place / "text")
        self.same_types(self.text, self.arrays)

    def test_all_kinds_of_values_are_there(self):
        ppg, samples = self.text["ppg"], self.text["samples"]
        self.assertGreaterEqual(len(ppg), 150)
        self.assertTrue(numpy.isnan(ppg.ppg_counts).any() and (ppg.ppg_counts > 0).any())
        self.assertGreater(ppg.time_ns[0], 1 << 60)
        # A float would end with zeros.
        self.assertGreater(len(set(ppg.time_ns % 256)), 20)
        self.assertEqual(samples.tick[0], 0)

    def test_arrays_are_mapped_and_cannot_be_written_to(self):
        column = self.arrays["ppg"].led_max_counts
        base = column
        while not isinstance(base, numpy.memmap):
            base = base.base
        for table in (self.arrays["ppg"], self.text["ppg"]):
            with self.assertRaises(ValueError):
                table.led_max_counts[0] = 1

    def test_pandas_and_numpy_read_the_same(self):
        for name in self.text.tables:
            frame = pandas.read_csv(self.place / "text" / f"{name}.csv", dtype_backend="numpy_nullable")
            for column in frame.columns:
                found = self.text[name][column]
                expected = frame[column]
                if found.dtype == numpy.int64:
                    self.assertEqual([None if value is pandas.NA else value for value in expected],
                                     [None if value == SMALLEST else value for value in found.tolist()])
                else:
                    numpy.testing.assert_array_equal(
                        found, expected.to_numpy(dtype=numpy.float64, na_value=numpy.nan).astype(found.dtype))

    def test_has_times_frames_and_data_sets(self):
        for capture in (self.text, self.arrays):
            table = capture["ppg"]
            self.assertEqual(table.time.dtype, numpy.dtype("M8[ns]"))
            self.assertEqual(table.time[0].astype(numpy.int64), table.time_ns[0])
            self.assertEqual(capture["samples"].time[0].astype(numpy.int64), capture["samples"].fitted_time_ns[0])
            frame = table.to_pandas()
            self.assertEqual(frame.index.name, "time")
            self.assertEqual([time.value for time in frame.index], table.time_ns.tolist())
            self.assertEqual(list(frame.columns), list(table.columns[1:]))
            numpy.testing.assert_array_equal(frame.ppg_counts, table.ppg_counts)
            data = table.to_xarray()
            self.assertIsInstance(data, xarray.Dataset)
            self.assertEqual(data.ppg_counts.attrs["units"], "counts")
            numpy.testing.assert_array_equal(data.time, table.time)
            numpy.testing.assert_array_equal(data.ppg_counts, table.ppg_counts)

    def test_tells_of_the_session(self):
        self.assertEqual(self.text.session["received"], 600)
        self.assertEqual((self.text.address, list(self.text.devices)), (RING, [RING]))
        self.assertIn("ppg", self.text)
        with self.assertRaises(KeyError):
            self.text["ecg"]
        with self.assertRaises(AttributeError):
            self.text["ppg"].ecg_uv

    def test_reads_what_analyse_writes(self):
        run("analyse", self.place / "text", "--output", self.place / "analysis")
        analysis = ringtap.load(self.place / "analysis")
        self.assertIn("beat-windows", analysis.tables)
        self.same_as_text(analysis, self.place / "analysis")

    # MARK: Damage

    def damaged(self, kind="text"):
        path = self.folder() / kind
        shutil.copytree(self.place / kind, path)
        return path

    def test_a_line_that_is_cut_off_is_left_out(self):
        path = self.damaged()
        table = (path / "ppg.csv").read_bytes()
        (path / "ppg.csv").write_bytes(table[:-3])
        with self.assertWarnsRegex(ringtap.RingtapWarning, "ppg.csv, line .*cut off"):
            self.assertEqual(len(ringtap.load(path)["ppg"]), len(self.text["ppg"]) - 1)

    def test_tells_what_is_no_table(self):
        head, row = (self.place / "text/ppg.csv").read_text().splitlines()[:2]
        texts = [
            ("", "no names"), (f"{head}\n{row},1\n", "line 2: not a row of 5 cells"), (f"{head}\n{row}\n1,2\n", "line 3"),
            (f"{head}\n\n", "line 2"), (f"{head}\n1.5,1,1,1,1\n", "ppg.csv"), (f"{head}\nx,1,1,1,1\n", "ppg.csv"),
            (f"{head}\n1,x,1,1,1\n", "ppg.csv"), (f"{head}\n1,1,,1,1\n", "ppg.csv"), ("time_ns,time_ns\n1,1\n", "no names")]
        for text, words in texts:
            path = self.folder()
            (path / "ppg.csv").write_text(text)
            with self.fails("ppg.csv", words):
                ringtap.load(path)["ppg"]

    def test_a_table_may_be_empty_or_have_one_row(self):
        head, row = (self.place / "text/ppg.csv").read_text().splitlines()[:2]
        for rows in ([], [row]):
            path = self.folder()
            (path / "ppg.csv").write_text("\n".join([head, *rows, ""]))
            table = ringtap.load(path)["ppg"]
            self.assertEqual((len(table), table.time_ns.dtype, table.ppg_counts.dtype), (len(rows), "<i8", "<f4"))

    def test_rows_that_are_not_whole_yet_are_left_out(self):
        path = self.damaged("arrays")
        times = numpy.load(path / "ppg/time_ns.npy")
        numpy.save(path / "ppg/time_ns.npy", times[:-5])
        table = ringtap.load(path)["ppg"]
        self.assertEqual({len(table[column]) for column in table.columns}, {len(times) - 5})
        numpy.save(path / "ppg/led_min_counts.npy", numpy.zeros(3, "<u2"))
        with self.fails("led_min_counts ends before the time does"):
            ringtap.load(path)["ppg"]

    def test_no_rows_are_an_empty_array(self):
        path = self.damaged("arrays")
        for column in (path / "ppg").iterdir():
            numpy.save(column, numpy.load(column)[:0])
        self.assertEqual(len(ringtap.load(path)["ppg"]), 0)

    def test_tells_what_is_no_array(self):
        path = self.damaged("arrays")
        column = path / "ppg/ppg_counts.npy"
        numpy.save(column, numpy.zeros(600))
        with self.fails("ppg_counts.npy: no column of <f4"):
            ringtap.load(path)["ppg"]
        column.write_bytes(column.read_bytes()[:20])
        with self.fails("ppg_counts.npy"):
            ringtap.load(path)["ppg"]
        column.unlink()
        with self.fails("ppg_counts.npy", "No such file"):
            ringtap.load(path)["ppg"]
        index = json.loads((path / "columns.json").read_text())
        for change in ({"tables": []}, {"tables": {"ppg": 1}}, {"tables": {"ppg": {"columns": [{"name": "../x", "dtype": "<f4"}]}}}):
            (path / "columns.json").write_text(json.dumps({**index, **change}))
            with self.fails("columns.json"):
                ringtap.load(path)["ppg"]

    def test_tells_what_is_no_capture(self):
        with self.fails("no such directory"):
            ringtap.load(self.place / "nowhere")
        with self.fails("no capture"):
            ringtap.load(self.folder())
        path = self.damaged()
        (path / "session.json").write_text("{")
        with self.fails("session.json"):
            ringtap.load(path)

    def test_is_loaded_while_it_is_recorded(self):
        place = self.folder() / "running"
        words = ["capture", "--transport", "virtual:ring", "--format", "npy", "--duration", "60", "--output", place]
        with subprocess.Popen([ringtap.find_program(), *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as program:
            try:
                rows = 0
                while rows < 100:
                    self.assertIsNone(program.poll())
                    if (place / "ppg/led_diff_counts.npy").exists() and (place / "columns.json").exists():
                        rows = len(ringtap.load(place)["ppg"])
            finally:
                program.terminate()


class SensorTests(Compared):
    """Types and units of text are those that the program gives arrays."""

    SOURCES = [
        ("heart-rate", "capture", "heart-rate"), ("thermometer", "capture", "thermometer"), ("core", "capture", "thermometer"),
        ("cycling", "capture", "cycling"), ("polar", "polar", "--stream=ecg"), ("polar", "polar", "--stream=acc"),
        ("polar", "polar", "--stream=ppg")]

    def recorded(self, source):
        """What one sensor sends, as text and as the program makes arrays of it."""
        name, command, what = source
        text = self.place / f"{name}{what}"
        run(command, f"--transport=virtual:{name}", what, "--count=3", "--output", text)
        run("convert", text, "--to", "npy", "--output", f"{text}-arrays")
        return text

    def test_every_sensors_tables(self):
        self.place = self.folder()
        names = set()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for text in pool.map(self.recorded, self.SOURCES):
                capture, arrays = ringtap.load(text), ringtap.load(f"{text}-arrays")
                self.same_as_text(capture, text)
                self.same_as_text(arrays, text)
                self.same_types(capture, arrays)
                names.update(capture.tables)
        self.assertEqual(names, {"heart_rate", "rr_intervals", "temperature", "cycling", "ecg", "accelerometer", "ppg"})

    def test_several_devices(self):
        place = self.folder() / "group"
        capture = ringtap.record("virtual:ring+heart-rate", place, kind=["ring", "heart-rate"], duration=3)
        self.assertEqual((sorted(capture.devices), capture.tables), (sorted([RING, STRAP]), ()))
        self.assertGreater(len(capture.devices[RING]["ppg"]), 50)
        self.assertGreater(len(capture.devices[STRAP]["heart_rate"]), 0)
        with self.assertRaisesRegex(KeyError, "see `devices`"):
            capture["ppg"]
        for path in place.iterdir():
            self.same_as_text(ringtap.load(path), pathlib.Path(path))


if __name__ == "__main__":
    unittest.main()
