"""Home Assistant's own MQTT integration, in this process, with a broker.

  home.py PORT [PREFIX]

Prints JSON objects, a line each: `ready` when Home Assistant has started and said so; `config` for each discovery message that
its schema took as it is, with what it made of it; `state` for each state of an entity of MQTT, with its attributes; `device` for
each device; `problem` for what a schema refuses or leaves out, a unit or state class that is none of the device class's, and
whatever Home Assistant warns of. Ends with its standard input.
"""
import asyncio
import json
import logging
import pathlib
import sys
import tempfile

from homeassistant import config_entries, loader
from homeassistant.components import mqtt
from homeassistant.components.binary_sensor import BinarySensorDeviceClass
from homeassistant.components.mqtt import binary_sensor, sensor
from homeassistant.components.sensor.const import DEVICE_CLASS_STATE_CLASSES, DEVICE_CLASS_UNITS, SensorDeviceClass
from homeassistant.const import EVENT_STATE_CHANGED, Platform
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import (
    area_registry, device_registry, entity, entity_registry, issue_registry, restore_state, template, translation)

SCHEMAS = {"sensor": sensor.DISCOVERY_SCHEMA, "binary_sensor": binary_sensor.DISCOVERY_SCHEMA}
DEFAULTS = {"force_update", "enabled_by_default", "encoding", "payload_available", "payload_not_available", "payload_on",
            "payload_off", "availability_mode", "qos"}


def tell(kind, **facts):
    print(json.dumps({"kind": kind, **facts}), flush=True)


class Warnings(logging.Handler):
    """Whatever Home Assistant has to complain of is one, but for what its client says of a broker that comes and goes."""

    def emit(self, record):
        text = record.getMessage()
        if record.name != "homeassistant.components.mqtt.client" or text.startswith("Can't decode"):
            tell("problem", text=f"{record.name}: {text}")


def check(topic, payload):
    """One discovery message, by the schema of its component, and by what its device class allows."""
    component = topic.split("/")[-4]
    config = json.loads(payload)
    made = SCHEMAS[component](config)
    # Unknown names are taken out of what comes by discovery: a typing error would not be noticed.
    for name in config.keys() - made.keys():
        raise ValueError(f"{name} is no name of the schema's")
    for name in made.keys() - config.keys() - DEFAULTS:
        raise ValueError(f"{name} was added")
    kind = config.get("device_class")
    if component == "binary_sensor":
        kind is None or BinarySensorDeviceClass(kind)
        return
    if kind is not None:
        kind = SensorDeviceClass(kind)
        if config.get("unit_of_measurement") not in DEVICE_CLASS_UNITS[kind]:
            raise ValueError(f"{config.get('unit_of_measurement')} is no unit of {kind}")
        if config.get("state_class") not in DEVICE_CLASS_STATE_CLASSES[kind]:
            raise ValueError(f"{config.get('state_class')} is no state class of {kind}")


async def begin(folder):
    """A Home Assistant with nothing but what an integration needs."""
    pathlib.Path(folder, "configuration.yaml").touch()
    home = HomeAssistant(folder)
    home.config.skip_pip = True
    home.config_entries = config_entries.ConfigEntries(home, {})
    for module in (loader, entity, template, translation):
        module.async_setup(home)
    await home.config_entries.async_initialize()
    for registry in (area_registry, device_registry, entity_registry, issue_registry, restore_state):
        await registry.async_load(home)
    # Servers of pages and files, which nothing here asks.
    home.config.components |= {"http", "file_upload"}
    await home.async_start()
    return home


async def main(port, prefix="homeassistant"):
    # Other kinds of entities want cameras, pictures and the sun.
    mqtt.PLATFORMS[:] = [Platform.SENSOR, Platform.BINARY_SENSOR]
    handler = Warnings(logging.WARNING)
    logging.getLogger().addHandler(handler)
    with tempfile.TemporaryDirectory() as folder:
        home = await begin(folder)

        @callback
        def state(event):
            new = event.data["new_state"]
            if new is not None and new.domain in SCHEMAS:
                tell("state", entity=new.entity_id, state=new.state, attributes=dict(new.attributes))

        @callback
        def device(event):
            one = device_registry.async_get(home).async_get(event.data["device_id"])
            if one is not None:
                tell("device", name=one.name, manufacturer=one.manufacturer, model=one.model, sw_version=one.sw_version,
                     connections=sorted(one.connections))

        @callback
        def message(message):
            try:
                if message.payload:
                    check(message.topic, message.payload)
                    tell("config", topic=message.topic)
            except Exception as error:
                tell("problem", text=f"{message.topic}: {error}")

        home.bus.async_listen(EVENT_STATE_CHANGED, state)
        home.bus.async_listen(device_registry.EVENT_DEVICE_REGISTRY_UPDATED, device)
        data = {"broker": "127.0.0.1", "port": port, "discovery": True, "discovery_prefix": prefix}
        entry = config_entries.ConfigEntry(version=1, minor_version=1, domain="mqtt", title="broker", data=data, source="user")
        await home.config_entries.async_add(entry)
        if entry.state != config_entries.ConfigEntryState.LOADED:
            raise SystemExit(f"not loaded: {entry.state}, {entry.reason}")
        await mqtt.async_subscribe(home, f"{prefix}/+/+/+/config", message)
        tell("ready")
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await home.async_stop(force=True)


asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
