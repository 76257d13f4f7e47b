// Modules whose types occur in the public API. Clients need to import only this module.
@_exported public import BLEEmulation
@_exported public import BLEHost
@_exported public import BLEPeripheral
@_exported public import BLESensors
@_exported public import BLEStack
@_exported public import BLEWire
@_exported public import ColmiRing
@_exported public import Physiology
@_exported public import Recording
@_exported public import SensorSessions
