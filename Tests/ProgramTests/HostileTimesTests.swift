import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Logs with impossible times, in each command that reads logs: the command ends, in bounded memory, without
/// a trap.
@Suite @MainActor struct HostileTimesTests {
  /// Replacements for the times.
  enum Times: CaseIterable {
    case allEqual, alternating, burst
    case oneFirst, oneLast, oneZero, oneFar
    case tenYearsOn, tenYearsBack

    /// Time of record `index` of `count` in btsnoop's microseconds; `time` is its original time.
    func time(_ index: Int, of count: Int, _ time: Int64, _ first: Int64) -> Int64 {
      let decade: Int64 = 315_360_000_000_000
      return switch self {
      case .allEqual: first
      case .alternating: index.isMultiple(of: 2) ? .min / 2 : .max / 2
      // 3,000 frames per millisecond.
      case .burst: first + Int64(index / 3_000) * 1_000
      case .oneFirst: index == count / 2 ? .min : time
      case .oneLast: index == count / 2 ? .max : time
      case .oneZero: index == count / 2 ? 0 : time
      case .oneFar: index == count / 2 ? .max / 1_000 : time
      case .tenYearsOn: index >= count / 2 ? time + decade : time
      case .tenYearsBack: index >= count / 2 ? time - decade : time
      }
    }
  }

  /// The notifications of the repository's own ring log, repeated: 25 ticks a second for a minute.
  private static let stream: [LoggedPacket] = {
    let file = URL(filePath: Place.capture("virtual-ring.btsnoop"))
    let packets = (try? Data(contentsOf: file)).map { LogReading([UInt8]($0)).packets } ?? []
    let isNotification = { (packet: LoggedPacket) in packet.octets.count > 8 && packet.octets[8] == 0x1B }
    let start = packets.prefix { !isNotification($0) }
    let frames = packets.filter(isNotification)
    guard let last = start.last, !frames.isEmpty else { return [] }
    return start
      + (0..<4_500).map { number in
        var packet = frames[number % frames.count]
        packet.timeNanoseconds = last.timeNanoseconds + Int64(number / 3 + 1) * 40_000_000
        return packet
      }
  }()

  private static func log(_ times: Times) -> [UInt8] {
    var octets = LogKit.log(stream)
    let first = stream[0].timeNanoseconds / 1_000
    var offset = 16
    for (index, packet) in stream.enumerated() {
      // Microseconds from the year 0 to 1970.
      let epoch: Int64 = 0x00DC_DDB3_0F2F_8000
      let time = times.time(index, of: stream.count, packet.timeNanoseconds / 1_000 + epoch, first + epoch)
      for place in 0..<8 {
        octets[offset + 16 + place] = UInt8(truncatingIfNeeded: time >> (56 - 8 * Int64(place)))
      }
      offset += 24 + 1 + packet.octets.count
    }
    return octets
  }

  /// Each command gets a quarter of a gigabyte more than the program itself maps.
  @Test(arguments: Times.allCases) func endsInBoundedMemory(_ times: Times) throws {
    try withFolder { folder in
      let path = folder + "/ring.btsnoop"
      try Data(Self.log(times)).write(to: URL(filePath: path))
      let commands = [
        ["report", path, "--output", folder + "/ring.html"],
        ["log", "stats", path, "--svg", folder + "/ring.svg"],
        ["log", "show", path], ["log", "show", path, "--json"],
        ["log", "convert", path, "-o", folder + "/ring.pcapng"],
      ]
      for command in commands {
        let run = try Program.run(
          "bash", ["-c", "ulimit -v 1500000; exec \"$0\" \"$@\"", try Place.ringtap] + command)
        #expect(
          // Times out of order look like missing ticks: status 3.
          run.status == 0 || [1, 3].contains(run.status) && !run.errors.isEmpty,
          "\(command[0]): \(run.status) \(run.errors)")
      }
    }
  }
}
