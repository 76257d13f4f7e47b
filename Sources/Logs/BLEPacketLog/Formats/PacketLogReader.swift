public import BLEWire

/// Detected format of a log.
public enum PacketLogFormat: Hashable, Sendable {
  case btsnoop(BTSnoopFormat)
  case pcap(PcapHeader)
  case pcapng
  /// Apple's PacketLogger.
  case packetLogger(LogByteOrder)

  public static let monitor = PacketLogFormat.btsnoop(.monitor)

  /// Name of the format for the user.
  public var name: StaticString {
    switch self {
    case .btsnoop(.unencapsulated): "btsnoop 1001"
    case .btsnoop(.h4): "btsnoop 1002"
    case .btsnoop(.monitor): "btsnoop 2001"
    case .pcap: "pcap"
    case .pcapng: "pcapng"
    case .packetLogger: "PacketLogger"
    }
  }
}

/// Reads a packet log in pieces of any size: btsnoop, pcap, pcapng or Apple's PacketLogger.
///
/// The first bytes determine the format. A compressed log must be decompressed first.
///
/// ```swift
/// var reader = PacketLogReader()
/// while let chunk = next() { try reader.read(chunk.span) { record in … } }
/// try reader.finish()
/// ```
/// A record that is complete in one piece is passed to the caller without copying. A record that spans pieces
/// is assembled in a buffer of slightly more than `maximumPacketByteCount` bytes at most.
public struct PacketLogReader: ~Copyable {
  /// Maximum packet size in a pcap or pcapng file. A larger packet is treated as damage.
  public static let maximumPacketByteCount = 1 << 20

  /// Format of the log, known after at most 16 bytes, or 24 bytes of a pcap file.
  public private(set) var format: PacketLogFormat?
  /// Number of records delivered so far.
  public private(set) var recordCount = 0
  /// Number of packets that the file's writer reported as lost, as of the last record.
  public private(set) var cumulativeDrops: UInt32 = 0
  /// Whether a record came from the Linux monitor, so that adapters and notes are known.
  public private(set) var hasMonitorRecords = false
  /// Number of packets with an unsupported link type in a pcapng file, which are delivered as records without
  /// type.
  public var foreignPackets: Int { section.foreignPackets }
  /// The link type of the first unsupported packet.
  public var foreignLinkType: UInt32? { section.foreignLinkType }
  /// Probable type of a file that is not a log, set after the error; `nil` for a log.
  public private(set) var foreignFile: ForeignFile?
  /// End of the last whole unit (file header, record or block), in bytes from the start of the file.
  package private(set) var wholeByteCount = 0

  private var section = PcapNGSection()
  /// Start of a file header, record or block that spans pieces; otherwise empty.
  private var pending: [UInt8] = []
  /// Offset of `pending` in the file.
  private var offset = 0
  /// Number of remaining bytes of a block to skip.
  private var skipping = 0
  /// Minimum size of the file header, record or block at `offset`.
  private var needed = 4
  private var failure: WireError?
  /// The first bytes of the file, until its format is known.
  private var beginning: [UInt8] = []

  public init() {}

  /// Reads the next piece of the file, and passes each completed record to `body`, in order.
  ///
  /// - Throws: after the valid records, the error of the first invalid record, with an `offset` from the
  ///   start of the file: `invalidValue` in the file header, or at the length field of a record that would be
  ///   longer than any packet. Each later call throws the same error.
  public mutating func read(
    _ chunk: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void
  ) throws(WireError) {
    if let failure { throw failure }
    if format == nil {
      let rest = max(0, ForeignFile.lookedAt - beginning.count)
      beginning.append(copying: chunk.extracting(first: min(rest, chunk.count)))
    }
    do throws(WireError) {
      try take(chunk, body)
    } catch {
      failure = error
      if format == nil { foreignFile = ForeignFile(beginning.span) }
      throw error
    }
    if format != nil { beginning = [] }
  }

  /// Ends the log.
  ///
  /// - Throws: `truncated` at the start of an incomplete record or file header at the end of the file.
  public mutating func finish() throws(WireError) {
    if let failure { throw failure }
    if skipping > 0 {
      throw WireError(layer, offset: offset, .truncated(needed: skipping, available: 0))
    }
    guard format == nil || !pending.isEmpty else { return }
    if format == nil { foreignFile = ForeignFile(beginning.span) }
    throw WireError(layer, offset: offset, .truncated(needed: needed, available: pending.count))
  }

