/// Tells a ring by its advertised name, which is all that most of them advertise.
///
/// Two forms are taken:
/// - the maker's, `R02_3A4F`, `COLMI R10_01FE`, `Colmi R06`: `R01` … `R12`, then at most four hexadecimal
///   digits, with or without `_` or `-` before them;
/// - the brands that sell the same ring under their own name, alone or with such a suffix after `_` or `-`.
///
/// Not taken are the look-alikes that speak other protocols: a space before the suffix (`R99 54DC`), a
/// letter after the number (`R10M`), `SMART_RING`. Those who know better connect by address.
public enum RingName {
  /// Brands of the same hardware. The published list also has `R01` … `R10`, which the first form covers.
  static let brands: [String] = [
    "VK-5098", "MERLIN", "Hello Ring", "RING1", "boAtring", "TR-R02", "SE", "EVOLVEO", "GL-SR2",
    "Blaupunkt", "KSIX RING", "iGET", "Kogan", "FITNESS", "Fyri", "OneRing SR01", "BOK", "9FSM", "STF",
    "Newgen", "SSR", "SEEKEN", "MXSR",
  ]
  static let makers: [String] = ["COLMI ", "Colmi "]

  /// Whether `name`, the UTF-8 octets of a local name, is a ring's.
  public static func matches(_ name: Span<UInt8>) -> Bool {
    for maker in makers where name.starts(with: maker) {
      return isModel(name.extracting(maker.utf8.count...))
    }
    if isModel(name) { return true }
    for brand in brands where name.starts(with: brand) {
      let rest = name.extracting(brand.utf8.count...)
      if rest.isEmpty || (rest[0].isSuffixSeparator && isSuffix(rest.extracting(1...))) { return true }
    }
    return false
  }

  public static func matches(_ name: String) -> Bool {
    // A span of an array that has a name: how long one of a text's own octets holds is up to the optimiser.
    let octets = Array(name.utf8)
    return matches(octets.span)
  }

  /// `R01` … `R12` and a suffix.
  private static func isModel(_ name: Span<UInt8>) -> Bool {
    guard name.count >= 3, name[0] == UInt8(ascii: "R"), let tens = name[1].decimal,
      let units = name[2].decimal, 1...12 ~= tens * 10 + units
    else { return false }
    let rest = name.extracting(3...)
    // The separator alone is no look-alike: nothing follows it.
    if rest.count == 1, rest[0] == UInt8(ascii: " ") { return true }
    let hasSeparator = !rest.isEmpty && rest[0].isSuffixSeparator
    return isSuffix(hasSeparator ? rest.extracting(1...) : rest)
  }

  private static func isSuffix(_ text: Span<UInt8>) -> Bool {
    guard text.count <= 4 else { return false }
    for index in text.indices where !text[index].isHexadecimalDigit { return false }
    return true
  }
}

extension Span where Element == UInt8 {
  fileprivate func starts(with prefix: String) -> Bool {
    guard count >= prefix.utf8.count else { return false }
    var index = 0
    for octet in prefix.utf8 {
      if self[index] != octet { return false }
      index += 1
    }
    return true
  }
}

extension UInt8 {
  fileprivate var decimal: Int? {
    UInt8(ascii: "0")...UInt8(ascii: "9") ~= self ? Int(self - UInt8(ascii: "0")) : nil
  }

  fileprivate var isSuffixSeparator: Bool { self == UInt8(ascii: "_") || self == UInt8(ascii: "-") }

  fileprivate var isHexadecimalDigit: Bool {
    let lower = self | 0x20
    return decimal != nil || UInt8(ascii: "a")...UInt8(ascii: "f") ~= lower
  }
}
