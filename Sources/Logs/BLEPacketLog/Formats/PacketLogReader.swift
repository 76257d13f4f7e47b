public import BLEWire

/// What a log turned out to be.
public enum PacketLogFormat: Hashable, Sendable {
  case btsnoop(BTSnoopFormat)
  case pcap(PcapHeader)
  case pcapng
  /// Apple's.
  case packetLogger(LogByteOrder)

  public static let monitor = PacketLogFormat.btsnoop(.monitor)

  /// As people call it.
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

/// Reads a packet log that comes in pieces of any size: btsnoop, pcap, pcapng or Apple's PacketLogger.
///
/// The first octets tell the format. Compressed logs must be decompressed before.
///
/// ```swift
/// var reader = PacketLogReader()
/// while let chunk = next() { try reader.read(chunk.span) { record in … } }
/// try reader.finish()
/// ```
/// A record that lies whole in a piece is lent in place; one that a border cuts is put together in a
/// buffer of at most `maximumPacketByteCount` octets and a few.
public struct PacketLogReader: ~Copyable {
  /// The longest packet of a pcap or pcapng file. Longer ones are damage.
  public static let maximumPacketByteCount = 1 << 20

  /// Known after the first octets: 16 at most, 24 of a pcap file.
  public private(set) var format: PacketLogFormat?
  /// Records delivered so far.
  public private(set) var recordCount = 0
  /// Packets that the writer of the file says it lost, as of the last record.
  public private(set) var cumulativeDrops: UInt32 = 0
  /// Whether a record came from the Linux monitor, so that adapters and notes are known.
  public private(set) var hasMonitorRecords = false
  /// Packets of a pcapng file whose link type is not read; they are delivered as records without type.
  public var foreignPackets: Int { section.foreignPackets }
  /// The link type of the first of them.
  public var foreignLinkType: UInt32? { section.foreignLinkType }
  /// What the file seems to be, after an error by which it is no log at all; `nil` if it is one.
  public private(set) var foreignFile: ForeignFile?

  private var section = PcapNGSection()
  /// Start of what a border cut, empty where nothing is pending.
  private var pending: [UInt8] = []
  /// Octets of the file before `pending`.
  private var offset = 0
  /// Octets of a block that are passed over.
  private var skipping = 0
  /// Octets that the unit at `offset` takes, as far as they are known yet.
  private var needed = 4
  private var failure: WireError?
  /// The first bytes of a file, until its format is known.
  private var beginning: [UInt8] = []

  public init() {}

  /// Takes the next piece of the file and hands each record that it completes to `body`, in order.
  ///
  /// - Throws: after the good records, the error of the first bad one, its `offset` counted from the
  ///   start of the file: `invalidValue` in the file header, or at the length field of a record
  ///   that would be longer than any packet. The same error again for every later piece.
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

  /// - Throws: `truncated` at the start of the record (or file header) that the file ends in.
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
    // Out of `self` for as long as it is lent, and back for its storage.
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
    rest = rest.extracting(skipped...)
  }

  /// Octets of the unit that starts here (file header, record or block), as far as they are known yet.
  ///
  /// Recognises the formats that have no header of their own.
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

  /// Octets that tell the format, or those of the file header.
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
    // An empty record has no type octet.
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
    // A count that goes back was started anew.
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
    // Out of `self` for the time of the call, which needs both.
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
