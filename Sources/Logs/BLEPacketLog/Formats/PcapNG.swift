import BLEWire

/// Block types of pcapng that are read; other blocks are skipped. `draft-ietf-opsawg-pcapng`, 4.
enum PcapNGBlock {
  static let sectionHeader: UInt32 = 0x0A0D_0D0A
  static let interfaceDescription: UInt32 = 1
  /// The obsolete packet block, which some files still have.
  static let packet: UInt32 = 2
  static let simplePacket: UInt32 = 3
  static let interfaceStatistics: UInt32 = 5
  static let enhancedPacket: UInt32 = 6

  /// Number of bytes of a block around its body: type and total length before the body, total length after
  /// it.
  static let overheadByteCount = 12
  /// Size in bytes of the longest block that is read: the longest packet, and options.
  static let maximumByteCount = PacketLogReader.maximumPacketByteCount + 2 * 65_536

  static let byteOrderMagic: UInt32 = 0x1A2B_3C4D
}

/// Option codes that are read or written. `draft-ietf-opsawg-pcapng`, 3.5, 4.2, 4.3 and 4.6.
enum PcapNGOption {
  static let end: UInt16 = 0
  static let comment: UInt16 = 1
  static let sectionApplication: UInt16 = 4
  static let interfaceName: UInt16 = 2
  static let interfaceTimeResolution: UInt16 = 9
  static let interfaceTimeOffset: UInt16 = 14
  static let packetFlags: UInt16 = 2
  static let packetDropCount: UInt16 = 4
  static let statisticsReceived: UInt16 = 4
  static let statisticsDropped: UInt16 = 5
  static let statisticsSystemDropped: UInt16 = 7

  /// Calls `body` with each option, up to the end or to the first option that does not fit.
  static func forEach(
    in options: Span<UInt8>, _ order: LogByteOrder, _ body: (UInt16, Span<UInt8>) -> Void
  ) {
    var rest = options
    while rest.count >= 4 {
      let code = rest.u16(at: 0, order)
      let byteCount = Int(rest.u16(at: 2, order))
      guard code != end, byteCount <= rest.count - 4 else { return }
      body(code, rest.extracting(4..<4 + byteCount))
      rest = rest.extracting(min(rest.count, 4 + padded(byteCount))...)
    }
  }

  /// Returns a size padded to 32 bits, as for options and packet data.
  static func padded(_ byteCount: Int) -> Int { (byteCount + 3) / 4 * 4 }
}

/// Time unit of an interface: `if_tsresol`, a negative power of 10, or of 2 if bit 7 is set.
struct PcapNGTimeResolution: Hashable {
  var rawValue: UInt8 = 6

  /// Converts a time to nanoseconds since the Unix epoch, clamped to the range of the type.
  func nanoseconds(_ units: UInt64, offsetSeconds: Int64) -> Int64 {
    let exponent = Int(rawValue & 0x7F)
    let count: Int128
    if rawValue & 0x80 != 0 {
      count = Int128((UInt128(units) * 1_000_000_000) >> exponent)
    } else if exponent == 9 {
      // This project wrote the file, so times before the epoch are negative.
      count = Int128(Int64(bitPattern: units))
    } else if exponent < 9 {
      count = Int128(units) * Self.powerOf10(9 - exponent)
    } else {
      count = exponent - 9 > 20 ? 0 : Int128(units) / Self.powerOf10(exponent - 9)
    }
    return Int64(clamping: count + Int128(offsetSeconds) * 1_000_000_000)
  }

  private static func powerOf10(_ exponent: Int) -> Int128 {
    (0..<exponent).reduce(1) { power, _ in power * 10 }
  }
}

/// State of a section of a pcapng file: byte order and interfaces.
struct PcapNGSection {
  /// Maximum number of interfaces in a section. The limit exceeds the number of interfaces of a machine, and
  /// limits the memory for a file that contains only interface descriptions.
  static let maximumInterfaces = 1_024

  struct Interface {
    var kind: FrameKind
    var adapter: UInt16 = 0
    var resolution = PcapNGTimeResolution()
    var offsetSeconds: Int64 = 0
    var snapLength = UInt32.max
    /// Number of drops that the interface's packets have reported.
    var drops: UInt64 = 0
  }

  private(set) var order = LogByteOrder.little
  private(set) var interfaces: [Interface] = []
  private var lastTime = ReceiveTime(nanoseconds: 0)
  /// Number of packets with an unsupported link type.
  private(set) var foreignPackets = 0
  /// Link type of the first such packet.
  private(set) var foreignLinkType: UInt32?

