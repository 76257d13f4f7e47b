"""Runs tests in as many processes at a time as keep the processors busy: on this machine, and in test kernels."""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import outcomes
import plan
import preload

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Several times what any process takes on a slow machine.
LIMIT_SECONDS = 1200
# Exit status for a test kernel that stopped responding (Tools/test-kernel), and the maximum number of attempts at its
# tests.
SILENT, KERNEL_ATTEMPTS = 126, 3
# How the addresses begin where scripts are started with their modules (preload.py).
PRELOADED = f"ringtap-tests-{os.getpid()}"
# Fewer seconds of tests are not worth the start of those servers.
PRELOADING_SECONDS = 60
PROCESSORS = len(os.sched_getaffinity(0))
# More only wait for each other; each test kernel has 2 GiB.
MOST_PROCESSES, MOST_KERNELS = 4 * PROCESSORS, 3 * PROCESSORS
# Another process is started where so much of the machine has had nothing to do for so long.
IDLE_SHARE, LOOK_SECONDS = 0.10, 1.5


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


class Process:
    """Some tests that run in one process after another, on this machine or in a test kernel."""

    def __init__(self, where, names, seconds, all_names, runner, folder, attempt=1):
        self.where, self.names, self.seconds, self.attempt = where, names, seconds, attempt
        os.mkdir(folder)
        self.record = os.path.join(folder, "tests.jsonl")
        self.output = os.path.join(folder, "output")
        tests = [
            runner, "--testing-library", "swift-testing", "--no-parallel", "--filter",
            plan.filter_for(names, all_names), "--event-stream-output-path"]
        environment = dict(os.environ, RINGTAP_NO_REMEMBER="1")
        environment.pop("RINGTAP_TEST_KERNEL", None)
        environment["RINGTAP_TEST_PRELOADED"] = PRELOADED
        if where == "kernel":
            environment["RINGTAP_TEST_KERNEL"] = "1"
            servers = "".join(shlex.join(command) + " & " for command in preload.commands(PRELOADED, "python"))
            # The folder is another one inside.
            tests = [
                os.path.join(ROOT, "Tools/test-kernel"), "run", "--timeout", str(LIMIT_SECONDS), "--results", folder, "--",
                "bash", "-c", servers + 'exec "$@" "$RINGTAP_RESULTS/tests.jsonl"', "bash"] + tests
        else:
            tests.append(self.record)
        self.begun = time.monotonic()
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                tests, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True)

    def poll(self):
        """The status of its end, or `None`."""
        status = self.process.poll()
        if status is None and time.monotonic() - self.begun > LIMIT_SECONDS + 60:
            say(f"{len(self.names)} tests took longer than {LIMIT_SECONDS} s and were killed")
            self.kill()
        return status

    def kill(self):
        # A test kernel is taken down by its script.
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(5 if number == signal.SIGTERM else None)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    def text(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()


class Idleness:
    """How much of the processors' time is left over."""

    def __init__(self):
        self.before = (time.monotonic(), 0, 0)

    def share(self):
        """Since the last call, if that was long enough ago; else `None`."""
        now = time.monotonic()
        if now - self.before[0] < LOOK_SECONDS:
            return None
        with open("/proc/stat", encoding="ascii") as file:
            times = [int(word) for word in file.readline().split()[1:9]]
        idle, total = times[3] + times[4], sum(times)
        share = (idle - self.before[1]) / max(total - self.before[2], 1)
        self.before = (now, idle, total)
        return share


class Run:
    """All tests of a run. `add` adds tests that can be run now; `step` starts and ends processes."""

    def __init__(self, runner, times):
        self.runner, self.times = runner, times
        self.folder = tempfile.mkdtemp(prefix="ringtap-tests-")
        self.queues, self.all_names, self.running, self.count = {}, {}, [], 0
        self.servers = []
        self.outcomes = {"host": outcomes.Outcomes(), "kernel": outcomes.Outcomes()}
        self.expected = {"host": set(), "kernel": set()}
        self.faults, self.ended_seconds = [], 0.0
        self.idleness, self.shown = Idleness(), ""

    def add(self, where, names, all_names):
        self.all_names[where] = all_names
        self.queues[where] = plan.Queue(where, self.times.units(where, names))
        self.expected[where] = set(names)
        if where == "host" and self.queues[where].seconds > PRELOADING_SECONDS:
            self.servers = [
                subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
                for command in preload.commands(PRELOADED, "python", "readers")]

    @property
    def is_over(self):
        return not self.running and not any(self.queues.values())

    def step(self):
        for process in list(self.running):
            status = process.poll()
            if status is not None:
                self.running.remove(process)
                self.end(process, status)
        share = self.idleness.share()
        if len(self.running) < PROCESSORS or (share or 0) > IDLE_SHARE and len(self.running) < MOST_PROCESSES:
            self.start_next()
        self.show()

    def start_next(self):
        kernels = sum(process.where == "kernel" for process in self.running)
        # Those in kernels take longest: they go first, so that they do not end last.
        if self.queues.get("kernel") and kernels < MOST_KERNELS and (kernels < PROCESSORS or not self.queues.get("host")):
            where, processes = "kernel", 2 * PROCESSORS
        elif self.queues.get("host"):
            where, processes = "host", 2 * PROCESSORS
        else:
            return
        seconds, names = self.queues[where].take(processes)
        self.start(where, names, seconds)

    def start(self, where, names, seconds, attempt=1):
        self.count += 1
        self.running.append(Process(
            where, names, seconds, self.all_names[where], self.runner, f"{self.folder}/{self.count}", attempt))

    def end(self, process, status):
        outcome = self.outcomes[process.where]
        outcome.add(process.record)
        unended = [name for name in process.names if outcome.states.get(name, "unended") == "unended"]
        if status == SILENT and unended and process.attempt < KERNEL_ATTEMPTS:
            say(f"a test kernel ceased to answer; {len(unended)} tests that had not ended begin in a new one")
            self.start(process.where, unended, process.seconds, process.attempt + 1)
            return
        self.ended_seconds += process.seconds
        slow = [line for line in process.text().splitlines() if line.startswith("slow: ")]
        failed = [name for name in process.names if outcome.states.get(name) == "failed"]
        if unended or status not in (0, SILENT) and not failed:
            self.faults.append(
                f"a process of tests ended with status {status}; it said last:\n    "
                + "\n    ".join(process.text().splitlines()[-40:]))
        self.clear()
        mark = "ok  " if not failed and not unended else "FAIL"
        if os.environ.get("RINGTAP_TEST_VERBOSE") or mark != "ok  " or not sys.stderr.isatty():
            seconds = time.monotonic() - process.begun
            what = sorted({plan.suite_of(name) for name in process.names}, key=lambda suite: suite.count("/"))
            more = f" and {len(what) - 2} suites more" if len(what) > 2 else ""
            print(
                f"{mark} {len(process.names):4} tests {process.where:6} {seconds:6.1f} s  {', '.join(what[:2])}{more}",
                file=sys.stderr)
        for line in slow:
            print(line, file=sys.stderr)
        for name in failed + unended:
            print(f"failed: {name}", file=sys.stderr)
        sys.stderr.flush()

    def show(self):
        """A line that changes, on a terminal."""
        if not sys.stderr.isatty():
            return
        passed, failed, _ = self.counts(running=True)
        left = sum(queue.seconds for queue in self.queues.values()) + sum(process.seconds for process in self.running)
        share = self.ended_seconds / max(self.ended_seconds + left, 0.1)
        text = f"{share:4.0%} done, {passed} passed, {failed} failed, {len(self.running)} processes"
        if text != self.shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self.shown = text

    def clear(self):
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr)
            self.shown = ""

    def counts(self, running=False):
        """Those that passed, failed and were skipped. A test that was to run and has no end has failed."""
        states = [
            self.outcomes[where].states.get(name, "unended") for where in self.expected for name in self.expected[where]]
        failed = states.count("failed") + (0 if running else states.count("unended"))
        return states.count("passed"), failed, states.count("skipped")

    def failures(self):
        lines = list(self.faults)
        for where, names in self.expected.items():
            outcome = self.outcomes[where]
            lines += outcome.failures()
            lines += [f"did not begin: {name}" for name in sorted(names) if name not in outcome.states]
        return lines

    def measured(self):
        return {
            (where, name): seconds for where, outcome in self.outcomes.items()
            for name, seconds in outcome.seconds.items() if outcome.states[name] == "passed"}

    def close(self):
        for process in self.running:
            process.kill()
        for server in self.servers:
            server.kill()
            server.wait()
        self.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
