package import BLEHost
import BLELinux
package import BLEReplay
import BLEWire
package import JSONText

extension BluetoothUUID {
  /// The UUID as text: four digits if the SIG has assigned it, otherwise the full form.
  package var shortText: String {
    guard let short else { return description }
    let digits = String(short, radix: 16)
    return String(repeating: "0", count: 4 - digits.count) + digits
  }
}

extension [UInt8] {
  /// The bytes as hexadecimal text, two lower-case digits per byte.
  package var hexText: String { map { hexadecimal($0) }.joined() }

  /// Parses hexadecimal digits with or without spaces, colons or a leading 0x.
  package init?(hex text: String) {
    var digits = text.filter { !" :".contains($0) }
    if digits.hasPrefix("0x") { digits.removeFirst(2) }
    guard digits.utf8.count.isMultiple(of: 2) else { return nil }
    var octets: [UInt8] = []
    var rest = digits[...]
    while !rest.isEmpty {
      let pair = rest.prefix(2)
      guard pair.allSatisfy(\.isHexDigit), let octet = UInt8(pair, radix: 16) else { return nil }
      octets.append(octet)
      rest = rest.dropFirst(2)
    }
    self = octets
  }
}

extension AdapterInfo {
  /// Name of the bus for the kernel's number (`HCI_VIRTUAL` …).
  package var busName: String {
    switch bus {
    case 0: "virtual"
    case 1: "usb"
    case 2: "pccard"
    case 3: "uart"
    case 4: "rs232"
    case 5: "pci"
    case 6: "sdio"
    case 7: "spi"
    case 8: "i2c"
    default: "bus \(bus)"
    }
  }
}

/// Text about a replay's result for the user.
package enum ReplayText {
  /// Maximum number of differences printed after a command that replays a log.
  private static let exampleLimit = 5

  /// Returns the lines that a command prints on standard error after replaying a log.
  package static func notes(of replay: ReplayTransport) -> [String] {
    let findings = replay.findings
    var notes = [
      "replay: \(counted(findings.played, "packet")) played, \(findings.reproduced) sent as recorded, "
        + counted(findings.differenceCount, "difference")
    ]
    notes += findings.examples.prefix(exampleLimit).map { "replay: \($0.kind.rawValue): \($0.description)" }
    if let failure = replay.failure { notes.append("replay: \(failure)") }
    if let problem = replay.problem { notes.append("replay: the log: \(problem)") }
    return notes
  }
}

/// Text about a scan for the user.
package enum ScanText {
  /// Returns the number of reports, and every other count that is not 0, as text.
  package static func note(_ report: ScanReport) -> String {
    let counts = [
      (report.malformed, "malformed", "malformed"),
      (report.unfinished, "long advertisement incomplete", "long advertisements incomplete"),
      (report.forgotten, "advertiser forgotten", "advertisers forgotten"),
      (report.leftOut, "service or data field left out", "services and data fields left out"),
      (
        report.lost, "advertiser not shown: printing was too slow",
        "advertisers not shown: printing was too slow"
      ), (report.late, "more while the scan was switched off", "more while the scan was switched off"),
    ]
    return
      ([counted(report.reports, "report")] + counts.filter { $0.0 > 0 }.map { counted($0.0, $0.1, $0.2) })
      .joined(separator: ", ")
  }
}

extension Console {
  /// Prints how many reports a search for a device discarded. If no report was discarded, prints only if
  /// `always` is true.
  package static func note(search report: ScanReport, always: Bool) {
    if always || !report.isComplete { note("the search: " + ScanText.note(report)) }
  }
}

extension JSONLine {
  package mutating func members(of report: ScanReport) {
    member("reports", report.reports)
    member("late", report.late)
    member("malformed", report.malformed)
    member("unfinished", report.unfinished)
    member("forgotten", report.forgotten)
    member("leftOut", report.leftOut)
    member("lost", report.lost)
  }
}
