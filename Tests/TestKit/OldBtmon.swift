import Foundation

/// `btmon` of BlueZ 5.66 (Debian 12), which crashes on Read By Type requests, whichever program wrote the
/// log.
package enum OldBtmon {
  /// Runs btmon on a copy of a btsnoop log without those requests.
  package static func read(_ path: String) throws -> Program.Result {
    let copy = try write(path)
    defer { try? FileManager.default.removeItem(atPath: copy) }
    return try Program.run("btmon", ["-r", copy])
  }

  package static func read(_ path: String) async throws -> Program.Result {
    let copy = try write(path)
    defer { try? FileManager.default.removeItem(atPath: copy) }
    return try await Program.run("btmon", ["-r", copy])
  }

  /// Returns a btsnoop log without Read By Type requests, in format 1002 (H4) or 2001 (BlueZ's monitor).
  package static func readable(_ log: [UInt8]) -> [UInt8] {
    func number(_ place: Int) -> Int { (0..<4).reduce(0) { $0 << 8 | Int(log[place + $1]) } }
    guard log.count >= 16 else { return log }
    let isMonitor = number(12) == 2001
    var kept = Array(log[..<16])
    var place = 16
    // A record: original length, included length, flags, drops, time; then the packet.
    while place + 24 <= log.count, place + 24 + number(place + 4) <= log.count {
      let (begin, end) = (place + 24, place + 24 + number(place + 4))
      // ACL data in either direction; two headers, then on channel 4 the opcode.
      let isData =
        isMonitor ? [4, 5].contains(number(place + 8) & 0xFFFF) : begin < end && log[begin] == 0x02
      let data = log[(isMonitor ? begin : min(begin + 1, end))..<end]
      let isRequest = isData && data.count > 8 && data.dropFirst(6).starts(with: [0x04, 0x00, 0x08])
      if !isRequest { kept += log[place..<end] }
      place = end
    }
    return kept + log[place...]
  }

  private static func write(_ path: String) throws -> String {
    // Not beside the log, because that disk may be full.
    let copy = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).btsnoop").path
    let log = [UInt8](try Data(contentsOf: URL(filePath: path)))
    try Data(readable(log)).write(to: URL(filePath: copy))
    return copy
  }
}
