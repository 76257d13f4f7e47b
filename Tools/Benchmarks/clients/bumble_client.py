#!/usr/bin/env python3
"""Receives with google/bumble's host: bumble_client.py ring|source|heart-rate|… COUNT ADDRESS TRANSPORT."""

import asyncio
import sys

from bumble import hci
from bumble.device import Device, Peer
from bumble.transport import open_transport

from report import SERVICES, STARTS, Count


async def main():
    kind, wanted, address, transport = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    notify, command = SERVICES[kind]
    async with await open_transport(transport) as (source, sink):
        device = Device.with_hci("central", hci.Address("F0:F1:F2:F3:F4:F6"), source, sink)
        await device.power_on()
        count = Count(kind, wanted)
        connection = await device.connect(hci.Address(address, hci.Address.PUBLIC_DEVICE_ADDRESS))
        peer = Peer(connection)
        await peer.request_mtu(247)
        await peer.discover_services()
        await peer.discover_characteristics()
        (values,) = peer.get_characteristics_by_uuid(notify.upper())
        await peer.subscribe(values, count.take)
        if command:
            (write,) = peer.get_characteristics_by_uuid(command.upper())
            await peer.write_value(write, STARTS[kind], with_response=True)
        while not count.is_over:
            await asyncio.sleep(0.05)
        count.show()
        await connection.disconnect()


asyncio.run(main())
