import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CaptureTools
import ColmiRing
import CommandKit
import JSONText
import Recording
import RingTap
import SensorSessions

/// The ring to connect to and the output format, on every command for a ring.
struct RingOptions: ParsableArguments, ReachesDevice {
  @OptionGroup var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup var choice: DeviceOptions

  @Argument(help: "The ring, such as 70:CB:0D:00:A1:B2 (default: the first one in range).")
  var address: String?

  @Option(help: "Use only the ring that advertises exactly this name.")
  var name: String?

  @Flag(
    help: """
      Set the ring's clock first. The reply lists the ring's capabilities; unsupported commands are then \
      refused at once.
      """)
  var setTime = false

  @Flag(help: "The ring's clock is in UTC instead of local time.")
  var utc = false

  @Flag(help: "Print one JSON object per line.")
  var json = false

  func validate() throws {
    if address != nil, name != nil { throw ValidationError("give an address or --name, not both") }
    _ = try address.map { try device.parse($0) }
  }

  /// The calendar that converts the times of the ring's clock.
  var calendar: RingCalendar { utc ? .utc : .local }

  /// Returns the offset of this machine's local time from UTC in minutes.
  static func localOffsetMinutes(at time: ReceiveTime) -> Int { RingCalendar.local.utcOffset(at: time) / 60 }

  /// Connects to the ring and runs `body`. Ctrl-C cancels `body`.
  func withRing<Value: Sendable>(
    _ body: @escaping @Sendable (RingConversation) async throws -> Value
  ) async throws -> Value {
    let (known, name, setTime) = (
      try address.map { try device.parse($0) } ?? device.known(name), name, setTime
    )
    let (patience, calendar, isVerbose) = (Duration.seconds(device.timeout), calendar, device.radio.verbose)
    return try await device.withLink { radio in
      if let known { return known }
      return try await failing { () async throws(HostError) in
        try await radio.find(SensorKind.ring.search, named: name, within: patience, isVerbose: isVerbose)
      }
    } _: { adapter, connection in
      let ring = try await failing { () async throws(HostError) in
        try await RingConversation.begin(
          on: connection, patience: min(patience, RingConversation.defaultPatience))
      }
      if setTime {
        let now = try failing { () throws(RingValueError) in
          try calendar.clock(at: adapter.loop.clock.now())
        }
        _ = try await failing { () async throws(RingError) in try await ring.setTime(now) }
      }
      let value = try await body(ring)
      await Self.note(ring, isVerbose)
      return value
    }
  }

  private static func note(_ ring: RingConversation, _ isVerbose: Bool) async {
    let counters = await ring.counters
    if counters.malformed > 0 {
      let last = await ring.lastMalformed ?? ""
      Console.note("\(counters.malformed) damaged frames were skipped; the last: \(last)")
    }
    if isVerbose {
      Console.note(
        "\(counted(counters.foreign, "reply", "replies")) without a request, \(counted(counters.unasked, "unsolicited frame")), "
          + counted(counters.timeouts, "timeout"))
    }
  }

  /// Prints an answer: as JSON, or as lines of text.
  func show(_ answer: RingAnswer, _ lines: [String]) throws(Console.WriteError) {
    guard json else {
      for line in lines { try Console.print(line) }
      return
    }
    var line = JSONLine()
    answer.append(to: &line)
    try Console.write(line.octets)
  }
}

/// Text about a ring's data for the user.
enum RingText {
  /// Formats a minute of the day as `07:05`.
  static func clock(_ minute: Int) -> String {
    let minute = (minute % 1440 + 1440) % 1440
    return "\(NumberText.padded(minute / 60, 2)):\(NumberText.padded(minute % 60, 2))"
  }

  static func date(_ date: RingDate) -> String {
    "\(NumberText.padded(Int(date.year), 4))-\(NumberText.padded(Int(date.month), 2))-"
      + NumberText.padded(Int(date.day), 2)
  }

  static func date(_ time: RingDateTime) -> String {
    date(time.date) + " \(NumberText.padded(Int(time.hour), 2)):\(NumberText.padded(Int(time.minute), 2)):"
      + NumberText.padded(Int(time.second), 2)
  }

  static func battery(_ battery: RingBattery) -> String {
    "battery \(battery.percent) %" + (battery.isCharging ? ", charging" : "")
  }

  static func capabilities(_ all: RingCapabilities) -> String {
    let has = names(of: all)
    return has.isEmpty ? "capabilities: none known" : "capabilities: " + has.joined(separator: ", ")
  }

  static func names(of all: RingCapabilities) -> [String] {
    let names: [(RingCapabilities, String)] = [
      (.bloodOxygen, "blood oxygen"), (.stress, "stress"), (.heartRateVariability, "heart rate variability"),
      (.temperature, "temperature"), (.manualHeartRate, "manual heart rate"),
      (.newSleepProtocol, "sleep"), (.bond, "wants a bond"), (.intervalTemperature, "interval temperature"),
    ]
    return names.filter { all.contains($0.0) }.map(\.1)
  }

  /// Returns one line for each time slot with a value.
  static func log(_ log: RingDayLog, unit: String) -> [String] {
    let lines = log.entries.map { "\(clock($0.slot * log.intervalMinutes))  \($0.value) \(unit)" }
    return lines
      + (log.isComplete
        ? [] : ["not complete: \(counted(log.missingFrames.count, "frame is", "frames are")) missing"])
  }

  static func daysAgo(_ days: UInt8) -> String {
    switch days {
    case 0: "today"
    case 1: "yesterday"
    default: "\(counted(days, "day")) ago"
    }
  }
}
