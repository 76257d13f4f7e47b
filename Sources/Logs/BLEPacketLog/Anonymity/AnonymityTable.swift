import BLEWire

/// Replacements for the addresses, names and keys of a log, the same at each occurrence. A replacement keeps
/// only the length of the original and, for an address, the two top bits, which give the type of a random
/// address.
struct AnonymityTable: Sendable {
  /// Numbers of addresses in order of appearance, from 1.
  private var addresses: [UInt64: UInt32] = [:]
  private var names: [[UInt8]: [UInt8]] = [:]
  private var keys: [[UInt8]: [UInt8]] = [:]
  private var lastName = 0
  private var patterns = SweptPatterns()
  /// True if the table has no room for an address, name or key, so that it is not replaced inside values.
  private(set) var isFull = false
  /// Whether bytes were blanked since this was set to `false`.
  var hasBlanked = false
  private static let addressLimit = Limit(
    1 << 22, "addresses of an anonymised log", by: .file, whenFull: "the log is refused",
    counted: "message and exit status")
  private static let textLimit = Limit(
    1 << 16, "names and keys of an anonymised log", by: .file, whenFull: "the log is refused",
    counted: "message and exit status")
  /// Shorter names would match unrelated bytes.
  private static let shortestSweptName = SweptPatterns.shortest

  // MARK: Fields

  /// Replaces an address of six bytes in transmission order. All zeros and all ones are kept, because they
  /// identify no device.
  mutating func replaceAddress(in octets: inout [UInt8], at offset: Int) {
    guard offset + 6 <= octets.count else { return }
    var bits: UInt64 = 0
    for index in 0..<6 { bits |= UInt64(octets[offset + index]) << (8 * UInt64(index)) }
    let other = replacement(address: bits)
    for index in 0..<6 { octets[offset + index] = UInt8(truncatingIfNeeded: other >> (8 * UInt64(index))) }
  }

  /// Replaces text up to the zeros that pad its field.
  mutating func replaceName(in octets: inout [UInt8], _ range: Range<Int>) {
    let range = range.clamped(to: 0..<octets.count)
    let end = octets[range].firstIndex(of: 0) ?? range.upperBound
    guard range.lowerBound < end else { return }
    let name = Array(octets[range.lowerBound..<end])
    octets.replaceSubrange(range.lowerBound..<end, with: replacement(name: name))
    // Bytes after the zero may be left over from another text.
    for index in end..<range.upperBound { octets[index] = 0 }
  }

  /// Replaces a name that extends to the end, if the packet contains it.
  mutating func replaceName(in octets: inout [UInt8], from start: Int) {
    if start < octets.count { replaceName(in: &octets, start..<octets.count) }
  }

  /// Replaces a key, or a random number or hash from which keys are made or checked.
  mutating func replaceKey(in octets: inout [UInt8], at offset: Int, byteCount: Int = 16) {
    guard offset < octets.count else { return }
    let range = offset..<min(octets.count, offset + byteCount)
    octets.replaceSubrange(range, with: replacement(key: Array(octets[range])))
  }

  /// Replaces known addresses and keys in either byte order, and known names, anywhere from `offset` on. If
  /// several match at one place, the longest is replaced.
  func sweep(_ octets: inout [UInt8], from offset: Int) {
    var index = offset
    while index + Self.shortestSweptName <= octets.count {
      let other = patterns.longest(in: octets, at: index)
      if other?.count ?? 0 <= 6, let end = sweepAddress(&octets, at: index) {
        index = end
      } else if let other {
        octets.replaceSubrange(index..<index + other.count, with: other)
        index += other.count
      } else {
        index += 1
      }
    }
  }

