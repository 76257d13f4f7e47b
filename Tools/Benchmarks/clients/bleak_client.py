#!/usr/bin/env python3
"""Receives with bleak over bluetoothd: bleak_client.py ring|source|heart-rate|… COUNT ADDRESS start|acquire."""

import asyncio
import sys

from bleak import BleakClient, BleakScanner

from report import SERVICES, STARTS, Count


async def main():
    kind, wanted, address, method = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    notify, command = SERVICES[kind]
    device = await BleakScanner.find_device_by_address(address, timeout=20)
    if device is None:
        sys.exit(f"{address} was not found")
    count = Count(kind, wanted)
    async with BleakClient(device, timeout=30) as client:
        await client.start_notify(
            notify, lambda _, value: count.take(value), bluez={"use_start_notify": method == "start"})
        if command:
            await client.write_gatt_char(command, STARTS[kind], response=True)
        while not count.is_over:
            await asyncio.sleep(0.05)
        count.show()


asyncio.run(main())
