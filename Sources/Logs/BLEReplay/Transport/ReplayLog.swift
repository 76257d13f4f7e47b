public import BLEHost
import BLELinux
public import BLEPacketLog
public import BLEWire

/// One packet of a log that is played.
public struct ReplayPacket: Hashable, Sendable {
  /// Of all records in the log, from 1; 0 for a packet that no log has.
  public let index: Int
  public let time: ReceiveTime
  public let direction: HCIDirection
  /// The `0` of `hci0`.
  public let adapter: UInt16
  /// H4 type octet first.
  public let octets: [UInt8]

  public init(
    index: Int = 0, time: ReceiveTime, _ direction: HCIDirection, adapter: UInt16 = 0, _ octets: [UInt8]
  ) {
    self.index = index
    self.time = time
    self.direction = direction
    self.adapter = adapter
    self.octets = octets
  }
}

/// The packets of a log, all in memory: a replay looks ahead.
public struct ReplayLog: Sendable {
  public private(set) var packets: [ReplayPacket] = []
  /// Connections by the packets that belong to them: each the positions in `packets`, in order.
  public private(set) var connections: [(connection: LogConnection, positions: [Int])] = []
  /// Packets that the log has only a part of, and packets that its writer lost.
  public private(set) var cut = 0
  public private(set) var drops: UInt32 = 0
  /// Why the packets end before the file does.
  public private(set) var problem: String?

  public init() {}

  /// Reads a log of any format, also compressed.
  ///
  /// - Parameters:
  ///   - path: `-` for standard input.
  ///   - keys: of encrypted links in a log from the air.
  ///   - progress: hears from time to time how many packets were read.
  /// - Throws: where there is no log. One that breaks off has its good packets, and `problem`.
  public static func read(
    _ path: String, keys: [AirKey] = [], progress: (_ packets: Int) -> Void = { _ in }
  ) throws(HostError) -> ReplayLog {
    var input: CompressedInput
    do throws(SystemError) { input = try CompressedInput(path: path) } catch {
      throw .unsuitable("\(path): \(error)")
    }
    var log = ReplayLog()
    var tracker = ConnectionTracker()
    var reader = AnyLogReader(keys: keys)
    var timeline = LogTimeline()
    do {
      while true {
        let piece = try input.next()
        if piece.isEmpty { break }
        try reader.read(piece.span) { timeline.take($0) { log.take($0, &tracker) } }
        progress(log.packets.count)
      }
      try reader.finish { timeline.take($0) { log.take($0, &tracker) } }
    } catch {
      guard reader.format != nil else {
        throw .unsuitable("\(path) is no packet log: \(reader.foreignFile?.advice ?? "\(error)")")
      }
      log.problem = "\(error); the \(reader.recordCount) records before are good"
    }
    timeline.finish { log.take($0, &tracker) }
    log.drops = reader.cumulativeDrops
    return log
  }

  mutating func take(_ record: borrowing PacketRecord, _ tracker: inout ConnectionTracker) {
    guard let type = record.type else { return }
    if record.isCut { cut += 1 }
    for connection in tracker.connections(of: record) { note(connection) }
    let octets = [UInt8](encoding: 1 + record.packet.count) {
      $0.append(type.rawValue)
      $0.append(record.packet)
    }
    packets.append(
      ReplayPacket(
        index: record.index, time: record.time, record.direction, adapter: record.adapter, octets))
  }

  /// The packet that comes next belongs to it.
  private mutating func note(_ connection: LogConnection) {
    let number = connection.number
    if number > connections.count { connections.append((connection, [])) }
    connections[number - 1].positions.append(packets.count)
  }
}