  /// - Returns: the offset after a known address that was replaced.
  private func sweepAddress(_ octets: inout [UInt8], at index: Int) -> Int? {
    guard index + 6 <= octets.count else { return nil }
    var (forward, backward): (UInt64, UInt64) = (0, 0)
    for place in 0..<6 {
      forward |= UInt64(octets[index + place]) << (8 * UInt64(place))
      backward = backward << 8 | UInt64(octets[index + place])
    }
    let isForward: Bool
    let other: UInt64
    if let number = addresses[forward] {
      (isForward, other) = (true, Self.address(number, for: forward))
    } else if let number = addresses[backward] {
      (isForward, other) = (false, Self.address(number, for: backward))
    } else {
      return nil
    }
    for place in 0..<6 {
      let shift = 8 * UInt64(isForward ? place : 5 - place)
      octets[index + place] = UInt8(truncatingIfNeeded: other >> shift)
    }
    return index + 6
  }

  // MARK: Replacements

  private mutating func replacement(address bits: UInt64) -> UInt64 {
    guard bits != 0, bits != 0xFFFF_FFFF_FFFF else { return bits }
    if let number = addresses[bits] { return Self.address(number, for: bits) }
    let number = UInt32(addresses.count + 1)
    if number <= Self.addressLimit.count { addresses[bits] = number } else { isFull = true }
    return Self.address(number, for: bits)
  }

  private static func address(_ number: UInt32, for bits: UInt64) -> UInt64 {
    bits & 0xC000_0000_0000 | 0x20A0_0A00_0000 | UInt64(number) & 0xFF_FFFF
  }

  private mutating func replacement(name: [UInt8]) -> [UInt8] {
    if let known = names[name] { return known }
    var other = name
    repeat {
      lastName += 1
      let text = Array("Name\(lastName)".utf8)
      other =
        Array(text.suffix(name.count))
        + [UInt8](repeating: UInt8(ascii: "x"), count: max(0, name.count - text.count))
    } while other == name
    guard hasRoomForText() else { return other }
    names[name] = other
    if name.count >= Self.shortestSweptName { patterns.insert(name, other) }
    return other
  }

  private mutating func replacement(key: [UInt8]) -> [UInt8] {
    // All zeros mean that the field has no key.
    guard key.contains(where: { $0 != 0 }) else { return key }
    if let known = keys[key] { return known }
    var other = key
    repeat {
      lastKey &+= 0x9E37_79B9_7F4A_7C15
      var state = lastKey
      for index in other.indices {
        if index.isMultiple(of: 8) { state = Self.mixed(state &+ UInt64(index)) }
        other[index] = UInt8(truncatingIfNeeded: state >> (8 * UInt64(index % 8)))
      }
    } while other == key
    guard hasRoomForText() else { return other }
    keys[key] = other
    if key.count >= 16 {
      patterns.insert(key, other)
      patterns.insert(key.reversed(), other.reversed())
    }
    return other
  }

  private mutating func hasRoomForText() -> Bool {
    if names.count + keys.count >= Self.textLimit.count { isFull = true }
    return !isFull
  }

  private var lastKey: UInt64 = 0

  /// The finalizer of splitmix64. Its output is the same in each run, and independent of the original.
  private static func mixed(_ value: UInt64) -> UInt64 {
    var value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
    return value ^ value >> 31
  }
}

