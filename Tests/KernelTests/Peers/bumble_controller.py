#!/usr/bin/env python3
"""A controller of google/bumble as an H4 byte stream, with bumble's ring on a second one in its radio range.

  bumble_controller.py TRANSPORT [options of bumble_ring.py]

TRANSPORT is where the controller is served, for example tcp-server:127.0.0.1:6402. The output is that of
bumble_ring.py.
"""

import asyncio
import sys

from bumble import hci
from bumble.controller import Controller
from bumble.device import Device, DeviceConfiguration
from bumble.host import Host
from bumble.link import LocalLink
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

import bumble_ring

RING_ADDRESS = "F0:F1:F2:F3:F4:F5"


async def main():
    options = bumble_ring.parse_arguments(sys.argv[1:])
    link = LocalLink()
    near = Controller("ring", link=link)
    configuration = DeviceConfiguration(name=options.name)
    configuration.address = hci.Address(options.address or RING_ADDRESS)
    device = Device(config=configuration, host=Host(near, AsyncPipeSink(near)))
    ring = bumble_ring.Ring(device, options)
    await device.power_on()
    device.advertising_data = bumble_ring.advertisement(options.name)
    await device.start_advertising(auto_restart=True)
    async with await open_transport(options.transport) as (source, sink):
        print("ready", device.random_address.to_string(with_type_qualifier=False), flush=True)
        # Without a public address: bumble's link carries data between random addresses only.
        Controller("served", host_source=source, host_sink=sink, link=link)
        await asyncio.get_running_loop().create_future()
    del ring


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
