import BLEWire
import ColmiRing

/// Converts a ring's stored data to rows of its tables.
struct RingRows: Sendable {
  typealias Row = RingTable.Row

  /// The time zone of the ring's clock.
  let calendar: RingCalendar
  /// Time shown by the ring's clock when it answered; "days ago" are counted from it.
  let now: RingDateTime

  /// - Parameter date: the requested day.
  func of(_ log: RingDayLog, on date: RingDate) -> [Row] {
    // Today's slots after the current time may have outdated values.
    let last = date == now.date ? Int(now.hour) * 60 + Int(now.minute) : 1440
    return log.entries.filter { $0.slot * log.intervalMinutes <= last }.map { entry in
      let value = String(entry.value)
      return Row(
        calendar.time(date, minute: entry.slot * log.intervalMinutes),
        log.kind == .heartRate ? ["log", value] : [value])
    }
  }

  func of(_ log: RingActivityLog) -> [Row] {
    log.records.compactMap { record in
      guard case .valid(let date) = record.date, let minute = record.startMinute else { return nil }
      let calories = log.calorieUnit == .tenCalories ? String(Int(record.calories) * 10) : ""
      return Row(
        calendar.time(date, minute: minute), String(record.steps), String(record.distanceMeters), calories)
    }
  }

  func of(_ log: RingManualHeartRate) -> [Row] {
    log.entries.map { Row(time(log.daysAgo, Int($0.minute)), "manual", String($0.beatsPerMinute)) }
  }

  func of(_ day: RingSpO2Day) -> [Row] {
    day.hours.map {
      Row(time(day.daysAgo, Int($0.hour) * 60), String($0.minimum), String($0.maximum))
    }
  }

  func of(night: RingSleep) -> [Row] { of(night, "night") }
  func of(nap: RingSleep) -> [Row] { of(nap, "nap") }

  private func of(_ sleep: RingSleep, _ kind: String) -> [Row] {
    var minute = sleep.startMinuteOfEndDay
    return sleep.stages.map { span in
      defer { minute += Int(span.minutes) }
      return Row(time(sleep.daysAgo, minute), kind, String(span.minutes), span.stage.text)
    }
  }

  func of(_ day: RingTemperatureDay) -> [Row] {
    day.readings.map { Row(time(day.daysAgo, $0.minute), String($0.celsius)) }
  }

  func of(_ log: RingIntervalTemperatureLog) -> [Row] {
    log.readings.map { Row(time(log.daysAgo, $0.minute), String($0.celsius)) }
  }

  private func time(_ daysAgo: UInt8, _ minute: Int) -> ReceiveTime {
    calendar.time(now.date.before(days: Int(daysAgo)), minute: minute)
  }
}

extension RingSleep.Stage {
  /// Name in the table of sleep.
  package var text: String {
    switch self {
    case .none: "none"
    case .error: "error"
    case .light: "light"
    case .deep: "deep"
    case .rapidEyeMovement: "rem"
    case .awake: "awake"
    default: String(rawValue)
    }
  }
}
