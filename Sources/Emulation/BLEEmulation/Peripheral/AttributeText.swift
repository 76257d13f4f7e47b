package import BLEWire

/// An attribute as a text describes it.
package struct WrittenAttribute: Hashable, Sendable {
  /// Its handle; for a service declaration, the range up to the end of the group.
  package var range: HandleRange
  package var type: BluetoothUUID
  package var value: [UInt8]

  package init(range: HandleRange, type: BluetoothUUID, value: [UInt8]) {
    self.range = range
    self.type = type
    self.value = value
  }

  package var handle: AttributeHandle { range.start }
}

/// Parses attributes in the lines of a text, such as `0x0002 2803 02 0300 002a`.
package enum AttributeText {
  /// Maximum number of attributes in a text.
  package static let limit = 10_000
  /// Maximum number of bytes that words describe: a frame of 65,535 with its headers.
  private static let byteLimit = 65_600

  /// The reason of an error, without its line.
  package struct Fault: Error {
    package let reason: String
    package init(_ reason: String) { self.reason = reason }
  }

  /// Parses an attribute: handle or range, type, value.
  package static func add(_ words: [String], to attributes: inout [WrittenAttribute]) throws(Fault) {
    guard words.count >= 2 else { throw Fault("an attribute has a handle, a type and a value") }
    let ends = words[0].split(separator: "-", omittingEmptySubsequences: false).map { Self.handle($0) }
    guard (1...2).contains(ends.count), let start = ends[0], let end = ends[ends.count - 1], start <= end
    else { throw Fault("'\(words[0])' is neither a handle such as 0x0003 nor a range such as 0x0001-0x0004") }
    guard let type = BluetoothUUID(words[1]) else { throw Fault("'\(words[1])' is not a UUID") }
    if let last = attributes.last, last.handle >= start { throw Fault("handles must rise") }
    guard attributes.count < Self.limit else { throw Fault("more than \(Self.limit) attributes") }
    let value = try Self.octets(words[2...])
    guard !value.contains(nil) else { throw Fault("a value has no open octets") }
    attributes.append(
      WrittenAttribute(
        range: HandleRange(start: start, end: end), type: type, value: value.compactMap { $0 }))
  }

  package static func handle(_ text: some StringProtocol) -> AttributeHandle? {
    guard text.lowercased().hasPrefix("0x"), let value = UInt16(text.dropFirst(2), radix: 16), value > 0
    else { return nil }
    return AttributeHandle(value)
  }

  /// Parses bytes such as `1b0300`, `02....`, in which two points are any byte (`nil`), and `0bff*20`.
  package static func octets(_ words: some Sequence<some StringProtocol>) throws(Fault) -> [UInt8?] {
    var octets: [UInt8?] = []
    for word in words {
      let fault = Fault("'\(word)' is not hexadecimal, such as 0a0300, 02.... or 0bff*20")
      let parts = word.split(separator: "*", omittingEmptySubsequences: false)
      guard parts.count <= 2, parts[0].utf8.count.isMultiple(of: 2), !parts[0].isEmpty else { throw fault }
      var rest = parts[0][...]
      while !rest.isEmpty {
        let digits = rest.prefix(2)
        rest = rest.dropFirst(2)
        if digits == ".." {
          octets.append(nil)
        } else if digits.allSatisfy(\.isHexDigit), let octet = UInt8(digits, radix: 16) {
          octets.append(octet)
        } else {
          throw fault
        }
      }
      guard parts.count == 2 else { continue }
      guard let count = Int(parts[1]), (1...65_535).contains(count), let last = octets.last else {
        throw fault
      }
      guard octets.count + count <= byteLimit else { throw Fault("more than \(byteLimit) octets") }
      octets += Array(repeating: last, count: count - 1)
    }
    return octets
  }
}
