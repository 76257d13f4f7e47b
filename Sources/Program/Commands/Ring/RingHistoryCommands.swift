import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import ColmiRing
import CommandKit
import SensorSessions

/// The day whose log is shown.
struct RingDayOptions: ParsableArguments {
  @Option(help: "The day by the ring's clock; 0 is today.", in: NumberRange(0...31))
  var daysAgo: UInt8 = 0
}

/// The command `ringtap ring steps`.
package struct RingStepsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "steps", abstract: "Show a day's steps, distance and calories.",
    discussion: """
      EXAMPLES
        ringtap ring steps
        ringtap ring steps --days-ago 1 --json | jq .totalSteps
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions

  func run() async throws {
    let (options, daysAgo) = (ring, day.daysAgo)
    try await options.withRing { ring in
      let log = try await failing { () async throws(RingError) in
        try await ring.activityLog(daysAgo: daysAgo)
      }
      guard let log else {
        return try options.show(.noData(.activity), ["nothing stored \(RingText.daysAgo(daysAgo))"])
      }
      let kilocalories = log.kilocalories.map { ", \(($0 * 10).rounded() / 10) kcal" } ?? ""
      let lines = log.records.map { record in
        "\(RingText.clock(record.startMinute ?? 0))  \(counted(record.steps, "step"))  \(record.distanceMeters) m"
      }
      try options.show(
        .activityLog(log),
        lines + ["\(counted(log.steps, "step")), \(log.distanceMeters) m\(kilocalories)"]
          + (log.isComplete
            ? [] : ["not complete: \(counted(log.missingRecords.count, "record is", "records are")) missing"])
      )
    }
  }
}

/// The command `ringtap ring heart-rate`.
package struct RingHeartRateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "heart-rate", abstract: "Show the heart rates that the ring stored on a day.",
    discussion: """
      For live heart rates: `ringtap ring realtime heart-rate`.

      EXAMPLES
        ringtap ring heart-rate
        ringtap ring heart-rate --days-ago 2 --json | jq -c '.nonZero[]'
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions

  func run() async throws {
    let calendar = ring.calendar
    try await ring.show(.heartRate, day, "bpm") { ring, daysAgo in
      let now = try failing { () throws(RingValueError) in
        try calendar.clock(at: ring.connection.loop.clock.now())
      }
      return try await ring.heartRateLog(of: now.date.before(days: Int(daysAgo)))
    }
  }
}

/// The command `ringtap ring stress`.
package struct RingStressCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stress", abstract: "Show the stress levels, 0 … 100, that the ring stored on a day.",
    discussion: """
      EXAMPLE
        ringtap ring stress --days-ago 1
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions

  func run() async throws {
    try await ring.show(.stress, day, "") { try await $0.stressLog(daysAgo: $1) }
  }
}

/// The command `ringtap ring hrv`.
package struct RingVariabilityCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hrv", abstract: "Show the heart rate variability that the ring stored on a day.",
    discussion: """
      EXAMPLE
        ringtap ring hrv --days-ago 1
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions

  func run() async throws {
    try await ring.show(.heartRateVariability, day, "ms") {
      try await $0.heartRateVariabilityLog(daysAgo: $1)
    }
  }
}

/// The command `ringtap ring spo2`.
package struct RingOxygenCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "spo2", abstract: "Show the blood oxygen levels that the ring stored on all days.",
    discussion: """
      EXAMPLE
        ringtap ring spo2 --json | jq '.days[0].hours'
      """)

  @OptionGroup var ring: RingOptions

  func run() async throws {
    let options = ring
    try await options.withRing { ring in
      let answer = try await failing { () async throws(RingError) in try await ring.oxygen() }
      guard case .spO2(let days) = answer.reply else { throw Failure("the ring's reply is invalid") }
      let lines = days.flatMap { day in
        [RingText.daysAgo(day.daysAgo)]
          + day.hours.map { hour in
            let range = hour.minimum == hour.maximum ? "\(hour.minimum)" : "\(hour.minimum) … \(hour.maximum)"
            return "  \(RingText.clock(Int(hour.hour) * 60))  \(range) %"
          }
      }
      try options.show(.bigData(answer), lines)
    }
  }
}