  private var layer: WireError.Layer {
    switch format {
    case .btsnoop: .btsnoop
    case .pcap: .pcap
    case .pcapng: .pcapng
    case .packetLogger: .packetLogger
    case nil: .packetLog
    }
  }

  private mutating func take(
    _ chunk: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void
  ) throws(WireError) {
    var rest = chunk
    skip(&rest)
    // The buffer is moved out of `self` while it is lent, and then moved back to reuse its storage.
    var unit: [UInt8] = []
    swap(&unit, &pending)
    defer { swap(&unit, &pending) }
    while !unit.isEmpty {
      needed = try unitByteCount(unit.span)
      // A unit whose header has just been completed may be longer than the header.
      guard needed > unit.count else {
        try deliver(unit.span, body)
        unit.removeAll(keepingCapacity: true)
        skip(&rest)
        break
      }
      guard !rest.isEmpty else { return }
      let taken = min(needed - unit.count, rest.count)
      unit.append(copying: rest.extracting(first: taken))
      rest = rest.extracting(taken...)
    }
    while !rest.isEmpty {
      needed = try unitByteCount(rest)
      guard rest.count >= needed else {
        unit.append(copying: rest)
        return
      }
      try deliver(rest.extracting(first: needed), body)
      rest = rest.extracting(needed...)
      skip(&rest)
    }
  }

  private mutating func skip(_ rest: inout Span<UInt8>) {
    let skipped = min(skipping, rest.count)
    guard skipped > 0 else { return }
    skipping -= skipped
    offset += skipped
    if skipping == 0 { wholeByteCount = offset }
    rest = rest.extracting(skipped...)
  }

  /// Returns the known minimum size of the file header, record or block that starts here.
  ///
  /// Also detects formats that have no file header.
  private mutating func unitByteCount(_ start: Span<UInt8>) throws(WireError) -> Int {
    switch format {
    case .btsnoop:
      guard start.count >= 8 else { return BTSnoopRecordHeader.byteCount }
      let included = Int(start.u32BE(at: 4))
      guard included <= BTSnoopWriter.maximumRecordByteCount - BTSnoopRecordHeader.byteCount else {
        throw WireError(.btsnoop, offset: offset + 4, .invalidValue(start.u32BE(at: 4)))
      }
      return BTSnoopRecordHeader.byteCount + included
    case .pcap(let header):
      return try header.recordByteCount(start, offset: offset)
    case .pcapng:
      let byteCount = try section.blockByteCount(start, offset: offset)
      return byteCount > PcapNGBlock.maximumByteCount ? PcapNGBlock.overheadByteCount : byteCount
    case .packetLogger(let order):
      return try PacketLoggerFormat.recordByteCount(start, order, offset: offset)
    case nil:
      return try headerByteCount(start)
    }
  }

  /// Returns the number of bytes needed to determine the format, or the size of the file header.
  private mutating func headerByteCount(_ start: Span<UInt8>) throws(WireError) -> Int {
    guard start.count >= 4 else { return 4 }
    let magic = start.u32BE(at: 0)
    if magic == UInt32(truncatingIfNeeded: BTSnoopHeader.magic >> 32) { return BTSnoopHeader.byteCount }
    if PcapHeader.recognise(magic) != nil { return PcapHeader.byteCount }
    if magic == PcapNGBlock.sectionHeader {
      format = .pcapng
      return try unitByteCount(start)
    }
    guard start.count >= 12 else { return 12 }
    // An empty record has no type byte.
    let isEmptyRecord = start.u32(at: 0) == 8 || start.u32BE(at: 0) == 8
    guard isEmptyRecord || start.count >= PacketLoggerFormat.recognitionByteCount else {
      return PacketLoggerFormat.recognitionByteCount
    }
    guard let order = PacketLoggerFormat.recognise(start) else {
      throw WireError(.packetLog, offset: 0, .invalidValue(magic))
    }
    format = .packetLogger(order)
    return try unitByteCount(start)
  }

