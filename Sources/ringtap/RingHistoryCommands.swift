import ArgumentParser
import BLEHost
import BLESensors
import BLESystem
import RingTap

/// Which day of a log.
struct RingDayOptions: ParsableArguments {
  @Option(help: "0 is today by the ring's clock.")
  var daysAgo: UInt8 = 0

  func validate() throws {
    guard daysAgo <= 31 else { throw ValidationError("--days-ago must be 0 … 31") }
  }
}

/// `ringtap ring steps`.
struct RingStepsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "steps", abstract: "Steps, distance and calories of a day.",
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
        "\(RingText.clock(record.startMinute ?? 0))  \(record.steps) steps  \(record.distanceMeters) m"
      }
      try options.show(
        .activityLog(log),
        lines + ["\(log.steps) steps, \(log.distanceMeters) m\(kilocalories)"]
          + (log.isComplete ? [] : ["not complete: \(log.missingRecords.count) records did not come"]))
    }
  }
}

/// `ringtap ring heart-rate`.
struct RingHeartRateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "heart-rate", abstract: "The heart rates that the ring stored on a day.",
    discussion: """
      For heart rates as they are measured: `ringtap ring realtime heart-rate`.

      EXAMPLES
        ringtap ring heart-rate
        ringtap ring heart-rate --days-ago 2 --json | jq -c '.nonZero[]'
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions

  func run() async throws {
    let (options, daysAgo) = (ring, day.daysAgo)
    try await options.withRing { ring in
      let now = try failing { () throws(RingValueError) in
        try options.calendar.clock(at: ring.connection.loop.clock.now())
      }
      let log = try await failing { () async throws(RingError) in
        try await ring.heartRateLog(of: now.date.before(days: Int(daysAgo)))
      }
      try options.show(log, .heartRate, daysAgo, "bpm")
    }
  }
}

/// `ringtap ring stress`.
struct RingStressCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stress", abstract: "The stress, 0 … 100, that the ring stored on a day.",
    discussion: """
      EXAMPLE
        ringtap ring stress --days-ago 1
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions

  func run() async throws {
    let (options, daysAgo) = (ring, day.daysAgo)
    try await options.withRing { ring in
      let log = try await failing { () async throws(RingError) in try await ring.stressLog(daysAgo: daysAgo) }
      try options.show(log, .stress, daysAgo, "")
    }
  }
}

/// `ringtap ring hrv`.
struct RingVariabilityCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hrv", abstract: "The heart rate variability that the ring stored on a day.",
    discussion: """
      EXAMPLE
        ringtap ring hrv --days-ago 1
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var day: RingDayOptions

  func run() async throws {
    let (options, daysAgo) = (ring, day.daysAgo)
    try await options.withRing { ring in
      let log = try await failing { () async throws(RingError) in
        try await ring.heartRateVariabilityLog(daysAgo: daysAgo)
      }
      try options.show(log, .heartRateVariability, daysAgo, "ms")
    }
  }
}

/// `ringtap ring spo2`.
struct RingOxygenCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "spo2", abstract: "The blood oxygen that the ring stored, all days.",
    discussion: """
      EXAMPLE
        ringtap ring spo2 --json | jq '.days[0].hours'
      """)

  @OptionGroup var ring: RingOptions

  func run() async throws {
    let options = ring
    try await options.withRing { ring in
      let answer = try await failing { () async throws(RingError) in try await ring.oxygen() }
      guard case .spO2(let days) = answer.reply else { throw Failure("the ring's answer makes no sense") }
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

/// `ringtap ring sleep`.
struct RingSleepCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sleep", abstract: "The nights that the ring stored.",
    discussion: """
      EXAMPLE
        ringtap ring sleep
      """)

  @OptionGroup var ring: RingOptions

  func run() async throws {
    let options = ring
    try await options.withRing { ring in
      let answers = try await failing { () async throws(RingError) in try await ring.nights() }
      for answer in answers {
        guard case .sleepLog(let nights) = answer.reply else { continue }
        try options.show(.bigData(answer), nights.flatMap(Self.lines))
      }
    }
  }

  private static func lines(_ night: RingSleep) -> [String] {
    var minute = night.startMinuteOfEndDay
    var lines = [
      "\(RingText.daysAgo(night.daysAgo)): \(RingText.clock(minute)) … \(RingText.clock(Int(night.endMinute)))"
    ]
    for span in night.stages {
      lines.append("  \(RingText.clock(minute))  \(span.stage.text)  \(span.minutes) min")
      minute += Int(span.minutes)
    }
    return lines
  }
}

extension RingOptions {
  /// Shows a day's log, or that there is none.
  fileprivate func show(
    _ log: RingDayLog?, _ kind: RingLogKind, _ daysAgo: UInt8, _ unit: String
  ) throws(Console.Closed) {
    guard let log else { return try show(.noData(kind), ["nothing stored \(RingText.daysAgo(daysAgo))"]) }
    try show(.dayLog(log), RingText.log(log, unit: unit))
  }
}
