import JSONText

/// Values in the members of an object that has others too, under the keys of `ringtap decode`.
extension JSONLine {
  package mutating func members(of value: HeartRateMeasurement) { value.writeMembers(into: &self) }
  package mutating func members(of value: BodySensorLocation) { value.writeMembers(into: &self) }
  package mutating func members(of value: BatteryLevel) { value.writeMembers(into: &self) }
  package mutating func members(of value: TemperatureMeasurement) { value.writeMembers(into: &self) }
  package mutating func members(of value: TemperatureType) { value.writeMembers(into: &self) }
  package mutating func members(of value: CoreBodyTemperature) { value.writeMembers(into: &self) }
  package mutating func members(of value: CyclingSpeed) { value.writeMembers(into: &self) }
  package mutating func members(of value: SensorLocation) { value.writeMembers(into: &self) }
}
