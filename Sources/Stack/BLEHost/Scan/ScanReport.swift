import BLEStack
import BLEWire

/// Counts of a scan: what it received, and what was not kept. In a `--duplicates` scan each report is shown
/// or counted as `lost`.
public struct ScanReport: Hashable, Sendable {
  /// Advertising reports that were processed.
  public var reports = 0
  /// Reports that arrived while the scan was being turned off and were ignored.
  public var late = 0
  /// Malformed reports and structures.
  public var malformed = 0
  /// Long advertisements that did not arrive completely, including those in progress when the scan ended.
  public var unfinished = 0
  /// Advertisers that were removed for lack of room (`Scanner.advertisers`).
  public var forgotten = 0
  /// Service UUIDs and structures beyond the limits of one advertiser.
  public var leftOut = 0
  /// Advertisers dropped because the reader was too slow (`AdvertiserQueue.limit`).
  public var lost = 0

  public init() {}

  /// Whether everything received fit within the limits.
  ///
  /// The end of the scan may cut off as many long advertisements as the controller may send in fragments at
  /// once.
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
