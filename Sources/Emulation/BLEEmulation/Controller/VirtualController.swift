import BLEStack
public import BLEWire

/// An LE-only HCI controller in a `VirtualAir`, without I/O.
///
/// Pass in the host's packets and the time; take out the packets to the host. Attach it to a kernel with
/// `ControllerAttachment`, or drive it directly in a test. The virtual air determines speed and packet loss.
///
/// It follows Core 5.4, Vol 4, Part E in everything that a host can observe: masked events are not sent,
/// commands in the wrong state are disallowed, legacy and extended commands do not mix.
public final class VirtualController {
  /// The controller's properties, without the peripherals.
  public struct Configuration: Hashable, Sendable {
    /// The commands for advertising, scanning and connecting.
    public enum CommandSet: Hashable, Sendable {
      case legacy
      /// Reports LE Extended Advertising. Also accepts legacy commands, as real controllers do, until the
      /// host has used an extended one.
      case extended
    }

    /// Public device address.
    public var address: DeviceAddress
    public var commandSet: CommandSet
    /// Maximum size of the data in one ACL packet in either direction, in bytes; 27 … 251.
    public var aclByteCount: Int
    /// Number of ACL packets that the host may have outstanding.
    public var aclPacketCount: UInt8
    public var acceptListCapacity: Int
    /// Faults that are active from the start.
    public var faults: [ControllerFault]

    public init(
      address: DeviceAddress = DeviceAddress(bits: 0x0000_5E00_5301, type: .public),
      commandSet: CommandSet = .legacy, aclByteCount: Int = 251, aclPacketCount: UInt8 = 8,
      acceptListCapacity: Int = 16, faults: [ControllerFault] = []
    ) {
      precondition((27...251).contains(aclByteCount) && aclPacketCount > 0)
      precondition((1...255).contains(acceptListCapacity))
      self.address = address
      self.commandSet = commandSet
      self.aclByteCount = aclByteCount
      self.aclPacketCount = aclPacketCount
      self.acceptListCapacity = acceptListCapacity
      self.faults = faults
    }
  }

  public let configuration: Configuration
  public let air: VirtualAir
  /// Number of invalid or unexpected packets from the host.
  public internal(set) var faults = 0

  /// The peripherals of the virtual air, in the order given.
  public var peripherals: [any VirtualPeripheral] { air.peripherals }

  let outbox = PacketQueue()
  var state = State()
  /// The controller's ends of open links.
  var links: [LinkEnd] = []
  var injected = ControllerFaults()
  /// Plays its peers, and edits the packets that it sends.
  package var tester: (any ControllerTester)?
  /// Time of the host's next advertisement.
  var nextAdvertisement: MonotonicTime?

  /// The first connection handle. Each peripheral in the virtual air has a fixed handle; links to other
  /// controllers use the handles after these.
  private static let firstHandle: UInt16 = 0x0040

  /// Creates a controller in a virtual air of its own with its peripherals.
  public convenience init(
    _ configuration: Configuration = Configuration(), peripherals: [any VirtualPeripheral],
    air: VirtualAir.Configuration = VirtualAir.Configuration()
  ) {
    self.init(configuration, in: VirtualAir(air, peripherals: peripherals))
  }

  /// Creates a controller in a virtual air. All controllers of an air run on one thread.
  public init(_ configuration: Configuration = Configuration(), in air: VirtualAir) {
    self.configuration = configuration
    self.air = air
    air.add(self)
    for fault in configuration.faults { inject(fault, now: air.now) }
  }

  deinit { air.remove(ObjectIdentifier(self)) }

  static func handle(ofStation number: Int) -> ConnectionHandle {
    ConnectionHandle(firstHandle + UInt16(number))
  }

  /// Handle for a link to this advertiser.
  func freeHandle(for advertiser: some Advertiser) -> ConnectionHandle {
    if let station = advertiser as? Station { return Self.handle(ofStation: station.number) }
    return freeHandle()
  }

  /// A free handle for a link to another controller.
  func freeHandle() -> ConnectionHandle {
    var number = air.stations.count
    while links.contains(where: { $0.handle == Self.handle(ofStation: number) }) { number += 1 }
    return Self.handle(ofStation: number)
  }

  // MARK: Bytes and time

  /// Processes a packet from the host, H4 type byte first.
  public func receive(_ packet: Span<UInt8>, now: MonotonicTime) {
    air.receive(now: now)
    if injected.isSilent { return }
    do throws(WireError) {
      try packet.require(1, .h4)
      let body = packet.extracting(1...)
      switch HCIPacketType(rawValue: packet[0]) {
      case .command:
        tester?.hear(command: packet)
        execute(try HCICommandPacket(validating: body), now: now)
      case .acl: accept(try ACLPacket(validating: body))
      default: faults += 1
      }
    } catch { faults += 1 }
  }

  /// Performs all steps that are due in the virtual air.
  public func advance(to now: MonotonicTime) { air.advance(to: now) }

  /// When to call `advance` next; `nil` if nothing happens without a packet from a host.
  public var deadline: MonotonicTime? { air.deadline }

  /// Passes the packets for the host to `body`, each with its H4 type byte. Call this after `receive` and
  /// `advance`, for each controller of the air.
  public func drain<E: Error>(_ body: (Span<UInt8>) throws(E) -> Void) throws(E) {
    tester?.work(for: self)
    try outbox.drain(body)
  }

  /// Whether the host reads so slowly that peripherals must wait.
  var isHostBehind = false {
    didSet {
      guard oldValue, !isHostBehind else { return }
      for end in links { if let other = end.other { other.owner.acknowledged(on: other) } }
    }
  }

  var takesData: Bool { !isHostBehind }

  // MARK: Data

  private func accept(_ packet: borrowing ACLPacket) {
    let handle = packet.handle
    guard let end = links.first(where: { $0.handle == handle }) else {
      faults += 1
      return
    }
    if let tester, tester.accept(packet) {
      return event(.numberOfCompletedPackets, capacity: 5) {
        $0.append(1)
        $0.append(u16: handle.rawValue)
        $0.append(u16: 1)
      }
    }
    // The host sends more than Read Buffer Size permits: Data Buffer Overflow, for an ACL link. Core 5.4, Vol
    // 4, Part E, 7.7.26.
    guard links.reduce(0, { $0 + $1.queue.dataCount }) < Int(configuration.aclPacketCount) else {
      faults += 1
      return event(.dataBufferOverflow, capacity: 1) { $0.append(1) }
    }
    end.send(packet.data, packet.boundary == .continuation ? .continuation : .firstFlushable)
  }

  // MARK: Answers

  func event(_ code: HCIEventCode, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void) {
    guard state.mask.allows(code) else { return }
    let parameters = [UInt8](encoding: capacity, body)
    post(.event, capacity: HCIEventPacket.headerByteCount + parameters.count) {
      HCIEventPacket(code: code, parameters: parameters.span).encode(into: &$0)
    }
  }

  /// Sends a packet to the host. All packets are sent with this method.
  func post(_ type: HCIPacketType, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void) {
    guard injected.isEmpty, tester == nil else { return tamper(type, [UInt8](encoding: capacity, body)) }
    outbox.append(type, capacity: capacity, body)
  }

  /// Sends an LE Meta event.
  ///
  /// - Parameter body: writes the parameters after the subevent code.
  func event(_ subevent: LESubevent, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void) {
    guard state.mask.allows(subevent) else { return }
    event(.leMeta, capacity: capacity + 1) {
      $0.append(subevent.rawValue)
      body(&$0)
    }
  }

  /// Sends Command Complete. `body` writes the return parameters after the status.
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