extension AnonymityTable {
  /// Replaces identifying data in a command, and blanks an unknown command. Core 5.4, Vol 4, Part E, 7.
  mutating func rewrite(command octets: inout [UInt8]) {
    guard octets.count >= 3 else { return }
    let opcode = UInt16(octets[0]) | UInt16(octets[1]) << 8
    let first = 3
    switch opcode {
    // The address is the first parameter: connecting, names, pairing, own addresses.
    case 0x0405, 0x0408, 0x0409, 0x040A, 0x040C, 0x040E, 0x0419, 0x041A, 0x0429, 0x042A, 0x042B, 0x042C,
      0x042D,
      0x042E, 0x042F, 0x0433, 0x0434, 0x043E, 0x043F, 0x0440, 0x0444, 0x080B, 0x0C0D, 0x0C12, 0x0C60, 0x2005:
      replaceAddress(in: &octets, at: first)
    case 0x0442: replaceAddress(in: &octets, at: first + 1)
    case 0x0C05:
      // Filter type and condition type: condition type 2 is an address.
      if octets.count > first + 1, octets[first + 1] == 2 { replaceAddress(in: &octets, at: first + 2) }
    case 0x040B:
      replaceAddress(in: &octets, at: first)
      replaceKey(in: &octets, at: first + 6)
    case 0x040D:
      replaceAddress(in: &octets, at: first)
      replaceKey(in: &octets, at: first + 7)
    case 0x0430, 0x0445:
      replaceAddress(in: &octets, at: first)
      for offset in stride(from: first + 6, to: octets.count, by: 16) { replaceKey(in: &octets, at: offset) }
    case 0x0C11:
      for offset in stride(from: first + 1, to: octets.count, by: 22) {
        replaceAddress(in: &octets, at: offset)
        replaceKey(in: &octets, at: offset + 6)
      }
    case 0x0C13: replaceName(in: &octets, from: first)
    case 0x0C52: rewrite(advertisingData: &octets, from: first + 1, byteCount: 240)
    default: rewrite(leCommand: &octets, opcode, first)
    }
  }

  /// Core 5.4, Vol 4, Part E, 7.8.
  private mutating func rewrite(leCommand octets: inout [UInt8], _ opcode: UInt16, _ first: Int) {
    switch opcode {
    case 0x2011, 0x2012, 0x2028, 0x202B, 0x202C, 0x2035, 0x2047, 0x2048, 0x204E:
      replaceAddress(in: &octets, at: first + 1)
    case 0x2027:
      replaceAddress(in: &octets, at: first + 1)
      replaceKey(in: &octets, at: first + 7)
      replaceKey(in: &octets, at: first + 23)
    case 0x2006, 0x200D: replaceAddress(in: &octets, at: first + 6)
    case 0x2036: replaceAddress(in: &octets, at: first + 12)
    case 0x2043, 0x2044: replaceAddress(in: &octets, at: first + 3)
    case 0x2085: replaceAddress(in: &octets, at: first + 5)
    case 0x2008, 0x2009:
      rewrite(advertisingData: &octets, lengthAt: first)
      // Bytes after the data may be left over from other data.
      if octets.count > first { blank(&octets, from: first + 1 + Int(octets[first]), isKnown: true) }
    case 0x2037, 0x2038: rewrite(advertisingData: &octets, lengthAt: first + 3)
    case 0x203F: rewrite(advertisingData: &octets, lengthAt: first + 2)
    case 0x2017:
      replaceKey(in: &octets, at: first)
      replaceKey(in: &octets, at: first + 16)
    case 0x2019:
      replaceKey(in: &octets, at: first + 2, byteCount: 8)
      replaceKey(in: &octets, at: first + 12)
    case 0x201A: replaceKey(in: &octets, at: first + 2)
    case 0x2026, 0x205E: replaceKey(in: &octets, at: first, byteCount: 64)
    default: if !KnownPackets.isHarmless(command: opcode) { blank(&octets, from: first) }
    }
  }

  /// Zeroes bytes that may contain identifying data.
  ///
  /// - Parameter isKnown: the bytes are known to be irrelevant, and are not counted.
  mutating func blank(_ octets: inout [UInt8], from start: Int, isKnown: Bool = false) {
    guard start < octets.count, octets[start...].contains(where: { $0 != 0 }) else { return }
    for index in start..<octets.count { octets[index] = 0 }
    if !isKnown { hasBlanked = true }
  }