  private mutating func note(_ interface: Interface) {
    guard case .other(let number) = interface.kind else { return }
    foreignPackets += 1
    if foreignLinkType == nil { foreignLinkType = number }
  }

  /// Returns the known minimum size of the block that starts here.
  func blockByteCount(_ start: Span<UInt8>, offset: Int) throws(WireError) -> Int {
    guard start.count >= PcapNGBlock.overheadByteCount else { return PcapNGBlock.overheadByteCount }
    let order = try order(of: start, offset: offset)
    let total = start.u32(at: 4, order)
    guard total >= PcapNGBlock.overheadByteCount, total.isMultiple(of: 4) else {
      throw WireError(.pcapng, offset: offset + 4, .invalidValue(total))
    }
    if total <= PcapNGBlock.maximumByteCount { return Int(total) }
    switch start.u32(at: 0, order) {
    case PcapNGBlock.sectionHeader, PcapNGBlock.interfaceDescription, PcapNGBlock.packet,
      PcapNGBlock.simplePacket, PcapNGBlock.interfaceStatistics, PcapNGBlock.enhancedPacket:
      throw WireError(.pcapng, offset: offset + 4, .invalidValue(total))
    default: return Int(total)
    }
  }

  /// Returns the byte order of a block. A section header has its own byte order; the type of a section header
  /// is the same in both byte orders.
  private func order(of start: Span<UInt8>, offset: Int) throws(WireError) -> LogByteOrder {
    guard start.u32(at: 0) == PcapNGBlock.sectionHeader else { return order }
    switch start.u32(at: 8) {
    case PcapNGBlock.byteOrderMagic: return .little
    case PcapNGBlock.byteOrderMagic.byteSwapped: return .big
    default: throw WireError(.pcapng, offset: offset + 8, .invalidValue(start.u32(at: 8)))
    }
  }

  /// Reads a complete block, and passes the packet in the block, if any, to `body`.
  ///
  /// - Parameter lost: called with the number of drops that no packet has reported.
  mutating func read(
    _ block: Span<UInt8>, offset: Int, lost: (UInt64) -> Void,
    _ body: (PacketRecordHeader, borrowing LinkFrame, Span<UInt8>) -> Void
  ) throws(WireError) {
    let order = try order(of: block, offset: offset)
    let total = block.u32(at: 4, order)
    let trailer = block.u32(at: block.count - 4, order)
    guard trailer == total else {
      throw WireError(
        .pcapng, offset: offset + block.count - 4,
        .lengthMismatch(claimed: Int(trailer), available: Int(total)))
    }
    let content = block.extracting(8..<block.count - 4)
    let offset = offset + 8
    switch block.u32(at: 0, order) {
    case PcapNGBlock.sectionHeader: try startSection(content, order, offset: offset)
    case PcapNGBlock.interfaceDescription: try describeInterface(content, offset: offset)
    case PcapNGBlock.packet: try readPacket(content, offset: offset, isEnhanced: false, body)
    case PcapNGBlock.enhancedPacket: try readPacket(content, offset: offset, isEnhanced: true, body)
    case PcapNGBlock.simplePacket: try readSimplePacket(content, offset: offset, body)
    case PcapNGBlock.interfaceStatistics: try readStatistics(content, offset: offset, lost: lost)
    default: break
    }
  }

  private mutating func startSection(
    _ content: Span<UInt8>, _ order: LogByteOrder, offset: Int
  ) throws(WireError) {
    try require(content, 16, offset: offset)
    let version = content.u16(at: 4, order)
    guard version == 1 else {
      throw WireError(.pcapng, offset: offset + 4, .invalidValue(UInt32(version)))
    }
    self.order = order
    interfaces.removeAll(keepingCapacity: true)
  }

  private mutating func describeInterface(_ content: Span<UInt8>, offset: Int) throws(WireError) {
    try require(content, 8, offset: offset)
    guard interfaces.count < Self.maximumInterfaces else {
      throw WireError(.pcapng, offset: offset, .invalidValue(UInt32(interfaces.count)))
    }
    var interface = Interface(kind: FrameKind(UInt32(content.u16(at: 0, order))))
    let snapLength = content.u32(at: 4, order)
    interface.snapLength = snapLength == 0 ? .max : snapLength
    interface.adapter = UInt16(interfaces.count)
    let order = order
    PcapNGOption.forEach(in: content.extracting(8...), order) { code, value in
      switch code {
      case PcapNGOption.interfaceName:
        if let adapter = Self.adapter(named: value) { interface.adapter = adapter }
      case PcapNGOption.interfaceTimeResolution where !value.isEmpty:
        interface.resolution.rawValue = value[0]
      case PcapNGOption.interfaceTimeOffset where value.count >= 8:
        interface.offsetSeconds = Int64(bitPattern: value.u64(at: 0, order))
      default: break
      }
    }
    interfaces.append(interface)
  }

