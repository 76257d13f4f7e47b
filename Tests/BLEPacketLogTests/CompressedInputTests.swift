import BLEPacketLog
import Foundation
import TestKit
import Testing

/// Compressed by the programs `gzip` and `zstd`, decompressed by us.
@Suite @MainActor struct CompressedInputTests {
  static let log = [UInt8](
    (try? Data(contentsOf: URL(filePath: Place.capture("virtual-ring.btsnoop")))) ?? Data())

  /// Reads all bytes, and the problem that ends them.
  static func read(_ octets: [UInt8], in folder: String) throws -> ([UInt8], CompressedInput.Problem?) {
    let file = URL(filePath: folder + "/input")
    try Data(octets).write(to: file)
    var input = try CompressedInput(path: file.path)
    var all: [UInt8] = []
    do throws(CompressedInput.Problem) {
      while true {
        let piece = try input.next()
        if piece.isEmpty { return (all, nil) }
        all += piece
      }
    } catch {
      return (all, error)
    }
  }

  static func compressed(_ program: String, _ octets: [UInt8], in folder: String) throws -> [UInt8] {
    let path = try Place.tool(program)
    let plain = URL(filePath: folder + "/plain")
    try Data(octets).write(to: plain)
    let packed = URL(filePath: folder + (program == "gzip" ? "/plain.gz" : "/plain.zst"))
    try #require(try Program.run(path, ["-k", "-f", "-q", plain.path]).status == 0)
    return [UInt8](try Data(contentsOf: packed))
  }

  @Test(arguments: ["gzip", "zstd"])
  func readsFramesOneAfterAnother(_ program: String) throws {
    try withFolder { folder in
      let half = Self.log.count / 2
      let packed =
        try Self.compressed(program, Array(Self.log[..<half]), in: folder)
        + Self.compressed(program, Array(Self.log[half...]), in: folder)
      let (octets, problem) = try Self.read(packed, in: folder)
      #expect(octets == Self.log)
      #expect(problem == nil)
    }
  }

  /// Cut anywhere: the start of the log, and the offset at which the file ends. Three bytes are not
  /// recognised as compressed.
  @Test(arguments: ["gzip", "zstd"])
  func tellsWhereItEnds(_ program: String) throws {
    try withFolder { folder in
      let packed = try Self.compressed(program, Self.log, in: folder)
      for count in 4..<packed.count {
        let (octets, problem) = try Self.read(Array(packed[..<count]), in: folder)
        #expect(Self.log.starts(with: octets))
        #expect(problem == .truncated(offset: count))
      }
    }
  }

  /// Both formats have checksums: a changed byte in the data is detected.
  @Test(arguments: ["gzip", "zstd"])
  func noticesDamage(_ program: String) throws {
    try withFolder { folder in
      let packed = try Self.compressed(program, Self.log, in: folder)
      for index in stride(from: 20, to: packed.count, by: 37) {
        var damaged = packed
        damaged[index] ^= 0xFF
        let (octets, problem) = try Self.read(damaged, in: folder)
        #expect(problem != nil || octets == Self.log)
      }
    }
  }

  @Test(arguments: [0, 1, 3, 4, 65_536, 65_537])
  func passesPlainFiles(_ count: Int) throws {
    try withFolder { folder in
      let plain = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
      let (octets, problem) = try Self.read(plain, in: folder)
      #expect(octets == plain)
      #expect(problem == nil)
    }
  }

  /// A file that is still being written continues where it ended.
  @Test func readsOnInAGrowingFile() throws {
    try withFolder { folder in
      let file = URL(filePath: folder + "/input")
      try Data([1, 2, 3, 4]).write(to: file)
      var input = try CompressedInput(path: file.path)
      let first = try input.next()
      let none = try input.next()
      let handle = try FileHandle(forWritingTo: file)
      try handle.seekToEnd()
      try handle.write(contentsOf: Data([5, 6]))
      let more = try input.next()
      #expect(first == [1, 2, 3, 4] && none.isEmpty && more == [5, 6])
    }
  }
}
