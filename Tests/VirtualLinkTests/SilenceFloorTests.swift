import BLELinux
import BLEPacketLog
import BLEWire
import Foundation
import TestKit
import Testing

@testable import SensorSessions

/// The time without a sample after which a stream counts as silent, against recordings of real devices and
/// bodies: none of them is called silent while it streams.
@Suite struct SilenceFloorTests {
  private static let rule = SilenceRule(floor: SilenceRule.shortestFloor, beginsAtOnce: true)

  /// The largest share of the allowed time that a pause takes.
  ///
  /// - Parameter isOwn: whether the device ended the pause before this time by itself.
  private func largestShare(_ times: [(time: Double, isOwn: Bool)]) -> Double {
    var share = 0.0
    for (place, next) in times.enumerated().dropFirst() where next.isOwn {
      let last = times[place - 1].time
      let mean = place > 1 ? (last - times[0].time) / Double(place - 1) : nil
      let limit = Self.rule.limit(at: mean.map { .seconds($0) })
      share = max(share, (next.time - last) / (limit / .seconds(1)))
    }
    return share
  }

  /// Notifications and indications by link and handle. A device that answers a request had nothing to send
  /// before, so such a pause is not its own.
  private func streams(_ path: String) throws -> [String: [(time: Double, isOwn: Bool)]] {
    var streams: [String: [(time: Double, isOwn: Bool)]] = [:]
    var asked: Set<String> = []
    var reader = PacketLogReader()
    let log = [UInt8](try Data(contentsOf: URL(filePath: path)))
    try reader.read(log.span) { record in
      // Flags and handle, two lengths, ATT's channel, then the opcode.
      let octets = [UInt8](encoding: record.packet.count) { $0.append(record.packet) }
      guard record.type == .acl, octets.count > 8, octets[6] == 4, octets[7] == 0, octets[1] & 0x30 != 0x10
      else { return }
      let link = "\(octets[0]) \(octets[1] & 0x0F)"
      switch octets[8] {
      case 0x1B where octets.count > 10, 0x1D where octets.count > 10:
        let stream = link + " \(octets[9]) \(octets[10])"
        let time = Double(record.time.nanoseconds) / 1e9
        streams[stream, default: []].append((time, !asked.contains(stream)))
        asked.remove(stream)
      case let opcode where record.direction == .hostToController && opcode % 2 == 0:
        asked.formUnion(streams.keys.filter { $0.hasPrefix(link + " ") })
      default: break
      }
    }
    return streams.filter { $0.value.count > 100 }
  }

  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared),
    arguments: ["android-treadmill.btsnoop", "colmi-r12-qring-sync.btsnoop"])
  func noPauseOfADeviceIsASilence(_ name: String) throws {
    let streams = try streams(try #require(Place.shared("captures/" + name)))
    try #require(!streams.isEmpty)
    for (stream, times) in streams {
      #expect(largestShare(times) < 0.5, "\(name), \(stream): \(largestShare(times))")
    }
  }

  /// A strap that sends one value for each beat, by the annotators' marks: atrial fibrillation, bigeminy,
  /// ectopic beats, and a block that drops beats.
  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared),
    arguments: ["mitdb-106", "mitdb-203", "mitdb-228", "mitdb-231"])
  func noPauseOfAHeartIsASilence(_ name: String) throws {
    let path = try #require(Place.shared("captures/ecg/\(name)-beats.csv"))
    let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").dropFirst()
    let times = lines.compactMap { Double($0.prefix { $0 != "," }) }.map { (time: $0 / 360, isOwn: true) }
    try #require(times.count > 500)
    #expect(largestShare(times) < 0.5, "\(largestShare(times))")
  }
}
