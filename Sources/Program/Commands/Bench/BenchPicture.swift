import BLEDissector
import BLELinux
import CommandKit
import Glibc
import Histogram

/// Draws measurements as one SVG file: a histogram of latencies for each measurement, and bars that compare
/// measurements. The file is SVG 1.1, without scripts, external fonts or images.
struct BenchPicture {
  private static let left = 330.0
  private static let width = 600.0
  private static let barHeight = 18.0
  private static let histogramHeight = 110.0
  /// Maximum number of measurements that get a histogram.
  private static let histogramLimit = 24

  private var body = ""
  private var y = 28.0

  static func write(
    _ reports: [BenchReport], to path: String, ifExists existing: Files.Existing
  ) throws {
    let picture = BenchPicture(reports)
    let octets = picture.octets
    do throws(SystemError) { try Files.write(octets.span, to: path, ifExists: existing) } catch {
      throw Failure("cannot write \(path): \(error)")
    }
  }

  private init(_ reports: [BenchReport]) {
    if reports.count > 1 {
      bars("notifications a second", reports) { $0.measurement.perSecond }
      bars("p99 from the kernel's timestamp to the callback, µs", reports) {
        Double($0.measurement.latency.summary?.p99 ?? 0) / 1000
      }
    }
    for report in reports.prefix(Self.histogramLimit) { histogram(report) }
  }

  private var octets: [UInt8] { SVG.page(body, height: y + 10) }

  private mutating func bars(_ title: String, _ reports: [BenchReport], _ value: (BenchReport) -> Double) {
    text(20, y, title, size: 15)
    y += 12
    let highest = max(reports.map(value).max() ?? 1, .leastNonzeroMagnitude)
    for report in reports {
      let length = value(report) / highest * (Self.width - 60)
      text(Self.left - 8, y + 13, report.label, anchor: "end")
      rectangle(Self.left, y + 2, max(1, length), Self.barHeight - 4)
      text(Self.left + length + 6, y + 13, BenchText.number(value(report)))
      y += Self.barHeight
    }
    y += 34
  }

  /// Draws latencies on a logarithmic scale with eight columns per octave.
  private mutating func histogram(_ report: BenchReport) {
    guard let summary = report.measurement.latency.summary else { return }
    let title = report.label.isEmpty ? "\(report.device) by \(report.adapter)" : report.label
    text(
      20, y,
      "\(title): timestamp to callback p50 \(Self.microseconds(summary.p50)) µs, p99 "
        + "\(Self.microseconds(summary.p99)) µs, max \(Self.microseconds(summary.max)) µs", size: 13)
    let top = y + 10
    let bottom = top + Self.histogramHeight
    var columns: [Int: UInt64] = [:]
    for bucket in report.measurement.latency.histogram.recordedValues() {
      columns[Int(log2(Double(max(1000, bucket.value))) * 8), default: 0] += bucket.count
    }
    let (first, last) = ((columns.keys.min() ?? 0) - 1, (columns.keys.max() ?? 0) + 2)
    let highest = Double(columns.values.max() ?? 1)
    let columnWidth = 880 / Double(last - first)
    for (column, count) in columns {
      let height = max(1, Double(count) / highest * Self.histogramHeight)
      rectangle(
        50 + Double(column - first) * columnWidth, bottom - height, max(1, columnWidth - 1), height)
    }
    body += "<path d=\"M50 \(SVG.number(bottom))H930\" stroke=\"#555\"/>\n"
    for power in 3...10 {
      let position = (log2(pow(10, Double(power))) * 8 - Double(first)) * columnWidth
      guard (0...880).contains(position) else { continue }
      text(50 + position, bottom + 15, "\(BenchText.number(pow(10, Double(power - 3)))) µs", anchor: "middle")
    }
    y = bottom + 44
  }

  private static func microseconds(_ nanoseconds: UInt64) -> String {
    BenchText.number(Double(nanoseconds) / 1000)
  }

  private mutating func rectangle(_ x: Double, _ y: Double, _ width: Double, _ height: Double) {
    body += "<rect x=\"\(SVG.number(x))\" y=\"\(SVG.number(y))\" width=\"\(SVG.number(width))\""
    body += " height=\"\(SVG.number(height))\" fill=\"#2b6cb0\"/>\n"
  }

  private mutating func text(
    _ x: Double, _ y: Double, _ text: String, size: Int = 12, anchor: String = "start"
  ) { body += SVG.text(x, y, text, size: size, anchor: anchor) }
}
