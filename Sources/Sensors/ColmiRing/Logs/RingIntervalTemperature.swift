import BLEWire

/// One packet of a day's temperatures: days ago, interval, number of packets, index, then little-endian
/// hundredths of a degree Celsius, 0 for none. Section 4.4, 0x77; no capture.
public struct RingIntervalTemperaturePacket: Hashable, Sendable {
  public let daysAgo: UInt8
  public let intervalMinutes: UInt8
  public let packetCount: UInt8
  /// Index of the packet, from 0.
  public let index: UInt8
  /// Temperatures in hundredths of a degree.
  public let samples: [UInt16]

  init(_ payload: Span<UInt8>) throws(WireError) {
    guard payload.count >= 4, payload.count.isMultiple(of: 2) else {
      let needed = max(4, payload.count + payload.count % 2)
      throw .payload(at: payload.count, .truncated(needed: needed, available: payload.count))
    }
    daysAgo = payload[0]
    intervalMinutes = payload[1]
    packetCount = payload[2]
    index = payload[3]
    var samples: [UInt16] = []
    for offset in stride(from: 4, to: payload.count, by: 2) { samples.append(payload.u16(at: offset)) }
    self.samples = samples
  }
}

/// A day's temperatures at equal intervals.
public struct RingIntervalTemperatureLog: Hashable, Sendable {
  public let daysAgo: UInt8
  public let intervalMinutes: Int
  /// Readings with a value. Those after a missing packet have no known time and are omitted.
  public let readings: [RingTemperatureDay.Reading]
  /// Indices of missing packets; empty if the log is complete.
  public let missingPackets: [Int]

  public var isComplete: Bool { missingPackets.isEmpty }
}

/// Assembles a day's temperatures. Each packet needs its own request; request `nextPacket` next.
///
/// A ring that sends the same packet again makes no progress: stop after `repeated`.
public struct RingIntervalTemperatureAssembler: Sendable {
  public let daysAgo: UInt8
  public private(set) var counters = RingLogCounters()
  /// Index of the next packet to request; `nil` if all packets were received.
  public var nextPacket: UInt8? {
    guard let header else { return 0 }
    return (0..<header.packetCount).first { packets[Int($0)] == nil }
  }

  private var header: Header?
  private var isFinished = false
  /// Samples by packet index.
  private var packets = [[UInt16]?](repeating: nil, count: 256)

  private struct Header: Hashable {
    let intervalMinutes: UInt8
    let packetCount: UInt8
  }

  public init(daysAgo: UInt8) { self.daysAgo = daysAgo }

  public mutating func receive(_ packet: RingIntervalTemperaturePacket) -> RingLogStep<
    RingIntervalTemperatureLog
  > {
    let step = step(packet)
    return counters.counting(step)
  }

  /// Stops waiting. Returns the incomplete log; `nil` if nothing was received or the log was complete.
  public mutating func finish() -> RingIntervalTemperatureLog? {
    guard !isFinished, header != nil else { return nil }
    isFinished = true
    return log()
  }

  private mutating func step(_ packet: RingIntervalTemperaturePacket) -> RingLogStep<
    RingIntervalTemperatureLog
  > {
    guard !isFinished else { return .foreign }
    guard packet.daysAgo == daysAgo else { return .rejected(.otherDay(.daysAgo(packet.daysAgo))) }
    guard packet.intervalMinutes > 0 else { return .rejected(.interval(packet.intervalMinutes)) }
    guard packet.index < packet.packetCount else {
      return .rejected(.index(packet.index, count: Int(packet.packetCount)))
    }
    let header = Header(intervalMinutes: packet.intervalMinutes, packetCount: packet.packetCount)
    if let earlier = self.header, earlier != header {
      guard earlier.packetCount == packet.packetCount else {
        return .rejected(.recordCount(packet.packetCount, announced: Int(earlier.packetCount)))
      }
      return .rejected(.interval(packet.intervalMinutes))
    }
    self.header = header
    let earlier = packets[Int(packet.index)]
    if earlier == packet.samples { return .repeated }
    packets[Int(packet.index)] = packet.samples
    if earlier != nil { counters.changed += 1 }
    guard nextPacket == nil else { return .incomplete }
    isFinished = true
    return .complete(log())
  }

  private func log() -> RingIntervalTemperatureLog {
    let interval = Int(header?.intervalMinutes ?? 0)
    let indices = 0..<Int(header?.packetCount ?? 0)
    var readings: [RingTemperatureDay.Reading] = []
    var slot = 0
    for index in indices {
      guard let samples = packets[index] else { break }
      for sample in samples {
        if sample != 0, slot * interval < 1440 {
          readings.append(RingTemperatureDay.Reading(minute: slot * interval, celsius: Double(sample) / 100))
        }
        slot += 1
      }
    }
    return RingIntervalTemperatureLog(
      daysAgo: daysAgo, intervalMinutes: interval, readings: readings,
      missingPackets: indices.filter { packets[$0] == nil })
  }
}
