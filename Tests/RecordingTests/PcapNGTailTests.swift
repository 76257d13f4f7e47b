import BLELinux
import BLEPacketLog
import BLEWire
import Foundation
import HarnessKit
import TestKit
import Testing

@testable import Recording

/// Appending to a pcapng file that was cut off by a kill or a power failure: a new section follows the last
/// whole block. `draft-ietf-opsawg-pcapng`, 3.1, 4.1, 4.2, 4.3 and 4.6.
@Suite(.timeLimit(.minutes(2))) struct PcapNGTailTests {
  private static let (section, interface, statistics, packet): (UInt32, UInt32, UInt32, UInt32) = (
    0x0A0D_0D0A, 1, 5, 6
  )

  /// A section header, an interface of the Linux monitor (254), a Reset command on hci0, statistics.
  private static let little = [
    "0A0D0D0A 1C000000 4D3C2B1A 0100 0000 FFFFFFFFFFFFFFFF 1C000000",
    "01000000 14000000 FE00 0000 00000000 14000000",
    "06000000 28000000 00000000 83A31500 00C0D1E2 07000000 07000000 00000002 030C00 00 28000000",
    "05000000 18000000 00000000 83A31500 00C0D1E2 18000000",
  ].map(octetsOf)

  /// The same from a machine with the other byte order.
  private static let big = [
    "0A0D0D0A 0000001C 1A2B3C4D 0001 0000 FFFFFFFFFFFFFFFF 0000001C",
    "00000001 00000014 00FE 0000 00000000 00000014",
    "00000006 00000028 00000000 0015A383 E2D1C000 00000007 00000007 00000002 030C00 00 00000028",
    "00000005 00000018 00000000 0015A383 E2D1C000 00000018",
  ].map(octetsOf)

  private struct Block: Equatable {
    var type: UInt32
    var octets: [UInt8]
  }

  /// Splits little-endian bytes into blocks. Records an issue if a block does not end with its own length.
  private func blocks(_ octets: some Collection<UInt8>) throws -> [Block] {
    let octets = Array(octets)
    func word(_ offset: Int) -> UInt32 { (0..<4).reduce(0) { $0 | UInt32(octets[offset + $1]) << (8 * $1) } }
    var (blocks, offset) = ([Block](), 0)
    while offset < octets.count {
      let length = Int(word(offset + 4))
      try #require(length >= 12 && length.isMultiple(of: 4) && offset + length <= octets.count)
      try #require(word(offset + length - 4) == UInt32(length))
      blocks.append(Block(type: word(offset), octets: Array(octets[offset..<offset + length])))
      offset += length
    }
    return blocks
  }

  private func record(
    _ content: [UInt8]?, count: Int = 1, _ change: (inout LogFilePlan) -> Void = { _ in }
  ) async throws -> (report: LogRecordingReport?, error: LogFileError?, files: [[UInt8]]) {
    try await withFolder { folder in
      let path = folder + "/log"
      if let content { try Data(content).write(to: URL(filePath: path)) }
      var plan = LogFilePlan(path: path)
      plan.format = .pcapng
      plan.existing = .append
      change(&plan)
      var recording = LogRecording(to: plan) { () throws(SystemError) in
        try SyntheticSource(ratePerSecond: 100_000) { _, _ in }
      }
      recording.count = count
      do throws(LogFileError) {
        let report = try await recording.run(ready: {}, progress: { _ in })
        return (report, nil, report.files.map { contents($0) })
      } catch { return (nil, error, [contents(path)]) }
    }
  }

  /// Expects what one packet adds: a whole section.
  private func expectSection(_ octets: some Collection<UInt8>) throws {
    let blocks = try blocks(octets)
    try #require(blocks.map(\.type) == [Self.section, Self.interface, Self.packet, Self.statistics])
    // Link type 254; nanoseconds (option 9, one byte, 9).
    #expect(blocks[1].octets[8] == 254)
    #expect(blocks[1].octets.contains(sequence: octetsOf("0900 0100 09")))
    // Interface 0; 19 bytes: adapter 0, ACL data received (5), and the packet with its number at the end.
    #expect(Array(blocks[2].octets[8..<12]) == [0, 0, 0, 0])
    #expect(Array(blocks[2].octets[20..<28]) == octetsOf("13000000 13000000"))
    #expect(Array(blocks[2].octets[28..<47]) == octetsOf("0000 0005 40200B00 07000400 1B1000 00000000"))
    // One received (option 4), none dropped (option 5).
    let counts = octetsOf("0400 0800 0100000000000000 0500 0800 0000000000000000")
    #expect(blocks[3].octets.contains(sequence: counts))
  }

  @Test(arguments: [little, big])
  func repairsATornTailAtEachOctet(_ file: [[UInt8]]) async throws {
    let octets = file.flatMap { $0 }
    let ends = file.reduce(into: [0]) { ends, block in ends.append((ends.last ?? 0) + block.count) }
    for cut in 0...octets.count {
      let (report, error, files) = try await record(Array(octets.prefix(cut)))
      let whole = ends.last { $0 <= cut } ?? 0
      #expect(error == nil)
      #expect(report?.repairedByteCount == cut - whole, "cut at \(cut)")
      #expect(report?.packets == 1)
      #expect(files[0].prefix(whole) == octets.prefix(whole), "cut at \(cut)")
      try expectSection(files[0].dropFirst(whole))
    }
  }

  /// Blocks that the file system allocated but never wrote.
  @Test func cutsZerosOff() async throws {
    let file = Self.little.flatMap { $0 }
    for count in [1, 8, 11, 12, 13, 4096] {
      let (report, _, files) = try await record(file + [UInt8](repeating: 0, count: count))
      #expect(report?.repairedByteCount == count)
      #expect(files[0].starts(with: file))
      try expectSection(files[0].dropFirst(file.count))
    }
  }

  @Test func leavesADamagedFileAlone() async throws {
    let file = Self.little.flatMap { $0 }
    let start = Self.little[0].count + Self.little[1].count
    var (tooLong, odd, otherEnd) = (file, file, file)
    tooLong[start + 7] = 0x7F
    odd[start + 4] = 0x27
    otherEnd[start + 36] = 0x24
    let holed = file + [UInt8](repeating: 0, count: 48) + Self.little[3]
    for (content, offset) in [(tooLong, start), (odd, start), (otherEnd, start), (holed, file.count)] {
      let (_, error, after) = try await record(content)
      guard case .damaged(_, offset) = error else {
        Issue.record("\(String(describing: error)), not damaged at \(offset)")
        continue
      }
      #expect(after == [content])
    }
  }

  @Test func leavesAnotherKindOfFileAlone() async throws {
    // btsnoop 2001; a pcap; text; a section header with an invalid byte order; zeros.
    for content in [
      octetsOf("6274736E6F6F7000 00000001 000007D1"),
      octetsOf("D4C3B2A1 02000400 0000000000000000 00000400 C9000000"),
      Array("no log".utf8), octetsOf("0A0D0D0A 1C000000 12345678"), [0, 0, 0, 0],
    ] {
      let (_, error, after) = try await record(content)
      guard case .foreign(_, .pcapng) = error else {
        Issue.record("\(String(describing: error)), not foreign")
        continue
      }
      #expect(after == [content])
    }
  }

  /// No file exceeds the requested size, each is complete, and together they have every packet.
  @Test func rotatesBySize() async throws {
    let limit = 600
    let (report, _, files) = try await record(nil, count: 20) { $0.rotateByteCount = limit }
    #expect(report?.packets == 20)
    #expect(files.count > 2)
    #expect(files.allSatisfy { $0.count <= limit })
    var numbers: [UInt8] = []
    for file in files {
      let types = try blocks(file).map(\.type)
      #expect(types.prefix(2) == [Self.section, Self.interface])
      #expect(types.last == Self.statistics)
      numbers += try blocks(file).filter { $0.type == Self.packet }.map { $0.octets[43] }
    }
    #expect(numbers == Array(0..<20))
  }

  /// A packet's drop count covers the time since the previous packet (option 4); the statistics have the sum
  /// for their file.
  @Test func tellsDropsWhereTheFormatHasThem() async throws {
    try withFolder { folder in
      var plan = LogFilePlan(path: folder + "/log")
      plan.format = .pcapng
      plan.rotateCount = 2
      let now = MonotonicTime(nanoseconds: 0)
      let (files, queue) = (try LogWriter.open(plan, now: now), PacketQueue(byteCount: 4096))
      let (payload, time) = (octetsOf("030C00"), ReceiveTime(nanoseconds: 1_700_000_000_123_456_789))
      for drops in [0, 5, 8] {
        queue.push(tag: LogRecords.tag(opcode: 2, adapter: 1), time: time, payload.span)
        files.drain(queue, dropsBefore: drops, now: now)
      }
      files.end()
      files.flush()
      let paths = files.paths
      #expect(paths.count == 2)
      let (first, second) = (try blocks(contents(paths[0])), try blocks(contents(paths[1])))
      #expect(first.map(\.type) == [Self.section, Self.interface, Self.packet, Self.packet, Self.statistics])
      #expect(second.map(\.type) == [Self.section, Self.interface, Self.packet, Self.statistics])
      func drops(_ count: String) -> [UInt8] { octetsOf("0400 0800 \(count)00000000000000") }
      #expect(!first[2].octets.contains(sequence: octetsOf("0400 0800")))
      #expect(first[3].octets.contains(sequence: drops("05")))
      #expect(second[2].octets.contains(sequence: drops("03")))
      func sum(_ count: String) -> [UInt8] { octetsOf("0500 0800 \(count)00000000000000") }
      #expect(first[4].octets.contains(sequence: sum("05")))
      #expect(second[3].octets.contains(sequence: sum("03")))
      // The upper half of the nanoseconds comes first.
      #expect(Array(first[2].octets[12..<20]) == octetsOf("FE9C9717 15CD853D"))
    }
  }
}

extension [UInt8] {
  fileprivate func contains(sequence: [UInt8]) -> Bool {
    indices.contains { self[$0...].starts(with: sequence) }
  }
}
