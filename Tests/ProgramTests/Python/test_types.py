"""The types, as mypy sees them, and the guide's snippets."""

import importlib.util
import os
import re
import subprocess
import sys
import unittest

import ringtap
from support import HAS_STREAM, ROOT, Case

GUIDE = ROOT / "Sources/Program/RingTap/RingTap.docc/Python.md"
PROGRAM = """
import ringtap
from typing import Union

for sample in ringtap.stream("virtual:ring", count=3):
    time: int = sample.time
    value: Union[int, float, str, None] = sample.ppg_counts
with ringtap.stream() as stream:
    for event in stream.events():
        if isinstance(event, ringtap.Missed):
            lines: int = event.lines
capture: ringtap.Capture = ringtap.record(None, "walk", duration=60)
rows: int = len(ringtap.load("walk")["ppg"])
names: list[str] = [advertiser.address for advertiser in ringtap.scan()]
reveal_type(capture["ppg"].time)
"""


class TypeTests(Case):
    def mypy(self, *words, **options):
        # By the interpreter that has mypy: packages are those of this one.
        return subprocess.run(
            [os.environ["RINGTAP_TEST_TOOLS"], "-m", "mypy", "--strict", "--python-executable", sys.executable,
             "--cache-dir", str(self.folder()), *words], capture_output=True, text=True, check=False, **options)

    def test_module_and_its_use_have_strict_types(self):
        folder = self.folder()
        (folder / "use.py").write_text(PROGRAM)
        run = self.mypy("-p", "ringtap", "-m", "use", cwd=folder)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        self.assertRegex(run.stdout, r'Revealed type is "numpy\.ndarray\[.*datetime64')


class GuideTests(Case):
    """What a reader of the guide copies does what it says, as far as the packages are here that it is about."""

    NEEDS_STREAM = re.compile(r"ringtap\.stream\(")

    def test_snippets_run(self):
        snippets = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
        self.assertGreaterEqual(len(snippets), 6)
        folder = self.folder()
        # Detecting a pulse needs more data.
        seconds = 40 if importlib.util.find_spec("neurokit2") else 2
        ringtap.record("virtual:ring,heart-rate=64-80,rate=75", folder / "walk", duration=seconds)
        passed_over = []
        for number, code in enumerate(snippets):
            modules = set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.M))
            missing = sorted(name for name in modules if importlib.util.find_spec(name) is None)
            if missing or self.NEEDS_STREAM.search(code) and not HAS_STREAM:
                passed_over.append(f"{number} ({', '.join(missing) or '--stream'})")
                continue
            with self.subTest(snippet=number, code=code):
                run = subprocess.run(
                    [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False,
                    env={**os.environ, "MPLBACKEND": "agg"}, timeout=120)
                self.assertEqual(run.returncode, 0, run.stderr)
        if passed_over:
            print(f"snippets passed over: {'; '.join(passed_over)}", file=sys.stderr)

    def test_ten_commands_lead_from_a_clone_to_a_pulse(self):
        """The first five are what made this environment: a wheel of the clone's program, installed beside NumPy."""
        block = re.search(r"```console\n(\$ git clone .*?)```", GUIDE.read_text(encoding="utf-8"), re.S)[1].splitlines()
        commands = [line[2:] for line in block if line.startswith("$ ")]
        python = [line[4:] for line in block if line.startswith(">>> ")]
        self.assertEqual(len(commands) + len(python), 10)
        self.assertRegex(";".join(commands), r"^git clone .*;cd ringtap;Tools/package wheel;python3 -m venv sensors;sensors/bin/pip install ")
        self.assertEqual(commands[-1], "sensors/bin/python")
        folder = self.folder()
        (folder / "sensors").symlink_to(sys.prefix)
        for command in commands[5:-1]:
            run = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
        run = subprocess.run(
            ["sensors/bin/python"], input="\n".join(python), cwd=folder, capture_output=True, text=True, check=False, timeout=60)
        # The emulated heart beats 72 times a minute.
        self.assertRegex(run.stdout, r"^\[(72\.[ \]]+){5,7}\n$", run.stderr)


if __name__ == "__main__":
    unittest.main()