  /// Returns the number at the end of `hci0`, or of libpcap's `bluetooth0`.
  static func adapter(named name: Span<UInt8>) -> UInt16? {
    var first = name.count
    while first > 0, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(name[first - 1]) { first -= 1 }
    guard first < name.count, name.count - first <= 5 else { return nil }
    var number = 0
    for index in first..<name.count { number = number * 10 + Int(name[index] - UInt8(ascii: "0")) }
    return UInt16(exactly: number)
  }

  private mutating func readPacket(
    _ content: Span<UInt8>, offset: Int, isEnhanced: Bool,
    _ body: (PacketRecordHeader, borrowing LinkFrame, Span<UInt8>) -> Void
  ) throws(WireError) {
    try require(content, 20, offset: offset)
    let order = order
    let number = isEnhanced ? content.u32(at: 0, order) : UInt32(content.u16(at: 0, order))
    guard number < interfaces.count else {
      throw WireError(.pcapng, offset: offset, .invalidValue(number))
    }
    let interface = interfaces[Int(number)]
    note(interface)
    let byteCount = Int(content.u32(at: 12, order))
    guard byteCount <= content.count - 20 else {
      throw WireError(
        .pcapng, offset: offset + 12, .lengthMismatch(claimed: byteCount, available: content.count - 20))
    }
    var header = PacketRecordHeader()
    let units = UInt64(content.u32(at: 4, order)) << 32 | UInt64(content.u32(at: 8, order))
    header.time = ReceiveTime(
      nanoseconds: interface.resolution.nanoseconds(units, offsetSeconds: interface.offsetSeconds))
    header.adapter = interface.adapter
    lastTime = header.time
    // The obsolete block stores drops next to the interface; all ones mean that the number is unknown.
    var drops: UInt64 =
      isEnhanced || content.u16(at: 2, order) == 0xFFFF ? 0 : UInt64(content.u16(at: 2, order))
    var direction: HCIDirection?
    var comment = 0..<0
    let options = content.extracting(min(content.count, 20 + PcapNGOption.padded(byteCount))...)
    Self.readOptions(options, order, drops: &drops, direction: &direction, comment: &comment)
    header.drops = UInt32(clamping: drops)
    interfaces[Int(number)].drops &+= drops
    let frame = LinkFrame(
      interface.kind, content.extracting(20..<20 + byteCount),
      originalByteCount: Int(content.u32(at: 16, order)), direction: direction)
    body(header, frame, options.extracting(comment))
  }

  private static func readOptions(
    _ options: Span<UInt8>, _ order: LogByteOrder, drops: inout UInt64, direction: inout HCIDirection?,
    comment: inout Range<Int>
  ) {
    var start = 0
    while options.count - start >= 4 {
      let code = options.u16(at: start, order)
      let byteCount = Int(options.u16(at: start + 2, order))
      guard code != PcapNGOption.end, byteCount <= options.count - start - 4 else { return }
      let value = start + 4
      switch code {
      case PcapNGOption.comment where comment.isEmpty: comment = value..<value + byteCount
      case PcapNGOption.packetDropCount where byteCount >= 8: drops = options.u64(at: value, order)
      case PcapNGOption.packetFlags where byteCount >= 4:
        // The direction is 1 for inbound, 2 for outbound, 0 if unknown.
        let told = options.u32(at: value, order) & 0b11
        direction = told == 1 ? .controllerToHost : told == 2 ? .hostToController : nil
      default: break
      }
      start = min(options.count, value + PcapNGOption.padded(byteCount))
    }
  }

  /// Reads a packet without a time, which gets the time of the previous packet.
  private mutating func readSimplePacket(
    _ content: Span<UInt8>, offset: Int,
    _ body: (PacketRecordHeader, borrowing LinkFrame, Span<UInt8>) -> Void
  ) throws(WireError) {
    try require(content, 4, offset: offset)
    guard let interface = interfaces.first else {
      throw WireError(.pcapng, offset: offset, .invalidValue(0))
    }
    note(interface)
    let original = content.u32(at: 0, order)
    let byteCount = Int(min(original, interface.snapLength))
    guard byteCount <= content.count - 4 else {
      throw WireError(
        .pcapng, offset: offset, .lengthMismatch(claimed: byteCount, available: content.count - 4))
    }
    var header = PacketRecordHeader()
    header.time = lastTime
    header.adapter = interface.adapter
    let frame = LinkFrame(
      interface.kind, content.extracting(4..<4 + byteCount), originalByteCount: Int(original),
      direction: nil)
    body(header, frame, content.extracting(0..<0))
  }

