import BLEDissector
public import BLEHost
import BLELinux
import BLEPacketLog
public import BLEWire

/// The packets of a log that anybody wrote, one after the other: btsnoop, pcapng, pcap or Apple's PacketLogger, also
/// compressed by gzip or zstd; also what a sniffer heard on the air (pcap or pcapng of link types 192, 251, 256 and 272), as the
/// packets that the central's host would have seen. It needs no radio.
///
/// ```swift
/// let log = try PacketLog(contentsOf: "btsnoop_hci.log")
/// for packet in log {
///   if let notification = packet.notification { print(packet.time.nanoseconds, notification.handle) }
/// }
/// if let problem = log.problem { print("the log breaks off: \(problem)") }
/// ```
///
/// It is read piece by piece, in bounded memory, and once: a second loop goes on where the first one ended. Use it in one task
/// only.
public final class PacketLog: Sequence, IteratorProtocol {
  private let path: String
  private var input: CompressedInput
  private var reader = AnyLogReader()
  private var decoder = PacketDecoder()
  /// Of the last piece; those before `next` were taken.
  private var packets: [LoggedPacket] = []
  private var nextIndex = 0
  private var isOver = false

  /// Why the packets end before the file does; `nil` where they do not, or are not all taken. A log whose writer was killed
  /// ends in the middle of a packet: those before it are good.
  public private(set) var problem: String?

  /// Opens a log and reads as far as tells that it is one.
  ///
  /// - Parameter path: of the file; `-` for standard input.
  /// - Throws: `unsuitable` where there is no such file, or it is no log.
  public init(contentsOf path: String) throws(HostError) {
    self.path = path
    do throws(SystemError) { input = try CompressedInput(path: path) } catch {
      throw .unsuitable("\(path): \(error)")
    }
    while packets.isEmpty, !isOver { read() }
    if reader.format == nil {
      throw .unsuitable("\(path) is no packet log: \(reader.foreignFile?.advice ?? problem ?? "it is empty")")
    }
  }

  /// The next packet, with the octets of the log; records that are no HCI packets are passed over.
  public func next() -> LoggedPacket? {
    while nextIndex == packets.count {
      guard !isOver else { return nil }
      packets.removeAll(keepingCapacity: true)
      nextIndex = 0
      read()
    }
    defer { nextIndex += 1 }
    return packets[nextIndex]
  }

  private func read() {
    do {
      let piece = try input.next()
      guard !piece.isEmpty else {
        isOver = true
        return try reader.finish()
      }
      try reader.read(piece.span) { record in
        decoder.decode(record) { packets.append(LoggedPacket($0)) }
      }
    } catch {
      isOver = true
      problem = "\(error)"
    }
  }
}

/// One packet of a log, and the notification that it completes, if it does.
public struct LoggedPacket: Hashable, Sendable {
  /// A value that a device sent by itself.
  public struct Notification: Hashable, Sendable {
    /// The attribute on the device.
    public let handle: AttributeHandle
    /// What the attribute is, where the log has its discovery.
    public let characteristic: BluetoothUUID?
    /// The value.
    public let bytes: [UInt8]
  }

  /// Of all records in the log, from 1, so that other tools' numbers match.
  public let index: Int
  /// As the log has it, to its precision: btsnoop has microseconds.
  public let time: ReceiveTime
  /// Between host and controller.
  public let direction: HCIDirection
  /// Command, event, or data.
  public let type: HCIPacketType
  /// The peer of the packet's link, where the log shows how that began.
  public let peer: DeviceAddress?
  /// The HCI packet without its type octet.
  public let bytes: [UInt8]
  /// The value that a device sent with it: of a notification or an indication, whole, in the packet that ended it.
  public let notification: Notification?

  fileprivate init(_ packet: borrowing DecodedPacket) {
    index = packet.index
    time = packet.time
    direction = packet.direction
    type = packet.type
    peer = packet.peer
    bytes = Self.copy(packet.packet)
    notification = Self.notification(packet)
  }

  private static func notification(_ packet: borrowing DecodedPacket) -> Notification? {
    guard packet.direction == .controllerToHost, let att = packet.att,
      [.notification, .indication].contains(att.opcode.kind), let handle = att.handle, let value = att.value
    else { return nil }
    return Notification(handle: handle, characteristic: att.uuid, bytes: copy(value))
  }

  private static func copy(_ octets: Span<UInt8>) -> [UInt8] {
    [UInt8](capacity: octets.count) { output in
      for index in octets.indices { output.append(octets[index]) }
    }
  }
}
