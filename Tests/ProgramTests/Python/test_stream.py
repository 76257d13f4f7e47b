"""Samples as they come: by a program that prints what the tests want, and by the real one where it has `--stream`."""

import copy
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest

import ringtap
from support import END, HAS_STREAM, PPG, RING, SAMPLE, TEMPERATURE, Case, is_running, rounded

THREE_LINES = 'import ringtap\nfor sample in ringtap.stream("virtual:ring"{}):\n    print(sample)\n'
# Whatever ends it takes no longer.
PROMPT_SECONDS = 2


class SampleTests(Case):
    def test_has_values_by_name(self):
        missing = {**SAMPLE, "time_ns": "1795605862053365463", "ppg_counts": None}
        samples = list(ringtap.stream(program=self.fake(lines=[PPG, SAMPLE, missing])))
        first = samples[0]
        self.assertEqual((first.device, first.table), (RING, "ppg"))
        # A float cannot represent this value.
        self.assertEqual(first.time, 1795605862043365463)
        self.assertEqual(first.values, {"time_ns": 1795605862043365463, "ppg_counts": 10625, "led_max_counts": 10957})
        self.assertEqual((first.ppg_counts, first["led_max_counts"]), (10625, 10957))
        self.assertEqual((first.unit("ppg_counts"), first.unit("time_ns")), ("counts", "ns"))
        self.assertIsNone(samples[1].ppg_counts)
        with self.assertRaises(AttributeError):
            first.spo2_counts
        self.assertEqual(repr(first), f"Sample({RING} ppg: time_ns=1795605862043365463, ppg_counts=10625, led_max_counts=10957)")

    def test_can_be_copied(self):
        sample = next(ringtap.stream(program=self.fake(lines=[PPG, SAMPLE])))
        for other in (copy.copy(sample), copy.deepcopy(sample), pickle.loads(pickle.dumps(sample))):
            self.assertEqual(other.values, sample.values)

    def test_has_words_and_fractions(self):
        rows = [
            {"device": RING, "table": "temperature", "time_ns": "1", "state": "measured", "temperature_celsius": 36.625},
            {"device": RING, "table": "temperature", "time_ns": "-9223372036854775807", "state": None, "temperature_celsius": None}]
        samples = list(ringtap.stream(program=self.fake(lines=[TEMPERATURE, *rows])))
        self.assertEqual((samples[0].state, samples[0].temperature_celsius, samples[0].unit("state")), ("measured", 36.625, ""))
        self.assertEqual((samples[1].time, samples[1].state), (-9223372036854775807, None))

    def test_refuses_rows_that_are_none(self):
        wrong = [
            {"ppg_counts": "10625"}, {"ppg_counts": True}, {"led_max_counts": 1.5}, {"time_ns": 1795605862043365463},
            {"time_ns": "1.5"}, {"time_ns": None}, {"time_ns": "99999999999999999999"}, {"table": "spo2"}, {"table": None},
            {"device": "other"}]
        for change in wrong:
            with self.fails("does not understand", RING if "device" not in change else "other"):
                list(ringtap.stream(program=self.fake(lines=[PPG, {**SAMPLE, **change}])))
        for name in SAMPLE:
            short = {key: value for key, value in SAMPLE.items() if key != name}
            with self.fails("does not understand"):
                list(ringtap.stream(program=self.fake(lines=[PPG, short])))

    def test_refuses_tables_that_are_none(self):
        for change in ({"columns": None}, {"columns": [1]}, {"columns": []}, {"columns": [{"name": "a"}]}, {"device": 1}):
            with self.fails("does not understand"):
                list(ringtap.stream(program=self.fake(lines=[{**PPG, **change}])))

    def test_passes_over_what_later_programs_tell(self):
        lines = [{"stream": "battery", "percent": 50}, {**PPG, "new": 1}, {**SAMPLE, "new": 1}]
        self.assertEqual(len(list(ringtap.stream(program=self.fake(lines=lines)))), 1)


