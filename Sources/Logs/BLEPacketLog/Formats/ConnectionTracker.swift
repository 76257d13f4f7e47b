public import BLEWire

/// One connection in a log, from its start to its end.
public struct LogConnection: Hashable, Sendable {
  /// Connection number, from 1 in the order of the log.
  public let number: Int
  public let adapter: UInt16
  public let handle: ConnectionHandle
  /// Address of the peer; `nil` for a connection that was up before the log starts.
  public let peer: DeviceAddress?
}

/// Assigns the records of a log to connections. A handle may be reused for another peer.
public struct ConnectionTracker: Sendable {
  /// Maximum number of connections followed at the same time; the least recently used connection is replaced.
  public static let maximumConnections = 64

  /// Number of connections in the records handled so far.
  public private(set) var count = 0
  /// Connections in order of use.
  private var live: [LogConnection] = []

  public init() {}

  /// Handles the next record, and returns the connections to which the record belongs: none, one, or several
  /// for an event with the completed packets of several connections.
  public mutating func connections(of record: borrowing PacketRecord) -> [LogConnection] {
    guard let type = record.type else { return [] }
    let packet = record.packet
    switch type {
    case .acl, .sco, .iso:
      guard packet.count >= 2 else { return [] }
      let handle = ConnectionHandle(packet.u16(at: 0) & 0x0FFF)
      return [find(handle, record.adapter) ?? start(handle, record.adapter, peer: nil)]
    case .command:
      guard packet.count >= 5, ConnectionFields.startsWithHandle(opcode: packet.u16(at: 0)) else { return [] }
      let found = find(ConnectionHandle(packet.u16(at: 3) & 0x0FFF), record.adapter)
      return found.map { [$0] } ?? []
    case .event:
      return connections(event: packet, record.adapter)
    default: return []
    }
  }

  private mutating func connections(event: Span<UInt8>, _ adapter: UInt16) -> [LogConnection] {
    guard event.count >= 2 else { return [] }
    let parameters = event.extracting(2...)
    if let (handle, peer) = ConnectionFields.start(code: event[0], parameters) {
      end(handle, adapter)
      return [start(handle, adapter, peer: peer)]
    }
    if event[0] == HCIEventCode.numberOfCompletedPackets.rawValue, !parameters.isEmpty {
      var found: [LogConnection] = []
      for index in 0..<min(Int(parameters[0]), (parameters.count - 1) / 4) {
        let handle = ConnectionHandle(parameters.u16(at: 1 + 4 * index) & 0x0FFF)
        if let connection = find(handle, adapter) { found.append(connection) }
      }
      return found
    }
    guard let offset = ConnectionFields.handleOffset(code: event[0], parameters),
      parameters.count >= offset + 2,
      let connection = find(ConnectionHandle(parameters.u16(at: offset) & 0x0FFF), adapter)
    else { return [] }
    if event[0] == HCIEventCode.disconnectionComplete.rawValue, parameters[0] == 0 {
      end(connection.handle, adapter)
    }
    return [connection]
  }

  private mutating func find(_ handle: ConnectionHandle, _ adapter: UInt16) -> LogConnection? {
    guard let index = live.lastIndex(where: { $0.handle == handle && $0.adapter == adapter }) else {
      return nil
    }
    let connection = live.remove(at: index)
    live.append(connection)
    return connection
  }

  private mutating func start(
    _ handle: ConnectionHandle, _ adapter: UInt16, peer: DeviceAddress?
  ) -> LogConnection {
    if live.count == Self.maximumConnections { live.removeFirst() }
    count += 1
    let connection = LogConnection(number: count, adapter: adapter, handle: handle, peer: peer)
    live.append(connection)
    return connection
  }

  private mutating func end(_ handle: ConnectionHandle, _ adapter: UInt16) {
    live.removeAll { $0.handle == handle && $0.adapter == adapter }
  }
}