  /// Replaces identifying data in an event, and blanks an unknown event.
  mutating func rewrite(event octets: inout [UInt8]) {
    guard octets.count >= 3 else { return }
    let first = 2
    switch octets[0] {
    case 0x02, 0x22:
      // 14 bytes per response, with the address first, as controllers send them.
      for offset in stride(from: first + 1, to: octets.count, by: 14) {
        replaceAddress(in: &octets, at: offset)
      }
    case 0x2F:
      replaceAddress(in: &octets, at: first + 1)
      rewrite(advertisingData: &octets, from: first + 15, byteCount: 240)
    case 0x03, 0x2C: replaceAddress(in: &octets, at: first + 3)
    case 0x04, 0x16, 0x17, 0x20, 0x31, 0x32, 0x33, 0x34, 0x35, 0x3B, 0x3C, 0x3D, 0x52:
      replaceAddress(in: &octets, at: first)
    case 0x51:
      // The rest is the data that a device broadcasts.
      replaceAddress(in: &octets, at: first)
      blank(&octets, from: first + 6)
    case 0x12, 0x36, 0x50, 0x53: replaceAddress(in: &octets, at: first + 1)
    case 0x07:
      replaceAddress(in: &octets, at: first + 1)
      replaceName(in: &octets, from: first + 7)
    case 0x15:
      for offset in stride(from: first + 1, to: octets.count, by: 22) {
        replaceAddress(in: &octets, at: offset)
        replaceKey(in: &octets, at: offset + 6)
      }
    case 0x18:
      replaceAddress(in: &octets, at: first)
      replaceKey(in: &octets, at: first + 6)
    case 0x0E: rewrite(commandComplete: &octets)
    case 0x3E: rewrite(leEvent: &octets, first)
    default: if !KnownPackets.isHarmless(event: octets[0]) { blank(&octets, from: first) }
    }
  }

  /// Return parameters follow the count, the opcode and a status.
  private mutating func rewrite(commandComplete octets: inout [UInt8]) {
    guard octets.count > 6 else { return }
    let first = 6
    switch UInt16(octets[3]) | UInt16(octets[4]) << 8 {
    case 0x0408, 0x040B, 0x040C, 0x040D, 0x040E, 0x041A, 0x042B, 0x042C, 0x042D, 0x042E, 0x042F, 0x0430,
      0x0433, 0x0434, 0x0445, 0x1009, 0x202B, 0x202C:
      replaceAddress(in: &octets, at: first)
    case 0x0C14: replaceName(in: &octets, from: first)
    case 0x0C51: rewrite(advertisingData: &octets, from: first + 1, byteCount: 240)
    case 0x0C57, 0x0C7D:
      for offset in stride(from: first, to: octets.count, by: 16) { replaceKey(in: &octets, at: offset) }
    case 0x2017: replaceKey(in: &octets, at: first)
    case let opcode where opcode == 0 || Self.returnsNumbers(opcode): break
    default: blank(&octets, from: first)
    }
  }

  /// Returns whether a command returns only numbers, because it transfers nothing or only sends data to the
  /// controller. Opcode 0 is not a command.
  private static func returnsNumbers(_ opcode: UInt16) -> Bool {
    if KnownPackets.isHarmless(command: opcode) { return true }
    return switch opcode {
    case 0x0405...0x0445, 0x080B, 0x0C05, 0x0C0D, 0x0C11...0x0C13, 0x0C52, 0x0C60, 0x2005, 0x2006, 0x2008,
      0x2009,
      0x200D, 0x2011, 0x2012, 0x2019, 0x201A, 0x2026...0x2028, 0x2035...0x2038, 0x203F, 0x2043, 0x2044,
      0x2047,
      0x2048, 0x204E, 0x205E, 0x2068, 0x2069, 0x206B, 0x2085:
      true
    default: false
    }
  }

  /// Core 5.4, Vol 4, Part E, 7.7.65. The first parameter is the subevent.
  private mutating func rewrite(leEvent octets: inout [UInt8], _ first: Int) {
    switch octets[first] {
    case 0x01: replaceAddress(in: &octets, at: first + 6)
    case 0x0A, 0x29:
      for offset in [6, 12, 18] { replaceAddress(in: &octets, at: first + offset) }
    case 0x02: rewriteReports(&octets, from: first + 2)
    case 0x0B:
      for report in stride(from: first + 2, to: octets.count, by: 16) {
        replaceAddress(in: &octets, at: report + 2)
        replaceAddress(in: &octets, at: report + 9)
      }
    case 0x0D: rewriteExtendedReports(&octets, from: first + 2)
    case 0x05: replaceKey(in: &octets, at: first + 3, byteCount: 8)
    case 0x08: replaceKey(in: &octets, at: first + 2, byteCount: 64)
    case 0x09: replaceKey(in: &octets, at: first + 2, byteCount: 32)
    case 0x0E, 0x24: replaceAddress(in: &octets, at: first + 6)
    case 0x0F: rewrite(advertisingData: &octets, lengthAt: first + 7)
    case 0x13: replaceAddress(in: &octets, at: first + 3)
    case 0x18: replaceAddress(in: &octets, at: first + 10)
    default: if !KnownPackets.isHarmless(subevent: octets[first]) { blank(&octets, from: first + 1) }
    }
  }

