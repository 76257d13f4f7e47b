import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

@Suite @MainActor struct LogConvertCommandTests {
  nonisolated static let event = octetsOf("0e0401030c00")

  nonisolated static func packet(_ seconds: Int64, _ octet: UInt8) -> LoggedPacket {
    LoggedPacket(
      type: .event, direction: .controllerToHost, octets: octetsOf("0e0401030c") + [octet],
      timeNanoseconds: seconds * 1_000_000_000)
  }

  private func convert(_ arguments: [String], input: Program.Input = .nothing) throws -> Program.Result {
    try Program.run(Place.ringtap, ["log", "convert"] + arguments, input: input)
  }

  static func read(_ file: URL) throws -> LogReading { LogReading([UInt8](try Data(contentsOf: file))) }

  @Test func mergesByTime() throws {
    try withFolder { folder in
      let (a, b, out) = (
        URL(filePath: folder + "/a"), URL(filePath: folder + "/b"), URL(filePath: folder + "/out.pcapng")
      )
      // The second log has times that go back: its own order is kept.
      try Data(log([Self.packet(1, 1), Self.packet(5, 2), Self.packet(9, 3)])).write(to: a)
      try Data(
        converted(
          log([Self.packet(2, 4), Self.packet(6, 5), Self.packet(4, 6)]), to: .pcap(.h4WithDirection))
      ).write(to: b)
      let run = try convert([a.path, b.path, "--output", out.path])
      #expect(run.status == 0, "\(run.errors)")
      let reading = try Self.read(out)
      #expect(reading.format == .pcapng)
      #expect(reading.packets.map { $0.octets[5] } == [1, 4, 2, 5, 6, 3])
      // Both logs are of hci0; their links must not be mixed.
      #expect(reading.records.map(\.header.adapter) == [0, 1, 0, 1, 1, 0])
    }
  }

  @Test(arguments: ["gzip", "zstd"])
  func readsThroughCompression(_ program: String) throws {
    let compressor = try Place.tool(program)
    try withFolder { folder in
      let (plain, out) = (URL(filePath: folder + "/plain"), URL(filePath: folder + "/out"))
      var packets: [LoggedPacket] = []
      for number in 0..<20_000 {
        packets.append(Self.packet(Int64(number), UInt8(truncatingIfNeeded: number * 7)))
      }
      let log = log(packets)
      try Data(log).write(to: plain)
      let packed = URL(filePath: folder + (program == "gzip" ? "/plain.gz" : "/plain.zst"))
      try #require(try Program.run(compressor, ["-k", "-q", plain.path]).status == 0)
      let run = try convert([packed.path, "-o", out.path, "--format", "btsnoop"])
      #expect(run.status == 0, "\(run.errors)")
      #expect([UInt8](try Data(contentsOf: out)) == log)
      // From standard input to standard output.
      let piped = try convert(["-", "-o", "-", "--format", "btsnoop"], input: .file(packed.path))
      #expect(piped.status == 0)
      // Cut in the middle: whole records are written, and the position is reported.
      let octets = try Data(contentsOf: packed)
      try octets[..<(octets.count / 2)].write(to: packed)
      let cut = try convert([packed.path, "-o", out.path, "--format", "btsnoop", "--force"])
      #expect(cut.status == 1)
      #expect(cut.errors.contains("the compressed data ends early, at byte \(octets.count / 2)"))
      // Damaged in the middle: no crash, and the damage is noticed.
      var damaged = octets
      for index in octets.count / 2..<octets.count / 2 + 64 { damaged[index] ^= 0x5A }
      try damaged.write(to: packed)
      let bad = try convert([packed.path, "-o", out.path, "--format", "btsnoop", "--force"])
      #expect(bad.status == 1)
      #expect(bad.errors.contains(" records before are good"))
    }
  }