class EventTests(Case):
    LINES = [
        PPG, SAMPLE, {"stream": "gap", "device": RING, "state": "lost", "cause": "0x08 silence", "time_ns": "1795605862043365463"},
        {"stream": "gap", "device": RING, "state": "back"}, {"stream": "missed", "lines": 7}, SAMPLE, END]

    def test_tells_of_gaps_and_missed_lines(self):
        with ringtap.stream(program=self.fake(lines=self.LINES)) as stream:
            self.assertEqual(len(list(stream)), 2)
            self.assertEqual(stream.gaps, [
                ringtap.Gap(RING, "lost", "0x08 silence", 1795605862043365463), ringtap.Gap(RING, "back", None)])
            self.assertEqual(stream.missed, 7)
            self.assertEqual(stream.ends[RING], ringtap.End(RING, "interrupted", 1, 0))
            self.assertEqual([column.name for column in stream.columns[RING, "ppg"]], ["time_ns", "ppg_counts", "led_max_counts"])

    def test_has_them_in_their_order(self):
        with ringtap.stream(program=self.fake(lines=self.LINES)) as stream:
            kinds = [type(event).__name__ for event in stream.events()]
        self.assertEqual(kinds, ["Sample", "Gap", "Gap", "Missed", "Sample", "End"])

    def test_refuses_events_that_are_none(self):
        for line in ({"stream": "missed", "lines": "7"}, {"stream": "gap"}, {"stream": "end", "device": RING}, {"stream": 1}):
            with self.fails("does not understand"):
                list(ringtap.stream(program=self.fake(lines=[line])))


class EndTests(Case):
    """However a stream is left, the program ends, as it does after Ctrl-C."""

    def setUp(self):
        self.begun = None

    def promptly(self):
        self.begun = time.monotonic()

    def tearDown(self):
        if self.begun is not None:
            self.assertLess(time.monotonic() - self.begun, PROMPT_SECONDS)

    def stream(self, **plan):
        stream = ringtap.stream(program=self.fake(**{"lines": [PPG, SAMPLE, SAMPLE], "waits": True, "after": [END], **plan}))
        next(stream)
        return stream

    def test_a_line_without_an_end(self):
        """It is refused at a bound, in time that grows with its length alone."""
        with self.fails("more than 1048576 octets"):
            with self.stream(endless=True) as stream:
                self.promptly()
                list(stream)
        self.assertFalse(is_running(stream.identifier))

    def test_ends_with_the_block(self):
        with self.stream() as stream:
            self.promptly()
        self.assertFalse(is_running(stream.identifier))
        self.assertEqual(stream.ends[RING].reason, "interrupted")
        self.assertEqual(list(stream), [])

    def test_ends_with_an_error_in_the_block(self):
        with self.assertRaises(ZeroDivisionError), self.stream() as stream:
            self.promptly()
            1 / 0
        self.assertFalse(is_running(stream.identifier))

    def test_ends_when_the_loop_is_left(self):
        for sample in self.stream():
            break
        stream = self.stream()
        identifier = stream.identifier
        self.promptly()
        del stream
        gc.collect()
        self.assertFalse(is_running(identifier))

    def test_ends_though_nobody_reads(self):
        with self.stream(lines=[PPG, SAMPLE], floods=True) as stream:
            self.promptly()
        self.assertFalse(is_running(stream.identifier))

    def test_ends_when_another_thread_closes_it(self):
        stream = self.stream()
        reader = threading.Thread(target=lambda: list(stream))
        reader.start()
        self.promptly()
        stream.close()
        reader.join()
        self.assertFalse(is_running(stream.identifier))

    def test_a_failure_after_the_end_is_none(self):
        with self.stream(status=1) as stream:
            pass
        self.assertFalse(is_running(stream.identifier))

    def test_tells_a_deaf_program_twice(self):
        with self.stream(waits="deaf") as stream:
            pass
        self.assertFalse(is_running(stream.identifier))

    def python(self, code, **plan):
        environment = {**os.environ, "FAKE": json.dumps({"lines": [PPG, SAMPLE], "waits": True, **plan})}
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def test_ends_with_python(self):
        code = f"import ringtap; s = ringtap.stream(program={self.fake()!r}); next(s); print(s.identifier)"
        with self.python(code) as python:
            identifier = int(python.stdout.readline())
            python.wait()
            self.assertEqual(python.stderr.read(), "")
        self.assertFalse(is_running(identifier))

    def test_ends_with_ctrl_c_in_the_loop(self):
        code = (f"import ringtap\nfor s in (t := ringtap.stream(program={self.fake()!r})): print(t.identifier, flush=True)")
        with self.python(code) as python:
            identifier = int(python.stdout.readline())
            # As a terminal does: to the whole group.
            python.send_signal(signal.SIGINT)
            self.promptly()
            self.assertIn("KeyboardInterrupt", python.stderr.read())
        self.assertFalse(is_running(identifier))


