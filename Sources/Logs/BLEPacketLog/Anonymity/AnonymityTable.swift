import BLEWire

/// Replacements for the addresses, names and keys of a log, the same at each occurrence. A replacement keeps
/// only the length of the original. The replacement of an address also keeps the two top bits, which
/// determine the type of a random address.
struct AnonymityTable: Sendable {
  /// Numbers of addresses in order of appearance, from 1.
  private var addresses: [UInt64: UInt32] = [:]
  private var names: [[UInt8]: [UInt8]] = [:]
  private var keys: [[UInt8]: [UInt8]] = [:]
  private var lastName = 0
  /// Storage for the places of the fields of one packet.
  private var places: [FieldPlaces.Place] = []
  private var patterns = SweptPatterns()
  /// Whether the table had no room for an address, name or key, which is therefore not replaced inside
  /// values.
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

  /// Replaces the text of a field, up to the zeros that pad the field.
  mutating func replaceName(in octets: inout [UInt8], _ range: Range<Int>) {
    let range = range.clamped(to: 0..<octets.count)
    let end = octets[range].firstIndex(of: 0) ?? range.upperBound
    guard range.lowerBound < end else { return }
    let name = Array(octets[range.lowerBound..<end])
    octets.replaceSubrange(range.lowerBound..<end, with: replacement(name: name))
    // Bytes after the zero may be remains of another text.
    for index in end..<range.upperBound { octets[index] = 0 }
  }

  /// Replaces a name that extends to the end of the packet, if the packet contains the name.
  mutating func replaceName(in octets: inout [UInt8], from start: Int) {
    if start < octets.count { replaceName(in: &octets, start..<octets.count) }
  }

  /// Replaces a key, or a random number or hash that is used to make or check keys.
  mutating func replaceKey(in octets: inout [UInt8], at offset: Int, byteCount: Int = 16) {
    guard offset < octets.count else { return }
    let range = offset..<min(octets.count, offset + byteCount)
    octets.replaceSubrange(range, with: replacement(key: Array(octets[range])))
  }

  /// Replaces known addresses and keys in either byte order, and known names, anywhere from `offset` on. If
  /// several of them match at one place, the longest match is replaced.
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

  /// Replaces a known address at `index`.
  ///
  /// - Returns: the offset after the replaced address; `nil` if no known address is at `index`.
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

  /// Returns the finalizer of splitmix64, which is the same in each run.
  private static func mixed(_ value: UInt64) -> UInt64 {
    var value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
    return value ^ value >> 31
  }
}

extension AnonymityTable {
  /// Replaces identifying data in a command, and blanks data of unknown structure.
  ///
  /// - Parameter isCut: whether the end of the packet is missing.
  mutating func rewrite(command octets: inout [UInt8], isCut: Bool) {
    guard octets.count >= 3 else { return }
    let layout = HCICommandTable.layouts[UInt16(octets[0]) | UInt16(octets[1]) << 8]
    rewrite(&octets, from: 3, layout, isCut: isCut)
  }

  /// Replaces identifying data in an event, and blanks data of unknown structure.
  ///
  /// - Parameter isCut: whether the end of the packet is missing.
  mutating func rewrite(event octets: inout [UInt8], isCut: Bool) {
    guard octets.count >= 3 else { return }
    switch octets[0] {
    case HCIEventCode.commandComplete.rawValue: rewrite(commandComplete: &octets, isCut: isCut)
    case HCIEventCode.leMeta.rawValue:
      rewrite(&octets, from: 3, HCIEventTable.subevents[UInt16(octets[2])], isCut: isCut)
    default: rewrite(&octets, from: 2, HCIEventTable.layouts[UInt16(octets[0])], isCut: isCut)
    }
  }

  /// Rewrites a Command Complete, whose return parameters follow the number of packets and the opcode. A
  /// failed command may return only its status.
  private mutating func rewrite(commandComplete octets: inout [UInt8], isCut: Bool) {
    let first = 5
    guard octets.count > first else { return }
    let layout = HCICommandTable.layouts[UInt16(octets[3]) | UInt16(octets[4]) << 8]
    let isWhole = isCut || octets.count - first >= layout?.minimumReturnedByteCount ?? 0
    rewrite(&octets, from: first, isWhole ? layout?.returned ?? PacketLayout.status : PacketLayout.status)
  }

  /// Rewrites parameters. Blanks all parameters if they are too short for a layout with a name or key,
  /// because the name or key may be at another place.
  private mutating func rewrite(
    _ octets: inout [UInt8], from start: Int, _ layout: PacketLayout?, isCut: Bool
  ) {
    let isTooShort = !isCut && octets.count - start < layout?.minimumByteCount ?? 0
    rewrite(&octets, from: start, isTooShort && layout?.isSecret ?? true ? nil : layout?.fields)
  }

