@_exported public import BLECore
@_exported public import BLEHost
@_exported public import BLESensors
@_exported public import ColmiRing
@_exported public import Recording
@_exported public import SensorSessions
