import BLECore
import BLEWire
package import ColmiRing
package import JSONText

/// An answer as programs get it: one JSON object a line, with the keys of `ringtap ring decode`.
package enum RingAnswer: Sendable {
  case reply(RingReply)
  case dayLog(RingDayLog)
  case activityLog(RingActivityLog)
  case bigData(RingBigDataAnswer)
  case intervalTemperature(RingIntervalTemperatureLog)
  /// There is no log for the day.
  case noData(RingLogKind)

  package func append(to line: inout JSONLine) {
    line.objectLine { members(of: &$0) }
  }

  /// Those of an object that the caller opened.
  package func members(of line: inout JSONLine) {
    switch self {
    case .reply(let reply): line.members(of: reply)
    case .dayLog(let log): line.members(of: log)
    case .activityLog(let log): line.members(of: log)
    case .intervalTemperature(let log): line.members(of: log)
    case .bigData(let answer): line.members(of: answer.reply, answer.message)
    case .noData(let kind): line.members(of: .noData(kind))
    }
  }
}
