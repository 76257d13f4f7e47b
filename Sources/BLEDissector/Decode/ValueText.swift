import BLECore
import BLESensors
import BLEWire
import ColmiRing

/// The value of an attribute in words, where the SIG or the ring's protocol says what its octets mean.
enum ValueText {
  /// - Parameter opcode: of the PDU: what is written to a ring is a command, though it may look like a sample.
  static func lines(_ value: Span<UInt8>, _ uuid: BluetoothUUID?, in opcode: ATTOpcode) -> [String] {
    if let uuid, let short = uuid.short, let lines = assigned(value, short) { return lines }
    let isWritten = opcode == .writeRequest || opcode == .writeCommand
    return (isWritten ? ringCommand(value) : ring(value)).map { [$0] } ?? []
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

  private static func ringCommand(_ octets: Span<UInt8>) -> String? {
    guard let frame = try? RingFrame(validating: octets) else { return nil }
    return switch (frame.opcode, octets[1]) {
    case (RingCommand.rawStreamOpcode, 0x04): "Ring command: start the raw stream"
    case (RingCommand.rawStreamOpcode, 0x02): "Ring command: stop the raw stream"
    case (RingCommand.batteryOpcode, _): "Ring command: battery"
    default: "Ring command 0x\(hexadecimal(frame.opcode)): \(PacketText.hex(frame.payload))"
    }
  }

  /// A frame of a ring: its checksum leaves little doubt.
  private static func ring(_ octets: Span<UInt8>) -> String? {
    guard let frame = try? RingFrame(validating: octets) else { return nil }
    guard let sample = try? RingRawSample(decoding: frame) else {
      if frame.isError { return "Ring refuses command 0x\(hexadecimal(frame.refusedOpcode))" }
      return "Ring frame 0x\(hexadecimal(frame.opcode)): \(PacketText.hex(frame.payload))"
    }
    switch sample {
    case .spO2(let sample):
      return "Ring SpO2: \(sample.value), max \(sample.max), min \(sample.min), diff \(sample.diff)"
    case .ppg(let sample):
      return "Ring PPG: \(sample.value), max \(sample.max), min \(sample.min), diff \(sample.diff)"
    case .accelerometer(let sample):
      return "Ring accelerometer: x \(sample.x), y \(sample.y), z \(sample.z)"
    case .unknown(let subtype): return "Ring raw frame of subtype \(subtype)"
    }
  }
}
