import ArgumentParser
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import CommandKit
import JSONText
import SensorSessions

/// The command `ringtap ring info`.
package struct RingInfoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "info", abstract: "Show firmware, battery and capabilities.",
    discussion: """
      Rings report most capabilities only in reply to setting the clock: give --set-time to see them. \
      Commands do not check unknown capabilities.

      EXAMPLES
        ringtap ring info
        ringtap ring info 70:CB:0D:00:A1:B2 --set-time --json
            device, battery, deviceSupport, capabilities: one object each; the last
            with its source: setTime, or deviceSupport, which has only bond and
            interval temperature
      """)

  @OptionGroup var ring: RingOptions

  func run() async throws {
    let options = ring
    try await options.withRing { ring in
      let texts = try await failing { () async throws(RingError) in try await ring.revisions() }
      if options.json {
        try Console.json { line in
          line.member("kind", "device")
          line.member("address", "\(ring.connection.peer)")
          line.member("hardware", texts.hardware ?? "")
          line.member("firmware", texts.firmware ?? "")
        }
      } else {
        let (hardware, firmware) = (texts.hardware ?? "unknown", texts.firmware ?? "unknown")
        try Console.print(
          "\(ring.connection.peer)  hardware \(hardware.printable)  firmware \(firmware.printable)")
      }
      for request in [RingRequest.battery, .deviceSupport] {
        let reply = try await failing { () async throws(RingError) in try await ring.optional(request) }
        switch reply {
        case .battery(let battery)?:
          try options.show(.reply(.battery(battery)), [RingText.battery(battery)])
        case .deviceSupport(let support)?:
          let told = await ring.capabilities
          try options.show(
            .reply(.deviceSupport(support)),
            [
              RingText.capabilities(told ?? support)
                + (told == nil
                  ? " (without --set-time, a ring reports only bond and interval temperature)"
                  : " (reported in reply to setting the clock)")
            ])
          guard options.json else { continue }
          try Console.json { line in
            line.member("kind", "capabilities")
            line.member("source", told == nil ? "deviceSupport" : "setTime")
            line.member(
              "names",
              array: { line in for name in RingText.names(of: told ?? support) { line.value(name) } })
          }
        default: break
        }
      }
    }
  }
}

/// The command `ringtap ring battery`.
package struct RingBatteryCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "battery", abstract: "Show the battery level.",
    discussion: """
      EXAMPLES
        ringtap ring battery
        ringtap ring battery 70:CB:0D:00:A1:B2 --json
            {"kind":"battery","level":64,"charging":false}
      """)

  @OptionGroup var ring: RingOptions

  func run() async throws {
    let options = ring
    try await options.withRing { ring in
      let reply = try await failing { () async throws(RingError) in try await ring.ask(.battery) }
      guard case .battery(let battery) = reply else { throw Failure("the ring's reply is invalid") }
      try options.show(.reply(reply), [RingText.battery(battery)])
    }
  }
}

/// The command `ringtap ring find`.
package struct RingFindCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "find", abstract: "Light the ring's green LED for about ten seconds.",
    discussion: """
      EXAMPLES
        ringtap ring find
        ringtap ring find --blink      two short flashes instead
      """)

  @OptionGroup var ring: RingOptions
  @Flag(help: "Flash twice briefly instead.") var blink = false

  func run() async throws {
    let request = blink ? RingRequest.blinkTwice : .findDevice
    try await ring.withRing { ring in
      try await failing { () async throws(RingError) in try await ring.tell(request) }
    }
  }
}

/// The command `ringtap ring time`.
package struct RingTimeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "time", abstract: "Check or set the ring's clock.",
    discussion: """
      A ring's clock cannot be read and has no time zone: its logs use the time that was last set, either \
      local time, as in the maker's app, or UTC. Without --set, ringtap compares the newest entries of \
      today's logs with the expected time; only entries from the future prove that the clock is wrong. \
      Changing between local time and UTC shifts new entries relative to the stored logs: run `ringtap ring \
      sync` first.

      EXAMPLES
        ringtap ring time
        ringtap ring time --set              local time
        ringtap ring time --set --utc
      """)

  @OptionGroup var ring: RingOptions
  @Flag(name: .customLong("set"), help: "Set the clock to this machine's time.") var isSetting = false

  func run() async throws {
    let (options, isSetting) = (ring, isSetting)
    try await options.withRing { ring in
      let calendar = options.calendar
      let instant = ring.connection.loop.clock.now()
      let now = try failing { () throws(RingValueError) in try calendar.clock(at: instant) }
      let finding = try await failing { () async throws(RingError) in
        try await ring.judgeClock(now, localOffsetMinutes: RingOptions.localOffsetMinutes(at: instant))
      }
      if let warning = Self.warning(finding, options) { Console.note(warning) }
      guard isSetting else {
        return try Self.show(finding, now, options)
      }
      let reply = try await failing { () async throws(RingError) in try await ring.setTime(now) }
      let all = await ring.capabilities ?? reply.capabilities
      try options.show(
        .reply(.time(reply)),
        ["set to \(RingText.date(now)) (\(options.utc ? "UTC" : "local time"))", RingText.capabilities(all)])
    }
  }

  private static func show(_ finding: RingClockCheck.Finding, _ now: RingDateTime, _ options: RingOptions)
    throws
  {
    let (word, minutes) = words(finding)
    guard options.json else {
      return try Console.print(
        "should show \(RingText.date(now)): \(word)" + (minutes.map { ", by \($0) min" } ?? ""))
    }
    try Console.json { line in
      line.member("kind", "clockCheck")
      line.member("expected", RingText.date(now))
      line.member("finding", word)
      if let minutes { line.member("minutes", minutes) }
    }
  }

  private static func words(_ finding: RingClockCheck.Finding) -> (String, Int?) {
    switch finding {
    case .inStep: ("in step", nil)
    case .otherConvention(let minutes): ("other convention", minutes)
    case .shifted(let minutes): ("shifted", minutes)
    case .undecided: ("undecided", nil)
    }
  }

  static func warning(_ finding: RingClockCheck.Finding, _ options: RingOptions) -> String? {
    switch finding {
    case .otherConvention(let minutes):
      "the ring's logs are \(counted(minutes, "minute")) off, as if another program had set local time instead of UTC, "
        + "or the reverse: read them with\(options.utc ? "out" : "") --utc, or set the clock"
    case .shifted(let minutes):
      "the ring's logs are \(counted(minutes, "minute")) in the future: set its clock"
    case .inStep, .undecided: nil
    }
  }
}
