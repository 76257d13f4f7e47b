#!/usr/bin/env python3
"""A cyclist's sensor made with google/bumble, in the range of a controller that is served as an H4 byte stream.

  bumble_cycling.py tcp-server:HOST:PORT

Once a central has subscribed it sends MEASUREMENTS, one after the other. Standard output, one line: "ready ADDRESS".
"""

import asyncio
import sys

from bumble import hci
from bumble.controller import Controller
from bumble.core import UUID, AdvertisingData
from bumble.device import Device, DeviceConfiguration
from bumble.gatt import Characteristic, Service
from bumble.host import Host
from bumble.link import LocalLink
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

ADDRESS = "F0:F1:F2:F3:F4:F9"
# Wheel 1581 at 43427/1024 s, crank 2704 at 40744/1024 s (a value that tshark reads so); 5 turns in 2 s and 2 in 1 s; the
# same again; a crank alone, whose counter and clock then wrap: 2 turns in 2 s.
MEASUREMENTS = [
    "032d060000a3a9900a289f", "0332060000a3b1920a28a3", "0332060000a3b1920a28a3", "02ffff00fc", "0201000004",
]


async def send(device, connection, characteristic):
    while not device.gatt_server.subscribers.get(connection, {}).get(characteristic.handle, b"\0\0")[0] & 1:
        await asyncio.sleep(0.01)
    for measurement in MEASUREMENTS:
        await device.notify_subscriber(connection, characteristic, bytes.fromhex(measurement))
        await asyncio.sleep(0.02)


async def main():
    link = LocalLink()
    near = Controller("bicycle", link=link)
    async with await open_transport(sys.argv[1]) as (source, sink):
        Controller("served", host_source=source, host_sink=sink, link=link)
        configuration = DeviceConfiguration(name="bumble bicycle", address=hci.Address(ADDRESS))
        device = Device(config=configuration, host=Host(near, AsyncPipeSink(near)))
        properties, permissions = Characteristic.Properties, Characteristic.READABLE
        measurement = Characteristic(UUID("2A5B"), properties.NOTIFY, permissions, b"")
        device.add_service(
            Service(
                UUID("1816"),
                [
                    measurement, Characteristic(UUID("2A5C"), properties.READ, permissions, b"\x03\x00"),
                    Characteristic(UUID("2A5D"), properties.READ, permissions, b"\x04"),
                ]))
        device.on("connection", lambda connection: asyncio.create_task(send(device, connection, measurement)))
        await device.power_on()
        device.advertising_data = bytes(
            AdvertisingData(
                [
                    (AdvertisingData.FLAGS, b"\x06"),
                    (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, UUID("1816").to_bytes()),
                    (AdvertisingData.COMPLETE_LOCAL_NAME, b"bumble bicycle"),
                ]))
        await device.start_advertising(own_address_type=hci.OwnAddressType.RANDOM)
        print("ready", ADDRESS, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
