#!/usr/bin/env python3
"""Reads a page of metrics as Prometheus' own client does, and prints one JSON object: for each family its type and its
samples, by their names and labels.

metrics.py FILE
"""

import json
import sys

from prometheus_client.parser import text_fd_to_metric_families

families = {}
with open(sys.argv[1], encoding="utf-8") as page:
    for family in text_fd_to_metric_families(page):
        assert family.documentation and family.type in ("counter", "gauge"), family.name
        assert family.name not in families, f"{family.name} appears twice"
        families[family.name] = {
            "type": family.type,
            "samples": {
                ",".join([sample.name, *(f"{label}={value}" for label, value in sorted(sample.labels.items()))]): sample.value
                for sample in family.samples}}
json.dump(families, sys.stdout)
