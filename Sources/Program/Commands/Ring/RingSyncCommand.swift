import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import ColmiRing
import CommandKit
import JSONText
import SensorSessions

/// The command `ringtap ring sync`.
package struct RingSyncCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sync",
    abstract: "Fetch the ring's stored data into tables.",
    discussion: """
      Writes heart-rate.csv, steps.csv, stress.csv, hrv.csv, spo2.csv, sleep.csv and temperature.csv into \
      the directory; the first column is the start of the ring's time slot, in nanoseconds since the Unix \
      epoch. Further runs add new rows and update those of today, without duplicates. A ring keeps about a \
      week.

      EXAMPLES
        ringtap ring sync --output history
        ringtap ring sync --since 2025-12-11 --output history --json
            one object per table: table, rows, added, changed, complete, note

      Exit status 3: some of the data did not arrive; the notes list it.
      """)

  @OptionGroup var ring: RingOptions
  @Option(
    help: ArgumentHelp("The first day, such as 2025-12-11 (default: a week ago).", valueName: "date"))
  var since: String?
  @Option(name: [.short, .long], help: "The directory for the tables.") var output = "ring-history"

  func validate() throws { _ = try firstDay() }

  private func firstDay() throws -> RingDate? {
    guard let since else { return nil }
    let parts = since.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
    guard parts.count == 3, let year = parts[0], let month = parts[1], let day = parts[2],
      let date = try? RingDate(year: year, month: month, day: day)
    else { throw ValidationError("'\(since)' is not a date such as 2025-12-11") }
    return date
  }

  func run() async throws {
    let (options, output, since) = (ring, output, try firstDay())
    let outcomes = try await options.withRing { ring in
      let instant = ring.connection.loop.clock.now()
      let now = try failing { () throws(RingValueError) in try options.calendar.clock(at: instant) }
      try await Self.warn(ring, now, options)
      let sync = RingSync(
        ring, calendar: options.calendar, now: now, since: since, directory: output)
      return try await failing { () async throws(RingError) in
        try await sync.run { Console.progress("fetching \($0.rawValue) …") }
      }
    }
    Console.progress("")
    for outcome in outcomes { try show(outcome) }
    if outcomes.contains(where: \.isIncomplete) { throw ExitCode(3) }
  }

  private static func warn(_ ring: RingConversation, _ now: RingDateTime, _ options: RingOptions) async throws
  {
    let offset = RingOptions.localOffsetMinutes(at: ring.connection.loop.clock.now())
    let finding = try await failing { () async throws(RingError) in
      try await ring.judgeClock(now, localOffsetMinutes: offset)
    }
    if let warning = RingTimeCommand.warning(finding, options) { Console.note(warning) }
  }

  private func show(_ outcome: RingSync.Outcome) throws(Console.WriteError) {
    guard ring.json else {
      try Console.print(
        "\(output)/\(outcome.kind.fileName)  \(counted(outcome.rows, "row")), \(outcome.added) new, \(outcome.changed) changed"
      )
      if let note = outcome.note { Console.note("\(outcome.kind.rawValue): \(note)") }
      return
    }
    try Console.json { line in
      line.member("table", outcome.kind.rawValue)
      line.member("file", "\(output)/\(outcome.kind.fileName)")
      line.member("rows", outcome.rows)
      line.member("added", outcome.added)
      line.member("changed", outcome.changed)
      line.member("complete", !outcome.isIncomplete)
      if let note = outcome.note { line.member("note", note) }
    }
  }
}
