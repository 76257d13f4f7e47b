import BLEWire
package import ColmiRing
package import JSONText

/// A ring's answer, output as one JSON object per line with the keys of `ringtap ring decode`.
package enum RingAnswer: FieldSource, Sendable {
  case reply(RingReply)
  case dayLog(RingDayLog)
  case activityLog(RingActivityLog)
  case bigData(RingBigDataAnswer)
  case intervalTemperature(RingIntervalTemperatureLog)
  /// The ring has no log for the day.
  case noData(RingLogKind)

  package func append(to line: inout JSONLine) {
    line.objectLine { $0.members(of: self) }
  }

  package func describe(into fields: inout FieldList) {
    switch self {
    case .reply(let reply): fields.members(of: reply)
    case .dayLog(let log): fields.members(of: log)
    case .activityLog(let log): fields.members(of: log)
    case .intervalTemperature(let log): fields.members(of: log)
    case .bigData(let answer): fields.members(of: answer.reply, answer.message)
    case .noData(let kind): fields.members(of: RingReply.noData(kind))
    }
  }
}
