"""What `Tools/test` does once Python is there: prepares, builds, and runs tests side by side."""
import os
import re
import signal
import subprocess
import sys
import time

import plan
import reach
from run import ROOT, Run, say

# Limit for suites in targets further away with `--changed`, and for functions of long suites.
QUICK_SECONDS = 1.0
# Some run in both.
HOST_TEST = re.compile(r"^(?!KernelTests\.InTestKernel/)")
KERNEL_TEST = re.compile(r"^KernelTests\.(InTestKernel|OverEachWay)/")


class Failure(Exception):
    """What cannot be gone on from."""


class Options:
    def __init__(self, words):
        self.halves, self.filters = ("host", "kernel"), []
        self.changed, self.own, self.record = False, [], False
        for word in words:
            if word in ("--host", "--kernel"):
                self.halves = (word[2:],)
            elif word == "--changed":
                self.changed, self.halves = True, ("host",)
            elif word == "--record":
                self.record = True
            elif word.startswith("-"):
                raise ValueError(f"unknown option '{word}'")
            else:
                self.filters.append(word)
        if self.changed and self.halves != ("host",):
            raise ValueError("--changed is about this machine: leave --kernel out")
        try:
            self.filter = re.compile("|".join(f"(?:{text})" for text in self.filters))
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error


class Preparation:
    """Commands that run one after the other beside everything else."""

    def __init__(self, *commands):
        self.commands, self.ended, self.process = commands, 0, None
        self.start_next()

    def start_next(self):
        if self.ended < len(self.commands):
            self.process = subprocess.Popen(
                self.commands[self.ended], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)

    def step(self):
        """Sees what has ended; a command that fails ends the run."""
        if self.ended < len(self.commands) and (status := self.process.poll()) is not None:
            if status != 0:
                raise Failure(f"{' '.join(self.process.args)} ended with status {status}")
            self.ended += 1
            self.start_next()

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


def targets_of(options):
    """What alone is built, or `None` for all; nothing where a change reaches no test."""
    package = reach.Package()
    if options.changed:
        paths = reach.changed_files()
        tests, options.own = package.reached(paths), package.own_tests(paths)
        say(f"the change reaches {', '.join(tests) or 'no test'}")
        return package.to_build(tests)
    names = [word for text in options.filters for word in text.split("|")]
    return package.to_build(names) if names and set(names) <= set(package.tests) else None


def build(environment, preparation):
    begun = time.monotonic()
    say("building")
    with subprocess.Popen(
        ["swift", "build", "--build-tests"], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr) as process:
        try:
            while process.poll() is None:
                preparation.step()
                time.sleep(0.05)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise Failure("the build failed")
    say(f"built in {time.monotonic() - begun:.0f} s")
    folder = subprocess.run(
        ["swift", "build", "--show-bin-path"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return folder.strip() + "/ringtapPackageTests.xctest"


def list_tests(runner):
    """The identifiers of all test functions, without their places in the source."""
    listing = subprocess.run(
        [runner, "--testing-library", "swift-testing", "--list-tests"], cwd=ROOT, check=True, capture_output=True,
        text=True).stdout
    return sorted({line.strip() for line in listing.splitlines() if line.endswith(")")})


def quick(times, names, own):
    """Those that an edit waits for: all tests of the targets in `own`, and of the others what takes no time."""
    chosen = []
    for seconds, unit in times.units("host", names):
        if seconds <= QUICK_SECONDS or unit[0].split(".")[0] in own:
            chosen += unit
    if len(chosen) < len(names):
        say(f"{len(names) - len(chosen)} tests that take longer are left out; Tools/test --host runs them too")
    return chosen


def run_tests(options, runner, preparation):
    """Runs what was chosen, each half as soon as what it needs is there."""
    names, waiting = list_tests(runner), {}
    for half, needs, pattern in (("host", 2, HOST_TEST), ("kernel", 3, KERNEL_TEST)):
        if half in options.halves:
            chosen = [name for name in names if pattern.match(name) and options.filter.search(name)]
            if not chosen and not options.filters:
                raise Failure(f"there is no test of the {half} half")
            waiting[half] = (chosen, needs)
    if not any(chosen for chosen, _ in waiting.values()):
        raise Failure(f"no test matches '{'|'.join(options.filters)}'; Tools/test --help says what a filter is")
    times = plan.Times()
    if options.changed:
        chosen, needs = waiting["host"]
        waiting["host"] = (quick(times, chosen, options.own), needs)
    run = Run(runner, times)
    try:
        while waiting or not run.is_over:
            preparation.step()
            for half, (chosen, needs) in list(waiting.items()):
                if preparation.ended >= needs:
                    run.add(half, chosen, names)
                    del waiting[half]
            run.step()
            time.sleep(0.05)
    finally:
        run.close()
    return run


def tell(run, options):
    """What failed, and the count; returns the exit status."""
    passed, failed, skipped = run.counts()
    failures = run.failures()
    if failures:
        say("what failed")
        print("\n".join(failures), flush=True)
    if options.record and not failures:
        run.times.write(run.measured())
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failures else 0


def main(words):
    try:
        options = Options(words)
    except ValueError as error:
        print(f"test: {error}; Tools/test --help lists what there is", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    preparation = None
    try:
        targets = targets_of(options)
        if targets == []:
            print("0 passed, 0 failed, 0 skipped")
            return 0
        environment = dict(os.environ)
        if targets is not None:
            environment["RINGTAP_TEST_TARGETS"] = ",".join(targets)
        kernel = ["kernel"] if "kernel" in options.halves else []
        commands = [["Tools/install", "peers", "browser", *kernel], ["Tools/install", "readers", "wheel", "lsl", "home"]]
        if kernel:
            commands.append(["Tools/test-kernel", "build"])
        preparation = Preparation(*commands)
        return tell(run_tests(options, build(environment, preparation), preparation), options)
    except Failure as failure:
        print(f"test: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if preparation:
            preparation.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
