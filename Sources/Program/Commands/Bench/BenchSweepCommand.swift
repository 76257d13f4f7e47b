import ArgumentParser
import BLEHost
import BLEWire
import CommandKit
import JSONText

/// `ringtap bench sweep`: the same measurement for each combination of link parameters.
struct BenchSweepCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "sweep",
    abstract: "Measure notifications for each combination of interval, PHY, MTU, payload and rate.",
    discussion: """
      Without an address, measures an emulated source in this process at on-air speed, with a new link for \
      each combination. A real device gets requests for interval, PHY and MTU; its payload and rate cannot \
      be changed.

      EXAMPLES
        ringtap bench sweep --intervals 7.5,30 --phys 1m,2m --payloads 20,244 \\
          --svg sweep.svg
        ringtap bench sweep --rates max,100,1000 --json
            one JSON line for each combination
        ringtap bench sweep 70:CB:0D:00:A1:B2 --intervals 7.5,15,30
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @OptionGroup var options: BenchOptions
  @OptionGroup var thread: ReceiveThreadOptions

  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2 (default: an emulated source).")
  var address: String?

  // The lists `--intervals` and `--phys` replace `--interval` and `--phy` of the link options.
  @Option(help: ArgumentHelp("Connection intervals in ms, separated by commas.", valueName: "list"))
  var intervals = "30"

  @Option(help: ArgumentHelp("1m, 2m or both.", valueName: "list"))
  var phys = "2m"

  @Option(help: ArgumentHelp("MTUs to request.", valueName: "list"))
  var mtus = "247"

  @Option(help: ArgumentHelp("Bytes per value of an emulated source.", valueName: "list"))
  var payloads = "20,244"

  @Option(help: ArgumentHelp("Notifications per second of an emulated source, or max.", valueName: "list"))
  var rates = "max"

  @Option(help: ArgumentHelp("Draw a chart as SVG into this file.", valueName: "file"))
  var svg: String?

  @OptionGroup var overwriting: OverwriteOptions

  @Flag(help: "Print one JSON object per combination.")
  var json = false

  /// One combination of parameters.
  private struct Point {
    var interval: String
    var phy: String
    var mtu: String
    var payload: String
    var rate: String

    var label: String { "\(interval) ms, \(phy), MTU \(mtu), \(payload) bytes, rate \(rate)" }
  }

  private var points: [Point] {
    func list(_ text: String) -> [String] { text.split(separator: ",").map(String.init) }
    var points: [Point] = []
    for interval in list(intervals) {
      for phy in list(phys) {
        for mtu in list(mtus) {
          for payload in address == nil ? list(payloads) : ["its"] {
            for rate in address == nil ? list(rates) : ["its"] {
              points.append(Point(interval: interval, phy: phy, mtu: mtu, payload: payload, rate: rate))
            }
          }
        }
      }
    }
    return points
  }

  /// Maximum number of combinations in a sweep.
  private static let limit = 1000

  func validate() throws {
    guard device.link.interval == nil, device.link.phy == nil else {
      throw ValidationError("a sweep uses the lists --intervals and --phys instead")
    }
    guard device.radio.transport == nil || address != nil else {
      throw ValidationError("without an address, a sweep uses its own emulated source")
    }
    let points = points
    guard (1...Self.limit).contains(points.count) else {
      throw ValidationError(
        "these are \(counted(points.count, "combination")); the limit is 1 … \(Self.limit)")
    }
    for point in points { _ = try run(of: point) }
  }

  func run() async throws {
    try overwriting.check(svg, "--svg")
    var reports: [BenchReport] = []
    if !json { try Console.print(Self.heading) }
    for point in points {
      let run = try run(of: point)
      var report = try await run.notifications()
      report.label = point.label
      reports.append(report)
      if json { try report.show(json: true) } else { try Console.print(Self.row(report)) }
    }
    if let svg { try BenchPicture.write(reports, to: svg, ifExists: overwriting.existing) }
    if reports.contains(where: { $0.lost > 0 }) { throw ExitCode(3) }
  }

  private func run(of point: Point) throws -> BenchRun {
    var (device, options) = (device, options)
    do { device.link.interval = try LinkOptions.interval(point.interval) } catch {
      throw ValidationError("The value '\(point.interval)' is invalid for '--intervals <list>': \(error)")
    }
    guard let phy = LinkOptions.PHY(rawValue: point.phy) else {
      throw ValidationError("'\(point.phy)' is not a PHY; choose 1m, 2m or coded")
    }
    device.link.phy = phy
    do { options.mtu = try BenchOptions.mtus.parse(point.mtu) } catch {
      throw ValidationError("The value '\(point.mtu)' is invalid for '--mtus <list>': \(error)")
    }
    if address == nil {
      let rate = point.rate == "max" ? "" : ",rate=\(point.rate)"
      device.radio.transport = "virtual:source,real-time,payload=\(point.payload)\(rate)"
      // An emulated source sends long packets as soon as the host requests a data length other than the
      // default.
      device.link.dataLength = device.link.dataLength ?? 251
    }
    _ = try device.link.request()
    return BenchRun(
      device: device, address: try BenchTarget.address(address, device), characteristic: nil,
      options: options, tuning: thread.tuning)
  }

  // MARK: Lines

  private static let labelWidth = 44

  private static let heading =
    String(repeating: " ", count: labelWidth)
    + ["per second", "kB/s", "% of link", "p50 µs", "p99 µs", "lost"].map(BenchText.padded).joined()

  private static func row(_ report: BenchReport) -> String {
    let latency = report.measurement.latency.summary
    let share = report.allowedPerSecond.map { report.measurement.perSecond / $0 * 100 } ?? .nan
    return report.label + String(repeating: " ", count: max(1, labelWidth - report.label.count))
      + [
        report.measurement.perSecond, report.kilobytesPerSecond, share,
        Double(latency?.p50 ?? 0) / 1000, Double(latency?.p99 ?? 0) / 1000,
      ].map(BenchText.column).joined() + BenchText.padded("\(report.lost)")
  }
}
