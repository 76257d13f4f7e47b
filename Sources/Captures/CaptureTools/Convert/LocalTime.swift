public import BLEWire
// EDFlib's header includes <time.h>, so Swift's importer assigns the members of C's `tm` to this module.
import CEDF
import Glibc
package import SensorSessions

/// Date and time of day in the machine's time zone.
public struct LocalTime: Hashable, Sendable {
  public let year: Int
  /// 1 to 12.
  public let month: Int
  public let day: Int
  public let hour: Int
  public let minute: Int
  public let second: Int
  /// Offset of local time from UTC, in seconds.
  public let offsetSeconds: Int

  /// Converts a time to local time.
  ///
  /// - Parameter seconds: seconds since the Unix epoch.
  public init(unixSeconds seconds: Int64) {
    var time = time_t(seconds)
    // SAFETY: both structures exist during the call. Only the numbers are used, not the pointer to the zone's
    // name.
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

  /// Formats the time of day with microseconds: `HH:MM:SS.ffffff`.
  ///
  /// - Parameter time: the time from which this value was created.
  package func text(microseconds time: ReceiveTime) -> String {
    func digits(_ number: Int, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    let fraction = Int(time.nanoseconds % 1_000_000_000 + 1_000_000_000) % 1_000_000_000 / 1000
    return "\(digits(hour, 2)):\(digits(minute, 2)):\(digits(second, 2)).\(digits(fraction, 6))"
  }

  public init(_ time: ReceiveTime) {
    self.init(unixSeconds: Int64((Double(time.nanoseconds) / 1e9).rounded(.down)))
  }
}

extension RingCalendar {
  /// Local calendar of the machine.
  package static var local: RingCalendar {
    RingCalendar { Int32(LocalTime(unixSeconds: Int64($0)).offsetSeconds) }
  }
}