class CommandLineTests(Case):
    def words(self, *arguments, **options):
        file = self.folder() / "arguments"
        list(ringtap.stream(*arguments, program=self.fake(arguments=str(file)), **options))
        return json.loads(file.read_text())

    def test_asks_for_what_is_wanted(self):
        begin = ["capture"]
        stream = ["--to", "-"]
        self.assertEqual(self.words(), [*begin, *stream, "ring"])
        self.assertEqual(self.words(RING), [*begin, *stream, f"ring@{RING}"])
        self.assertEqual(self.words("R02_A1B2"), [*begin, "--name=R02_A1B2", *stream, "ring"])
        self.assertEqual(self.words("--odd"), [*begin, "--name=--odd", *stream, "ring"])
        self.assertEqual(self.words("virtual:ring"), [*begin, "--transport", "virtual:ring", *stream, "ring"])
        self.assertEqual(
            self.words(RING, kind="heart-rate", count=5, duration=2.5, output="walk", arguments=["--address-type", "random"]),
            [*begin, "--count=5", "--duration=2.5", "--output=walk", *stream, "--address-type", "random", f"heart-rate@{RING}"])
        self.assertEqual(self.words(kind=["ring", f"polar@{RING}"]), [*begin, *stream, "ring", f"polar@{RING}"])
        self.assertEqual(self.words(rows="ticks"), [*begin, *stream, "--rows", "ticks", "ring"])
        with self.assertRaises(ValueError):
            ringtap.stream(RING, kind=["ring", "polar"])


    def test_a_file_to_replay_is_found_from_any_folder(self):
        log = os.path.abspath("a.pcapng")
        self.assertEqual(self.words("replay:a.pcapng,speed=max")[1:3], ["--transport", f"replay:{log},speed=max"])
        self.assertEqual(self.words(f"unix:{log}")[2], f"unix:{log}")


class FolderTests(Case):
    """Without `output` nothing is left behind, wherever one is."""

    def test_leaves_nothing_behind(self):
        disk, here = self.folder(), self.folder()
        code = f"import ringtap\nfor s in ringtap.stream(program={self.fake()!r}): print(s.time)"
        plan = json.dumps({"lines": [PPG, SAMPLE], "arguments": "left"})
        environment = {**os.environ, "FAKE": plan, "TMPDIR": str(disk)}
        run = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr, run.stdout), (0, "", "1795605862043365463\n"))
        self.assertEqual((list(disk.iterdir()), list(here.iterdir())), ([], []))

    def test_runs_here_where_files_are_kept(self):
        file = self.folder() / "arguments"
        program = self.fake(arguments=os.path.relpath(file))
        list(ringtap.stream(program=os.path.relpath(program), output="walk"))
        self.assertTrue(file.exists())


