import BLEWire

/// Encodes the blocks of a pcapng file: section header, an interface for each adapter before its first
/// packet, enhanced packets, and statistics at the end. All numbers are little-endian, all times are in
/// nanoseconds.
struct PcapNGWriter: Sendable {
  /// Packets of further adapters are assigned to the last interface.
  static let maximumInterfaces = 256
  /// Maximum size in bytes of an interface's description, with a name as long as `bluetooth-monitor`, and its
  /// statistics.
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
  /// Drops to add to those of the next packet.
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
        // Unknown section length.
        $0.append(u64: .max)
      }
      let comment = Array(comment.utf8.prefix(Int(UInt16.max) / 2))
      if !comment.isEmpty { appendOption(PcapNGOption.comment, comment.span, to: &octets) }
      let application = Array("ringtap".utf8)
      appendOption(PcapNGOption.sectionApplication, application.span, to: &octets)
      appendEndOfOptions(to: &octets)
    }
  }

  /// Returns the maximum size in bytes of a record without a comment, including a new interface and the
  /// statistics after it.
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
        // Unlimited packet length.
        $0.append(u32: 0)
      }
      // The monitor's index for records without an adapter; named as libpcap names the monitor.
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
  /// Appends the upper half first; each half is little-endian.
  fileprivate mutating func append(time: ReceiveTime) {
    let units = UInt64(bitPattern: time.nanoseconds)
    append(u32: UInt32(truncatingIfNeeded: units >> 32))
    append(u32: UInt32(truncatingIfNeeded: units))
  }
}