/// The command `ringtap ring sleep`.
package struct RingSleepCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sleep", abstract: "Show the nights and naps that the ring stored.",
    discussion: """
      EXAMPLE
        ringtap ring sleep
      """)

  @OptionGroup var ring: RingOptions

  func run() async throws {
    let options = ring
    try await options.withRing { ring in
      let answers = try await failing { () async throws(RingError) in try await ring.nights() }
      for answer in answers + (await ring.naps) {
        switch answer.reply {
        case .sleepLog(let nights): try options.show(.bigData(answer), nights.flatMap { Self.lines($0) })
        case .nap(let naps): try options.show(.bigData(answer), naps.flatMap { Self.lines($0, "nap ") })
        default: break
        }
      }
    }
  }

  private static func lines(_ night: RingSleep, _ kind: String = "") -> [String] {
    var minute = night.startMinuteOfEndDay
    var lines = [
      "\(kind)\(RingText.daysAgo(night.daysAgo)): \(RingText.clock(minute)) … \(RingText.clock(Int(night.endMinute)))"
    ]
    for span in night.stages {
      lines.append("  \(RingText.clock(minute))  \(span.stage.text)  \(span.minutes) min")
      minute += Int(span.minutes)
    }
    return lines
  }
}

/// The command `ringtap ring temperature`.
package struct RingTemperatureCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "temperature", abstract: "Show the skin temperatures that the ring stored.",
    discussion: """
      Rings that support temperatures store a value every half hour, or at their own interval: \
      --own-interval. No capture of either has been published; the layout is that on which two independent \
      programs agree.

      EXAMPLES
        ringtap ring temperature                              all days
        ringtap ring temperature --own-interval --days-ago 1
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions
  @Flag(help: "Show one day, at the ring's own interval.") var ownInterval = false

  func run() async throws {
    let (options, daysAgo, ownInterval) = (ring, day.daysAgo, ownInterval)
    try await options.withRing { ring in
      guard ownInterval else {
        let answer = try await failing { () async throws(RingError) in
          try await ring.temperature(days: UInt8(RingSync.defaultDays))
        }
        guard case .temperature(let days) = answer.reply else {
          throw Failure("the ring's reply is invalid")
        }
        let lines = days.flatMap { [RingText.daysAgo($0.daysAgo)] + Self.lines($0.readings) }
        return try options.show(.bigData(answer), lines)
      }
      let log = try await failing { () async throws(RingError) in
        try await ring.intervalTemperature(daysAgo: daysAgo)
      }
      guard let log else { return Console.note("nothing stored \(RingText.daysAgo(daysAgo))") }
      let missing =
        log.isComplete
        ? [] : ["not complete: \(counted(log.missingPackets.count, "packet is", "packets are")) missing"]
      try options.show(.intervalTemperature(log), Self.lines(log.readings) + missing)
    }
  }

  private static func lines(_ readings: [RingTemperatureDay.Reading]) -> [String] {
    readings.map { "  \(RingText.clock($0.minute))  \($0.celsius) °C" }
  }
}

extension RingOptions {
  /// Fetches a day's log and prints it. Without a log, prints that nothing is stored.
  fileprivate func show(
    _ kind: RingLogKind, _ day: RingDayOptions, _ unit: String,
    _ fetch: @escaping @Sendable (RingConversation, UInt8) async throws -> RingDayLog?
  ) async throws {
    let (options, daysAgo) = (self, day.daysAgo)
    try await withRing { ring in
      let log: RingDayLog?
      do { log = try await fetch(ring, daysAgo) } catch let error as RingError {
        try Task.checkCancellation()
        throw Failure(error)
      }
      guard let log else {
        return try options.show(.noData(kind), ["nothing stored \(RingText.daysAgo(daysAgo))"])
      }
      try options.show(.dayLog(log), RingText.log(log, unit: unit))
    }
  }
}
