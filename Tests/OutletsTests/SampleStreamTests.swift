import BLELinux
import BLEWire
import ColmiRing
import Foundation
import SensorSessions
import Synchronization
import CaptureKit
import TestKit
import TestPeer
import Testing

@testable import Outlets
@testable import Recording

/// A recording of a simulated ring, with a stream of its samples.
private final class StreamedRing: Sendable {
  static let device = SampleDevice(
    DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public), kind: "ring", name: "R02_A1B2")

  let stream: SampleStream
  let tap: SampleTap
  let sink = RingSink()
  let recorder: Recorder
  let refusals = Counter()
  private let ticks = Atomic<Int64>(0)

  /// - Parameter folder: receives the tables and a socket `samples`.
  init(in folder: String) async throws {
    let refusals = refusals
    stream = try SampleStream([.port(.unix(path: folder + "/samples"))]) { news in
      if case .refused = news { refusals.add() }
    }
    tap = SampleTap(into: [stream.output(of: Self.device)], .all)
    recorder = try await Recorder.start(
      in: folder, sink.samples, RingTables(), packets: nil, pace: .free, live: tap)
  }

  /// Sends ticks of three samples, no faster than they are written.
  func send(ticks count: Int) async throws {
    for _ in 0..<count {
      if sink.samples.isHalfFull { try await eventually("room") { sink.samples.isEmpty } }
      let number = ticks.wrappingAdd(1, ordering: .relaxed).newValue
      for frame in RingFrames.tick { sink.take(frame, at: number * 40_000_000) }
      recorder.wake.signal()
    }
  }

  func finish() async -> Recorder.Outcome {
    let outcome = await recorder.finish()
    tap.end("count reached", lost: 0)
    await stream.finish()
    return outcome
  }
}

private struct Line: Decodable {
  var stream: String?
  var table: String?
  var lines: Int?
  var rows: Int?
}

private func parse(_ lines: [String]) throws -> [Line] {
  try lines.map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
}

@Suite(.timeLimit(.minutes(2))) struct SampleStreamTests {
  /// A reader stops reading while 20,000 samples arrive. The recording has all of them, and the reader is
  /// told how many lines it missed.
  @Test func aReaderThatStandsStillHurtsNobody() async throws {
    try await withFolder { folder in
      let ring = try await StreamedRing(in: folder)
      let reader = try SocketLines.unix(folder + "/samples")
      let other = try SocketLines.unix(folder + "/samples")
      other.read()
      try await eventually("both readers") { ring.stream.readers == 2 }
      try await ring.send(ticks: 6_667)
      try await eventually("all written") { ring.sink.samples.isEmpty }
      reader.read()
      let outcome = await ring.finish()
      #expect(ring.sink.samples.dropped == 0)
      #expect(outcome.failure == nil && outcome.lostSamples == 0)
      #expect(outcome.rows == [6_667, 6_667, 6_667, 6_667])
      let rows = outcome.rows.reduce(0, +)
      let lines = try parse(try await reader.all())
      let missed = lines.filter { $0.stream == "missed" }.compactMap(\.lines)
      #expect(!missed.isEmpty && missed.allSatisfy { $0 > 0 })
      let samples = lines.count { $0.stream == nil }
      #expect(samples + missed.reduce(0, +) == rows)
      #expect(samples > 2_000, "a queue of a megabyte, and the socket's")
      #expect(lines.prefix(4).allSatisfy { $0.stream == "table" })
      #expect(lines.last?.stream == "end" && lines.last?.rows == rows)
      // The other reader keeps reading, but may be slow on a busy machine; then it is told, too.
      let others = try parse(try await other.all())
      let told = others.compactMap(\.lines).reduce(0, +)
      #expect(others.count { $0.stream == nil } + told == rows)
    }
  }

  @Test func aLateReaderGetsTheTablesFirst() async throws {
    try await withFolder { folder in
      let ring = try await StreamedRing(in: folder)
      try await ring.send(ticks: 100)
      try await eventually("all written") { ring.sink.samples.isEmpty }
      let reader = try SocketLines.unix(folder + "/samples")
      reader.read()
      try await eventually("the reader") { ring.stream.readers == 1 }
      try await ring.send(ticks: 10)
      _ = await ring.finish()
      let lines = try parse(try await reader.all())
      #expect(lines.prefix(4).map(\.table) == ["accelerometer", "ppg", "spo2", "samples"])
      #expect(lines.prefix(4).allSatisfy { $0.stream == "table" })
      #expect(lines.dropFirst(4).count { $0.table == "ppg" } == 10)
      #expect(lines.last?.stream == "end" && lines.last?.rows == 440)
    }
  }

  /// A reader that disconnects is removed; the others get everything.
  @Test func aReaderThatGoesIsForgotten() async throws {
    try await withFolder { folder in
      let ring = try await StreamedRing(in: folder)
      let (first, second) = (
        try SocketLines.unix(folder + "/samples"), try SocketLines.unix(folder + "/samples")
      )
      second.read()
      try await eventually("both readers") { ring.stream.readers == 2 }
      first.hangUp()
      try await eventually("one reader") {
        try await ring.send(ticks: 1)
        return ring.stream.readers == 1
      }
      let outcome = await ring.finish()
      let lines = try parse(try await second.all())
      #expect(lines.count { $0.stream == nil } == outcome.rows.reduce(0, +))
    }
  }

  @Test func takesSoManyReadersAndNoMore() async throws {
    try await withFolder { folder in
      let ring = try await StreamedRing(in: folder)
      var readers: [SocketLines] = []
      for count in 1...SampleStream.readerLimit.count {
        readers.append(try SocketLines.unix(folder + "/samples"))
        try await eventually("\(count) readers") { ring.stream.readers == count }
      }
      let last = try SocketLines.unix(folder + "/samples")
      last.read()
      await ring.refusals.reaches(1)
      #expect(try await last.all() == [])
      for reader in readers { reader.read() }
      try await ring.send(ticks: 5)
      _ = await ring.finish()
      for reader in readers { #expect(try await reader.all().count == 4 + 20 + 1) }
    }
  }

  // MARK: The socket

  @Test func theSocketIsItsUsersAlone() async throws {
    try await withFolder { folder in
      let path = folder + "/samples"
      let stream = try SampleStream([.port(.unix(path: path))]) { _ in }
      var status = stat()
      #expect(lstat(path, &status) == 0)
      #expect(status.st_mode & S_IFMT == S_IFSOCK && status.st_mode & 0o777 == 0o600)
      #expect(throws: SystemError(call: "listen \(path)", number: EADDRINUSE)) {
        _ = try SampleStream([.port(.unix(path: path))]) { _ in }
      }
      #expect(lstat(path, &status) == 0, "that of the first one")
      await stream.finish()
      #expect(lstat(path, &status) != 0)
      try Data("mine\n".utf8).write(to: URL(filePath: path))
      #expect(throws: SystemError(call: "listen \(path)", number: EADDRINUSE)) {
        _ = try SampleStream([.port(.unix(path: path))]) { _ in }
      }
      #expect(throws: SystemError(call: "listen \(path)", number: EADDRINUSE)) {
        _ = try ControllerPort.listen(path: path)
      }
      #expect(contents(path) == Array("mine\n".utf8), "a file is left alone")
    }
  }

  /// The socket of a killed program is replaced.
  @Test func takesThePlaceOfADeadSocket() async throws {
    try await withFolder { folder in
      let path = folder + "/samples"
      do { _ = try ControllerPort.listen(path: path) }
      #expect(Files.exists(path))
      let stream = try SampleStream([.port(.unix(path: path))]) { _ in }
      let reader = try SocketLines.unix(path)
      reader.read()
      try await eventually("the reader") { stream.readers == 1 }
      await stream.finish()
      #expect(try await reader.all() == [])
      #expect(!Files.exists(path))
    }
  }

  @Test func namesTargets() throws {
    #expect(try StreamTarget("-") == .standardOutput)
    #expect(try StreamTarget("unix:/run/a:b") == .port(.unix(path: "/run/a:b")))
    #expect(try StreamTarget("tcp:127.0.0.1:7007") == .port(.tcp(host: "127.0.0.1", port: 7007)))
    #expect(try StreamTarget("tcp:[::1]:7007") == .port(.tcp(host: "::1", port: 7007)))
    for text in ["tcp:[::1]:7007", "unix:/run/a", "-"] { #expect(try StreamTarget(text).description == text) }
    for text in [
      "", "--", "file", "unix:", "unix", "tcp:", "tcp:7007", "tcp::7007", "tcp:host:", "tcp:host:0",
      "tcp:host:65536", "tcp:::1:7007", "tcp:[]:1", "TCP:host:1",
    ] {
      #expect(throws: StreamTarget.ParseError.self, "\(text)") { try StreamTarget(text) }
    }
  }
}

