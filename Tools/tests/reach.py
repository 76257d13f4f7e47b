"""Which targets a change can reach: those that it is in, and all that depend on them."""
import json
import os
import subprocess

from run import ROOT


# The targets of programs, which tests find beside themselves, and the words by which they do.
PROGRAMS = {"Main": ("Place.ringtap", "Ringtap."), "harness": ("Place.harness", "Harness.")}


def programs_of(folder):
    found = set()
    for place, _, names in os.walk(os.path.join(ROOT, folder)):
        for name in names:
            if name.endswith(".swift"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    text = file.read()
                found |= {program for program, finders in PROGRAMS.items() if any(words in text for words in finders)}
    return sorted(found)


class Package:
    """The targets of the package, where they are and what they depend on."""

    def __init__(self):
        environment = {name: value for name, value in os.environ.items() if name != "RINGTAP_TEST_TARGETS"}
        text = subprocess.run(
            ["swift", "package", "dump-package"], cwd=ROOT, env=environment, check=True, capture_output=True).stdout
        self.folders, self.needs, self.tests = {}, {}, []
        for target in json.loads(text)["targets"]:
            name, is_test = target["name"], target["type"] == "test"
            if is_test:
                self.tests.append(name)
            self.folders[name] = target.get("path") or f"{'Tests' if is_test else 'Sources'}/{name}"
            self.needs[name] = [next(iter(entry.values()))[0] for entry in target["dependencies"]]
            if is_test:
                self.needs[name] += programs_of(self.folders[name])

    def to_build(self, tests):
        """What must be built for these test targets: themselves, and the programs that one of them runs."""
        return tests + [program for program in PROGRAMS if any(program in self.needs[name] for name in tests)]

    def changed(self, paths):
        """The targets that these files are in."""
        return {name for name, folder in self.folders.items() if any(path.startswith(folder + "/") for path in paths)}

    def own_tests(self, paths):
        """The test targets that have changed themselves, or are there for a target that has."""
        found = self.changed(paths)
        return [name for name in self.tests if name in found or name.removesuffix("Tests") in found]

    def reached(self, paths):
        """The test targets that depend on a target that has changed."""
        if any(path == "Package.swift" or path.startswith("Tools/tests/") for path in paths):
            return list(self.tests)
        found = self.changed(paths)
        while more := {name for name, needs in self.needs.items() if name not in found and found.intersection(needs)}:
            found |= more
        return [name for name in self.tests if name in found]


def changed_files():
    """What differs from the last commit, and what git does not know yet."""
    def lines(*command):
        return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()

    return sorted(set(lines("diff", "--name-only", "HEAD") + lines("ls-files", "--others", "--exclude-standard")))
