#!/usr/bin/env python3
"""Records a Polar sensor's ECG with google/bumble's host, and what was said with bumble's own logger of HCI packets.

  bumble_polar_client.py TRANSPORT NAME COUNT LOG

It does what simple clients do: it subscribes, and starts the stream with settings it knows, without asking for them.
Standard output, one line each:
  frame HEX                each of COUNT, in the order in which they came
LOG is a btsnoop file.
"""

import asyncio
import sys

from bumble import hci
from bumble.core import UUID
from bumble.device import Device, Peer
from bumble.snoop import BtSnooper
from bumble.transport import open_transport

from bumble_central import find, say

CONTROL_POINT = UUID("FB005C81-02E7-F387-1CAD-8ACD2D8DF0C8")
DATA = UUID("FB005C82-02E7-F387-1CAD-8ACD2D8DF0C8")
# 14 bits, 130 Hz: Polar's own example, and the order is free.
START = bytes.fromhex("02000101 0e00 0001 8200".replace(" ", ""))


async def main():
    transport, name, count, log = sys.argv[1:]
    with open(log, "wb") as file:
        async with await open_transport(transport) as (source, sink):
            device = Device.with_hci("bumble", hci.Address("F6:F7:F8:F9:FA:FC"), source, sink)
            device.host.snooper = BtSnooper(file)
            await device.power_on()
            connection = await device.connect(await find(device, name))
            peer = Peer(connection)
            await peer.request_mtu(232)
            await peer.discover_services()
            for service in peer.services:
                await service.discover_characteristics()
            (point,) = peer.get_characteristics_by_uuid(CONTROL_POINT)
            (data,) = peer.get_characteristics_by_uuid(DATA)
            done = asyncio.get_running_loop().create_future()
            frames = []

            def on_frame(value):
                frames.append(bytes(value))
                if len(frames) == int(count):
                    done.set_result(None)

            await point.subscribe(lambda value: None, prefer_notify=False)
            await data.subscribe(on_frame)
            await point.write_value(START, with_response=True)
            await done
            for frame in frames[:int(count)]:
                say("frame", frame.hex())
            await connection.disconnect()


if __name__ == "__main__":
    asyncio.run(main())
