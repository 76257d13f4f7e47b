import BLELinux
import BLEPacketLog
import BLEWire
import Foundation
import HarnessKit
import TestKit
import Testing

@testable import Recording

/// Appending to a log that was cut off by a kill or a power failure.
@Suite(.timeLimit(.minutes(2))) struct LogTailTests {
  /// `btsnoop`, version 1, datalink 2001. RFC 1761.
  private static let header = octetsOf("6274736E6F6F7000 00000001 000007D1")

  /// Lengths, adapter 0 and opcode, 7 drops, a time in 2024, and a payload.
  private static func record(_ opcode: String, _ payload: String) -> [UInt8] {
    let octets = octetsOf(payload)
    let length = octetsOf("000000") + [UInt8(octets.count)]
    return length + length + octetsOf("0000 \(opcode) 00000007 00E2D1C4 0A1B2C3D") + octets
  }

  private static let records = [
    record("0000", "0001010203040506686369300000000000"), record("0002", "030C00"),
    record("0003", "0E0401030C00"), record("0009", ""),
  ]
  private static let file = header + records.flatMap { $0 }

  /// Offsets at which whole records end.
  private static let ends = records.reduce(into: [header.count]) { ends, record in
    ends.append((ends.last ?? 0) + record.count)
  }

  /// Appends `count` packets to a file with this content.
  private func goOn(
    _ content: [UInt8], count: Int = 1, _ change: (inout LogFilePlan) -> Void = { _ in }
  ) async throws -> (report: LogRecordingReport?, error: LogFileError?, content: [UInt8]) {
    try await withFolder { folder in
      let path = folder + "/log"
      try Data(content).write(to: URL(filePath: path))
      var plan = LogFilePlan(path: path)
      plan.existing = .append
      change(&plan)
      var recording = LogRecording(to: plan) { () throws(SystemError) in
        try SyntheticSource(ratePerSecond: 100_000) { _, _ in }
      }
      recording.count = count
      do throws(LogFileError) {
        let report = try await recording.run(ready: {}, progress: { _ in })
        return (report, nil, contents(path))
      } catch { return (nil, error, contents(path)) }
    }
  }

  /// Expects the header of the ACL record that the source writes: 15 bytes. Its drop count continues the
  /// file's.
  private func expectOneMore(_ added: ArraySlice<UInt8>, drops: UInt8) {
    #expect(added.count == 39)
    #expect(Array(added.prefix(16)) == octetsOf("0000000F 0000000F 00000005 000000") + [drops])
    #expect(added.suffix(4) == [0, 0, 0, 0])
  }

  @Test func repairsATornTailAtEachOctet() async throws {
    for cut in 0...Self.file.count {
      let (report, error, content) = try await goOn(Array(Self.file.prefix(cut)))
      #expect(error == nil)
      let whole = Self.ends.last { $0 <= cut } ?? 0
      #expect(report?.repairedByteCount == cut - whole, "cut at \(cut)")
      #expect(report?.packets == 1)
      let kept = max(whole, Self.header.count)
      #expect(Array(content.prefix(kept)) == Array(Self.file.prefix(kept)), "cut at \(cut)")
      expectOneMore(content.dropFirst(kept), drops: whole > Self.header.count ? 7 : 0)
    }
  }

  /// Blocks that the file system allocated but never wrote.
  @Test func cutsZerosOff() async throws {
    for count in [1, 23, 24, 25, 4096] {
      let (report, _, content) = try await goOn(Self.file + [UInt8](repeating: 0, count: count))
      #expect(report?.repairedByteCount == count)
      #expect(content.starts(with: Self.file))
      expectOneMore(content.dropFirst(Self.file.count), drops: 7)
    }
  }

  /// A block that ends within a record's header, before the length of the packet, and zeros in place of the
  /// next one.
  @Test func cutsAHeaderThatEndsInZerosOff() async throws {
    let whole = Self.ends[2]
    for kept in 1...7 {
      let content = Array(Self.file.prefix(whole + kept)) + [UInt8](repeating: 0, count: 4096)
      let (report, error, after) = try await goOn(content)
      #expect(error == nil)
      #expect(report?.repairedByteCount == kept + 4096, "\(kept) bytes of the header")
      #expect(after.count == whole + 39 && after.starts(with: Self.file.prefix(whole)))
    }
  }

  @Test func leavesADamagedFileAlone() async throws {
    var tooLong = Self.file
    // The length of the second record claims 4 GiB.
    for offset in Self.ends[1] + 4..<Self.ends[1] + 8 { tooLong[offset] = 0xFF }
    let holed = Self.file + [UInt8](repeating: 0, count: 48) + Self.records[1]
    for (content, offset) in [(tooLong, Self.ends[1]), (holed, Self.file.count)] {
      let (_, error, after) = try await goOn(content)
      guard case .damaged(_, offset) = error else {
        Issue.record("\(String(describing: error)), not damaged at \(offset)")
        continue
      }
      #expect(after == content)
    }
  }

  @Test func leavesAnotherKindOfFileAlone() async throws {
    // Format 1002; a pcap; text that is shorter than a header.
    for content in [
      octetsOf("6274736E6F6F7000 00000001 000003EA"),
      octetsOf("D4C3B2A1 02000400 0000000000000000 00000400 C9000000"),
      Array("no log".utf8),
    ] {
      let (_, error, after) = try await goOn(content)
      guard case .foreign = error else {
        Issue.record("\(String(describing: error)), not foreign")
        continue
      }
      #expect(after == content)
    }
  }

  /// No file exceeds the requested size: a header of 16 bytes and two records of 39 bytes.
  @Test func rotatesBySize() async throws {
    try await withFolder { folder in
      var plan = LogFilePlan(path: folder + "/log")
      plan.rotateByteCount = 100
      plan.keptFiles = 2
      var recording = LogRecording(to: plan) { () throws(SystemError) in
        try SyntheticSource(ratePerSecond: 100_000) { _, _ in }
      }
      recording.count = 7
      let report = try await recording.run(ready: {}, progress: { _ in })
      #expect(report.packets == 7)
      #expect(report.byteCount == 273)
      #expect(report.files == [folder + "/log.3", folder + "/log.4"])
      #expect(names(in: folder).sorted() == ["log.3", "log.4"])
      #expect(contents(folder + "/log.3").count == 94)
      #expect(contents(folder + "/log.4").count == 55)

      // Without --append an existing series is not touched; with it, the last file is continued.
      recording.count = 2
      await #expect(throws: LogFileError.exists(folder + "/log.4")) {
        _ = try await recording.run(ready: {}, progress: { _ in })
      }
      plan.existing = .append
      recording.plan = plan
      let further = try await recording.run(ready: {}, progress: { _ in })
      #expect(further.files == [folder + "/log.4", folder + "/log.5"])
      #expect(contents(folder + "/log.4").count == 94)
      #expect(names(in: folder).sorted() == ["log.4", "log.5"])
    }
  }

  /// Ten seconds per file, by a clock driven by hand. Each file counts drops from the last record of the
  /// previous file, and each further file begins with the list of adapters.
  @Test func rotatesByTime() async throws {
    try withFolder { folder in
      var plan = LogFilePlan(path: folder + "/log")
      plan.rotateTime = .seconds(10)
      let begin = MonotonicTime(nanoseconds: 1_000)
      let files = try LogWriter.open(plan, now: begin)
      let (payload, queue) = (octetsOf("0102"), PacketQueue(byteCount: 4096))
      func append(_ opcode: UInt16, drops: Int, after time: Duration) {
        queue.push(
          tag: LogRecords.tag(opcode: opcode, adapter: 3), time: ReceiveTime(nanoseconds: 0), payload.span)
        files.drain(queue, dropsBefore: drops, now: begin.advanced(by: time))
      }
      append(0, drops: 0, after: .zero)
      append(2, drops: 5, after: .seconds(10) - .nanoseconds(1))
      append(3, drops: 8, after: .seconds(10))
      files.flush()
      let (paths, written, lost) = (files.paths, files.writtenRecords, files.lost)
      #expect(paths == [folder + "/log.1", folder + "/log.2"])
      #expect(written == 3 && lost == 0)
      // 1970-01-01 in microseconds since the year 0 is 00DCDDB3 0F2F8000.
      func octets(_ opcode: String, drops: String) -> [UInt8] {
        octetsOf("00000002 00000002 0003\(opcode) \(drops) 00DCDDB3 0F2F8000 0102")
      }
      #expect(
        contents(folder + "/log.1")
          == Self.header + octets("0000", drops: "00000000") + octets("0002", drops: "00000005"))
      #expect(
        contents(folder + "/log.2")
          == Self.header + octets("0000", drops: "00000000") + octets("0003", drops: "00000003"))
    }
  }

  private func names(in folder: String) -> [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
  }
}
