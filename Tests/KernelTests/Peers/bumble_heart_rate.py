#!/usr/bin/env python3
"""A heart-rate strap as a GATT server made of bumble's own profiles: heart rate, battery, device information.

  bumble_heart_rate.py hci-socket:1 [options]                     a strap on that controller
  bumble_heart_rate.py --controller tcp-server:HOST:PORT [options]
                                                                  the same in the range of a controller that is served

Standard output, one line each, flushed:
  ready ADDRESS        advertising has started
  sent JSON            one measurement, as bumble has it: heartRateBpm, sensorContact, energyExpendedKilojoules,
                       rrIntervals1024ths
  reset                the energy expended was set to 0
"""

import argparse
import asyncio
import json

from bumble import hci
from bumble.controller import Controller
from bumble.core import UUID, AdvertisingData
from bumble.device import Device, DeviceConfiguration
from bumble.host import Host
from bumble.link import LocalLink
from bumble.profiles.battery_service import BatteryService
from bumble.profiles.device_information_service import DeviceInformationService
from bumble.profiles.heart_rate_service import HeartRateService
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

import bumble_ring

ADDRESS = "F0:F1:F2:F3:F4:F6"
RING_ADDRESS = "F0:F1:F2:F3:F4:F5"
CONTACTS = {None: "notSupported", False: "notDetected", True: "detected"}
# Sent in turn: intervals or none, contact or none or unknown, energy, a rate of 16 bits.
MEASUREMENTS = [
    (72, True, None, (853, 832)),
    (75, True, 11, (819,)),
    (0, False, None, None),
    (81, None, None, (700, 701, 702)),
    (300, True, 65535, None),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transport")
    parser.add_argument("--controller", action="store_true", help="serve a controller there, with the strap in range")
    parser.add_argument("--with-ring", action="store_true", help="bumble_ring.py's ring is in range of that controller too")
    parser.add_argument("--rate", type=float, default=20, help="measurements per second")
    parser.add_argument("--count", type=int, help="stop after this many of a link")
    parser.add_argument("--malformed", type=int, metavar="EVERY", help="an extra cut value after every EVERY-th")
    parser.add_argument("--readvertise", type=float, metavar="SECONDS", help="restart advertising this often")
    return parser.parse_args()


class Strap:
    def __init__(self, device, options):
        self.device = device
        self.options = options
        self.connections = set()
        self.service = HeartRateService(
            read_heart_rate_measurement=lambda connection: self.measurement(0),
            body_sensor_location=HeartRateService.BodySensorLocation.WRIST,
            reset_energy_expended=lambda connection: print("reset", flush=True),
        )
        device.add_service(self.service)
        device.add_service(BatteryService(lambda connection: 57))
        device.add_service(
            DeviceInformationService(
                manufacturer_name="bumble strap works", model_number="S-1", serial_number="0815",
                firmware_revision="1.2.3",
            )
        )
        device.on("connection", self.on_connection)

    def on_connection(self, connection):
        self.connections.add(connection)
        task = asyncio.create_task(self.stream(connection))

        def on_disconnection(_):
            task.cancel()
            self.connections.discard(connection)

        connection.on("disconnection", on_disconnection)

    def measurement(self, number):
        rate, contact, energy, intervals = MEASUREMENTS[number % len(MEASUREMENTS)]
        return HeartRateService.HeartRateMeasurement(
            heart_rate=rate, sensor_contact_detected=contact, energy_expended=energy,
            rr_intervals=None if intervals is None else [interval / 1024 for interval in intervals],
        )

    async def stream(self, connection):
        characteristic = self.service.heart_rate_measurement_characteristic
        server = self.device.gatt_server
        number = 0
        while number != self.options.count:
            await asyncio.sleep(1 / self.options.rate)
            subscription = server.subscribers.get(connection, {}).get(characteristic.handle, b"\0\0")
            if not subscription[0] & 1:
                continue
            value = self.measurement(number)
            await self.device.notify_subscriber(connection, characteristic, bytes(value))
            number += 1
            text = {
                "heartRateBpm": value.heart_rate,
                "sensorContact": CONTACTS[value.sensor_contact_detected],
                "energyExpendedKilojoules": value.energy_expended,
                "rrIntervals1024ths": [round(interval * 1024) for interval in value.rr_intervals or []],
            }
            print("sent", json.dumps(text), flush=True)
            if self.options.malformed and number % self.options.malformed == 0:
                # 16 bits of rate and the energy are promised.
                await self.device.notify_subscriber(connection, characteristic, bytes([0x09, 0x48, 0x00, 0x01]))


async def start(host, options, random_address):
    configuration = DeviceConfiguration(name="bumble strap")
    if random_address:
        configuration.address = hci.Address(random_address)
    device = Device(config=configuration, host=host)
    strap = Strap(device, options)
    await device.power_on()
    device.advertising_data = bytes(
        AdvertisingData(
            [
                (AdvertisingData.FLAGS, bytes([0x06])),
                (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, UUID("180D").to_bytes()),
                (AdvertisingData.COMPLETE_LOCAL_NAME, b"bumble strap"),
            ]
        )
    )
    kind = hci.OwnAddressType.RANDOM if random_address else hci.OwnAddressType.PUBLIC
    await device.start_advertising(own_address_type=kind, auto_restart=True)
    address = device.random_address if random_address else device.public_address
    print("ready", address.to_string(with_type_qualifier=False), flush=True)
    while True:
        await asyncio.sleep(options.readvertise or 3600)
        if options.readvertise and not strap.connections:
            await bumble_ring.restart_advertising(device, kind)


async def main():
    options = parse_arguments()
    if not options.controller:
        async with await open_transport(options.transport) as (source, sink):
            await start(Host(source, sink), options, None)
    # Never a public address: bumble's link carries data between random addresses only.
    link = LocalLink()
    near = Controller("strap", link=link)
    async with await open_transport(options.transport) as (source, sink):
        Controller("served", host_source=source, host_sink=sink, link=link)
        if options.with_ring:
            beside = Controller("ring", link=link)
            options_of_ring = bumble_ring.parse_arguments(["-", "--address", RING_ADDRESS, "--rate", "100"])
            await bumble_ring.start(Host(beside, AsyncPipeSink(beside)), options_of_ring)
        await start(Host(near, AsyncPipeSink(near)), options, ADDRESS)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