  /// The good part is written, and the offset of the damage is reported.
  @Test func keepsTheGoodPart() throws {
    try withFolder { folder in
      let (bad, out) = (URL(filePath: folder + "/bad"), URL(filePath: folder + "/out.pcap"))
      try Data(log([Self.packet(1, 1), Self.packet(2, 2)]).dropLast(3)).write(to: bad)
      let run = try convert([bad.path, "-o", out.path])
      #expect(run.status == 1)
      #expect(
        run.errors
          == "ringtap: \(bad.path): btsnoop at byte 47: 31 bytes are needed, 28 are there; the record before is good\n"
      )
      #expect(try Self.read(out).packets.map { $0.octets[5] } == [1])
      try Data("nothing of the kind".utf8).write(to: bad)
      let other = try convert([bad.path, "-o", out.path, "--force"])
      #expect(other.status == 1)
      #expect(other.errors.contains("not a packet log"))
      let missing = try convert([folder + "/none", "-o", out.path, "--force"])
      #expect(missing.status == 1)
      let same = try convert([bad.path, "-o", bad.path, "--format", "pcapng", "--force"])
      #expect(same.status == 1 && same.errors.contains("overwritten"))
      #expect(try Data(contentsOf: bad) == Data("nothing of the kind".utf8))
    }
  }

  @Test(
    arguments: [
      ["in"], ["in", "-o", "out.txt"], ["-", "-", "-o", "-", "--format", "pcap"],
      ["-", "-o", "a.pcap", "--anonymise"], ["in", "-o", "-", "--split", "connection"],
      ["in", "-o", "a.pcap", "--connection", "0x1000"], ["-o", "a.pcap"], ["a.pcap", "b.pcap"],
    ])
  func refusesWrongUsage(_ arguments: [String]) throws {
    #expect(try convert(arguments).status == 2)
  }

  /// Two peers, one after the other, on the same handle.
  static let twoLinks: [LoggedPacket] = {
    var packets = [packet(1, 0)]
    for (second, peer) in [(Int64(10), "b2a1000dcb70"), (20, "b3a1000dcb70")] {
      let start = octetsOf("3e13 01 00 4000 00 00" + peer + "1800 0000 2a00 00")
      let notification = octetsOf("4020 0600 0200 0400 1b00")
      for (offset, octets) in [
        start, notification, octetsOf("1305 01 4000 0100"), octetsOf("0504 00 4000 13"),
      ].enumerated() {
        packets.append(
          LoggedPacket(
            type: offset == 1 ? .acl : .event, direction: .controllerToHost, octets: octets,
            timeNanoseconds: (second + Int64(offset)) * 1_000_000_000))
      }
    }
    return packets
  }()

  @Test func splitsByConnection() throws {
    try withFolder { folder in
      let (file, out) = (URL(filePath: folder + "/log"), URL(filePath: folder + "/parts"))
      try Data(log(Self.twoLinks)).write(to: file)
      let run = try convert([file.path, "-o", out.path, "--split", "connection", "--format", "pcapng"])
      #expect(run.status == 0, "\(run.errors)")
      #expect(run.errors.contains("1 record belongs to no connection and was left out"))
      let names = try FileManager.default.contentsOfDirectory(atPath: out.path).sorted()
      #expect(
        names == ["connection-1-0x0040-70CB0D00A1B2.pcapng", "connection-2-0x0040-70CB0D00A1B3.pcapng"])
      for (index, name) in names.enumerated() {
        let packets = try Self.read(out.appending(path: name)).packets
        #expect(packets == Array(Self.twoLinks[(1 + 4 * index)..<(5 + 4 * index)]))
      }
    }
  }

  @Test(arguments: [("70:cb:0d:00:a1:b3", 5..<9), ("0x0040", 1..<9), ("64", 1..<9), ("0x0041", 0..<0)])
  func choosesAConnection(_ choice: String, _ range: Range<Int>) throws {
    try withFolder { folder in
      let (file, out) = (URL(filePath: folder + "/log"), URL(filePath: folder + "/out.btsnoop"))
      try Data(log(Self.twoLinks)).write(to: file)
      let run = try convert([file.path, "-o", out.path, "--connection", choice])
      #expect(run.status == 0, "\(run.errors)")
      #expect(try Self.read(out).packets == Array(Self.twoLinks[range]))
    }
  }

  @Test func anonymises() throws {
    try withFolder { folder in
      let (file, out) = (URL(filePath: folder + "/log"), URL(filePath: folder + "/out.btsnoop"))
      try Data(log(SecretLog.packets)).write(to: file)
      let run = try convert([file.path, "-o", out.path, "--anonymise"])
      #expect(run.status == 0, "\(run.errors)")
      let octets = [UInt8](try Data(contentsOf: out))
      #expect(octets == anonymised(log(SecretLog.packets), to: .btsnoop(.h4)))
      let payload = SecretLog.payload(of: LogReading(octets).packets)
      #expect(SecretLog.secrets.allSatisfy { !contains(payload, $0) && !contains(octets, $0) })
    }
  }
}

/// Memory does not grow with the size of the input, or with lengths that it claims.
@Suite @MainActor struct LogMemoryTests {
  /// A pcapng section with an unknown block of 256 MiB, then one packet; as a sparse file, and gzipped to 260
  /// KiB.
  @Test(arguments: [false, true])
  func staysSmall(isCompressed: Bool) throws {
    let skipped = 256 << 20
    var log = PcapNGBuilder()
    let start = log.file
    log.file = []
    log.interface(187)
    log.enhanced(octetsOf("01 030c00"), units: 1)
    let head = start + octets(UInt32(99), .little) + octets(UInt32(skipped + 12), .little)
    let tail = octets(UInt32(skipped + 12), .little) + log.file
    try withFolder { folder in
      var file = URL(filePath: folder + "/large.pcapng")
      try Data(head).write(to: file)
      let handle = try FileHandle(forWritingTo: file)
      try handle.seek(toOffset: UInt64(head.count + skipped))
      try handle.write(contentsOf: Data(tail))
      try handle.close()
      if isCompressed {
        let gzip = try Place.tool("gzip")
        try #require(try Program.run(gzip, ["-1", file.path]).status == 0)
        file = URL(filePath: folder + "/large.pcapng.gz")
      }
      let out = URL(filePath: folder + "/out.btsnoop")
      let (status, peak) = try Self.peakKibibytes(["log", "convert", file.path, "-o", out.path])
      #expect(status == 0)
      #expect(LogReading([UInt8](try Data(contentsOf: out))).packets.count == 1)
      // The program's own memory, two pieces and the longest packet.
      let (_, idle) = try Self.peakKibibytes(["--version"])
      #expect(peak < idle + 8 * 1_024, "\(peak) KiB, \(idle) KiB for nothing")
    }
  }

  /// Peak memory as the kernel reports it for an ended child process.
  private static func peakKibibytes(_ arguments: [String]) throws -> (status: Int32, peak: Int) {
    let script = """
      import resource, subprocess, sys
      status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
      print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
      """
    let run = try Program.run(Place.tool("python3"), ["-c", script, try Place.ringtap] + arguments)
    let numbers = run.output.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
    try #require(numbers.count == 2, "\(run.errors)")
    return (Int32(numbers[0]), numbers[1])
  }
}
