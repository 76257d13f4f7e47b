public import BLECore
public import BLEWire

/// One record of a btsnoop file.
public struct BTSnoopRecord: ~Escapable {
  /// Of all records in the file, from 1.
  public let index: Int
  public let header: BTSnoopRecordHeader
  /// `nil` for a record that is no HCI packet: the notes of format 2001, or an empty record.
  public let type: HCIPacketType?
  public let direction: HCIDirection
  /// The `0` of `hci0`; 0 in the formats that do not say.
  public let adapter: UInt16
  /// The packet without its H4 type octet, or the note's octets.
  public let packet: Span<UInt8>

  public var time: ReceiveTime { header.time }

  /// Whether the file holds less of the packet than there was.
  public var isCut: Bool { header.includedByteCount < header.originalByteCount }

  @_lifetime(copy octets)
  init(index: Int, header: BTSnoopRecordHeader, format: BTSnoopFormat, octets: Span<UInt8>) {
    self.index = index
    self.header = header
    let isFromController = header.flags & BTSnoopFlags.controllerToHost != 0
    switch format {
    case .h4:
      adapter = 0
      direction = isFromController ? .controllerToHost : .hostToController
      type = octets.isEmpty ? nil : HCIPacketType(rawValue: octets[0])
      packet = octets.isEmpty ? octets : octets.extracting(1...)
    case .unencapsulated:
      adapter = 0
      direction = isFromController ? .controllerToHost : .hostToController
      if header.flags & BTSnoopFlags.commandOrEvent == 0 {
        type = .acl
      } else {
        type = isFromController ? .event : .command
      }
      packet = octets
    case .monitor:
      adapter = UInt16(truncatingIfNeeded: header.flags >> 16)
      let known = BTSnoopMonitorOpcode.packet(UInt16(truncatingIfNeeded: header.flags))
      type = known?.type
      direction = known?.direction ?? .hostToController
      packet = octets
    }
  }
}

/// Reads a btsnoop file that comes in pieces of any size.
///
/// ```swift
/// var reader = BTSnoopReader()
/// while let chunk = next() { try reader.read(chunk.span) { record in … } }
/// try reader.finish()
/// ```
/// A record that lies whole in a piece is lent in place; one that a border cuts is put together in a
/// buffer of at most `BTSnoopWriter.maximumRecordByteCount` octets.
public struct BTSnoopReader: ~Copyable {
  /// Known after the first 16 octets.
  public private(set) var format: BTSnoopFormat?
  /// Records delivered so far.
  public private(set) var recordCount = 0
  /// Packets that the writer of the file says it lost, as of the last record.
  public private(set) var cumulativeDrops: UInt32 = 0

  /// Start of what a border cut, empty where nothing is pending.
  private var pending: [UInt8] = []
  /// Octets of the file before `pending`.
  private var offset = 0
  private var failure: WireError?

  public init() {}

  /// Takes the next piece of the file and hands each record that it completes to `body`, in order.
  ///
  /// - Throws: after the good records, the error of the first bad one, its `offset` counted from the
  ///   start of the file: `invalidValue` in the file header, or at the length field of a record
  ///   that would be longer than any packet. The same error again for every later piece.
  public mutating func read(
    _ chunk: Span<UInt8>, _ body: (borrowing BTSnoopRecord) -> Void
  ) throws(WireError) {
    if let failure { throw failure }
    do throws(WireError) {
      try take(chunk, body)
    } catch {
      failure = error
      throw error
    }
  }

  /// - Throws: `truncated` at the start of the record (or file header) that the file ends in.
  public func finish() throws(WireError) {
    if let failure { throw failure }
    guard format == nil || !pending.isEmpty else { return }
    let needed = try unitByteCount(pending.span)
    throw WireError(.btsnoop, offset: offset, .truncated(needed: needed, available: pending.count))
  }

  private mutating func take(
    _ chunk: Span<UInt8>, _ body: (borrowing BTSnoopRecord) -> Void
  ) throws(WireError) {
    var rest = chunk
    while !pending.isEmpty {
      let needed = try unitByteCount(pending.span)
      let taken = min(needed - pending.count, rest.count)
      for index in 0..<taken { pending.append(rest[index]) }
      rest = rest.extracting(taken...)
      if pending.count < needed { return }
      // A unit whose header has just been completed may be longer than the header.
      if try unitByteCount(pending.span) > needed { continue }
      // Lent out of `self`, and taken back for its storage.
      var unit: [UInt8] = []
      swap(&unit, &pending)
      try deliver(unit.span, body)
      unit.removeAll(keepingCapacity: true)
      swap(&unit, &pending)
    }
    while !rest.isEmpty {
      let needed = try unitByteCount(rest)
      guard rest.count >= needed else {
        for index in rest.indices { pending.append(rest[index]) }
        return
      }
      try deliver(rest.extracting(first: needed), body)
      rest = rest.extracting(needed...)
    }
  }

  /// Octets of the unit that starts here (file header or record), as far as they are known yet.
  private func unitByteCount(_ start: Span<UInt8>) throws(WireError) -> Int {
    guard format != nil else { return BTSnoopHeader.byteCount }
    guard start.count >= 8 else { return BTSnoopRecordHeader.byteCount }
    let included = Int(start.u32BE(at: 4))
    guard included <= BTSnoopWriter.maximumRecordByteCount - BTSnoopRecordHeader.byteCount else {
      throw WireError(.btsnoop, offset: offset + 4, .invalidValue(start.u32BE(at: 4)))
    }
    return BTSnoopRecordHeader.byteCount + included
  }

  private mutating func deliver(
    _ unit: Span<UInt8>, _ body: (borrowing BTSnoopRecord) -> Void
  ) throws(WireError) {
    guard let format else {
      self.format = try BTSnoopHeader(validating: unit).format
      offset += unit.count
      return
    }
    let header = try BTSnoopRecordHeader(validating: unit)
    recordCount += 1
    cumulativeDrops = header.cumulativeDrops
    body(
      BTSnoopRecord(
        index: recordCount, header: header, format: format,
        octets: unit.extracting(BTSnoopRecordHeader.byteCount...)))
    offset += unit.count
  }
}
