import BLEDissector
import BLEHost
import BLELinux
import BLEWire
package import CommandKit
import Glibc
import Histogram
import JSONText
import Recording

/// The measurement of one link.
package struct BenchReport: Sendable {
  var measurement: NotificationMeter.Measurement
  var device = ""
  var adapter = ""
  var mode = ""
  var link = LinkState()
  var mtu = 0
  var lostInKernel = 0
  /// Number of PDUs without a kernel timestamp. Such a PDU has the time at which this program received it.
  var unstamped = 0
  var residentKilobytes: Int?
  /// Time in milliseconds for connecting, MTU exchange, discovery and subscription.
  var connectMilliseconds = 0.0
  /// Number of requests answered during the measurement; `nil` if no requests were sent.
  var requests: Int?
  var receiveThread: ReceiveThreadReport?
  /// The requested link parameters, if the measurement is part of a sweep.
  var label = ""

  init(_ measurement: NotificationMeter.Measurement) { self.measurement = measurement }

  var payload: Int { measurement.count > 0 ? measurement.octets / measurement.count : 0 }
  var kilobytesPerSecond: Double { measurement.perSecond * Double(payload) / 1000 }
  var allowedPerSecond: Double? { LinkCapacity(link)?.notificationsPerSecond(payload: payload) }
  /// Number of missing sequence numbers, excluding notifications that the two queues dropped.
  var lostInSequence: Int {
    max(0, measurement.lostInSequence - measurement.lostInQueue - lostInKernel)
  }
  var lost: Int { lostInKernel + measurement.lostInQueue + lostInSequence }

  /// Returns a total divided by the number of notifications in the window.
  private func each(_ total: some BinaryInteger) -> Double {
    measurement.count > 0 ? Double(total) / Double(measurement.count) : 0
  }

  private var meanBatch: Double {
    measurement.batchCount > 0 ? Double(measurement.count) / Double(measurement.batchCount) : 0
  }

  // MARK: Lines

  package func show(json: Bool) throws(Console.WriteError) {
    if json { try Console.json { encode(into: &$0) } } else { try Console.print(text) }
  }

  var text: String {
    let m = measurement
    var lines = [
      "\(device) by \(adapter), \(mode) mode, MTU \(mtu)"
        + (LinkText.inForce(link).map { "; \($0)" } ?? ""),
      "\(counted(m.count, "notification")) of \(counted(payload, "byte")) in \(BenchText.number(m.seconds)) s: "
        + "\(BenchText.number(m.perSecond))/s, \(BenchText.number(kilobytesPerSecond)) kB/s" + share,
      "",
      String(repeating: " ", count: 16) + Durations.Summary.heading,
    ]
    for (name, durations) in [
      ("stamp to call", m.latency), ("end to end", m.endToEnd), ("interval", m.intervals),
      ("jitter", m.jitter),
    ] {
      guard let summary = durations.summary else { continue }
      lines.append(name + String(repeating: " ", count: 16 - name.count) + summary.columns)
    }
    lines += [
      "",
      "each notification: \(BenchText.precise(each(m.receiveNanoseconds) / 1000)) µs of the receive thread, "
        + "\(BenchText.precise(each(m.processNanoseconds) / 1000)) µs of the process, "
        + "\(BenchText.precise(each(m.systemCalls))) system calls, \(BenchText.precise(each(m.mallocs))) mallocs",
      "batches: \(BenchText.number(meanBatch)) on average, p99 \(m.batches.summary?.p99 ?? 0), "
        + "most \(m.batches.summary?.max ?? 0)",
      "lost: \(lost) (kernel queue \(lostInKernel), ringtap queue \(m.lostInQueue), gaps in the numbers "
        + "\(lostInSequence))",
    ]
    if let requests { lines.append("\(counted(requests, "request")) on the same link at the same time") }
    if let receiveThread { lines.append("receive thread: \(receiveThread)") }
    if unstamped > 0 { lines.append("\(unstamped) without a kernel timestamp: timestamped by ringtap") }
    return lines.joined(separator: "\n")
  }

  private var share: String {
    guard let allowed = allowedPerSecond else { return "" }
    // Without real-time pacing, an emulation is faster than any real link.
    guard measurement.perSecond < 1.05 * allowed else {
      return "; on the air the link would allow \(BenchText.number(allowed))/s"
    }
    return
      "; the link allows \(BenchText.number(allowed))/s: \(BenchText.number(measurement.perSecond / allowed * 100)) %"
  }

  func encode(into line: inout JSONLine) {
    let m = measurement
    if !label.isEmpty { line.member("asked", label) }
    line.member("device", device)
    line.member("adapter", adapter)
    line.member("mode", mode)
    line.member("mtu", mtu)
    line.member("notifications", m.count)
    line.member("payloadOctets", payload)
    line.member("seconds", m.seconds)
    line.member("notificationsPerSecond", m.perSecond)
    line.member("kilobytesPerSecond", kilobytesPerSecond)
    if let allowed = allowedPerSecond {
      line.member("allowedPerSecond", allowed)
      line.member("shareOfAllowed", m.perSecond / allowed)
    }
    encodeLink(into: &line)
    for (name, durations) in [
      ("latencyNs", m.latency), ("endToEndNs", m.endToEnd), ("intervalNs", m.intervals),
      ("jitterNs", m.jitter), ("batch", m.batches),
    ] {
      durations.summary?.encode(name, into: &line)
    }
    line.member("receiveThreadNsPerNotification", each(m.receiveNanoseconds))
    line.member("processNsPerNotification", each(m.processNanoseconds))
    line.member("systemCallsPerNotification", each(m.systemCalls))
    line.member("mallocsPerNotification", each(m.mallocs))
    line.member("connectMilliseconds", connectMilliseconds)
    if let residentKilobytes { line.member("residentKilobytes", residentKilobytes) }
    line.key("lost")
    line.object { line in
      line.member("kernelQueue", lostInKernel)
      line.member("ourQueue", m.lostInQueue)
      line.member("sequence", lostInSequence)
    }
    line.member("withoutKernelStamp", unstamped)
    if let requests { line.member("requests", requests) }
    receiveThread?.encode(into: &line)
  }

  private func encodeLink(into line: inout JSONLine) {
    if let timing = link.timing { line.member("intervalMilliseconds", timing.intervalMilliseconds) }
    if let phy = link.receivePHY { line.member("phy", phy.name.description) }
    if let octets = link.receiveOctets { line.member("dataLength", octets) }
  }
}

