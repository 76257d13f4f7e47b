public import BLEWire
// Swift's importer takes the members of C's `tm` for its: EDFlib's header has <time.h> too.
import CEDF
import Glibc
package import SensorSessions

/// Date and time of day by this machine's time zone.
public struct LocalTime: Hashable, Sendable {
  public let year: Int
  /// 1 … 12.
  public let month: Int
  public let day: Int
  public let hour: Int
  public let minute: Int
  public let second: Int
  /// From UTC to local time.
  public let offsetSeconds: Int

  /// - Parameter seconds: since the Unix epoch.
  public init(unixSeconds seconds: Int64) {
    var time = time_t(seconds)
    // SAFETY: both outlive the call; of the parts only the numbers are used, not the name of the zone.
    var parts = unsafe tm()
    _ = unsafe localtime_r(&time, &parts)
    year = Int(unsafe parts.tm_year) + 1900
    month = Int(unsafe parts.tm_mon) + 1
    day = Int(unsafe parts.tm_mday)
    hour = Int(unsafe parts.tm_hour)
    minute = Int(unsafe parts.tm_min)
    second = Int(unsafe parts.tm_sec)
    offsetSeconds = Int(unsafe parts.tm_gmtoff)
  }

  public init(_ time: ReceiveTime) {
    self.init(unixSeconds: Int64((Double(time.nanoseconds) / 1e9).rounded(.down)))
  }
}

extension RingCalendar {
  /// As this machine has it.
  package static var local: RingCalendar {
    RingCalendar { Int32(LocalTime(unixSeconds: Int64($0)).offsetSeconds) }
  }
}
