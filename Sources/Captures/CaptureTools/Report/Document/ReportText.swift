import Recording

/// Formats numbers and words of a report.
enum ReportText {
  static func seconds(_ nanoseconds: Int64) -> String {
    "\(NumberText.fixed(Double(nanoseconds) / 1e9, 3)) s"
  }

  /// Formats a duration: `59.5 s`, `12 min 5 s`, `7 h 3 min`.
  static func length(_ nanoseconds: Int64) -> String {
    let seconds = Double(nanoseconds) / 1e9
    if seconds < 119.95 { return NumberText.fixed(seconds, 1) + " s" }
    let whole = Int64(seconds.rounded())
    return whole < 7200 ? "\(whole / 60) min \(whole % 60) s" : "\(whole / 3600) h \(whole / 60 % 60) min"
  }

  /// Formats a time since the start as the page does: `1:30`, `1:02:03.5`.
  static func elapsed(_ nanoseconds: Int64) -> String {
    let milliseconds = (nanoseconds.magnitude + 500_000) / 1_000_000
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000)
    func two(_ number: UInt64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let minutes = seconds / 60
    let clock =
      (minutes < 60 ? "\(minutes)" : "\(minutes / 60):\(two(minutes % 60))") + ":" + two(seconds % 60)
    guard rest > 0 else { return (nanoseconds < 0 ? "−" : "") + clock }
    var fraction = String(String(rest + 1000).dropFirst())
    while fraction.hasSuffix("0") { fraction.removeLast() }
    return (nanoseconds < 0 ? "−" : "") + clock + "." + fraction
  }

  /// Returns the time from one timestamp to the other; 0 if it overflows.
  static func difference(_ from: Int64, _ to: Int64) -> Int64 {
    let (length, isTooLong) = to.subtractingReportingOverflow(from)
    return isTooLong ? 0 : length
  }

  /// Formats a number with thousands separators: `4,500`.
  static func grouped(_ number: Int) -> String {
    let digits = String(number)
    return digits.enumerated().reduce(into: "") { text, digit in
      if digit.offset > 0, (digits.count - digit.offset).isMultiple(of: 3) { text += "," }
      text.append(digit.element)
    }
  }

  /// Returns a table's name for display.
  static func title(_ table: String) -> String {
    switch table {
    case "ppg": "PPG"
    case "spo2": "SpO₂ light"
    case "ecg": "ECG"
    case "rr_intervals": "RR intervals"
    case "heart_rate": "Heart rate"
    case "samples": "Ticks"
    default: table.prefix(1).uppercased() + String(table.dropFirst().map { $0 == "_" ? " " : $0 })
    }
  }

  /// Capitalises the text and adds a full stop.
  static func sentence(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() + "." }
}
