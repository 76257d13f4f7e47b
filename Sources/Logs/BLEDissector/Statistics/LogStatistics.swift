package import BLEPacketLog
import BLEWire

/// Collects statistics of a log, record by record, in bounded memory.
///
/// ```swift
/// var statistics = LogStatistics()
/// try reader.read(chunk.span) { statistics.take($0) }
/// let report = statistics.finish()
/// ```
package struct LogStatistics: ~Copyable {
  /// Maximum number of connections tracked at the same time. A further connection replaces the least recently
  /// used connection.
  package static let maximumOpenConnections = 32
  /// Maximum number of connections reported. Further connections are only counted.
  package static let maximumConnections = 512
  /// Maximum number of combinations of opcode and status for which failed commands are counted separately.
  static let maximumCommandErrors = 1_024
  /// Time in nanoseconds after the end of a connection during which data counts as late data, and not as a
  /// new connection.
  static let lateDataTime: Int64 = 1_000_000_000

  private var log = LogReport()
  /// Open connections, least recently used first.
  private var open: [TrackedConnection] = []
  /// The connections that ended most recently, for recognizing late data.
  private var ended: [(adapter: UInt16, handle: ConnectionHandle, time: ReceiveTime)] = []
  private var lastDrops: UInt32 = 0
  private var lastTime: ReceiveTime?

  package init() {}

  package mutating func take(_ record: borrowing PacketRecord) {
    let time = record.time
    log.records += 1
    take(time: time)
    take(drops: record.header.cumulativeDrops)
    guard let type = record.type else {
      log.notes += 1
      return
    }
    log.packets.add(type, record.direction, octets: record.packet.count)
    if record.isCut { log.cut += 1 }
    var problem: WireError?
    do throws(WireError) {
      switch type {
      case .acl: try takeACL(record, at: time)
      case .event: try takeEvent(record, at: time)
      case .command:
        log.commands[try HCICommandPacket(validating: record.packet).opcode.rawValue, default: 0] += 1
      default: break
      }
    } catch { problem = error }
    if problem != nil, !record.isCut { log.malformed += 1 }
  }

  /// Ends the connections that are still open, and returns the report.
  ///
  /// - Parameter air: report about the log's air packets.
  package consuming func finish(with air: AirReport? = nil) -> LogReport {
    log.air = air
    while let connection = open.first { close(connection, .endOfLog) }
    log.connections.sort { $0.startTime < $1.startTime }
    return log
  }

  private mutating func take(time: ReceiveTime) {
    if let lastTime, time < lastTime { log.timeReversals += 1 }
    lastTime = time
    log.firstTime = log.firstTime.map { min($0, time) } ?? time
    log.lastTime = log.lastTime.map { max($0, time) } ?? time
  }

  /// Adds lost packets. The counter of lost packets restarts if a file contains several consecutive logs.
  private mutating func take(drops: UInt32) {
    if drops != lastDrops { log.drops += Int(drops > lastDrops ? drops - lastDrops : drops) }
    lastDrops = drops
  }

  // MARK: Data

  private mutating func takeACL(_ record: borrowing PacketRecord, at time: ReceiveTime) throws(WireError) {
    if let fragment = record.cutFragment {
      connection(record.adapter, fragment.handle, at: time)?.receive(
        cut: fragment, record.direction, at: time)
      return
    }
    let packet = try ACLPacket(validating: record.packet)
    guard let connection = connection(record.adapter, packet.handle, at: time) else {
      log.latePackets += 1
      return
    }
    do throws(WireError) {
      try connection.receive(packet, record.direction, at: time)
    } catch {
      connection.account.report.malformed += 1
      throw error
    }
  }

  /// Returns the connection of a data packet; `nil` if the connection has just ended.
  private mutating func connection(
    _ adapter: UInt16, _ handle: ConnectionHandle, at time: ReceiveTime
  ) -> TrackedConnection? {
    if let index = openIndex(adapter, handle) {
      if index == open.count - 1 { return open[index] }
      let connection = open.remove(at: index)
      open.append(connection)
      return connection
    }
    let isLate = ended.contains {
      $0.adapter == adapter && $0.handle == handle
        && nanoseconds(from: $0.time, to: time) <= Self.lateDataTime
    }
    if isLate { return nil }
    return start(
      ConnectionReport(adapter: adapter, handle: handle, origin: .middle, startTime: time, endTime: time))
  }

  private func openIndex(_ adapter: UInt16, _ handle: ConnectionHandle) -> Int? {
    open.lastIndex { $0.handle == handle && $0.adapter == adapter }
  }

  @discardableResult
  private mutating func start(_ report: ConnectionReport) -> TrackedConnection {
    if let index = openIndex(report.adapter, report.handle) { close(open[index], .replaced) }
    if open.count == Self.maximumOpenConnections { close(open[0], .evicted) }
    ended.removeAll { $0.adapter == report.adapter && $0.handle == report.handle }
    let connection = TrackedConnection(report, dropsAtStart: log.drops)
    open.append(connection)
    return connection
  }

  private mutating func close(_ connection: TrackedConnection, _ end: ConnectionReport.End) {
    open.removeAll { $0 === connection }
    let report = connection.account.finish(end, hasEvents: !log.events.isEmpty, drops: log.drops)
    for attribute in connection.account.attributes { log.intervals.add(attribute.intervals) }
    for request in connection.account.requests { log.add(request) }
    if log.connections.count < Self.maximumConnections {
      log.connections.append(report)
    } else {
      log.omittedConnections += 1
    }
  }

  // MARK: Events

  private mutating func takeEvent(_ record: borrowing PacketRecord, at time: ReceiveTime) throws(WireError) {
    let event = try HCIEventPacket(validating: record.packet)
    let parameters = event.parameters
    let subevent = event.code == .leMeta && !parameters.isEmpty ? parameters[0] : nil
    log.events[LogReport.Event(code: event.code, subevent: subevent), default: 0] += 1
    switch event.code {
    case .numberOfCompletedPackets:
      let completed = try NumberOfCompletedPackets(validating: parameters)
      for index in 0..<completed.count {
        let entry = completed[index]
        guard let open = openConnection(record.adapter, entry.handle) else { continue }
        open.account.report.completedPackets = (open.account.report.completedPackets ?? 0) + entry.packets
      }
    case .commandComplete:
      let complete = try CommandComplete(validating: parameters)
      if complete.opcode.rawValue != 0, !complete.returnParameters.isEmpty {
        note(complete.opcode, HCIStatus(rawValue: complete.returnParameters[0]))
      }
    case .commandStatus:
      let status = try CommandStatus(validating: parameters)
      note(status.opcode, status.status)
    case .disconnectionComplete:
      let end = try DisconnectionComplete(validating: parameters)
      guard end.status == .success else { return }
      disconnect(record.adapter, end, at: time)
    case HCIEventCode(rawValue: 0x03): try takeClassicConnection(parameters, record.adapter, at: time)
    case .leMeta: try takeLE(parameters, record.adapter, at: time)
    default: break
    }
  }

  private func openConnection(_ adapter: UInt16, _ handle: ConnectionHandle) -> TrackedConnection? {
    openIndex(adapter, handle).map { open[$0] }
  }

  private mutating func note(_ opcode: HCIOpcode, _ status: HCIStatus) {
    guard status != .success else { return }
    let error = LogReport.CommandError(opcode: opcode, status: status)
    if log.commandErrors[error] == nil, log.commandErrors.count >= Self.maximumCommandErrors { return }
    log.commandErrors[error, default: 0] += 1
  }

  private mutating func disconnect(_ adapter: UInt16, _ end: DisconnectionComplete, at time: ReceiveTime) {
    guard let connection = openConnection(adapter, end.handle) else { return }
    connection.account.report.endTime = max(connection.account.report.endTime, time)
    close(connection, .disconnected(end.reason))
    if ended.count == Self.maximumOpenConnections { ended.removeFirst() }
    ended.append((adapter, end.handle, time))
  }

  /// Handles Connection Complete: status, handle, address. Core 5.4, Vol 4, Part E, 7.7.3.
  private mutating func takeClassicConnection(
    _ parameters: Span<UInt8>, _ adapter: UInt16, at time: ReceiveTime
  ) throws(WireError) {
    try parameters.require(11, .hciEvent)
    guard parameters[0] == 0 else { return }
    var report = ConnectionReport(
      adapter: adapter, handle: ConnectionHandle(parameters.u16(at: 1)), origin: .connected, startTime: time,
      endTime: time)
    report.transport = .classic
    report.peer = parameters.address(at: 3, type: .public)
    start(report)
  }

  private mutating func takeLE(
    _ event: Span<UInt8>, _ adapter: UInt16, at time: ReceiveTime
  ) throws(WireError) {
    try event.require(1, .hciEvent)
    switch LESubevent(rawValue: event[0]) {
    case .connectionComplete, .enhancedConnectionComplete, .enhancedConnectionCompleteV2:
      startLE(try LEConnectionComplete(validating: event), adapter, at: time)
    case .connectionUpdateComplete:
      let update = try LEConnectionUpdateComplete(validating: event)
      let value = ParameterChange.Value.timing(update.parameters)
      note(value, status: update.status, adapter, update.handle, at: time)
    case .phyUpdateComplete:
      let update = try LEPHYUpdateComplete(validating: event)
      let value = ParameterChange.Value.phy(transmit: event[4], receive: event[5])
      note(value, status: update.status, adapter, update.handle, at: time)
    case .dataLengthChange:
      let change = try LEDataLengthChange(validating: event)
      let value = ParameterChange.Value.dataLength(
        transmit: change.transmitOctets, receive: change.receiveOctets)
      note(value, status: .success, adapter, change.handle, at: time)
    default: break
    }
  }

  private mutating func startLE(_ complete: LEConnectionComplete, _ adapter: UInt16, at time: ReceiveTime) {
    guard complete.status == .success else { return }
    var report = ConnectionReport(
      adapter: adapter, handle: complete.handle, origin: .connected, startTime: time, endTime: time)
    report.peer = complete.peer
    report.role = complete.role
    report.parameters = complete.parameters
    start(report)
  }

  private func note(
    _ value: ParameterChange.Value, status: HCIStatus, _ adapter: UInt16, _ handle: ConnectionHandle,
    at time: ReceiveTime
  ) {
    guard let connection = openConnection(adapter, handle) else { return }
    connection.account.report.endTime = max(connection.account.report.endTime, time)
    connection.account.note(status == .success ? value : .refused(status), at: time)
  }
}
