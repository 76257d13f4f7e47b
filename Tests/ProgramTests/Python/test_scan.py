"""Who advertises."""

import time
import unittest

import ringtap
from support import RING, Case, is_running

LINE = {
    "address": "C0:11:22:33:44:55", "addressType": "random", "rssi": None, "name": "a \N{SNOWMAN}", "services": ["180d"],
    "manufacturerData": {"0x004c": "0215ff"}, "serviceData": {"fe95": "00"}, "flags": 6, "connectable": False, "txPower": -4,
    "appearance": 832, "identityAddress": RING, "timeNs": "1795609270756498613"}


class ScanTests(Case):
    def test_finds_the_emulated_ring(self):
        before = time.time_ns()
        found = list(ringtap.scan(1, source="virtual:ring"))
        self.assertEqual({advertiser.address for advertiser in found}, {RING})
        last = found[-1]
        self.assertEqual((last.address_type, last.name, last.connectable), ("public", "R02_A1B2", True))
        self.assertTrue(before < last.time < time.time_ns())
        self.assertIsInstance(last.rssi, int)

    def test_filters(self):
        self.assertEqual(list(ringtap.scan(0.5, source="virtual:ring", name="^nobody$")), [])
        self.assertEqual(list(ringtap.scan(0.5, source="virtual:ring", service="180d")), [])
        with self.assertRaises(ValueError):
            ringtap.scan(source=RING)

    def test_ends_when_it_is_left(self):
        with ringtap.scan(None, source="virtual:ring") as scan:
            self.assertEqual(next(scan).address, RING)
            begun = time.monotonic()
        self.assertLess(time.monotonic() - begun, 2)
        self.assertFalse(is_running(scan.identifier))

    def test_has_all_that_is_told(self):
        scan = ringtap.scan(program=self.fake(lines=[LINE, {"event": "end", "reports": 9, "lost": 1}]))
        self.assertEqual(list(scan), [ringtap.Advertiser(
            address="C0:11:22:33:44:55", address_type="random", rssi=None, name="a \N{SNOWMAN}", services=("180d",),
            manufacturer_data={0x4C: b"\x02\x15\xff"}, service_data={"fe95": b"\0"}, connectable=False,
            time=1795609270756498613, tx_power=-4, appearance=832, identity=RING)])
        self.assertEqual(scan.report["lost"], 1)

    def test_refuses_lines_that_are_none(self):
        wrong = [{"address": 1}, {"manufacturerData": {"x": "00"}}, {"manufacturerData": {"1": "0"}}, {"services": 1}, {"timeNs": "x"},
                 {"connectable": 1}, {"serviceData": None}]
        for change in wrong:
            with self.fails("does not understand"):
                list(ringtap.scan(program=self.fake(lines=[{**LINE, **change}])))
        for name in ("address", "rssi", "name", "timeNs"):
            with self.fails("does not understand"):
                list(ringtap.scan(program=self.fake(lines=[{key: value for key, value in LINE.items() if key != name}])))


if __name__ == "__main__":
    unittest.main()