/// Position of the connection handle in commands and events. Core 5.4, Vol 4, Part E, 7.
package enum ConnectionFields {
  /// Returns whether the command's first parameter is a connection handle. The return parameters then have
  /// the handle after the status.
  static func startsWithHandle(opcode: UInt16) -> Bool {
    switch opcode {
    case 0x0406, 0x041D, 0x041B, 0x041C, 0x0411, 0x0413,  // Disconnect, versions and features, authentication
      0x0C2D, 0x0C7B, 0x0C7C, 0x1401, 0x1402, 0x1405,  // transmit power, payload timeouts, RSSI
      0x2013, 0x2015, 0x2016, 0x2019, 0x201A, 0x201B,  // LE Connection Update … Long Term Key replies
      0x2020, 0x2021, 0x2022, 0x2030, 0x2032,  // parameter request replies, data length, PHY
      0x206D, 0x206E, 0x2076, 0x2077, 0x2078, 0x207E:  // sleep clock, ISO paths, power, subrate
      true
    default: false
    }
  }

  /// Returns handle and peer of a connection that this event starts; `nil` for a failed connection.
  package static func start(code: UInt8, _ parameters: Span<UInt8>) -> (ConnectionHandle, DeviceAddress)? {
    if code == 0x03, parameters.count >= 11, parameters[0] == 0 {
      return (ConnectionHandle(parameters.u16(at: 1) & 0x0FFF), parameters.address(at: 3, type: .public))
    }
    guard code == HCIEventCode.leMeta.rawValue, parameters.count >= 12, parameters[1] == 0,
      [0x01, 0x0A, 0x29].contains(parameters[0])
    else { return nil }
    // Types 2 and 3 are identity addresses.
    let type: AddressType = parameters[5] & 1 == 0 ? .public : .random
    return (ConnectionHandle(parameters.u16(at: 2) & 0x0FFF), parameters.address(at: 6, type: type))
  }

  /// Returns the offset of the handle in the event's parameters, or `nil` if the event has no handle.
  static func handleOffset(code: UInt8, _ parameters: Span<UInt8>) -> Int? {
    switch code {
    case 0x05, 0x06, 0x08, 0x0B, 0x0C, 0x30, 0x59: 1
    case 0x57: 0
    case 0x0E where parameters.count >= 4: startsWithHandle(opcode: parameters.u16(at: 1)) ? 4 : nil
    case 0x3E where !parameters.isEmpty:
      switch parameters[0] {
      // In these events, the handle follows a status.
      case 0x03, 0x04, 0x0C, 0x20, 0x21, 0x23: 2
      case 0x05, 0x06, 0x07, 0x14: 1
      default: nil
      }
    default: nil
    }
  }

  /// Returns the peer in a command that creates a connection. Core 5.4, Vol 4, Part E, 7.8.12 and 7.8.66.
  static func createdPeer(_ command: Span<UInt8>) -> UInt64? {
    guard command.count >= 3 else { return nil }
    let offset: Int
    switch command.u16(at: 0) {
    case 0x200D: offset = 3 + 6
    case 0x2043: offset = 3 + 3
    case 0x2085: offset = 3 + 5
    default: return nil
    }
    return command.count >= offset + 6 ? command.address(at: offset, type: .public).bits : nil
  }
}

/// Selects the records of one connection, or of all connections to one peer.
public struct ConnectionFilter: Sendable {
  public enum Choice: Hashable, Sendable {
    case handle(ConnectionHandle)
    /// Connections to the peer with this address, of any address type.
    case peer(DeviceAddress)
  }

  private let choice: Choice
  private var tracker = ConnectionTracker()

  public init(_ choice: Choice) { self.choice = choice }

  /// Returns whether the next record of the log matches.
  public mutating func takes(_ record: borrowing PacketRecord) -> Bool {
    let connections = tracker.connections(of: record)
    switch choice {
    case .handle(let handle): return connections.contains { $0.handle == handle }
    case .peer(let peer):
      if record.type == .command, ConnectionFields.createdPeer(record.packet) == peer.bits { return true }
      return connections.contains { $0.peer?.bits == peer.bits }
    }
  }
}
