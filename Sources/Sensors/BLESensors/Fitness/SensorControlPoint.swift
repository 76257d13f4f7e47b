public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Location of the sensor on a runner or a bicycle.
///
/// Sensor Location (0x2A5D): 0 other, 1 top of shoe, 2 in shoe, 3 hip, 4 front wheel, 5 left crank, 6 right
/// crank, 7 left pedal, 8 right pedal, 9 front hub, 10 rear dropout, 11 chainstay, 12 rear wheel, 13 rear
/// hub, 14 chest, 15 spider, 16 chain ring.
public struct SensorLocation: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .cyclingSpeed)
    rawValue = try reader.u8()
  }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(rawValue) }
}

/// Request to a running or cycling sensor, or its response.
///
/// Cycling Speed and Cadence Service 1.0, 3.4; SC Control Point (0x2A55).
public enum SensorControlPoint: CharacteristicValue {
  case setCumulativeValue(UInt32)
  case startCalibration
  case updateLocation(SensorLocation)
  case requestLocations
  /// Response to a request. `result`: 1 success, 2 not supported, 3 invalid parameter, 4 failed. `locations`
  /// is set in the response to `requestLocations`.
  case response(requestOpcode: UInt8, result: UInt8, locations: [SensorLocation])

  /// Decodes a value.
  ///
  /// - Throws: `truncated`; `unexpectedOpcode` for an unassigned opcode.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .cyclingSpeed)
    let opcode = try reader.u8()
    switch opcode {
    case 1: self = .setCumulativeValue(try reader.u32())
    case 2: self = .startCalibration
    case 3: self = .updateLocation(SensorLocation(rawValue: try reader.u8()))
    case 4: self = .requestLocations
    case 0x10:
      let (requestOpcode, result) = (try reader.u8(), try reader.u8())
      var locations: [SensorLocation] = []
      while reader.left > 0 { locations.append(SensorLocation(rawValue: try reader.u8())) }
      self = .response(requestOpcode: requestOpcode, result: result, locations: locations)
    default: throw WireError(.cyclingSpeed, offset: 0, .unexpectedOpcode(opcode))
    }
  }

  public var encodedByteCount: Int {
    switch self {
    case .setCumulativeValue: 5
    case .startCalibration, .requestLocations: 1
    case .updateLocation: 2
    case .response(_, _, let locations): 3 + locations.count
    }
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    switch self {
    case .setCumulativeValue(let value):
      output.append(1)
      output.append(u32: value)
    case .startCalibration: output.append(2)
    case .updateLocation(let location):
      output.append(3)
      output.append(location.rawValue)
    case .requestLocations: output.append(4)
    case .response(let requestOpcode, let result, let locations):
      output.append(0x10)
      output.append(requestOpcode)
      output.append(result)
      for location in locations { output.append(location.rawValue) }
    }
  }
}

#if !hasFeature(Embedded)
  extension SensorLocation: SensorValueFields {
    private static let names = [
      "other", "topOfShoe", "inShoe", "hip", "frontWheel", "leftCrank", "rightCrank", "leftPedal",
      "rightPedal",
      "frontHub", "rearDropout", "chainstay", "rearWheel", "rearHub", "chest", "spider", "chainRing",
    ]

    var jsonName: String { name(rawValue, in: Self.names) }

    package func describe(into fields: inout FieldList) {
      fields.member("sensorLocationCode", rawValue, .hidden)
      fields.member("sensorLocation", jsonName)
    }
  }

  extension SensorControlPoint: SensorValueFields {
    private static let results = ["reserved", "success", "opcodeNotSupported", "invalidParameter", "failed"]

    package func describe(into fields: inout FieldList) {
      switch self {
      case .setCumulativeValue(let value):
        fields.member("command", "setCumulativeValue")
        fields.member("cumulativeValue", value)
      case .startCalibration: fields.member("command", "startCalibration")
      case .updateLocation(let location):
        fields.member("command", "updateSensorLocation")
        location.describe(into: &fields)
      case .requestLocations: fields.member("command", "requestSupportedSensorLocations")
      case .response(let requestOpcode, let result, let locations):
        fields.member("requestOpcode", requestOpcode)
        fields.member("result", name(result, in: Self.results))
        if !locations.isEmpty {
          fields.member("sensorLocations") { fields in
            for location in locations { fields.value(location.jsonName) }
          }
        }
      }
    }
  }
#endif