  /// Event type, address type, address, length, data and RSSI, report after report, as controllers send them.
  private mutating func rewriteReports(_ octets: inout [UInt8], from start: Int) {
    var report = start
    while report + 9 <= octets.count {
      replaceAddress(in: &octets, at: report + 2)
      rewrite(advertisingData: &octets, lengthAt: report + 8)
      report += 9 + Int(octets[report + 8]) + 1
    }
  }

  private mutating func rewriteExtendedReports(_ octets: inout [UInt8], from start: Int) {
    var report = start
    while report + 24 <= octets.count {
      replaceAddress(in: &octets, at: report + 3)
      replaceAddress(in: &octets, at: report + 17)
      rewrite(advertisingData: &octets, lengthAt: report + 23)
      report += 24 + Int(octets[report + 23])
    }
  }

  // MARK: Advertising data

  private mutating func rewrite(advertisingData octets: inout [UInt8], lengthAt offset: Int) {
    guard offset < octets.count else { return }
    rewrite(advertisingData: &octets, from: offset + 1, byteCount: Int(octets[offset]))
  }

  /// Core 5.4, Vol 3, Part C, 11, and the Supplement, Part A.
  mutating func rewrite(advertisingData octets: inout [UInt8], from start: Int, byteCount: Int) {
    let end = min(octets.count, start + byteCount)
    var offset = start
    while offset + 1 < end, octets[offset] > 0 {
      let value = offset + 2
      let next = min(end, offset + 1 + Int(octets[offset]))
      switch octets[offset + 1] {
      case 0x08, 0x09, 0x30: if value < next { replaceName(in: &octets, value..<next) }
      // Hashes, random numbers and temporary keys of out-of-band pairing, and the identifier of a set of
      // devices.
      case 0x0E, 0x0F, 0x10, 0x1D, 0x1E, 0x22, 0x23, 0x2D, 0x2E:
        replaceKey(in: &octets, at: value, byteCount: next - value)
      case 0x17, 0x18:
        for address in stride(from: value, to: next, by: 6) { replaceAddress(in: &octets, at: address) }
      case 0x1B: replaceAddress(in: &octets, at: value)
      case let type where KnownPackets.isHarmless(advertisingDataType: type): break
      default: blank(&octets, value..<max(value, next))
      }
      offset = next
    }
    // Bytes after the last structure are not data, and may be left over from other data.
    if offset < end, octets[offset] == 0 { blank(&octets, offset..<end) }
  }

  private mutating func blank(_ octets: inout [UInt8], _ range: Range<Int>) {
    guard octets[range].contains(where: { $0 != 0 }) else { return }
    for index in range { octets[index] = 0 }
    hasBlanked = true
  }

  // MARK: Monitor

  /// Replaces the address in a monitor note.
  ///
  /// - Returns: `false` for notes with arbitrary content: text, and messages between `bluetoothd` and the
  ///   kernel.
  mutating func rewrite(note: MonitorOpcode, _ octets: inout [UInt8]) -> Bool {
    switch note {
    case .newIndex: replaceAddress(in: &octets, at: 2)
    case .indexInformation: replaceAddress(in: &octets, at: 0)
    case .vendorDiagnostics, .systemNote, .userLogging, .controlCommand, .controlEvent: return false
    default: break
    }
    return true
  }
}
