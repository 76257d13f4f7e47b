import BLEStack
import BLEWire

/// What a scan heard, and what of it was not kept. Of a `--duplicates` scan each report is shown or `lost`.
public struct ScanReport: Hashable, Sendable {
  /// Advertising reports that were looked at.
  public var reports = 0
  /// Reports that came while the scan was being switched off: nobody looked at them.
  public var late = 0
  /// Reports and structures that broke the format.
  public var malformed = 0
  /// Long advertisements that did not come whole, and those that had just begun when the scan ended.
  public var unfinished = 0
  /// Advertisers that went because there was no room (`Scanner.advertisers`).
  public var forgotten = 0
  /// Service UUIDs and structures beyond what is kept of one advertiser.
  public var leftOut = 0
  /// Advertisers that whoever reads was too slow for (`AdvertiserQueue.limit`).
  public var lost = 0

  public init() {}

  /// Whether the limits had room for all that came.
  ///
  /// As many long advertisements as the controller may send pieces of at once may be cut off by the end.
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
