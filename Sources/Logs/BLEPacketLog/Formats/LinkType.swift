import BLEWire

/// Supported link types of pcap and pcapng files with HCI packets.
///
/// The numbers are from the registry of link types. The layouts are from `libpcap` (`pcap-bt-linux.c`,
/// `pcap-bt-monitor-linux.c`) and Wireshark's reader, which differ from the registry's text (reference
/// `linux-bluetooth-kernel.md`, 16).
public enum LinkType: UInt32, Hashable, Sendable, BitwiseCopyable {
  /// HCI packets with their H4 type byte. Only the type shows the direction.
  case h4 = 187
  /// A packet like `h4` after a big-endian word, which is 1 if the host received the packet.
  case h4WithDirection = 201
  /// A record of the Linux monitor, after adapter and opcode, which are big-endian with 16 bits each.
  case linuxMonitor = 254

  /// Number of bytes before the H4 type byte, or before the monitor's packet.
  var headerByteCount: Int { self == .h4 ? 0 : 4 }

  /// Number of bytes before the packet.
  var overheadByteCount: Int { self == .linuxMonitor ? 4 : headerByteCount + 1 }
}

/// Type of the frames of a pcap file, or of a pcapng interface.
enum FrameKind: Hashable {
  case hci(LinkType)
  /// Air packets of this link type.
  case air(AirLinkType)
  /// Frames of an unsupported link type.
  case other(UInt32)

  init(_ number: UInt32) {
    if let type = LinkType(rawValue: number) {
      self = .hci(type)
    } else if let type = AirLinkType(rawValue: number) {
      self = .air(type)
    } else {
      self = .other(number)
    }
  }
}

/// The parsed bytes of one frame of a pcap or pcapng file, or of one btsnoop record.
struct LinkFrame: ~Escapable {
  let type: HCIPacketType?
  let direction: HCIDirection
  /// Number of the adapter; `nil` if the link type does not contain the number.
  let adapter: UInt16?
  let note: MonitorOpcode?
  /// Link type of an air packet.
  let air: AirLinkType?
  let packet: Span<UInt8>
  /// Size of the original packet in bytes, without the removed headers.
  let originalByteCount: Int

  /// Only the monitor's frames have an adapter.
  var isFromMonitor: Bool { adapter != nil }

  /// Parses a frame of a known link type; a frame of an unsupported link type is kept whole.
  ///
  /// - Parameter direction: direction in the block, for link type 187.
  @_lifetime(copy octets)
  init(_ kind: FrameKind, _ octets: Span<UInt8>, originalByteCount: Int, direction: HCIDirection?) {
    guard case .hci(let linkType) = kind, octets.count >= linkType.headerByteCount else {
      var air: AirLinkType?
      if case .air(let type) = kind { air = type }
      self.init(type: nil, .hostToController, octets, originalByteCount: originalByteCount, air: air)
      return
    }
    let header = linkType.headerByteCount
    let rest = octets.extracting(header...)
    let original = max(rest.count, originalByteCount - header)
    switch linkType {
    case .h4:
      self.init(h4: rest, originalByteCount: original, direction: direction ?? Self.direction(h4: rest))
    case .h4WithDirection:
      self.init(
        h4: rest, originalByteCount: original,
        direction: octets.u32BE(at: 0) & 1 != 0 ? .controllerToHost : .hostToController)
    case .linuxMonitor:
      self.init(
        monitor: rest, originalByteCount: original, adapter: octets.u16BE(at: 0), opcode: octets.u16BE(at: 2))
    }
  }

  /// Parses a packet with its H4 type byte, or an empty frame.
  @_lifetime(copy octets)
  init(h4 octets: Span<UInt8>, originalByteCount: Int, direction: HCIDirection) {
    adapter = nil
    note = nil
    air = nil
    self.direction = direction
    type = octets.isEmpty ? nil : HCIPacketType(rawValue: octets[0])
    packet = octets.isEmpty ? octets : octets.extracting(1...)
    self.originalByteCount = octets.isEmpty ? originalByteCount : originalByteCount - 1
  }

