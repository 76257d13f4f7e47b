#!/usr/bin/env python3
"""Advertises as `bumble-adv` with service UUIDs and manufacturer data, made with bumble.

Restarts its advertising again and again: btvirt reports an advertiser once per start.
Prints `ready ADDRESS` on standard output after the first start.
"""

import argparse
import asyncio
import struct

from bumble import hci
from bumble.core import UUID, AdvertisingData
from bumble.device import Device
from bumble.transport import open_transport

ADVERTISING_DATA = AdvertisingData(
    [
        (AdvertisingData.FLAGS, bytes([0x06])),
        (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, UUID("180D").to_bytes()),
        (
            AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS,
            UUID("6E40FFF0-B5A3-F393-E0A9-E50E24DCCA9E").to_bytes(),
        ),
    ]
)
# Company 0xFFFF is the specification's identifier for tests.
SCAN_RESPONSE_DATA = AdvertisingData(
    [
        (AdvertisingData.COMPLETE_LOCAL_NAME, b"bumble-adv"),
        (AdvertisingData.MANUFACTURER_SPECIFIC_DATA, struct.pack("<H", 0xFFFF) + bytes.fromhex("01020304")),
    ]
)


class LegacyDevice(Device):
    """Uses the legacy advertising commands even if the controller has the extended ones."""

    supports_le_extended_advertising = False


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("transport", help="bumble transport, for example hci-socket:1")
    parser.add_argument("--address", help="random static address; without it the controller's public one")
    parser.add_argument("--malformed", action="store_true", help="add a structure that is longer than the data")
    parser.add_argument("--interval", type=float, default=0.3, metavar="SECONDS", help="between restarts")
    parser.add_argument("--legacy", action="store_true", help="use the legacy advertising commands")
    options = parser.parse_args()

    async with await open_transport(options.transport) as (source, sink):
        address = hci.Address(options.address or "F0:F1:F2:F3:F4:F5")
        kind_of_device = LegacyDevice if options.legacy else Device
        device = kind_of_device.with_hci("bumble-adv", address, source, sink)
        await device.power_on()
        kind = hci.OwnAddressType.RANDOM if options.address else hci.OwnAddressType.PUBLIC
        shown = address if options.address else device.public_address
        malformed = b"\x05\xffA" if options.malformed else b""
        ready = False
        while True:
            await device.start_advertising(
                own_address_type=kind,
                advertising_data=bytes(ADVERTISING_DATA) + malformed,
                scan_response_data=bytes(SCAN_RESPONSE_DATA),
            )
            if not ready:
                print("ready", shown.to_string(with_type_qualifier=False), flush=True)
                ready = True
            await asyncio.sleep(options.interval)


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
