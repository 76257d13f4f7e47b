import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Logs that are opened by their path.
@Suite struct LogReaderTests {
  private static let packets = (1...3).map { number in
    LoggedPacket(
      type: .event, direction: .controllerToHost, octets: octetsOf("13 05 01 40 00") + [UInt8(number), 0],
      timeNanoseconds: Int64(number) * 1_000_000_000)
  }

  @Test func returnsEachRecordOnce() throws {
    try withFolder { folder in
      let path = folder + "/log"
      try Data(log(Self.packets)).write(to: URL(filePath: path))
      let reader = try LogReader(path: path)
      #expect(reader.map(\.packet) == Self.packets.map(\.octets))
      #expect(reader.problem == nil && reader.next() == nil)
    }
  }

  /// A file that ends within a record: the rest may come, and must have come at the end.
  @Test func continuesInAGrowingLog() throws {
    try withFolder { folder in
      let octets = log(Self.packets)
      let file = URL(filePath: folder + "/log")
      try Data(octets.dropLast(5)).write(to: file)
      let reader = try LogReader(path: file.path)
      let cut = try LogReader(path: file.path)
      var (numbers, cutNumbers): ([Int], [Int]) = ([], [])
      while reader.read(to: .growing, { numbers.append($0.index) }) {}
      #expect(numbers == [1, 2] && reader.problem == nil)
      while cut.read({ cutNumbers.append($0.index) }) {}
      #expect(cutNumbers == [1, 2] && cut.problem?.records == 2 && cut.problem?.isTotal == false)

      let handle = try FileHandle(forWritingTo: file)
      try handle.seekToEnd()
      try handle.write(contentsOf: Data(octets.suffix(5)))
      while reader.read({ numbers.append($0.index) }) {}
      #expect(numbers == [1, 2, 3] && reader.problem == nil)
    }
  }

  @Test func namesTheFileThatIsNoLog() throws {
    try withFolder { folder in
      let path = folder + "/log"
      #expect(throws: LogReader.Problem.self) { _ = try LogReader(path: path) }
      try Data("{}".utf8).write(to: URL(filePath: path))
      let reader = try LogReader(path: path)
      #expect(reader.next() == nil)
      let problem = try #require(reader.problem)
      #expect(problem.isTotal && problem.foreignFile == .short(byteCount: 2))
      #expect("\(problem)".hasPrefix("\(path): not a packet log: it has 2 bytes"))
    }
  }
}
