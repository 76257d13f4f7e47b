"""Deals tests out to processes by how long they took last time."""
import os
import re

TIMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "times.tsv")
# Assumed duration of a test that was never timed.
UNKNOWN_SECONDS = {"host": 0.5, "kernel": 6.0}
# A suite that takes longer is dealt out by its functions.
LONG_SUITE_SECONDS = 8.0
# Least duration that is worth another process, or another test kernel.
LEAST_SECONDS = {"host": 6.0, "kernel": 25.0}


class Times:
    """Seconds of each suite, or of each function of a long one, on this machine ("host") and in the test kernel."""

    def __init__(self, path=TIMES):
        self.path, self.seconds = path, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if not line.startswith("#"):
                        where, seconds, name = line.rstrip("\n").split("\t")
                        self.seconds[where, name] = float(seconds)

    def write(self, measured):
        """Takes the times of tests over. `measured`: seconds by where and name of the function."""
        suites = {}
        for (where, name), seconds in measured.items():
            suites.setdefault((where, suite_of(name)), {})[where, name] = seconds
        known = {key: value for key, value in self.seconds.items() if (key[0], suite_of(key[1])) not in suites}
        for suite, functions in suites.items():
            if sum(functions.values()) > LONG_SUITE_SECONDS:
                known.update(functions)
            else:
                known[suite] = sum(functions.values())
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("# Seconds that tests took, for dealing them out: `Tools/test --record` writes this file.\n")
            for (where, name), seconds in sorted(known.items()):
                file.write(f"{where}\t{seconds:.1f}\t{name}\n")

    def units(self, where, names):
        """What one process must run whole, as (seconds, names): a suite, or a function of a long one."""
        suites = {}
        for name in names:
            suites.setdefault(suite_of(name), []).append(name)
        units = []
        for suite, functions in suites.items():
            if (where, suite) in self.seconds:
                units.append((self.seconds[where, suite], functions))
            elif any((where, name) in self.seconds for name in functions):
                units += [(self.seconds.get((where, name), UNKNOWN_SECONDS[where]), [name]) for name in functions]
            else:
                units.append((UNKNOWN_SECONDS[where] * len(functions), functions))
        return units


class Queue:
    """Tests that are still to be run, the longest first."""

    def __init__(self, where, units):
        self.where = where
        self.units = sorted(units, key=lambda unit: unit[0])

    def __bool__(self):
        return bool(self.units)

    @property
    def seconds(self):
        return sum(seconds for seconds, _ in self.units)

    def take(self, processes):
        """The tests of the next process: less and less, so that all end at about the same time.

        - processes: how many run at a time.
        """
        share = max(self.seconds / (2 * processes), LEAST_SECONDS[self.where])
        names, sum_of_seconds = [], 0.0
        while self.units and (not names or sum_of_seconds + self.units[-1][0] <= share):
            seconds, unit = self.units.pop()
            names += unit
            sum_of_seconds += seconds
        # The longest that are left may not fit, where short ones do.
        index = len(self.units) - 1
        while index >= 0:
            if sum_of_seconds + self.units[index][0] <= share:
                seconds, unit = self.units.pop(index)
                names += unit
                sum_of_seconds += seconds
            index -= 1
        return sum_of_seconds, names


def suite_of(name):
    """`Module.Suite/Nested` of `Module.Suite/Nested/function()`; of a function without a suite, `Module`."""
    return name.rsplit("/", 1)[0] if "/" in name else name.split(".", 1)[0]


def filter_for(names, all_names):
    """A regular expression that matches these of all tests, by their suites where it has all of one."""
    chosen, suites, terms = set(names), {}, []
    for name in all_names:
        suites.setdefault(suite_of(name), []).append(name)
    for suite in sorted({suite_of(name) for name in names}):
        functions = suites[suite]
        # A suite's name also begins those of the suites in it.
        nested = any(other.startswith(suite + "/") for other in suites)
        if "." in suite and not nested and chosen.issuperset(functions):
            terms.append(f"^{re.escape(suite)}/")
        else:
            terms += [f"^{re.escape(name)}(/|$)" for name in functions if name in chosen]
    return "|".join(terms)
