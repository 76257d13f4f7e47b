public import BLEHost
public import BLEPacketLog
public import BLEWire

/// One packet of a log for replay.
public struct ReplayPacket: Hashable, Sendable {
  /// Record number in the log, from 1; 0 for a packet that is not from a log.
  public let index: Int
  public let time: ReceiveTime
  public let direction: HCIDirection
  /// Number of the adapter, such as 0 for `hci0`.
  public let adapter: UInt16
  /// Packet with the H4 type byte first.
  public let octets: [UInt8]
  /// Whether the log contains only a part of the packet.
  public let isCut: Bool

  public init(
    index: Int = 0, time: ReceiveTime, _ direction: HCIDirection, adapter: UInt16 = 0, _ octets: [UInt8],
    isCut: Bool = false
  ) {
    self.isCut = isCut
    self.index = index
    self.time = time
    self.direction = direction
    self.adapter = adapter
    self.octets = octets
  }
}

extension ReplayPacket {
  /// Whether the packet is truncated data for the host, which a host cannot use.
  var isCutData: Bool {
    isCut && direction == .controllerToHost && octets[0] == HCIPacketType.acl.rawValue
  }
}

/// The packets of a log. All packets are in memory, because a replay looks ahead.
public struct ReplayLog: Sendable {
  public private(set) var packets: [ReplayPacket] = []
  /// Connections with the indexes of their packets in `packets`, in order.
  public private(set) var connections: [(connection: LogConnection, positions: [Int])] = []
  /// Number of packets that the log's writer truncated.
  public private(set) var cut = 0
  public private(set) var drops: UInt32 = 0
  /// Record numbers and adapters of packets that were cut before their link's handle.
  private(set) var linklessCuts: [(index: Int, adapter: UInt16)] = []
  /// The reason why reading ended before the end of the file.
  public private(set) var problem: String?

  public init() {}

  /// Reads a log of any supported format, compressed or not.
  ///
  /// - Parameters:
  ///   - path: `-` for standard input.
  ///   - keys: keys of encrypted links, for a log from the air.
  ///   - progress: called regularly with the number of packets read so far.
  /// - Throws: if the file is not a log. For a log that ends early, returns the valid packets and sets
  ///   `problem`.
  public static func read(
    _ path: String, keys: [AirKey] = [], progress: (_ packets: Int) -> Void = { _ in }
  ) throws(HostError) -> ReplayLog {
    let reader: LogReader
    do throws(LogReader.Problem) { reader = try LogReader(path: path, keys: keys, times: .corrected) } catch {
      throw .unsuitable("\(path): \(error.cause)")
    }
    var log = ReplayLog()
    var tracker = ConnectionTracker()
    while reader.read({ log.take($0, &tracker) }) { progress(log.packets.count) }
    if let problem = reader.problem {
      guard reader.format != nil else { throw .unsuitable("\(path) is not a packet log: \(problem.advice)") }
      log.problem = "\(problem.cause)\(problem.good)"
    }
    log.drops = reader.cumulativeDrops
    return log
  }

  mutating func take(_ record: borrowing PacketRecord, _ tracker: inout ConnectionTracker) {
    if record.isCutBeforeLink { linklessCuts.append((record.index, record.adapter)) }
    guard let type = record.type else {
      if record.isCutBeforeLink { cut += 1 }
      return
    }
    if record.isCut { cut += 1 }
    for connection in tracker.connections(of: record) { note(connection) }
    let octets = [UInt8](encoding: 1 + record.packet.count) {
      $0.append(type.rawValue)
      $0.append(record.packet)
    }
    packets.append(
      ReplayPacket(
        index: record.index, time: record.time, record.direction, adapter: record.adapter, octets,
        isCut: record.isCut))
  }

  /// Returns the record numbers of truncated data packets.
  ///
  /// Packets of the same adapter that were cut before their link's handle may be data packets, too. Such
  /// packets are included if they are between the first and the last packet.
  ///
  /// - Parameter packets: packets of one adapter.
  func cuts(in packets: [ReplayPacket]) -> [Int] {
    guard let first = packets.first, let last = packets.last else { return [] }
    let between = linklessCuts.filter {
      $0.adapter == first.adapter && first.index < $0.index && $0.index < last.index
    }
    return Set(packets.filter(\.isCutData).map(\.index)).union(between.map(\.index)).sorted()
  }

  /// Assigns the next packet to a connection.
  private mutating func note(_ connection: LogConnection) {
    let number = connection.number
    if number > connections.count { connections.append((connection, [])) }
    connections[number - 1].positions.append(packets.count)
  }
}
