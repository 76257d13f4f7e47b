import BLEStack
import BLEWire

/// Counts of a scan: received reports, and losses. In a `--duplicates` scan each report is shown or counted
/// as `lost`.
public struct ScanReport: Hashable, Sendable {
  /// Advertising reports that were processed.
  public var reports = 0
  /// Reports that arrived while the scan was being turned off and were ignored.
  public var late = 0
  /// Malformed reports and structures.
  public var malformed = 0
  /// Long advertisements that were not received completely, including those in progress when the scan ended.
  public var unfinished = 0
  /// Advertisers that were removed because the table was full (`Scanner.advertisers`).
  public var forgotten = 0
  /// Service UUIDs and structures that exceeded the limits of an advertiser.
  public var leftOut = 0
  /// Advertisers dropped because the reader was too slow (`AdvertiserQueue.limit`).
  public var lost = 0

  public init() {}

  /// Whether everything received fit within the limits.
  ///
  /// Ignores as many incomplete advertisements as the controller can send in fragments at once, because the
  /// end of the scan may cut them off.
  public var isComplete: Bool {
    forgotten == 0 && leftOut == 0 && lost == 0
      && unfinished <= AdvertisingReportAssembler.limit.count
  }

  public static func += (all: inout ScanReport, part: ScanReport) {
    all.reports += part.reports
    all.late += part.late
    all.malformed += part.malformed
    all.unfinished += part.unfinished
    all.forgotten += part.forgotten
    all.leftOut += part.leftOut
    all.lost += part.lost
  }
}
