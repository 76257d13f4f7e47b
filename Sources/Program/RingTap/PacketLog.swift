import BLEDissector
public import BLEHost
import BLEPacketLog
public import BLEWire

/// The packets of a log in any supported format: btsnoop, pcapng, pcap or Apple's PacketLogger, optionally
/// compressed with gzip or zstd. A sniffer's air log (pcap or pcapng with link type 192, 251, 256 or 272)
/// yields the packets that the central's host would have seen. Reading a log needs no radio.
///
/// ```swift
/// let log = try PacketLog(contentsOf: "btsnoop_hci.log")
/// for packet in log {
///   if let notification = packet.notification { print(packet.time.nanoseconds, notification.handle) }
/// }
/// if let problem = log.problem { print("the log breaks off: \(problem)") }
/// ```
///
/// The log is read once, in chunks and in bounded memory. A second loop continues where the first one ended.
/// Use a log in one task only.
public final class PacketLog: Sequence, IteratorProtocol {
  private let log: LogReader
  private var decoder = PacketDecoder()
  /// The packets of the current chunk. The packets before `nextIndex` have already been returned.
  private var packets: [LoggedPacket] = []
  private var nextIndex = 0

  /// The reason why reading ended before the end of the file; `nil` if the file was read completely, or
  /// while packets remain. A log whose writer was killed ends within a packet; the packets before it are
  /// valid.
  public var problem: String? { log.problem.map { "\($0.cause)" } }

  /// Opens a log and reads enough to recognise its format.
  ///
  /// - Parameter path: the file; `-` for standard input.
  /// - Throws: `unsuitable` if the file does not exist or is not a packet log.
  public init(contentsOf path: String) throws(HostError) {
    do throws(LogReader.Problem) { log = try LogReader(path: path) } catch {
      throw .unsuitable("\(path): \(error.cause)")
    }
    fill()
    if log.format == nil {
      throw .unsuitable("\(path) is not a packet log: \(log.problem?.advice ?? "it is empty")")
    }
  }

  /// Returns the next packet with its bytes. Skips records that are not HCI packets.
  public func next() -> LoggedPacket? {
    if nextIndex == packets.count { fill() }
    guard nextIndex < packets.count else { return nil }
    defer { nextIndex += 1 }
    return packets[nextIndex]
  }

  private func fill() {
    packets.removeAll(keepingCapacity: true)
    nextIndex = 0
    while packets.isEmpty,
      log.read({ record in decoder.decode(record) { packets.append(LoggedPacket($0)) } })
    {}
  }
}

/// A packet of a log, and the notification that it completes, if any.
public struct LoggedPacket: Hashable, Sendable {
  /// A value that a device notified or indicated.
  public struct Notification: Hashable, Sendable {
    /// The attribute's handle on the device.
    public let handle: AttributeHandle
    /// The attribute's type, if the log contains its discovery.
    public let characteristic: BluetoothUUID?
    /// The value.
    public let bytes: [UInt8]
  }

  /// The packet's number among all records of the log, starting at 1, as in other tools.
  public let index: Int
  /// The log's timestamp, in the log's precision; btsnoop has microseconds.
  public let time: ReceiveTime
  /// Direction between host and controller.
  public let direction: HCIDirection
  /// Type of the packet: command, event, or data.
  public let type: HCIPacketType
  /// The link's peer, if the log contains the start of the link.
  public let peer: DeviceAddress?
  /// The HCI packet without its type byte.
  public let bytes: [UInt8]
  /// The complete value of a notification or indication. Set only in the packet that completes the value.
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