/// A histogram of durations with three significant digits, for percentiles. The implementation is
/// HdrHistogram.
struct Durations: Sendable {
  /// Maximum: one minute. Longer durations count as one minute.
  static let limit: UInt64 = 60_000_000_000

  // The range is fixed, so the histogram allocates only here.
  private(set) var histogram = Histogram<UInt64>(
    highestTrackableValue: limit, numberOfSignificantValueDigits: .three)

  /// Adds a duration.
  ///
  /// - Parameter nanoseconds: the duration. A negative duration counts as 0; it can occur if the clock was
  ///   set back.
  mutating func add(_ nanoseconds: Int64) { histogram.record(min(UInt64(max(0, nanoseconds)), Self.limit)) }

  /// The percentiles; `nil` if no duration was added.
  var summary: Summary? { histogram.totalCount == 0 ? nil : Summary(histogram) }

  /// Percentiles of the durations in nanoseconds.
  struct Summary: Hashable, Sendable {
    let p50, p90, p99, p999, max: UInt64
    let mean: Double

    fileprivate init(_ histogram: Histogram<UInt64>) {
      p50 = histogram.valueAtPercentile(50)
      p90 = histogram.valueAtPercentile(90)
      p99 = histogram.valueAtPercentile(99)
      p999 = histogram.valueAtPercentile(99.9)
      max = histogram.max
      mean = histogram.mean
    }

    /// Writes the summary as a member of the open object.
    func encode(_ name: String, into line: inout JSONLine) {
      line.key(name)
      line.object { line in
        line.member("p50", p50)
        line.member("p90", p90)
        line.member("p99", p99)
        line.member("p999", p999)
        line.member("max", max)
        line.member("mean", mean)
      }
    }

    /// The five percentiles as columns of a table row, in microseconds.
    var columns: String {
      [p50, p90, p99, p999, max].map { BenchText.column(Double($0) / 1000) }.joined()
    }

    static let heading = ["p50", "p90", "p99", "p99.9", "max"].map { BenchText.padded("\($0) µs") }.joined()
  }
}

package enum BenchText {
  static let columnWidth = 12

  static func padded(_ text: String) -> String {
    String(repeating: " ", count: max(1, columnWidth - text.count)) + text
  }

  /// Formats a number with one decimal as a column.
  static func column(_ value: Double) -> String { padded(number(value)) }

  package static func number(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }

  package static func precise(_ value: Double) -> String { "\((value * 1000).rounded() / 1000)" }
}

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
