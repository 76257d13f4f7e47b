package import BLEHost
import BLEWire
package import JSONText

/// Text about a scan for the user.
package enum ScanText {
  /// The number of reports, and every other count that is not 0.
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
  /// Prints how many reports a search for a device discarded. If none were discarded, prints only with
  /// `always`.
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
