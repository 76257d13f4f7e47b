import BLEWire

/// What stands for each address, name and key of a log: the same everywhere, and nothing of the original
/// but its length, and of an address the two top bits, which tell the kinds of random addresses apart.
struct AnonymityTable: Sendable {
  private var addresses: [UInt64: UInt64] = [:]
  private var names: [[UInt8]: [UInt8]] = [:]
  private var keys: [[UInt8]: [UInt8]] = [:]
  private var lastName = 0

  /// What `sweep` looks for, by its first four octets; longer ones first.
  private var patterns: [UInt32: [(original: [UInt8], replacement: [UInt8])]] = [:]
  /// Whether a pattern starts with these two octets.
  private var starts = [Bool](repeating: false, count: 65_536)
  /// Shorter names would be found where there are none.
  private static let shortestSweptName = 4

  // MARK: Fields

  /// Six octets in transmission order. Those of no device, all zeros or ones, stay.
  mutating func replaceAddress(in octets: inout [UInt8], at offset: Int) {
    guard offset + 6 <= octets.count else { return }
    var bits: UInt64 = 0
    for index in 0..<6 { bits |= UInt64(octets[offset + index]) << (8 * UInt64(index)) }
    let other = replacement(address: bits)
    for index in 0..<6 { octets[offset + index] = UInt8(truncatingIfNeeded: other >> (8 * UInt64(index))) }
  }

  /// Text up to the zeros that fill its field.
  mutating func replaceName(in octets: inout [UInt8], _ range: Range<Int>) {
    let range = range.clamped(to: 0..<octets.count)
    let end = octets[range].firstIndex(of: 0) ?? range.upperBound
    guard range.lowerBound < end else { return }
    let name = Array(octets[range.lowerBound..<end])
    octets.replaceSubrange(range.lowerBound..<end, with: replacement(name: name))
    // What follows the zero is no text, and might be a remnant of one.
    for index in end..<range.upperBound { octets[index] = 0 }
  }

  /// The same for a name that goes to the end, if the packet has got so far.
  mutating func replaceName(in octets: inout [UInt8], from start: Int) {
    if start < octets.count { replaceName(in: &octets, start..<octets.count) }
  }

  /// Keys, and the random numbers and hashes that keys are made or checked with.
  mutating func replaceKey(in octets: inout [UInt8], at offset: Int, byteCount: Int = 16) {
    guard offset < octets.count else { return }
    let range = offset..<min(octets.count, offset + byteCount)
    octets.replaceSubrange(range, with: replacement(key: Array(octets[range])))
  }

  /// Replaces what is known wherever it stands from `offset` on: addresses and keys in either order, names.
  func sweep(_ octets: inout [UInt8], from offset: Int) {
    var index = offset
    while index + Self.shortestSweptName <= octets.count {
      guard starts[Int(octets[index]) << 8 | Int(octets[index + 1])],
        let known = patterns[Self.start(octets, index)],
        let found = known.first(where: { octets[index...].starts(with: $0.original) })
      else {
        index += 1
        continue
      }
      octets.replaceSubrange(index..<index + found.original.count, with: found.replacement)
      index += found.original.count
    }
  }

  // MARK: Replacements

  private mutating func replacement(address bits: UInt64) -> UInt64 {
    guard bits != 0, bits != 0xFFFF_FFFF_FFFF else { return bits }
    if let known = addresses[bits] { return known }
    let other = bits & 0xC000_0000_0000 | 0x20A0_0A00_0000 | UInt64(addresses.count + 1) & 0xFF_FFFF
    addresses[bits] = other
    let octets = (0..<6).map { UInt8(truncatingIfNeeded: bits >> (8 * UInt64($0))) }
    let others = (0..<6).map { UInt8(truncatingIfNeeded: other >> (8 * UInt64($0))) }
    note(octets, others)
    note(octets.reversed(), others.reversed())
    return other
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
    names[name] = other
    if name.count >= Self.shortestSweptName { note(name, other) }
    return other
  }

  private mutating func replacement(key: [UInt8]) -> [UInt8] {
    // Zeros are what a field holds that has no key.
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
    keys[key] = other
    if key.count >= 16 {
      note(key, other)
      note(key.reversed(), other.reversed())
    }
    return other
  }

  private var lastKey: UInt64 = 0

  /// The finaliser of splitmix64: the same in each run, and nothing of the original.
  private static func mixed(_ value: UInt64) -> UInt64 {
    var value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
    return value ^ value >> 31
  }

  private mutating func note(_ original: [UInt8], _ replacement: [UInt8]) {
    starts[Int(original[0]) << 8 | Int(original[1])] = true
    var known = patterns[Self.start(original, 0)] ?? []
    known.append((original, replacement))
    known.sort { $0.original.count > $1.original.count }
    patterns[Self.start(original, 0)] = known
  }

  private static func start(_ octets: [UInt8], _ index: Int) -> UInt32 {
    UInt32(octets[index]) << 24 | UInt32(octets[index + 1]) << 16 | UInt32(octets[index + 2]) << 8
      | UInt32(octets[index + 3])
  }
}