  private mutating func readStatistics(
    _ content: Span<UInt8>, offset: Int, lost: (UInt64) -> Void
  ) throws(WireError) {
    try require(content, 12, offset: offset)
    let number = content.u32(at: 0, order)
    guard number < interfaces.count else {
      throw WireError(.pcapng, offset: offset, .invalidValue(number))
    }
    var drops: UInt64 = 0
    let order = order
    PcapNGOption.forEach(in: content.extracting(12...), order) { code, value in
      guard value.count >= 8 else { return }
      switch code {
      case PcapNGOption.statisticsDropped, PcapNGOption.statisticsSystemDropped:
        drops &+= value.u64(at: 0, order)
      default: break
      }
    }
    let told = interfaces[Int(number)].drops
    guard drops > told else { return }
    interfaces[Int(number)].drops = drops
    lost(drops - told)
  }

  private func require(_ content: Span<UInt8>, _ byteCount: Int, offset: Int) throws(WireError) {
    guard content.count >= byteCount else {
      throw WireError(.pcapng, offset: offset, .truncated(needed: byteCount, available: content.count))
    }
  }
}

/// Encodes the blocks of a pcapng file: section header, an interface for each adapter before its first
/// packet, enhanced packets, and statistics at the end. All numbers are little-endian, all times are in
/// nanoseconds.
struct PcapNGWriter: Sendable {
  /// Maximum number of interfaces. Packets of further adapters are assigned to the last interface.
  static let maximumInterfaces = 256
  /// Maximum size in bytes of an interface's description and statistics. The longest name is
  /// `bluetooth-monitor`.
  private static let interfaceByteCountLimit = 64 + 52
  /// Maximum size in bytes of a packet block without the packet: type, lengths, interface, time, type byte
  /// and drops.
  private static let packetOverheadByteCount = 32 + 8 + 16

  private struct Interface {
    var adapter: UInt16
    var received: UInt64 = 0
    var dropped: UInt64 = 0
    var lastTime = ReceiveTime(nanoseconds: 0)
  }

  let linkType: LinkType
  private let comment: String
  private var interfaces: [Interface] = []
  /// Number of drops to add to the drops of the next packet.
  private var carriedDrops: UInt64 = 0

  init(_ linkType: LinkType, comment: String) {
    self.linkType = linkType
    self.comment = comment
  }

  mutating func lose(_ drops: UInt32) { carriedDrops += UInt64(drops) }

  func start(into octets: inout [UInt8]) {
    appendBlock(PcapNGBlock.sectionHeader, to: &octets) { octets in
      octets.append(addingCapacity: 16) {
        $0.append(u32: PcapNGBlock.byteOrderMagic)
        $0.append(u16: 1)
        $0.append(u16: 0)
        // The length of the section is unknown.
        $0.append(u64: .max)
      }
      let comment = Array(comment.utf8.prefix(Int(UInt16.max) / 2))
      if !comment.isEmpty { appendOption(PcapNGOption.comment, comment.span, to: &octets) }
      let application = Array("ringtap".utf8)
      appendOption(PcapNGOption.sectionApplication, application.span, to: &octets)
      appendEndOfOptions(to: &octets)
    }
  }

  /// Returns the maximum size in bytes of a record without a comment, including a new interface before the
  /// record and the statistics after it.
  func byteCountLimit(packet byteCount: Int) -> Int {
    Self.packetOverheadByteCount + PcapNGOption.padded(byteCount)
      + (interfaces.count + 1) * Self.interfaceByteCountLimit
  }

  mutating func append(_ record: borrowing PacketRecord, to octets: inout [UInt8]) {
    let number = interface(of: record.adapter, &octets)
    let drops = carriedDrops + UInt64(record.header.drops)
    carriedDrops = 0
    interfaces[number].received += 1
    interfaces[number].dropped &+= drops
    interfaces[number].lastTime = record.time
    let linkType = linkType
    let overhead = record.frameOverheadByteCount(linkType)
    let byteCount = record.packet.count + overhead
    let original = max(record.packet.count, record.header.originalByteCount) + overhead
    let padding = PcapNGOption.padded(byteCount) - byteCount

    let start = startBlock(PcapNGBlock.enhancedPacket, in: &octets)
    octets.append(addingCapacity: 20 + byteCount + padding) {
      $0.append(u32: UInt32(number))
      $0.append(time: record.time)
      $0.append(u32: UInt32(byteCount))
      $0.append(u32: UInt32(clamping: original))
      record.encodeFrame(linkType, into: &$0)
      $0.append(zeros: padding)
    }
    if !record.comment.isEmpty { appendOption(PcapNGOption.comment, record.comment, to: &octets) }
    if drops > 0 { appendOption(PcapNGOption.packetDropCount, drops, to: &octets) }
    if drops > 0 || !record.comment.isEmpty { appendEndOfOptions(to: &octets) }
    endBlock(start, in: &octets)
  }

