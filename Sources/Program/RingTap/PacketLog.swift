import BLEDissector
public import BLEHost
import BLEPacketLog
public import BLEWire

/// The packets of a log from any program: btsnoop, pcapng, pcap or Apple's PacketLogger, also compressed with
/// gzip or zstd. Air logs of a sniffer (pcap or pcapng with link types 192, 251, 256 and 272) yield the
/// packets that the central's host would have seen. Needs no radio.
///
/// ```swift
/// let log = try PacketLog(contentsOf: "btsnoop_hci.log")
/// for packet in log {
///   if let notification = packet.notification { print(packet.time.nanoseconds, notification.handle) }
/// }
/// if let problem = log.problem { print("the log breaks off: \(problem)") }
/// ```
///
/// The log is read once, in chunks and bounded memory: a second loop continues where the first one ended. Use
/// it in one task only.
public final class PacketLog: Sequence, IteratorProtocol {
  private let log: LogReader
  private var decoder = PacketDecoder()
  /// The packets of the current chunk; those before `next` have been returned.
  private var packets: [LoggedPacket] = []
  private var nextIndex = 0

  /// Why the packets end before the end of the file; `nil` if they do not, or while packets remain. A log
  /// whose writer was killed ends within a packet; the packets before it are valid.
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

  /// The next packet with its bytes; records that are not HCI packets are skipped.
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

  /// The number among all records of the log, from 1, which matches the numbers of other tools.
  public let index: Int
  /// The log's timestamp with the log's precision; btsnoop has microseconds.
  public let time: ReceiveTime
  /// Direction between host and controller.
  public let direction: HCIDirection
  /// Command, event, or data.
  public let type: HCIPacketType
  /// The peer of the packet's link, if the log contains the start of the link.
  public let peer: DeviceAddress?
  /// The HCI packet without its type byte.
  public let bytes: [UInt8]
  /// The complete value of a notification or indication, in the packet that completes it.
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
