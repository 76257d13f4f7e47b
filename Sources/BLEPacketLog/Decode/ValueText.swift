import BLECore
import BLESensors
import BLEWire

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
    case 0x2A19 where value.count == 1: ["Battery: \(value[0]) %"]
    case 0x2A1C, 0x2A1E: temperature(value)
    case 0x2A37: heartRate(value)
    case 0x2A38 where value.count == 1: ["Location: \(sensorLocation(value[0]))"]
    case 0x2A50 where value.count == 7:
      [
        "Vendor \(PacketText.hex(UInt64(value.u16(at: 1)), digits: 4)) product "
          + "\(PacketText.hex(UInt64(value.u16(at: 3)), digits: 4)) version "
          + "\(PacketText.hex(UInt64(value.u16(at: 5)), digits: 4))"
      ]
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

  /// Heart Rate Service 1.0, 3.1.1.
  private static func heartRate(_ value: Span<UInt8>) -> [String]? {
    guard value.count >= 2 else { return nil }
    let flags = value[0]
    var offset = flags & 1 == 0 ? 2 : 3
    guard value.count >= offset else { return nil }
    let rate = flags & 1 == 0 ? UInt16(value[1]) : value.u16(at: 1)
    var lines = [
      "Heart rate: \(rate) beats/min" + (flags & 4 == 0 ? "" : flags & 2 == 0 ? ", no contact" : ", contact")
    ]
    if flags & 8 != 0, value.count >= offset + 2 {
      lines.append("Energy expended: \(value.u16(at: offset)) kJ")
      offset += 2
    }
    if flags & 16 != 0 {
      var intervals: [String] = []
      while value.count >= offset + 2 {
        // In units of 1/1024 s, to the nearest millisecond.
        intervals.append("\((Int(value.u16(at: offset)) * 1_000 + 512) / 1_024)")
        offset += 2
      }
      if !intervals.isEmpty { lines.append("RR intervals: \(intervals.joined(separator: ", ")) ms") }
    }
    return lines
  }

  /// Health Thermometer Service 1.0, 3.1; a FLOAT of IEEE 11073-20601.
  private static func temperature(_ value: Span<UInt8>) -> [String]? {
    guard value.count >= 5 else { return nil }
    let mantissa = Int64(Int32(bitPattern: value.u24(at: 1) << 8) >> 8)
    let exponent = Int8(bitPattern: value[4])
    let unit = value[0] & 1 == 0 ? "°C" : "°F"
    // 0x7FFFFE to 0x800002: infinities, NaN, "not at this resolution" and reserved.
    guard value.u24(at: 1) < 0x7F_FFFE || value.u24(at: 1) > 0x80_0002 else { return ["Temperature: none"] }
    guard (-6...0).contains(exponent) else { return ["Temperature: \(mantissa)e\(exponent) \(unit)"] }
    return ["Temperature: \(PacketText.decimal(mantissa, places: -Int(exponent))) \(unit)"]
  }

  /// Heart Rate Service 1.0, 3.2.
  private static func sensorLocation(_ code: UInt8) -> String {
    let names = ["other", "chest", "wrist", "finger", "hand", "ear lobe", "foot"]
    return Int(code) < names.count ? names[Int(code)] : "reserved (\(code))"
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
