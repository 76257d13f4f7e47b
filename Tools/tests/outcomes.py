"""What became of the test functions in records of test runs.

A record is what swift-testing writes with `--event-stream-output-path`. Several records may go on with each other.
"""
import json
import os

LONGEST = 1500


def _fails(messages):
    return any(message["symbol"] == "fail" for message in messages)


class Outcomes:
    """The state, seconds and faults of each test function by its identifier, without its place in the source.

    A test that is announced and never ends has failed: the run broke off. What failed once has failed.
    """

    def __init__(self, paths=()):
        self.states, self.seconds, self.faults = {}, {}, {}
        self._begun = {}
        for path in paths:
            self.add(path)

    def add(self, path):
        """Reads one more record; one that is not there has nothing to say."""
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    self._take(json.loads(line))
                except ValueError:
                    continue  # the last line of a run that broke off

    def _take(self, record):
        payload = record["payload"]
        if record["kind"] == "test":
            if payload["kind"] == "function":
                self.states.setdefault(short(payload["id"]), "unended")
            return
        name = payload.get("testID")
        # A suite has no place in the source.
        name = short(name) if name and name.count("/") and short(name) in self.states else name
        kind, messages = payload["kind"], payload["messages"]
        if kind == "issueRecorded" and _fails(messages):
            self.faults.setdefault(name, []).append("\n".join(message["text"] for message in messages))
        elif name in self.states:
            if kind == "testStarted":
                self._begun[name] = payload["instant"]["absolute"]
            elif kind == "testSkipped":
                self.states[name] = "skipped"
            elif kind == "testEnded":
                if name in self._begun:
                    self.seconds[name] = payload["instant"]["absolute"] - self._begun[name]
                if self.states[name] != "failed":
                    self.states[name] = "failed" if _fails(messages) else "passed"

    def those(self, *states):
        return [name for name, state in self.states.items() if state in states]

    def failures(self):
        """Each that failed, with what it said, at most 1,500 characters of each fault."""
        failed = set(self.those("failed")) | {name for name in self.faults if name}
        lines = []
        for name in sorted(failed) + ([None] if None in self.faults else []):
            lines.append(f"failed: {name or 'outside of any test'}")
            for fault in self.faults.get(name, []):
                lines.append("    " + _shortened(fault.rstrip()).replace("\n", "\n    "))
        lines += [f"did not end: {name}" for name in sorted(self.those("unended"))]
        return lines


def short(identifier):
    """`Module.Suite/function()/File.swift:1:2` without the last part."""
    return identifier.rsplit("/", 1)[0]


def _shortened(text):
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text) - LONGEST} characters more)"