class ThreeLineTests(Case):
    def run_lines(self, code, **environment):
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return run.stdout.splitlines()

    def test_prints_samples_of_a_stand_in(self):
        plan = json.dumps({"lines": [PPG, SAMPLE, SAMPLE, END]})
        shown = self.run_lines(THREE_LINES.format(f", program={self.fake()!r}"), FAKE=plan)
        self.assertEqual(shown, [f"Sample({RING} ppg: time_ns=1795605862043365463, ppg_counts=10625, led_max_counts=10957)"] * 2)

    @unittest.skipUnless(HAS_STREAM, "the program has no --stream yet")
    def test_prints_live_samples(self):
        shown = self.run_lines(THREE_LINES.format(", count=60"))
        # The rows of a turn that reaches the count are complete.
        self.assertGreaterEqual(len(shown), 60)
        self.assertTrue(all(line.startswith(f"Sample({RING} ") for line in shown))


@unittest.skipUnless(HAS_STREAM, "the program has no --stream yet")
class RealStreamTests(Case):
    def test_streams_what_is_recorded(self):
        place = self.folder() / "capture"
        with ringtap.stream("virtual:ring", count=300, output=place) as stream:
            samples = list(stream)
        self.assertEqual(stream.missed, 0)
        self.assertEqual((list(stream.ends), stream.ends[RING].lost), ([RING], 0))
        for table in ("ppg", "spo2", "accelerometer"):
            lines = (place / f"{table}.csv").read_text().splitlines()
            names = lines[0].split(",")
            columns = stream.columns[RING, table]
            self.assertEqual([column.name for column in columns], names)
            found = [sample for sample in samples if sample.table == table]
            self.assertEqual(len(found), len(lines) - 1)
            for sample, line in zip(found, lines[1:]):
                for (name, value), text in zip(sample.values.items(), line.split(",")):
                    self.assertEqual("" if value is None else rounded(value, text), text, f"{name} in {line}")

    def test_comes_live(self):
        # The emulated ring sends in real time: long before the end there is something.
        with ringtap.stream("virtual:ring,real-time", duration=30) as stream:
            late = time.time_ns() - next(stream).time
        self.assertLess(late, 1_000_000_000)

    def test_ends_promptly(self):
        stream = ringtap.stream("virtual:ring", duration=60)
        next(stream)
        begun = time.monotonic()
        stream.close()
        self.assertLess(time.monotonic() - begun, PROMPT_SECONDS)
        self.assertFalse(is_running(stream.identifier))
        self.assertEqual(list(stream.ends), [RING])

    def test_ends_when_python_is_killed(self):
        code = 'import ringtap\nfor s in (t := ringtap.stream("virtual:ring")): print(t.identifier, flush=True)'
        environment = {**os.environ, "TMPDIR": str(self.folder())}
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as python:
            identifier = int(python.stdout.readline())
            python.kill()
        end = time.monotonic() + 10
        while is_running(identifier) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertFalse(is_running(identifier))

    def test_tells_when_the_program_is_killed(self):
        with ringtap.stream("virtual:ring", duration=60) as stream:
            next(stream)
            os.kill(stream.identifier, signal.SIGKILL)
            with self.fails("killed by SIGKILL", status=-9):
                list(stream)

    def test_fails_as_the_program_does(self):
        with self.fails("no device named nobody found", status=1):
            list(ringtap.stream("nobody", arguments=["--transport", "virtual:ring", "--timeout", "0.5"]))

    def test_streams_several_sensors(self):
        wanted = {"ring", "heart-rate"}
        tables = set()
        with ringtap.stream("virtual:ring+heart-rate", kind=sorted(wanted), duration=20) as stream:
            for sample in stream:
                tables.add(sample.table)
                if {"ppg", "heart_rate"} <= tables:
                    break
        self.assertEqual(len({device for device, _ in stream.columns}), 2)


if __name__ == "__main__":
    unittest.main()
