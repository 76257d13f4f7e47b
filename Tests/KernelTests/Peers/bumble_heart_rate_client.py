#!/usr/bin/env python3
"""Reads a heart-rate strap with google/bumble's own profiles, on whatever controller it is given.

  bumble_heart_rate_client.py TRANSPORT NAME COUNT

Standard output, one line each:
  location N               BodySensorLocation
  battery N                percent
  manufacturer TEXT
  measurement JSON         each of COUNT, as bumble decodes it: rate, contact, energy, intervals in 1/1024 s
  reset                    the energy expended was set to 0
  refused N                the ATT error that another command was refused with
"""

import asyncio
import json
import sys

from bumble import att, hci
from bumble.device import Device, Peer
from bumble.profiles.battery_service import BatteryServiceProxy
from bumble.profiles.device_information_service import DeviceInformationServiceProxy
from bumble.profiles.heart_rate_service import HeartRateServiceProxy
from bumble.transport import open_transport

from bumble_central import find, say


async def measurements(strap, count):
    done = asyncio.get_running_loop().create_future()
    values = []

    def on_measurement(value):
        values.append(value)
        if len(values) == count and not done.done():
            done.set_result(None)

    await strap.heart_rate_measurement.subscribe(on_measurement)
    await done
    return values[:count]


async def main():
    transport, name, count = sys.argv[1:]
    async with await open_transport(transport) as (source, sink):
        device = Device.with_hci("bumble", hci.Address("F6:F7:F8:F9:FA:FC"), source, sink)
        await device.power_on()
        address = await find(device, name)
        connection = await device.connect(address)
        peer = Peer(connection)
        await peer.discover_services()
        for service in peer.services:
            await service.discover_characteristics()
        strap = peer.create_service_proxy(HeartRateServiceProxy)
        battery = peer.create_service_proxy(BatteryServiceProxy)
        information = peer.create_service_proxy(DeviceInformationServiceProxy)
        say("location", int(await strap.body_sensor_location.read_value()))
        say("battery", await battery.battery_level.read_value())
        say("manufacturer", await information.manufacturer_name.read_value())
        for value in await measurements(strap, int(count)):
            intervals = [round(interval * 1024) for interval in value.rr_intervals or ()]
            say(
                "measurement",
                json.dumps([value.heart_rate, value.sensor_contact_detected, value.energy_expended, intervals]))
        await strap.reset_energy_expended()
        say("reset")
        try:
            await strap.heart_rate_control_point.write_value(2, with_response=True)
        except att.ATT_Error as error:
            say("refused", error.error_code)
        await connection.disconnect()


if __name__ == "__main__":
    asyncio.run(main())