  private mutating func deliver(
    _ unit: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void
  ) throws(WireError) {
    switch format {
    case .btsnoop(let kind):
      try deliver(btsnoop: unit, kind, body)
    case .pcap(let pcap):
      hasMonitorRecords = pcap.kind == .hci(.linuxMonitor)
      pcap.read(unit) { header, frame in
        let header = numbered(header, frame)
        body(PacketRecord(header, packet: frame.packet))
      }
    case .pcapng:
      try deliver(block: unit, body)
    case .packetLogger(let order):
      PacketLoggerFormat.read(unit, order) { record in
        var header = record.header
        number(&header)
        body(PacketRecord(header, packet: record.packet))
      }
    case nil:
      if unit.u32BE(at: 0) == UInt32(truncatingIfNeeded: BTSnoopHeader.magic >> 32) {
        format = .btsnoop(try BTSnoopHeader(validating: unit).format)
      } else {
        format = .pcap(try PcapHeader(validating: unit))
      }
    }
    offset += unit.count
    if skipping == 0 { wholeByteCount = offset }
  }

  private mutating func deliver(
    btsnoop unit: Span<UInt8>, _ kind: BTSnoopFormat, _ body: (borrowing PacketRecord) -> Void
  ) throws(WireError) {
    let file = try BTSnoopRecordHeader(validating: unit)
    if file.isOfZeros { throw WireError(.btsnoop, offset: offset, .invalidValue(0)) }
    let frame = LinkFrame(
      btsnoop: unit.extracting(BTSnoopRecordHeader.byteCount...), file, kind)
    hasMonitorRecords = kind == .monitor
    var header = PacketRecordHeader()
    header.time = file.time
    // The counter was restarted if it has decreased.
    let before = cumulativeDrops
    header.drops = file.cumulativeDrops >= before ? file.cumulativeDrops - before : file.cumulativeDrops
    header = numbered(header, frame)
    header.cumulativeDrops = file.cumulativeDrops
    cumulativeDrops = file.cumulativeDrops
    body(PacketRecord(header, packet: frame.packet))
  }

  private mutating func deliver(
    block: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void
  ) throws(WireError) {
    let total = try section.blockByteCount(block, offset: offset)
    guard total <= PcapNGBlock.maximumByteCount else {
      skipping = total - block.count
      return
    }
    // The section is moved out of `self` during the call, because the call needs both.
    var section = PcapNGSection()
    swap(&section, &self.section)
    defer { swap(&section, &self.section) }
    var lost: UInt64 = 0
    try section.read(block, offset: offset, lost: { lost &+= $0 }) { header, frame, comment in
      if frame.isFromMonitor { hasMonitorRecords = true }
      let header = numbered(header, frame)
      body(PacketRecord(header, packet: frame.packet, comment: comment))
    }
    cumulativeDrops = cumulativeDrops.addingSaturating(lost)
  }

  private mutating func numbered(
    _ header: PacketRecordHeader, _ frame: borrowing LinkFrame
  ) -> PacketRecordHeader {
    var header = header
    header.type = frame.type
    header.direction = frame.direction
    if let adapter = frame.adapter { header.adapter = adapter }
    header.note = frame.note
    header.air = frame.air.map { AirPacket($0) }
    header.originalByteCount = frame.originalByteCount
    number(&header)
    return header
  }

  private mutating func number(_ header: inout PacketRecordHeader) {
    recordCount += 1
    header.index = recordCount
    cumulativeDrops = cumulativeDrops.addingSaturating(UInt64(header.drops))
    header.cumulativeDrops = cumulativeDrops
  }
}

extension UInt32 {
  fileprivate func addingSaturating(_ other: UInt64) -> UInt32 {
    UInt32(clamping: UInt64(self).addingReportingOverflow(other).overflow ? .max : UInt64(self) + other)
  }
}

/// Byte order of the numbers in a file. In some formats, the byte order depends on the machine that wrote the
/// file.
public enum LogByteOrder: Hashable, Sendable {
  case big, little
}

extension Span where Element == UInt8 {
  func u16(at offset: Int, _ order: LogByteOrder) -> UInt16 {
    order == .big ? u16BE(at: offset) : u16(at: offset)
  }

  func u32(at offset: Int, _ order: LogByteOrder) -> UInt32 {
    order == .big ? u32BE(at: offset) : u32(at: offset)
  }

  func u64(at offset: Int, _ order: LogByteOrder) -> UInt64 {
    order == .big ? u64BE(at: offset) : u64(at: offset)
  }
}
