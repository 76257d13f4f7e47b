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