  /// Replaces or blanks each field according to its content, and blanks the bytes that no field covers.
  ///
  /// - Parameter fields: the fields; `nil` if they are unknown.
  private mutating func rewrite(_ octets: inout [UInt8], from start: Int, _ fields: [PacketField]?) {
    var buffer: [FieldPlaces.Place] = []
    swap(&buffer, &self.places)
    var places = FieldPlaces(base: start, buffer)
    defer { self.places = places.places }
    FieldWalk.walk(fields, octets.span.extracting(start...), &places)
    for (content, range) in places.places {
      switch content {
      case .number: break
      case .address: replaceAddress(in: &octets, at: range.lowerBound)
      case .name: replaceName(in: &octets, range)
      case .key: replaceKey(in: &octets, at: range.lowerBound, byteCount: range.count)
      case .advertising: rewrite(advertisingData: &octets, range)
      case .opaque: blank(&octets, range)
      // Bytes after advertising data may be remains of other data.
      case .padding: blank(&octets, range, isKnown: true)
      }
    }
  }

  /// Zeroes bytes that may contain identifying data.
  ///
  /// - Parameter isKnown: whether the bytes are known to be irrelevant. If so, they are not counted.
  mutating func blank(_ octets: inout [UInt8], _ range: Range<Int>, isKnown: Bool = false) {
    guard octets[range].contains(where: { $0 != 0 }) else { return }
    for index in range { octets[index] = 0 }
    if !isKnown { hasBlanked = true }
  }

  /// Zeroes the bytes from `start` on.
  mutating func blank(_ octets: inout [UInt8], from start: Int) {
    if start < octets.count { blank(&octets, start..<octets.count) }
  }

  // MARK: Advertising data

  /// Rewrites advertising data. Core 5.4, Vol 3, Part C, 11, and the Supplement, Part A.
  private mutating func rewrite(advertisingData octets: inout [UInt8], _ range: Range<Int>) {
    let end = range.upperBound
    var offset = range.lowerBound
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
        for address in stride(from: value, to: next, by: 6) {
          replaceAddress(in: &octets, address..<min(next, address + 6))
        }
      case 0x1B: replaceAddress(in: &octets, value..<max(value, min(next, value + 6)))
      case let type where KnownPackets.isHarmless(advertisingDataType: type): break
      default: blank(&octets, value..<max(value, next))
      }
      offset = next
    }
    // Bytes after the last structure are no data, and may be remains of other data.
    if offset < end, octets[offset] == 0 { blank(&octets, offset..<end) }
  }

  /// Replaces an address, or blanks an incomplete address.
  private mutating func replaceAddress(in octets: inout [UInt8], _ range: Range<Int>) {
    if range.count == 6 { replaceAddress(in: &octets, at: range.lowerBound) } else { blank(&octets, range) }
  }

  // MARK: Monitor

  /// Replaces the address in a monitor note.
  ///
  /// - Returns: `false` for notes with arbitrary content: text, and messages between `bluetoothd` and the
  ///   kernel.
  mutating func rewrite(note: MonitorOpcode, _ octets: inout [UInt8]) -> Bool {
    switch note {
    case .vendorDiagnostics, .systemNote, .userLogging, .controlCommand, .controlEvent: return false
    default:
      rewrite(&octets, from: 0, MonitorTable.layouts[note.rawValue]?.fields)
      return true
    }
  }
}

/// Places and contents of the fields of a packet.
private struct FieldPlaces: FieldVisitor {
  typealias Place = (content: PacketField.Content, range: Range<Int>)

  /// Offset of the first field in the packet.
  let base: Int
  /// The places of all fields except numbers, which are not changed.
  private(set) var places: [Place]

  /// Creates an empty list of places.
  ///
  /// - Parameter buffer: the places of an earlier packet, whose storage is reused.
  init(base: Int, _ buffer: consuming [Place]) {
    self.base = base
    places = buffer
    places.removeAll(keepingCapacity: true)
  }

  private mutating func add(_ content: PacketField.Content, _ range: Range<Int>) {
    if case .number = content { return }
    places.append((content, base + range.lowerBound..<base + range.upperBound))
  }

  mutating func visit(_ field: PacketField, _ range: Range<Int>, in bytes: Span<UInt8>, type: AddressType) {
    add(field.content, range)
  }

  mutating func beginList(of field: PacketField) {}
  mutating func beginEntry() {}
  mutating func endEntry() {}
  mutating func endList(of field: PacketField) {}

  /// Adds the place of an incomplete field. In advertising data, the first structures are known even if the
  /// last structure is cut.
  mutating func fail(_ field: PacketField, needed: Int, _ rest: Range<Int>, in bytes: Span<UInt8>) {
    if case .advertising = field.content { add(.advertising, rest) } else { add(.opaque, rest) }
  }

  mutating func leave(_ rest: Range<Int>, in bytes: Span<UInt8>) { add(.opaque, rest) }
}
