public import BLECore
import BLEStack
import BLEWire

/// An LE-only HCI controller with emulated peripherals in its radio range, without I/O.
///
/// Packets from the host go in, time goes in, packets to the host come out: attach it to a kernel with
/// `ControllerAttachment`, or drive it by hand in a test. It has no radio model: every advertisement is
/// heard, and a link never loses a packet unless a peripheral ends it.
///
/// It behaves as Core 5.4, Vol 4, Part E says where a host can tell the difference: masked events stay
/// away, commands in the wrong state are disallowed, legacy and extended commands do not mix.
public final class VirtualController {
  /// What the controller is. The peripherals are given apart.
  public struct Configuration: Hashable, Sendable {
    /// Which commands it has for advertising, scanning and connecting.
    public enum CommandSet: Hashable, Sendable {
      case legacy
      /// Announces LE Extended Advertising; takes legacy commands too, as real ones do, until the host has
      /// used an extended one.
      case extended
    }

    /// Its public device address.
    public var address: DeviceAddress
    public var commandSet: CommandSet
    /// Octets of one ACL packet's data, in both directions: 27 … 251.
    public var aclByteCount: Int
    /// ACL packets that the host may have under way.
    public var aclPacketCount: UInt8
    public var acceptListCapacity: Int

    public init(
      address: DeviceAddress = DeviceAddress(bits: 0x0000_5E00_5301, type: .public),
      commandSet: CommandSet = .legacy, aclByteCount: Int = 251, aclPacketCount: UInt8 = 8,
      acceptListCapacity: Int = 16
    ) {
      precondition((27...251).contains(aclByteCount) && aclPacketCount > 0)
      precondition((1...255).contains(acceptListCapacity))
      self.address = address
      self.commandSet = commandSet
      self.aclByteCount = aclByteCount
      self.aclPacketCount = aclPacketCount
      self.acceptListCapacity = acceptListCapacity
    }
  }

  public let configuration: Configuration
  /// Packets from the host that could not be understood.
  public private(set) var faults = 0

  /// In the order given.
  public var peripherals: [any VirtualPeripheral] { stations.map(\.peripheral) }

  let outbox = PacketQueue()
  var state = State()
  let stations: [Station]

  /// One peripheral in range, and the link to it.
  final class Station {
    let peripheral: any VirtualPeripheral
    /// As the peripheral left it after its last link.
    var database: GATTServerDatabase
    let handle: ConnectionHandle
    var link: PeripheralLink?
    /// Under which it was connected.
    var address = DeviceAddress.any
    /// Known once somebody listens; the rhythm goes on from there.
    var nextAdvertisement: MonotonicTime?

    init(_ peripheral: any VirtualPeripheral, handle: ConnectionHandle) {
      self.peripheral = peripheral
      self.handle = handle
      database = GATTServerDatabase(peripheral.services)
    }
  }

  /// The first connection handle; each peripheral has its own.
  static let firstHandle: UInt16 = 0x0040

  public init(_ configuration: Configuration = Configuration(), peripherals: [any VirtualPeripheral]) {
    precondition(peripherals.count < 0x0E00)
    self.configuration = configuration
    stations = peripherals.enumerated().map { index, peripheral in
      Station(peripheral, handle: ConnectionHandle(Self.firstHandle + UInt16(index)))
    }
  }

  // MARK: Bytes and time

  /// Takes one packet from the host, H4 type octet first.
  public func receive(_ packet: Span<UInt8>, now: MonotonicTime) {
    do throws(WireError) {
      try packet.require(1, .h4)
      let body = packet.extracting(1...)
      switch HCIPacketType(rawValue: packet[0]) {
      case .command: execute(try HCICommandPacket(validating: body), now: now)
      case .acl: accept(try ACLPacket(validating: body), now: now)
      default: faults += 1
      }
    } catch { faults += 1 }
  }

  /// Does what is due: advertisements, and what the peripherals do of their own accord.
  public func advance(to now: MonotonicTime) {
    for station in stations {
      if let link = station.link {
        if let deadline = station.peripheral.deadline, deadline <= now {
          station.peripheral.expired(link, now: now)
          settle(station, now: now)
        }
      } else {
        advertise(station, now: now)
      }
    }
  }

  /// When `advance` has something to do next; `nil` while only the host can start something.
  public var deadline: MonotonicTime? {
    var earliest: MonotonicTime?
    for station in stations {
      let next =
        if station.link != nil {
          station.peripheral.deadline
        } else {
          isListening ? station.nextAdvertisement : nil
        }
      if let next, earliest.map({ next < $0 }) ?? true { earliest = next }
    }
    return earliest
  }

  /// Hands over what goes to the host, each packet with its H4 type octet. Call it after `receive` and
  /// `advance`.
  public func drain<E: Error>(_ body: (Span<UInt8>) throws(E) -> Void) throws(E) {
    try outbox.drain(body)
  }

  // MARK: Data

  private func accept(_ packet: borrowing ACLPacket, now: MonotonicTime) {
    guard let station = stations.first(where: { $0.handle == packet.handle }),
      let link = station.link
    else {
      faults += 1
      return
    }
    // The buffer is free as soon as the packet is taken. Core 5.4, Vol 4, Part E, 7.7.19.
    event(.numberOfCompletedPackets, capacity: 5) {
      $0.append(1)
      $0.append(u16: link.handle.rawValue)
      $0.append(u16: 1)
    }
    let written = link.receive(packet) { handle, value in
      station.peripheral.check(write: value, to: handle)
    }
    for handle in written { station.peripheral.written(handle, link: link, now: now) }
    settle(station, now: now)
  }

  // MARK: Answers

  func event(_ code: HCIEventCode, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void) {
    guard state.mask.allows(code) else { return }
    let parameters = [UInt8](encoding: capacity, body)
    outbox.append(.event, capacity: HCIEventPacket.headerByteCount + parameters.count) {
      HCIEventPacket(code: code, parameters: parameters.span).encode(into: &$0)
    }
  }

  /// - Parameter body: writes what follows the subevent code.
  func event(_ subevent: LESubevent, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void) {
    guard state.mask.allows(subevent) else { return }
    event(.leMeta, capacity: capacity + 1) {
      $0.append(subevent.rawValue)
      body(&$0)
    }
  }

  /// Command Complete with return parameters after the status.
  func complete(
    _ command: ControllerCommand, _ status: HCIStatus = .success, capacity: Int = 0,
    _ body: (inout OutputSpan<UInt8>) -> Void = { _ in }
  ) {
    complete(HCIOpcode(rawValue: command.rawValue), status, capacity: capacity, body)
  }

  func complete(
    _ opcode: HCIOpcode, _ status: HCIStatus, capacity: Int = 0,
    _ body: (inout OutputSpan<UInt8>) -> Void = { _ in }
  ) {
    event(.commandComplete, capacity: 4 + capacity) {
      $0.append(1)  // credits
      $0.append(u16: opcode.rawValue)
      $0.append(status.rawValue)
      body(&$0)
    }
  }

  func status(_ command: ControllerCommand, _ status: HCIStatus = .success) {
    event(.commandStatus, capacity: 4) {
      CommandStatus(
        status: status, credits: 1, opcode: HCIOpcode(rawValue: command.rawValue)
      ).encode(into: &$0)
    }
  }
}
