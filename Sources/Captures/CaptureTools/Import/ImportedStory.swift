import BLEDissector
import BLELinux
import BLEWire
import ColmiRing
import Recording
import SensorSessions

/// The messages between an imported ring and its host: `messages.ndjson`, and tables in `history`.
final class ImportedStory {
  /// The message lines; the file is created with the first one.
  private final class Lines {
    let directory: String
    var file: OutputFile?
    var failure: SystemError?

    init(_ directory: String) { self.directory = directory }

    func append(_ line: Span<UInt8>) {
      guard failure == nil else { return }
      do throws(SystemError) {
        if file == nil {
          try Files.createDirectory(directory)
          file = try OutputFile(creating: directory + "/messages.ndjson", ifExists: .fail)
        }
        try file?.append { for index in line.indices { $0.append(line[index]) } }
      } catch { failure = error }
    }
  }

  private let lines: Lines
  private var story: RingStory

  /// - Parameter calendar: calendar of the ring's days; `nil` to derive it from the log.
  init(into directory: String, _ calendar: RingCalendar?, fallback: RingCalendar) {
    let lines = Lines(directory)
    self.lines = lines
    story = RingStory(calendar: calendar, fallback: fallback) { lines.append($0) }
  }

  /// Processes a value of the ring; other packets are ignored.
  func take(_ packet: borrowing DecodedPacket) {
    guard let att = packet.att, let value = att.value, let uuid = att.uuid else { return }
    switch (att.opcode, uuid) {
    case (.writeRequest, RingUUID.commandWrite), (.writeCommand, RingUUID.commandWrite):
      story.take(value, channel: .uart, direction: .hostToRing, at: packet.time)
    case (.writeRequest, RingUUID.bigDataWrite), (.writeCommand, RingUUID.bigDataWrite):
      story.take(value, channel: .bigData, direction: .hostToRing, at: packet.time)
    case (.handleValueNotification, RingUUID.commandNotify):
      story.take(value, channel: .uart, direction: .ringToHost, at: packet.time)
    case (.handleValueNotification, RingUUID.bigDataNotify):
      story.take(value, channel: .bigData, direction: .ringToHost, at: packet.time)
    default: break
    }
  }

  /// Ends the link, so that incomplete messages stay incomplete.
  func endLink() { story.finish() }

  /// Whether there are messages other than samples.
  var hasMessages: Bool { lines.file != nil || lines.failure != nil }

  /// Completes the files.
  ///
  /// - Parameter origin: receives the counts of messages.
  /// - Returns: descriptions of what could not be written.
  func finish(_ origin: inout ImportOrigin) -> [String] {
    story.finish()
    var problems: [String] = []
    do throws(SystemError) {
      try lines.file?.flush()
      if !story.hasNoRows {
        try Files.createDirectory(lines.directory + "/history")
        _ = try story.write(in: lines.directory + "/history")
      }
    } catch { problems.append("\(error)") }
    if let failure = lines.failure { problems.append("\(failure)") }
    let counts = story.counts
    if counts.droppedRows > 0 {
      problems.append("\(counts.droppedRows) rows of the ring's history are left out: too many")
    }
    origin.counts = counts.frames.merging(counts.messages, uniquingKeysWith: +)
    for (kind, count) in counts.logs { origin.counts[kind, default: 0] += count }
    for (unknown, count) in counts.unknown {
      origin.counts["unknown 0x\(hexadecimal(unknown.code)) \(unknown.direction.rawValue)", default: 0] +=
        count
    }
    for (reason, count) in counts.invalid { origin.counts["invalid \(reason)", default: 0] += count }
    if counts.rawFrames > 0 { origin.counts["raw"] = counts.rawFrames }
    if counts.incompleteLogs > 0 { origin.counts["incomplete logs"] = counts.incompleteLogs }
    if counts.undatedLogs > 0 { origin.counts["logs without a day"] = counts.undatedLogs }
    return problems
  }
}