@Suite struct LineQueueTests {
  private static let line = Array(repeating: UInt8(ascii: "x"), count: 1023) + [0x0A]

  private func text(_ queue: inout LineQueue) -> [String] {
    var octets: [UInt8] = []
    queue.take(into: &octets)
    queue.noteSent(octets.count)
    return String(decoding: octets, as: UTF8.self).split(separator: "\n").map(String.init)
  }

  /// The queue never exceeds its limit. Lines beyond it are counted, and reported at the place where they are
  /// missing.
  @Test func tellsWhatFoundNoRoom() {
    var queue = LineQueue()
    var batch = LineBatch()
    for _ in 0..<100 { batch.append(Self.line) }
    for _ in 0..<11 { queue.append(batch) }
    #expect(queue.missed == 1_100 - 1_024)
    var octets: [UInt8] = []
    queue.take(into: &octets)
    #expect(octets.count == 1 << 20)
    // Lines that are being sent still occupy the queue.
    queue.append(Self.line, .sample)
    #expect(queue.missed == 77 && queue.isEmpty)
    queue.noteSent(32 << 10)
    queue.append(Self.line, .sample)
    #expect(queue.missed == 78 && queue.isEmpty, "not for each line that finds room")
    queue.noteSent(32 << 10)
    queue.append(Self.line, .sample)
    #expect(text(&queue) == [#"{"stream":"missed","lines":78}"#, String(repeating: "x", count: 1023)])
    #expect(queue.untold == 0 && queue.missed == 78)
  }

  /// A reader whose queue is full still gets the notice of the end, after the notice of what it missed.
  @Test func hasRoomForNotices() {
    var queue = LineQueue()
    for _ in 0..<1_030 { queue.append(Self.line, .sample) }
    let end = Array("{}\n".utf8)
    queue.append(end, .notice)
    #expect(text(&queue).suffix(2) == [#"{"stream":"missed","lines":6}"#, "{}"])
    // Notices are limited, too.
    for _ in 0..<1_024 { queue.append(Self.line, .sample) }
    for _ in 0..<100 { queue.append(Self.line, .notice) }
    #expect(queue.missed == 6 + 36)
    #expect(text(&queue).count == 1_024 + 64)
    #expect(text(&queue) == [#"{"stream":"missed","lines":36}"#])
  }
}
