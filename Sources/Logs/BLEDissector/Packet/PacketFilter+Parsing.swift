package import BLEWire

// Parsing of conditions from command-line text.

extension PacketFilter {
  /// Parses an opcode: its number, decimal or with `0x`, or its name in any spelling, such as `write-request`
  /// or `WriteRequest`. `notification` is short for Handle Value Notification.
  package static func attOpcode(_ text: String) -> ATTOpcode? {
    let number = text.hasPrefix("0x") ? UInt8(text.dropFirst(2), radix: 16) : UInt8(text)
    if let number { return ATTOpcode(rawValue: number) }
    let wanted = letters(text)
    for opcode in (0...255).map({ ATTOpcode(rawValue: $0) }) where opcode.isKnown {
      let names = [letters(ATTNames.pdu(opcode.rawValue)), letters(opcode.name.description)]
      if names.contains(wanted) || names.contains("handlevalue" + wanted) { return opcode }
    }
    return nil
  }

  private static func letters(_ text: String) -> String { text.lowercased().filter(\.isLetter) }
}

extension PacketFilter.Attribute {
  /// Parses a handle with `0x`, or a UUID. Four digits without `0x` are a UUID.
  package init?(_ text: String) {
    if text.hasPrefix("0x") {
      guard let number = UInt16(text.dropFirst(2), radix: 16) else { return nil }
      self = .handle(AttributeHandle(number))
    } else {
      guard let uuid = BluetoothUUID(text) else { return nil }
      self = .uuid(uuid)
    }
  }
}

extension PacketFilter.Instant {
  /// Parses seconds from the start, also as `1:30` or `1:02:03.5`; or an ISO 8601 date and time, in UTC
  /// unless it has an offset, such as `2026-11-21T06:50:00.25` or `2026-11-21T07:50:00+01:00`; or the format
  /// of our own output, `2026-11-21 06:50:00.250 UTC`.
  package init?(_ text: String) {
    if let nanoseconds = Self.nanoseconds(text[...], limit: 1_000_000_000) {
      self = .fromStart(nanoseconds)
    } else if let nanoseconds = Self.clock(text) {
      self = .fromStart(nanoseconds)
    } else if let nanoseconds = Self.date(Self.isoForm(text)) {
      self = .absolute(nanoseconds)
    } else {
      return nil
    }
  }

  /// Parses a decimal number of seconds without rounding.
  private static func nanoseconds(_ text: Substring, limit: Int64) -> Int64? {
    let digits = text.hasPrefix("-") ? text.dropFirst() : text
    let parts = digits.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let seconds = number(first), seconds < limit else { return nil }
    var total = seconds * 1_000_000_000
    if parts.count == 2 {
      guard (1...9).contains(parts[1].utf8.count), var fraction = number(parts[1]) else { return nil }
      for _ in parts[1].utf8.count..<9 { fraction *= 10 }
      total += fraction
    }
    return text.hasPrefix("-") ? -total : total
  }

  /// Parses minutes or hours, followed by two-digit parts.
  private static func clock(_ text: String) -> Int64? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard (2...3).contains(parts.count), let last = parts.last,
      let seconds = nanoseconds(last, limit: 60), seconds >= 0, let first = number(parts[0]), first < 100_000,
      parts.dropFirst().allSatisfy({ $0.prefix { $0 != "." }.utf8.count == 2 })
    else { return nil }
    guard parts.count == 3 else { return first * 60_000_000_000 + seconds }
    guard let minutes = number(parts[1]), minutes < 60 else { return nil }
    return (first * 60 + minutes) * 60_000_000_000 + seconds
  }

  private static func isoForm(_ text: String) -> String {
    guard text.hasSuffix(" UTC"), text.utf8.count > 14 else { return text }
    return String(text.dropLast(4).map { $0 == " " ? "T" : $0 })
  }

  /// Parses a string of digits only.
  private static func number(_ text: Substring) -> Int64? {
    text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int64(text) : nil
  }

  private static func date(_ text: String) -> Int64? {
    let halves = text.split(separator: "T", omittingEmptySubsequences: false)
    guard halves.count == 2 else { return nil }
    let day = halves[0].split(separator: "-", omittingEmptySubsequences: false).map(number)
    let zone = halves[1].firstIndex { "Z+-".contains($0) } ?? halves[1].endIndex
    let clock = halves[1][..<zone].split(separator: ":", omittingEmptySubsequences: false)
    guard day.count == 3, let year = day[0], let month = day[1], let date = day[2], clock.count == 3,
      let hour = number(clock[0]), let minute = number(clock[1]),
      let seconds = nanoseconds(clock[2], limit: 61),
      let offset = offset(halves[1][zone...]), (1970...2200).contains(year), (1...12).contains(month),
      (1...31).contains(date), hour < 24, minute < 60, seconds >= 0
    else { return nil }
    let minutes = (days(year, month, date) * 24 + hour) * 60 + minute - offset
    return minutes * 60_000_000_000 + seconds
  }

  /// Parses an offset from UTC in minutes: empty, `Z` or `+01:00`.
  private static func offset(_ text: Substring) -> Int64? {
    if text.isEmpty || text == "Z" { return 0 }
    let parts = text.dropFirst().split(separator: ":", omittingEmptySubsequences: false).map(number)
    guard text.first != "Z", parts.count == 2, let hours = parts[0], let minutes = parts[1], hours < 24,
      minutes < 60
    else { return nil }
    return (hours * 60 + minutes) * (text.first == "-" ? -1 : 1)
  }

  /// Returns days since 1 January 1970 in the Gregorian calendar. Years start in March, so that the leap day
  /// is last.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month > 2 ? year : year - 1
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
  }
}
