import BLECore
import BLESensors
import BLEWire
import ColmiRing
import JSONText

/// The value of an attribute in words, where the SIG says what its octets mean.
enum ValueText {
  static func lines(_ value: Span<UInt8>, _ uuid: BluetoothUUID?) -> [String] {
    uuid?.short.flatMap { assigned(value, $0) } ?? []
  }

  private static func assigned(_ value: Span<UInt8>, _ short: UInt16) -> [String]? {
    switch short {
    case 0x2A00, 0x2A24...0x2A29, 0x2901: ["Text: \(PacketText.string(value))"]
    case 0x2800, 0x2801:
      value.uuid(at: 0, byteCount: value.count).map { ["Service: \(PacketText.uuid($0))"] }
    case 0x2803: declaration(value)
    case 0x2902 where value.count == 2: [configuration(value.u16(at: 0))]
    case 0x2A01 where value.count == 2: ["Appearance: \(PacketText.hex(UInt64(value.u16(at: 0)), digits: 4))"]
    case 0x2A04 where value.count == 8: preferredParameters(value)
    case 0x2A05 where value.count == 4:
      ["Changed: \(PacketText.hex(value.handle(at: 0)))-\(PacketText.hex(value.handle(at: 2)))"]
    case 0x2A19 where value.count == 1: battery(value)
    case 0x2A1C, 0x2A1E: temperature(value)
    case 0x2A37: heartRate(value)
    case 0x2A38 where value.count == 1: sensorLocation(value)
    case 0x2A50 where value.count == 7: identity(value)
    default: nil
    }
  }

  /// Core 5.4, Vol 3, Part G, 3.3.1.
  private static func declaration(_ value: Span<UInt8>) -> [String]? {
    guard let declaration = try? CharacteristicDeclaration(validating: value) else { return nil }
    return [
      "Properties: \(declaration.properties.names.joined(separator: ", "))",
      "Value handle: \(PacketText.hex(declaration.valueHandle))",
      "Value UUID: \(PacketText.uuid(declaration.uuid))",
    ]
  }

  /// Core 5.4, Vol 3, Part G, 3.3.3.3.
  private static func configuration(_ bits: UInt16) -> String {
    switch bits {
    case 0: "Configuration: off"
    case 1: "Configuration: notification"
    case 2: "Configuration: indication"
    case 3: "Configuration: notification, indication"
    default: "Configuration: \(PacketText.hex(UInt64(bits), digits: 4))"
    }
  }

  /// Core 5.4, Vol 3, Part C, 12.3.
  private static func preferredParameters(_ value: Span<UInt8>) -> [String] {
    [
      "Interval: \(milliseconds(value.u16(at: 0))) to \(milliseconds(value.u16(at: 2)))",
      "Latency: \(value.u16(at: 4)), timeout: \(Int(value.u16(at: 6)) * 10) ms",
    ]
  }

  private static func milliseconds(_ interval: UInt16) -> String {
    "\(PacketText.decimal(Int64(interval) * 125, places: 2)) ms"
  }

  private static func heartRate(_ value: Span<UInt8>) -> [String]? {
    guard let measurement = try? HeartRateMeasurement(decoding: value) else { return nil }
    let contact =
      switch measurement.contact {
      case .notSupported: ""
      case .notDetected: ", no contact"
      case .detected: ", contact"
      }
    var lines = ["Heart rate: \(measurement.beatsPerMinute) beats/min\(contact)"]
    if let energy = measurement.energyExpendedKilojoules { lines.append("Energy expended: \(energy) kJ") }
    let intervals = measurement.rrIntervals
    if intervals.count > 0 {
      // To the nearest millisecond.
      let milliseconds = intervals.indices.map { "\((Int(intervals[$0]) * 1_000 + 512) / 1_024)" }
      lines.append("RR intervals: \(milliseconds.joined(separator: ", ")) ms")
    }
    return lines
  }

  private static func temperature(_ value: Span<UInt8>) -> [String]? {
    guard let measurement = try? TemperatureMeasurement(decoding: value) else { return nil }
    let unit = measurement.unit == .celsius ? "°C" : "°F"
    let (mantissa, exponent) = (measurement.temperature.mantissa, measurement.temperature.exponent)
    guard measurement.temperature.special == nil else { return ["Temperature: none"] }
    // All digits, as they tell the precision.
    guard (-6...0).contains(exponent) else { return ["Temperature: \(mantissa)e\(exponent) \(unit)"] }
    return ["Temperature: \(PacketText.decimal(Int64(mantissa), places: -Int(exponent))) \(unit)"]
  }

  private static func battery(_ value: Span<UInt8>) -> [String]? {
    guard let level = try? BatteryLevel(decoding: value) else { return nil }
    return ["Battery: \(level.percent) %"]
  }

  private static func sensorLocation(_ value: Span<UInt8>) -> [String]? {
    guard let location = try? BodySensorLocation(decoding: value) else { return nil }
    let names = ["other", "chest", "wrist", "finger", "hand", "ear lobe", "foot"]
    let code = Int(location.rawValue)
    return ["Location: \(code < names.count ? names[code] : "reserved (\(code))")"]
  }

  private static func identity(_ value: Span<UInt8>) -> [String]? {
    guard let identity = try? PnPID(decoding: value) else { return nil }
    func digits(_ number: UInt16) -> String { PacketText.hex(UInt64(number), digits: 4) }
    return [
      "Vendor \(digits(identity.vendor)) product \(digits(identity.product)) version \(digits(identity.version))"
    ]
  }
}

extension DecodedATT {
  /// What its value says, as `ring decode` has it; `nil` where it is a part of a value, or not known.
  var said: Field? {
    guard let value, offset == nil, opcode != .readBlobResponse else { return nil }
    // What is written to a ring is a command, though it may look like a sample.
    let isSent = opcode == .writeRequest || opcode == .writeCommand
    return RingTranscript(value, of: uuid, isSent ? .hostToRing : .ringToHost)?.field
  }
}
