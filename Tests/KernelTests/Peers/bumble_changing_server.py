#!/usr/bin/env python3
"""A GATT server of google/bumble whose attributes change, behind a controller that is served over TCP.

  bumble_changing_server.py [--plain | --silent]

A bumble device with its own controller advertises; a second controller on the same virtual link is served as an H4 byte
stream on a port of 127.0.0.1 that is free. Standard output, one line: "ready PORT ADDRESS".

The Generic Attribute service is bumble's own: Service Changed, Client Supported Features, Database Hash; with --plain
Service Changed alone, with --silent none of them. Service FFF0 has:
  FFF1  read: "first" before the change, "second" after it; notify: the same, at each write of "t" to FFF2
  FFF2  write: "t" as above; "n" changes the attributes at once, and indicates Service Changed for all handles;
        "l" changes them when the link has ended

The change puts service FFE0, with two characteristics that can be read and written, before FFF0: the handles of FFF0 are
its own then, and FFF0's come behind.
"""

import asyncio
import socket
import struct
import sys

from bumble import hci
from bumble.controller import Controller
from bumble.device import Device, DeviceConfiguration
from bumble.gatt import AttributeValueV2, Characteristic, Service
from bumble.host import Host
from bumble.link import LocalLink
from bumble.profiles.gatt_service import GenericAttributeProfileService
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

ADDRESS = "F0:F1:F2:F3:F4:F8"
READ_WRITE = Characteristic.Properties.READ | Characteristic.Properties.WRITE


class Server:
    def __init__(self, device, generic):
        self.device = device
        self.generic = generic
        self.is_second = False
        self.changes_later = False
        self.tasks = set()
        self.value = Characteristic(
            "FFF1", Characteristic.Properties.READ | Characteristic.Properties.NOTIFY, Characteristic.READABLE,
            AttributeValueV2(read=lambda _: self.text()))
        control = Characteristic(
            "FFF2", Characteristic.Properties.WRITE, Characteristic.WRITEABLE, AttributeValueV2(write=self.write))
        self.service = Service("FFF0", [self.value, control])
        device.add_services([generic, self.service])
        device.on(Device.EVENT_CONNECTION, self.connected)

    def text(self):
        return b"second" if self.is_second else b"first"

    def connected(self, connection):
        connection.on(connection.EVENT_DISCONNECTION, lambda _: self.disconnected())

    def disconnected(self):
        if self.changes_later:
            self.change()

    def write(self, bearer, value):
        server = self.device.gatt_server
        if value == b"t":
            self.run(server.notify_subscriber(bearer, self.value, self.text()))
        elif value == b"l":
            self.changes_later = True
        elif value == b"n":
            self.change()
            changed = self.generic.service_changed_characteristic
            if changed:
                self.run(server.indicate_subscriber(bearer, changed, struct.pack("<HH", 1, 0xFFFF)))

    def run(self, coroutine):
        async def later():
            # After the answer to the write.
            await asyncio.sleep(0.01)
            await coroutine

        task = asyncio.get_running_loop().create_task(later())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def change(self):
        """Gives out all handles anew, with one more service before ours."""
        if self.is_second:
            return
        self.is_second = True
        server = self.device.gatt_server
        kept = [service for service in server.services if service is not self.service]
        server.services, server.attributes, server.attributes_by_handle = [], [], {}
        more = Service(
            "FFE0", [
                Characteristic(uuid, READ_WRITE, Characteristic.READABLE | Characteristic.WRITEABLE, b"other")
                for uuid in ("FFE1", "FFE2")
            ])
        server.add_services(kept + [more, self.service])


async def main():
    options = sys.argv[1:]
    link = LocalLink()
    near = Controller("peer", link=link)
    configuration = DeviceConfiguration(name="changing", gatt_service_enabled=False)
    configuration.address = hci.Address(ADDRESS)
    device = Device(config=configuration, host=Host(near, AsyncPipeSink(near)))
    generic = GenericAttributeProfileService(
        database_hash_enabled=not options, service_change_enabled="--silent" not in options)
    Server(device, generic)
    await device.power_on()
    await device.start_advertising(auto_restart=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with await open_transport(f"tcp-server:127.0.0.1:{port}") as (source, sink):
        # Without a public address: bumble's link carries data between random addresses only.
        Controller("served", host_source=source, host_sink=sink, link=link)
        print("ready", port, ADDRESS, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
