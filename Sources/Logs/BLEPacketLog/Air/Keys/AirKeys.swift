import BLEWire

/// A key of 16 bytes from the user: a long-term key, or the temporary key of an out-of-band pairing.
public struct AirKey: Hashable, Sendable {
  let value: UInt128

  /// Parses 32 hexadecimal digits. A leading `0x`, and colons, spaces and hyphens between bytes, are ignored.
  public init?(_ text: String) {
    var digits = text[...]
    if digits.hasPrefix("0x") || digits.hasPrefix("0X") { digits = digits.dropFirst(2) }
    var value: UInt128 = 0
    var count = 0
    for character in digits where !": -".contains(character) {
      guard character.isASCII, let digit = character.hexDigitValue, count < 32 else { return nil }
      value = value << 4 | UInt128(digit)
      count += 1
    }
    guard count == 32 else { return nil }
    self.value = value
  }

  /// The key in both byte orders, because programs print keys in either order.
  var orders: [UInt128] { value == value.byteSwapped ? [value] : [value, value.byteSwapped] }
}

/// Long-term keys from the user and from the log.
struct AirKeyring {
  /// Maximum number of keys learned from a log.
  static let learnt = Limit(
    256, "keys learnt from an air log", by: .file, whenFull: "the oldest is dropped",
    counted: "`keysForgotten` of `log stats`")

  /// Identifies a key in LL_ENC_REQ.
  private struct Name: Hashable {
    var random: UInt64
    var diversifier: UInt16
  }

  private let given: [UInt128]
  private var named: [(name: Name, key: UInt128)] = []
  private(set) var forgotten = 0
  private(set) var learntCount = 0

  init(_ given: [AirKey]) { self.given = given.flatMap(\.orders) }

  /// Whether the user passed a key.
  var isGiven: Bool { !given.isEmpty }

  /// Temporary keys to try in addition to those of a passkey.
  var temporaryKeys: [UInt128] { given }

  mutating func learn(_ key: UInt128, random: UInt64, diversifier: UInt16) {
    let name = Name(random: random, diversifier: diversifier)
    named.removeAll { $0.name == name }
    if named.count == Self.learnt.count {
      named.removeFirst()
      forgotten += 1
    }
    named.append((name, key))
    learntCount += 1
  }

  /// Returns the keys to try for a link, the likeliest first.
  ///
  /// - Parameter shortTerm: short-term key of a pairing on the link.
  func candidates(for start: EncryptionStart, shortTerm: UInt128?) -> [UInt128] {
    let name = Name(random: start.random, diversifier: start.diversifier)
    return (shortTerm.map { [$0] } ?? []) + named.filter { $0.name == name }.map(\.key) + given
      + named.filter { $0.name != name }.reversed().map(\.key)
  }
}