  /// Parses a frame of the Linux monitor.
  @_lifetime(copy octets)
  init(monitor octets: Span<UInt8>, originalByteCount: Int, adapter: UInt16, opcode: UInt16) {
    let known = BTSnoopMonitorOpcode.packet(opcode)
    self.adapter = adapter
    type = known?.type
    direction = known?.direction ?? .hostToController
    note = known == nil ? MonitorOpcode(rawValue: opcode) : nil
    air = nil
    packet = octets
    self.originalByteCount = originalByteCount
  }

  /// Parses the packet of a btsnoop record.
  @_lifetime(copy octets)
  init(btsnoop octets: Span<UInt8>, _ header: BTSnoopRecordHeader, _ format: BTSnoopFormat) {
    let original = Int(header.originalByteCount)
    let isFromController = header.flags & BTSnoopFlags.controllerToHost != 0
    let direction: HCIDirection = isFromController ? .controllerToHost : .hostToController
    switch format {
    case .h4 where !octets.isEmpty || original == 0:
      self.init(h4: octets, originalByteCount: original, direction: direction)
    case .h4, .unencapsulated:
      // The flags show the type even of a packet without bytes.
      let isData = header.flags & BTSnoopFlags.commandOrEvent == 0
      self.init(
        type: isData ? .acl : isFromController ? .event : .command, direction, octets,
        originalByteCount: original - (format == .h4 ? 1 : 0))
    case .monitor:
      self.init(
        monitor: octets, originalByteCount: original,
        adapter: UInt16(truncatingIfNeeded: header.flags >> 16),
        opcode: UInt16(truncatingIfNeeded: header.flags))
    }
  }

  @_lifetime(copy octets)
  private init(
    type: HCIPacketType?, _ direction: HCIDirection, _ octets: Span<UInt8>, originalByteCount: Int,
    air: AirLinkType? = nil
  ) {
    adapter = nil
    self.air = air
    self.type = type
    self.direction = direction
    note = nil
    packet = octets
    self.originalByteCount = originalByteCount
  }

  /// Infers the direction. Only the host sends commands, and only the controller sends events. For data, a
  /// first non-flushable fragment comes from a host. Core 5.4, Vol 4, Part E, 5.4.2.
  private static func direction(h4 octets: Span<UInt8>) -> HCIDirection {
    guard !octets.isEmpty else { return .hostToController }
    switch HCIPacketType(rawValue: octets[0]) {
    case .event: return .controllerToHost
    case .acl:
      // Data without its flags may be from the controller.
      return octets.count < 3 || octets[2] >> 4 & 0b11 == 0b10 ? .controllerToHost : .hostToController
    default: return .hostToController
    }
  }
}

extension PacketRecord {
  /// Encodes the frame of a pcap or pcapng file: pseudo-header, type byte and packet.
  func encodeFrame(_ linkType: LinkType, into output: inout OutputSpan<UInt8>) {
    switch linkType {
    case .linuxMonitor:
      output.append(u32BE: header.flags)
    case .h4WithDirection:
      output.append(u32BE: direction == .controllerToHost ? 1 : 0)
      if let type { output.append(type.rawValue) }
    case .h4:
      if let type { output.append(type.rawValue) }
    }
    output.append(packet)
  }

  /// Returns the number of bytes of the frame before the packet.
  func frameOverheadByteCount(_ linkType: LinkType) -> Int {
    linkType.headerByteCount + (linkType == .linuxMonitor || type == nil ? 0 : 1)
  }
}

extension LinkType {
  /// Describes an unsupported link type, and lists the supported link types.
  public static func unsupported(_ number: UInt32) -> String {
    let name = names[number].map { " (\($0))" } ?? ""
    return
      "link type \(number)\(name), which is not supported; supported are HCI (187, 201, 254) and Bluetooth "
      + "LE from the air (192, 251, 256, 272)"
  }

  /// Names of unsupported link types that are similar to supported link types.
  private static let names: [UInt32: String] = [
    0: "loopback", 1: "Ethernet", 101: "raw IP", 105: "Wi-Fi", 113: "Linux cooked",
    127: "Wi-Fi with radiotap",
    189: "USB of Linux", 195: "IEEE 802.15.4", 220: "USB of Linux", 230: "IEEE 802.15.4 without checksum",
    249: "USB of Windows", 255: "Bluetooth BR/EDR baseband", 276: "Linux cooked", 283: "IEEE 802.15.4 TAP",
  ]
}