  func finish(into octets: inout [UInt8]) {
    for (number, interface) in interfaces.enumerated() {
      appendBlock(PcapNGBlock.interfaceStatistics, to: &octets) { octets in
        octets.append(addingCapacity: 12) {
          $0.append(u32: UInt32(number))
          $0.append(time: interface.lastTime)
        }
        let isLast = number == interfaces.count - 1
        appendOption(PcapNGOption.statisticsReceived, interface.received, to: &octets)
        appendOption(
          PcapNGOption.statisticsDropped, interface.dropped &+ (isLast ? carriedDrops : 0), to: &octets)
        appendEndOfOptions(to: &octets)
      }
    }
  }

  private mutating func interface(of adapter: UInt16, _ octets: inout [UInt8]) -> Int {
    if let number = interfaces.firstIndex(where: { $0.adapter == adapter }) { return number }
    guard interfaces.count < Self.maximumInterfaces else { return interfaces.count - 1 }
    interfaces.append(Interface(adapter: adapter))
    appendBlock(PcapNGBlock.interfaceDescription, to: &octets) { octets in
      octets.append(addingCapacity: 8) {
        $0.append(u16: UInt16(linkType.rawValue))
        $0.append(u16: 0)
        // The length of packets is unlimited.
        $0.append(u32: 0)
      }
      // The monitor's number for records without an adapter. The name is libpcap's name for the monitor.
      let name = Array((adapter == 0xFFFF ? "bluetooth-monitor" : "hci\(adapter)").utf8)
      appendOption(PcapNGOption.interfaceName, name.span, to: &octets)
      let resolution: [UInt8] = [9]
      appendOption(PcapNGOption.interfaceTimeResolution, resolution.span, to: &octets)
      appendEndOfOptions(to: &octets)
    }
    return interfaces.count - 1
  }

  // MARK: Blocks and options

  private func appendBlock(_ type: UInt32, to octets: inout [UInt8], _ content: (inout [UInt8]) -> Void) {
    let start = startBlock(type, in: &octets)
    content(&octets)
    endBlock(start, in: &octets)
  }

  /// Starts a block.
  ///
  /// - Returns: offset of the block; `endBlock` fills in its length.
  private func startBlock(_ type: UInt32, in octets: inout [UInt8]) -> Int {
    let start = octets.count
    octets.append(addingCapacity: 8) {
      $0.append(u32: type)
      $0.append(u32: 0)
    }
    return start
  }

  private func endBlock(_ start: Int, in octets: inout [UInt8]) {
    let byteCount = UInt32(octets.count - start + 4)
    for index in 0..<4 {
      octets[start + 4 + index] = UInt8(truncatingIfNeeded: byteCount >> (8 * UInt32(index)))
    }
    octets.append(addingCapacity: 4) { $0.append(u32: byteCount) }
  }

  private func appendOption(_ code: UInt16, _ value: Span<UInt8>, to octets: inout [UInt8]) {
    let padded = PcapNGOption.padded(value.count)
    octets.append(addingCapacity: 4 + padded) {
      $0.append(u16: code)
      $0.append(u16: UInt16(value.count))
      $0.append(value)
      $0.append(zeros: padded - value.count)
    }
  }

  private func appendOption(_ code: UInt16, _ value: UInt64, to octets: inout [UInt8]) {
    octets.append(addingCapacity: 12) {
      $0.append(u16: code)
      $0.append(u16: 8)
      $0.append(u64: value)
    }
  }

  private func appendEndOfOptions(to octets: inout [UInt8]) {
    octets.append(addingCapacity: 4) { $0.append(zeros: 4) }
  }
}

extension OutputSpan where Element == UInt8 {
  /// Appends a time: the upper half first, each half little-endian.
  fileprivate mutating func append(time: ReceiveTime) {
    let units = UInt64(bitPattern: time.nanoseconds)
    append(u32: UInt32(truncatingIfNeeded: units >> 32))
    append(u32: UInt32(truncatingIfNeeded: units))
  }
}
