import BLEPacketLog
import BLEWire
import Foundation
import Glibc
import LogKit
import TestKit
import Testing

/// A broken log, and the message that every command must print.
struct BrokenLog: Sendable, CustomTestStringConvertible {
  enum Content: Sendable {
    case octets([UInt8])
    case nothing, folder, unreadable
  }

  let name: String
  let content: Content
  /// Number of records before the damage.
  let good: Int
  /// Text that the only line on standard error contains; `nil` for a log that is merely unusual.
  let message: String?

  var testDescription: String { name }

  /// Three events of 31 bytes each after a header of 16.
  private static let whole = log((1...3).map { LogConvertCommandTests.packet(Int64($0), UInt8($0)) })
  private static let pcapng = converted(whole, to: .pcapng(.h4WithDirection))

  /// Start of the last Enhanced Packet Block.
  private static let lastBlock: Int = {
    var offset = 0
    var last = 0
    while offset + 8 <= pcapng.count {
      if pcapng[offset] == 6 { last = offset }
      offset += number(at: offset + 4)
    }
    return last
  }()

  private static func number(at offset: Int) -> Int {
    Int(pcapng[offset]) | Int(pcapng[offset + 1]) << 8 | Int(pcapng[offset + 2]) << 16
  }

  private static func changed(_ log: [UInt8], _ offset: Int, _ octets: [UInt8]) -> [UInt8] {
    var log = log
    log.replaceSubrange(offset..<offset + octets.count, with: octets)
    return log
  }

  static let all = [
    BrokenLog(
      name: "cut inside a record", content: .octets(whole.dropLast(3)), good: 2,
      message: "byte 78: 31 bytes are needed"
    ),
    BrokenLog(
      name: "cut inside a record's header", content: .octets(whole.dropLast(20)), good: 2, message: "byte 78"
    ),
    BrokenLog(
      name: "cut inside the header", content: .octets(Array(whole.prefix(10))), good: 0, message: "byte 0"),
    BrokenLog(
      name: "another magic number", content: .octets(changed(whole, 0, Array("btsnoob".utf8))), good: 0,
      message: "not a packet log"),
    BrokenLog(name: "empty", content: .octets([]), good: 0, message: "not a packet log"),
    BrokenLog(
      name: "text", content: .octets(Array("time_ns,x,y,z\n".utf8)), good: 0, message: "not a packet log"),
    BrokenLog(
      name: "record of 4 GB", content: .octets(changed(whole, 47, [UInt8](repeating: 0xFF, count: 8))),
      good: 1,
      message: "byte 51: the value 0xffffffff is not valid"),
    BrokenLog(
      name: "pcapng block that does not end",
      content: .octets(pcapng.dropLast(pcapng.count - lastBlock - 20)),
      good: 2, message: "byte \(lastBlock)"),
    BrokenLog(
      name: "pcapng block of 4 GB",
      content: .octets(changed(pcapng, lastBlock + 4, [0xFC, 0xFF, 0xFF, 0xFF])), good: 2,
      message: "byte \(lastBlock + 4): the value 0xfffffffc is not valid"),
    BrokenLog(
      name: "pcapng block of other length at its end",
      content: .octets(changed(pcapng, pcapng.count - 4, [0x44, 0, 0, 0])), good: 3,
      message: "byte \(pcapng.count - 4): the length field says 68 bytes"),
    BrokenLog(name: "folder", content: .folder, good: 0, message: "Is a directory"),
    BrokenLog(name: "missing", content: .nothing, good: 0, message: "No such file or directory"),
    BrokenLog(name: "unreadable", content: .unreadable, good: 0, message: "Permission denied"),
    BrokenLog(
      name: "time that goes backwards",
      content: .octets(log([3, 1, 2].map { LogConvertCommandTests.packet($0, 0) })), good: 3, message: nil),
  ]

  func make(in folder: String) throws -> URL {
    let place = URL(filePath: folder + "/log")
    switch content {
    case .octets(let octets): try Data(octets).write(to: place)
    case .nothing: break
    case .folder: try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
    case .unreadable:
      try Data(Self.whole).write(to: place)
      try FileManager.default.setAttributes([.posixPermissions: 0], ofItemAtPath: place.path)
    }
    return place
  }
}

