public import BLEWire

/// Reassembles the reports of long extended advertisements.
///
/// A report contains at most 229 bytes. A longer advertisement arrives in several reports, all but the last
/// with the data status "incomplete, more data to come". Reports of other advertisers may arrive in between.
/// Core 5.4, Vol 4, Part E, 7.7.65.13.
public struct AdvertisingReportAssembler: ~Copyable {
  /// Size of the longest advertisement, in bytes. Core 5.4, Vol 4, Part E, 7.8.57.
  public static let maximumByteCount = 1650
  public static let limit = Limit(
    16, "long advertisements being reassembled", by: .air, whenFull: "the oldest is dropped",
    counted: "`unfinished` of a scan")

  private struct Key: Hashable {
    let address: DeviceAddress
    let set: UInt8
    /// Whether the fragments belong to a scan response, not to an advertisement.
    let isScanResponse: Bool
  }

  private struct Partial {
    let key: Key
    var data: [UInt8]
    /// Whether the reports contain more data than an advertisement can have.
    var isOverlong = false
  }

  private var partials: [Partial] = []
  /// Number of advertisements that could not be reassembled: too many at once, or too long.
  public private(set) var dropped = 0
  /// Number of advertisements that were incomplete when the scan ended.
  private var forgotten = 0
  /// Number of advertisements that are incomplete or were dropped.
  public var unfinished: Int { dropped + forgotten + partials.count }

  public init() {}

  /// Processes the next report. A complete report is lent to `body` in place. A fragment is stored; after the
  /// last fragment, the data of all fragments is lent to `body`. Data that is too long is truncated and
  /// marked as truncated.
  public mutating func take(
    _ report: borrowing AdvertisingReport, _ body: (borrowing AdvertisingReport) -> Void
  ) {
    guard !partials.isEmpty || report.properties.isIncomplete, !report.properties.isLegacy else {
      body(report)
      return
    }
    let key = Key(
      address: report.address, set: report.advertisingSet,
      isScanResponse: report.properties.isScanResponse)
    guard let index = partials.firstIndex(where: { $0.key == key }) else {
      if report.properties.isIncomplete { begin(key, report.data) } else { body(report) }
      return
    }
    append(report.data, to: index)
    if report.properties.isIncomplete { return }
    let partial = partials.remove(at: index)
    if partial.isOverlong { dropped += 1 }
    let data = partial.data
    body(
      AdvertisingReport(
        report, properties: partial.isOverlong ? report.properties.truncated : report.properties,
        data: data.span))
  }

  /// Drops incomplete advertisements. Call it when the scan has ended.
  public mutating func reset() {
    forgotten += partials.count
    partials = []
  }

  private mutating func begin(_ key: Key, _ data: Span<UInt8>) {
    if partials.count == Self.limit.count {
      partials.removeFirst()
      dropped += 1
    }
    partials.append(Partial(key: key, data: []))
    append(data, to: partials.count - 1)
  }

  private mutating func append(_ data: Span<UInt8>, to index: Int) {
    let room = Self.maximumByteCount - partials[index].data.count
    for position in 0..<min(room, data.count) { partials[index].data.append(data[position]) }
    if data.count > room { partials[index].isOverlong = true }
  }
}