/// Broken logs given to the program: it shows the good part, reports the damage in one line, and ends with
/// status 1.
@Suite @MainActor struct LogBadInputTests {
  enum Command: String, CaseIterable {
    case text = "show"
    case json = "show --json"
    case stats
    case statsJSON = "stats --json"
    case convert
  }

  private func run(_ command: Command, _ log: BrokenLog, _ place: URL, _ out: URL) throws -> Program.Result {
    var words = ["log"] + command.rawValue.split(separator: " ").map(String.init) + [place.path]
    if command == .convert { words += ["--output", out.path, "--format", "btsnoop"] }
    guard case .unreadable = log.content, geteuid() == 0 else {
      return try Program.run(Place.ringtap, words)
    }
    // Without the capabilities that let root read every file.
    let capabilities = ["--bounding-set", "-all", "--inh-caps", "-all"]
    return try Program.run(Place.tool("setpriv"), capabilities + [try Place.ringtap] + words)
  }

  private func shown(_ command: Command, _ run: Program.Result, _ out: URL) throws -> Int {
    switch command {
    case .text: return run.output.split(separator: "\n").count { $0.hasPrefix("> HCI Event") }
    case .json: return run.output.split(separator: "\n").count { $0.hasPrefix("{\"index\":") }
    case .stats:
      // The first line: 3 records in 2.000 s
      return run.output.split(separator: " ").first.flatMap { Int($0) } ?? 0
    case .statsJSON:
      let object = try? JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any]
      return object?["records"] as? Int ?? 0
    case .convert: return (try? Data(contentsOf: out)).map { LogReading([UInt8]($0)).packets.count } ?? 0
    }
  }

  @Test(arguments: BrokenLog.all, Command.allCases)
  func showsTheGoodPartAndNamesTheBad(_ log: BrokenLog, _ command: Command) throws {
    try withFolder { folder in
      let place = try log.make(in: folder)
      let out = URL(filePath: folder + "/out")
      let run = try run(command, log, place, out)
      #expect(try shown(command, run, out) == log.good, "\(run.output)")
      guard let message = log.message else {
        #expect(run.status == 0 && run.errors == "", "\(run.errors)")
        return
      }
      #expect(run.status == 1)
      #expect(run.errors.hasSuffix("\n") && run.errors.count { $0 == "\n" } == 1, "\(run.errors)")
      #expect(run.errors.hasPrefix("ringtap: ") && run.errors.contains(place.path), "\(run.errors)")
      #expect(run.errors.contains(message), "\(run.errors)")
      let trusted = [
        "", "; the record before is good\n", "; the 2 records before are good\n",
        "; the 3 records before are good\n",
      ]
      #expect(run.errors.hasSuffix(trusted[log.good]), "\(run.errors)")
    }
  }

  /// A compressed log that was cut or damaged: each command shows the same records, those before the damage.
  @Test(arguments: ["gzip", "zstd"], [false, true])
  func showsTheGoodPartOfACompressedLog(_ program: String, _ isDamaged: Bool) throws {
    let compressor = try Place.tool(program)
    try withFolder { folder in
      let (plain, out) = (URL(filePath: folder + "/plain"), URL(filePath: folder + "/out"))
      // Their bytes are unlike, so that the compressed log has several blocks.
      let packets = (0..<20_000).map {
        LogConvertCommandTests.packet(Int64($0), UInt8(truncatingIfNeeded: $0 * $0 * 7))
      }
      try Data(log(packets)).write(to: plain)
      let packed = URL(filePath: folder + (program == "gzip" ? "/plain.gz" : "/plain.zst"))
      try #require(try Program.run(compressor, ["-k", "-q", plain.path]).status == 0)
      var octets = try Data(contentsOf: packed)
      let middle = octets.count / 2
      if isDamaged {
        for index in middle..<middle + 64 { octets[index] ^= 0x5A }
      } else {
        octets = octets[..<middle]
      }
      try octets.write(to: packed)
      let broken = BrokenLog(name: program, content: .octets([]), good: 0, message: nil)
      var counts: Set<Int> = []
      for command in Command.allCases {
        let run = try run(command, broken, packed, out)
        let count = try shown(command, run, out)
        counts.insert(count)
        #expect(run.status == 1)
        #expect(run.errors.hasSuffix("; the \(count) records before are good\n"), "\(command): \(run.errors)")
      }
      #expect(counts.count == 1 && counts.first.map { (1..<20_000).contains($0) } == true, "\(counts)")
    }
  }
}
