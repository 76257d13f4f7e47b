import BLEStack
public import BLEWire

/// An LE-only HCI controller in a `VirtualAir`, without I/O.
///
/// Pass in the host's packets and the time, then take out the packets to the host. Attach the controller to a
/// kernel with `ControllerAttachment`, or use it directly in a test. The virtual air determines speed and
/// packet loss.
///
/// The controller follows Core 5.4, Vol 4, Part E in everything that a host can observe: masked events are
/// not sent, commands in the wrong state are disallowed, and legacy and extended commands do not mix.
public final class VirtualController {
  /// The controller's properties, without the peripherals.
  public struct Configuration: Hashable, Sendable {
    /// The commands for advertising, scanning and connecting.
    public enum CommandSet: Hashable, Sendable {
      case legacy
      /// Reports LE Extended Advertising. Also accepts legacy commands, as real controllers do, until the
      /// host has used an extended command.
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
  public private(set) var faults = 0

  /// The peripherals of the virtual air, in the order given.
  public var peripherals: [any VirtualPeripheral] { air.peripherals }

  let outbox = PacketQueue()
  var state = State()
  /// The controller's ends of open links.
  var links: [LinkEnd] = []
  var injected = ControllerFaults()
  /// Test code that replaces the controller's peers, and edits the packets to the host.
  package var tester: (any ControllerTester)?
  /// Time at which the host's next advertisement is due.
  var nextAdvertisement: MonotonicTime?

  /// The first connection handle. Each peripheral in the virtual air has a fixed handle; links to other
  /// controllers use the following handles.
  private static let firstHandle: UInt16 = 0x0040

  /// Creates a controller in a new virtual air with these peripherals.
  public convenience init(
    _ configuration: Configuration = Configuration(), peripherals: [any VirtualPeripheral],
    air: VirtualAir.Configuration = VirtualAir.Configuration()
  ) {
    self.init(configuration, in: VirtualAir(air, peripherals: peripherals))
  }

  /// Creates a controller in a virtual air. All controllers of a virtual air run on one thread.
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

  /// Returns the handle for a link to this advertiser.
  func freeHandle(for advertiser: some Advertiser) -> ConnectionHandle {
    if let station = advertiser as? Station { return Self.handle(ofStation: station.number) }
    return freeHandle()
  }

  /// Returns a free handle for a link to another controller.
  func freeHandle() -> ConnectionHandle {
    var number = air.stations.count
    while links.contains(where: { $0.handle == Self.handle(ofStation: number) }) { number += 1 }
    return Self.handle(ofStation: number)
  }

  // MARK: Bytes and time

  /// Processes a packet from the host, H4 type byte first.
  public func receive(_ packet: Span<UInt8>, now: MonotonicTime) {
    air.receive(now: now)
    if staysSilent(at: packet) { return }
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

  /// Next time to call `advance`; `nil` if nothing happens without a packet from a host.
  public var deadline: MonotonicTime? { air.deadline }

  /// Passes the packets for the host to `body`, each with its H4 type byte. Call this after `receive` and
  /// `advance`, for each controller of the virtual air.
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
    // The host has sent more packets than Read Buffer Size permits. Report Data Buffer Overflow for an ACL
    // link. Core 5.4, Vol 4, Part E, 7.7.26.
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

  /// Sends a packet to the host. All packets are sent by this method.
  private func post(_ type: HCIPacketType, capacity: Int, _ body: (inout OutputSpan<UInt8>) -> Void) {
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

// MARK: - State

extension VirtualController {
  /// The state that HCI Reset restores. Core 5.4, Vol 4, Part E, 7.3.2.
  struct State {
    var mask = EventMask()
    var scan = Scan()
    var acceptList: [DeviceAddress] = []
    var initiation: Initiation?
    /// The command set that the host used first. Commands of the other set are then disallowed.
    var family: ControllerCommand.Family?
    /// Default maximum size and duration of a data PDU. Core 5.4, Vol 6, Part B, 4.5.10.
    var defaultDataLength = DataLength.minimum
    var advertising = Advertising()
    /// Random address for scanning, connecting and legacy advertising, used if the own address type is
    /// random.
    var randomAddress = DeviceAddress.any
    /// Random number generator for the LE Rand command.
    var random = AirRandom()
  }

  /// The events that the host has enabled. Core 5.4, Vol 4, Part E, 7.3.1 and 7.8.1.
  struct EventMask {
    /// Enabled events. The default is that of the specification after a reset; LE Meta events are disabled.
    var events: UInt64 = 0x0000_1FFF_FFFF_FFFF
    var leEvents: UInt64 = 0x1F

    func allows(_ code: HCIEventCode) -> Bool {
      switch code {
      case .commandComplete, .commandStatus, .numberOfCompletedPackets: true
      case .leMeta: events & 1 << 61 != 0
      default: events & 1 << UInt64(code.rawValue - 1) != 0
      }
    }

    func allows(_ subevent: LESubevent) -> Bool {
      leEvents & 1 << UInt64(subevent.rawValue - 1) != 0
    }
  }

  struct Scan {
    var kind = ScanKind.passive
    var isEnabled = false
    var duplicates = DuplicateFilter.reportAll
    var acceptsListedOnly = false
    var window = ListeningWindow()
    /// Advertisers reported since scanning was enabled; used by the duplicates filter.
    var reported: Set<DeviceAddress> = []
  }

  /// A connection attempt that the host has started.
  struct Initiation {
    /// Address of the peer; `nil` for any device on the accept list.
    var peer: DeviceAddress?
    var ownAddress: DeviceAddress
    var parameters: LinkParameters
    var window: ListeningWindow
  }

  /// The times at which the radio listens: for `length` after the start of each `interval`, counted from
  /// `start`. `length` and `interval` are in units of 0.625 ms.
  struct ListeningWindow {
    var interval: UInt16 = 0x10
    var length: UInt16 = 0x10
    var start = MonotonicTime(nanoseconds: 0)

    func isOpen(at time: MonotonicTime) -> Bool {
      let unit: Int64 = 625_000
      let elapsed = max(0, time.nanoseconds - start.nanoseconds)
      return elapsed % (Int64(interval) * unit) < Int64(length) * unit
    }
  }
}

extension HCIEventCode {
  private static let dataBufferOverflow = HCIEventCode(rawValue: 0x1A)
}

// MARK: - Information and settings

/// Commands that query the controller, and commands that only set a value.
extension VirtualController {
  /// Assigned number of Core Specification 5.4 (Bluetooth Assigned Numbers, 2.1).
  private static let specificationVersion: UInt8 = 0x0D
  /// The identifier "not to be used in shipping products". With this identifier, hosts apply no
  /// manufacturer-specific quirks.
  private static let companyIdentifier: UInt16 = 0xFFFF
  /// All combinations of advertising, scanning, initiating and central role. Core 5.4, Vol 4, Part E, 7.8.27.
  private static let supportedStates: UInt64 = 0x0000_03FF_FFFF_FFFF
  private static let resolvingListCapacity: UInt8 = 8

  /// LE features: LE Encryption, Data Packet Length Extension and LE 2M PHY, and Extended Advertising if
  /// configured.
  ///
  /// Core 5.4, Vol 6, Part B, 4.6.
  var features: UInt64 {
    let always: UInt64 = 1 << 0 | 1 << 5 | 1 << 8
    return configuration.commandSet == .extended ? always | 1 << 12 : always
  }

  func execute(_ packet: borrowing HCICommandPacket, now: MonotonicTime) {
    guard let command = ControllerCommand(rawValue: packet.opcode.rawValue), has(command) else {
      complete(packet.opcode, .unknownCommand)
      return
    }
    guard hasRightLength(packet.parameters, for: command) else {
      refuse(command, .invalidParameters)
      return
    }
    guard isAllowed(command) else {
      refuse(command, .commandDisallowed)
      return
    }
    if let code = injected.refusal(of: packet.opcode) {
      refuse(command, code)
      return
    }
    switch command {
    case .reset: reset()
    case .setScanParameters, .setExtendedScanParameters: setScanParameters(command, packet.parameters)
    case .setScanEnable, .setExtendedScanEnable:
      setScanEnable(command, packet.parameters, now: now)
    case .createConnection: createConnection(packet.parameters, now: now)
    case .extendedCreateConnection: extendedCreateConnection(packet.parameters, now: now)
    case .createConnectionCancel: cancelConnection()
    case .readAcceptListSize, .clearAcceptList, .addToAcceptList, .removeFromAcceptList:
      changeAcceptList(command, packet.parameters)
    case .setAdvertisingParameters, .setAdvertisingData, .setScanResponseData, .setAdvertisingEnable,
      .setAdvertisingSetRandomAddress, .setExtendedAdvertisingParameters, .setExtendedAdvertisingData,
      .setExtendedScanResponseData, .setExtendedAdvertisingEnable, .removeAdvertisingSet,
      .clearAdvertisingSets:
      changeAdvertising(command, packet.parameters)
    case .disconnect, .readRemoteVersion, .readRSSI, .readTransmitPowerLevel, .connectionUpdate,
      .readChannelMap, .readRemoteFeatures, .setDataLength, .readPHY, .setPHY, .enableEncryption,
      .longTermKeyRequestReply, .longTermKeyRequestNegativeReply:
      executeOnLink(command, packet.parameters)
    case .encrypt: encryptBlock(packet.parameters)
    default: inform(command, packet.parameters)
    }
  }

  func refuse(_ command: ControllerCommand, _ code: HCIStatus) {
    if command.hasStatusOnly { status(command, code) } else { complete(command, code) }
  }

  private func has(_ command: ControllerCommand) -> Bool {
    command.family != .extended || configuration.commandSet == .extended
  }

  private func hasRightLength(_ parameters: Span<UInt8>, for command: ControllerCommand) -> Bool {
    command.hasVariableParameters
      ? parameters.count >= command.parameterByteCount
      : parameters.count == command.parameterByteCount
  }

  /// Returns whether the host may use a command. After a legacy command, extended commands are disallowed,
  /// and vice versa. Core 5.4, Vol 4, Part E, 3.1.1.
  private func isAllowed(_ command: ControllerCommand) -> Bool {
    guard command.family != .common else { return true }
    if state.family == nil { state.family = command.family }
    return state.family == command.family
  }

  private func reset() {
    leave()
    complete(.reset)
  }

  /// Discards all state, as when the controller is switched off and on. Peers detect this by timeout.
  func leave() {
    let ends = links
    links = []
    for end in ends { end.link?.abandon(end) }
    nextAdvertisement = nil
    state = State()
  }

  private func inform(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    switch command {
    case .setEventMask:
      state.mask.events = parameters.u64(at: 0)
      complete(command)
    case .setLEEventMask:
      state.mask.leEvents = parameters.u64(at: 0)
      complete(command)
    case .setRandomAddress:
      state.randomAddress = parameters.address(at: 0, type: .random)
      complete(command)
    case .readLocalVersion:
      complete(command, capacity: 8) {
        $0.append(Self.specificationVersion)
        $0.append(u16: 0)
        $0.append(Self.specificationVersion)
        $0.append(u16: Self.companyIdentifier)
        $0.append(u16: 0)
      }
    case .readLocalSupportedCommands:
      let bits = supportedCommands
      complete(command, capacity: 64) { $0.append(bits.span) }
    case .readLocalSupportedFeatures:
      // With BR/EDR Not Supported and LE Supported, the kernel enables LE without a command. Core 5.4, Vol 2,
      // Part C, 3.3, bits 37 and 38.
      complete(command, capacity: 8) { $0.append(u64: 1 << 37 | 1 << 38) }
    case .readBDADDR: complete(command, capacity: 6) { $0.append(configuration.address) }
    case .readBufferSize:
      complete(command, capacity: 7) {
        $0.append(u16: UInt16(configuration.aclByteCount))
        $0.append(0)
        $0.append(u16: UInt16(configuration.aclPacketCount))
        $0.append(u16: 0)
      }
    case .readLEBufferSize:
      complete(command, capacity: 3) {
        $0.append(u16: UInt16(configuration.aclByteCount))
        $0.append(configuration.aclPacketCount)
      }
    case .readLEFeatures: complete(command, capacity: 8) { $0.append(u64: features) }
    case .readSupportedStates: complete(command, capacity: 8) { $0.append(u64: Self.supportedStates) }
    case .readAdvertisingTransmitPower: complete(command, capacity: 1) { $0.append(0) }
    case .rand: complete(command, capacity: 8) { $0.append(u64: state.random.next()) }
    case .readResolvingListSize:
      complete(command, capacity: 1) { $0.append(Self.resolvingListCapacity) }
    default: informData(command, parameters)
    }
  }

  /// Handles the commands for data length and for advertising sizes. Stores other values without using them.
  private func informData(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    let maximum = DataLength.maximum
    switch command {
    case .readMaximumDataLength:
      complete(command, capacity: 8) {
        for _ in 0..<2 {
          $0.append(u16: maximum.octets)
          $0.append(u16: maximum.time)
        }
      }
    case .readDefaultDataLength:
      complete(command, capacity: 4) {
        $0.append(u16: state.defaultDataLength.octets)
        $0.append(u16: state.defaultDataLength.time)
      }
    case .writeDefaultDataLength:
      state.defaultDataLength =
        DataLength(octets: parameters.u16(at: 0), time: parameters.u16(at: 2)).clamped
      complete(command)
    case .readMaximumAdvertisingDataLength:
      complete(command, capacity: 2) { $0.append(u16: UInt16(Advertisement.maximumByteCount)) }
    case .readNumberOfAdvertisingSets: complete(command, capacity: 1) { $0.append(1) }
    default: complete(command)
    }
  }

  private var supportedCommands: [UInt8] {
    var bits = [UInt8](repeating: 0, count: 64)
    for command in ControllerCommand.allCases where has(command) {
      bits[command.supportBit.octet] |= 1 << UInt8(command.supportBit.bit)
    }
    return bits
  }
}

// MARK: - Advertising

extension VirtualController {
  /// The host's advertising settings. There is only one set; the set's handle is ignored. Core 5.4, Vol 4,
  /// Part E, 7.8.5–9.
  struct Advertising {
    var isEnabled = false
    var kind = Advertisement.Kind.connectable
    /// Advertising interval in units of 0.625 ms.
    var interval: UInt32 = 0x0800
    var ownType: UInt8 = 0
    /// The random address of the set, set with the extended commands.
    var setAddress: DeviceAddress?
    var setHandle: UInt8 = 0
    var data: [UInt8] = []
    var scanResponse: [UInt8] = []
  }

  private func changeAdvertising(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    switch command {
    case .setAdvertisingParameters: setAdvertisingParameters(parameters)
    case .setExtendedAdvertisingParameters: setExtendedAdvertisingParameters(parameters)
    case .setAdvertisingData, .setScanResponseData:
      setData(command, parameters.extracting(1...), byteCount: parameters[0], isContinued: false)
    case .setExtendedAdvertisingData, .setExtendedScanResponseData: setExtendedData(command, parameters)
    case .setAdvertisingSetRandomAddress:
      state.advertising.setAddress = parameters.address(at: 1, type: .random)
      complete(command)
    case .setAdvertisingEnable: enable(command, parameters[0])
    case .setExtendedAdvertisingEnable:
      guard parameters.count == 2 + 4 * Int(parameters[1]) else {
        return complete(command, .invalidParameters)
      }
      enable(command, parameters[0])
    default:  // Remove and Clear Advertising Sets
      guard !state.advertising.isEnabled else { return complete(command, .commandDisallowed) }
      state.advertising = Advertising()
      complete(command)
    }
  }

  /// Sets the legacy advertising parameters. Directed advertising (types 1 and 4) is not supported.
  private func setAdvertisingParameters(_ parameters: Span<UInt8>) {
    let command = ControllerCommand.setAdvertisingParameters
    guard !state.advertising.isEnabled else { return complete(command, .commandDisallowed) }
    let (least, most) = (parameters.u16(at: 0), parameters.u16(at: 2))
    guard least <= most, (0x20...0x4000).contains(least), parameters[4] <= 4 else {
      return complete(command, .invalidParameters)
    }
    guard let kind = Advertisement.Kind(rawValue: parameters[4]) else {
      return complete(command, .unsupportedFeature)
    }
    state.advertising.kind = kind
    state.advertising.interval = UInt32(least)
    state.advertising.ownType = parameters[5]
    complete(command)
  }

  /// Sets the extended advertising parameters. Only the properties of undirected legacy packets are
  /// supported: 13, 12 and 10. Core 5.4, Vol 4, Part E, 7.8.53.
  private func setExtendedAdvertisingParameters(_ parameters: Span<UInt8>) {
    let command = ControllerCommand.setExtendedAdvertisingParameters
    let kinds: [UInt16: Advertisement.Kind] = [
      0x0013: .connectable, 0x0012: .scannable, 0x0010: .nonConnectable,
    ]
    let kind = kinds[parameters.u16(at: 1)]
    let code: HCIStatus =
      state.advertising.isEnabled
      ? .commandDisallowed
      : kind == nil ? .unsupportedFeature : parameters.u24(at: 3) < 0x20 ? .invalidParameters : .success
    if code == .success, let kind {
      state.advertising.setHandle = parameters[0]
      state.advertising.kind = kind
      state.advertising.interval = parameters.u24(at: 3)
      state.advertising.ownType = parameters[10]
    }
    complete(command, code, capacity: 1) { $0.append(0) }  // selected power in dBm
  }

  private func setExtendedData(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    // Operation: 0 intermediate, 1 first, 2 last, 3 complete, 4 unchanged.
    switch parameters[1] {
    case 4: complete(command)
    case 0...3:
      setData(
        command, parameters.extracting(4...), byteCount: parameters[3],
        isContinued: parameters[1] == 0 || parameters[1] == 2)
    default: complete(command, .invalidParameters)
    }
  }

  private func setData(
    _ command: ControllerCommand, _ data: Span<UInt8>, byteCount: UInt8, isContinued: Bool
  ) {
    let isResponse = command == .setScanResponseData || command == .setExtendedScanResponseData
    var octets: [UInt8] =
      !isContinued ? [] : isResponse ? state.advertising.scanResponse : state.advertising.data
    guard Int(byteCount) <= data.count,
      octets.count + Int(byteCount) <= Advertisement.maximumByteCount
    else { return complete(command, .invalidParameters) }
    for index in 0..<Int(byteCount) { octets.append(data[index]) }
    if isResponse {
      state.advertising.scanResponse = octets
    } else {
      state.advertising.data = octets
    }
    complete(command)
  }

  private func enable(_ command: ControllerCommand, _ value: UInt8) {
    guard value <= 1 else { return complete(command, .invalidParameters) }
    state.advertising.isEnabled = value == 1
    nextAdvertisement = nil
    if value == 1 { air.resumeAdvertising() }
    complete(command)
  }

  /// Ends advertising because a central has connected. Reports the end to a host that uses sets. Core 5.4,
  /// Vol 4, Part E, 7.7.65.18.
  private func endAdvertising(connectedBy end: LinkEnd) {
    state.advertising.isEnabled = false
    guard state.family == .extended else { return }
    event(.advertisingSetTerminated, capacity: 5) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(state.advertising.setHandle)
      $0.append(u16: end.handle.rawValue)
      $0.append(0)  // events: not counted
    }
  }
}

extension VirtualController: Advertiser {
  var identity: DeviceAddress { configuration.address }

  var advertisement: Advertisement? {
    let advertising = state.advertising
    guard advertising.isEnabled else { return nil }
    return Advertisement(
      address: advertisedAddress, kind: advertising.kind,
      interval: .microseconds(625 * Int64(advertising.interval)), data: advertising.data,
      scanResponse: advertising.scanResponse)
  }

  private var advertisedAddress: DeviceAddress {
    state.advertising.ownType & 1 == 0
      ? configuration.address : state.advertising.setAddress ?? state.randomAddress
  }

  func linkEnd(as address: DeviceAddress, to central: DeviceAddress, now: MonotonicTime) -> LinkEnd {
    LinkEnd(
      .peripheral, freeHandle(), owner: self, address: configuration.address, peer: central, now: now)
  }
}

// MARK: - Scanning

/// Scanning: parameters, enable, accept list, and the reports. Core 5.4, Vol 4, Part E, 7.8.10–17, 7.8.64–65.
extension VirtualController {
  /// Whether the controller receives advertisements, as a scanner or an initiator.
  var isListening: Bool { state.scan.isEnabled || state.initiation != nil }

  func setScanParameters(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    let isExtended = command == .setExtendedScanParameters
    // Extended: own address type, policy, PHYs, then type, interval and window of each PHY.
    // Legacy: type, interval, window, own address type, policy.
    let kind = ScanKind(rawValue: parameters[isExtended ? 3 : 0])
    let policy = parameters[isExtended ? 1 : 6]
    let interval = parameters.u16(at: isExtended ? 4 : 1)
    let window = parameters.u16(at: isExtended ? 6 : 3)
    guard let kind, policy <= 3, interval >= 4, window >= 4, window <= interval,
      !isExtended || parameters.count == 3 + 5 * (parameters[2] & 0x05).nonzeroBitCount
    else { return complete(command, .invalidParameters) }
    guard !state.scan.isEnabled else { return complete(command, .commandDisallowed) }
    state.scan.kind = kind
    state.scan.window = ListeningWindow(interval: interval, length: window)
    // Policies 2 and 3 only add directed advertisements, which no emulated peripheral sends.
    state.scan.acceptsListedOnly = policy & 1 != 0
    complete(command)
  }

  func setScanEnable(_ command: ControllerCommand, _ parameters: Span<UInt8>, now: MonotonicTime) {
    // The extended command has a third filter, "reset each scan period". Without periods, this filter equals
    // the second filter.
    guard parameters[0] <= 1, let duplicates = DuplicateFilter(rawValue: min(parameters[1], 1)) else {
      return complete(command, .invalidParameters)
    }
    let wasListening = isListening
    state.scan.isEnabled = parameters[0] == 1
    state.scan.duplicates = duplicates
    state.scan.reported.removeAll()
    state.scan.window.start = now
    if !wasListening, isListening { air.resumeAdvertising() }
    complete(command)
  }

  private func changeAcceptList(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    if command == .readAcceptListSize {
      return complete(command, capacity: 1) { $0.append(UInt8(configuration.acceptListCapacity)) }
    }
    // Refuse while a scan or a connection attempt uses the list. Core 5.4, Vol 4, Part E, 7.8.15.
    let isInUse =
      (state.scan.isEnabled && state.scan.acceptsListedOnly)
      || (state.initiation.map { $0.peer == nil } ?? false)
    guard !isInUse else { return complete(command, .commandDisallowed) }
    if command == .clearAcceptList {
      state.acceptList.removeAll()
      return complete(command)
    }
    guard let type = AddressType(rawValue: parameters[0]) else {
      return complete(command, .invalidParameters)
    }
    let address = parameters.address(at: 1, type: type)
    if command == .removeFromAcceptList {
      state.acceptList.removeAll { $0 == address }
    } else if !state.acceptList.contains(address) {
      guard state.acceptList.count < configuration.acceptListCapacity else {
        return complete(command, .memoryCapacityExceeded)
      }
      state.acceptList.append(address)
    }
    complete(command)
  }

  // MARK: Advertisements

  /// Returns the host's pending connection attempt for this advertiser, if the radio is listening now.
  func initiation(for advertisement: Advertisement, now: MonotonicTime) -> Initiation? {
    guard let initiation = state.initiation, advertisement.kind == .connectable,
      initiation.peer.map({ $0 == advertisement.address })
        ?? (!injected.overlooksAcceptList && state.acceptList.contains(advertisement.address))
    else { return nil }
    return isOpen(initiation.window, now) ? initiation : nil
  }

  private func isOpen(_ window: ListeningWindow, _ now: MonotonicTime) -> Bool {
    air.configuration.pace == .immediate || window.isOpen(at: now)
  }

  /// Reports an advertisement that the radio receives.
  func hear(_ advertisement: Advertisement, now: MonotonicTime) {
    guard state.scan.isEnabled, isOpen(state.scan.window, now) else { return }
    if state.scan.acceptsListedOnly, !state.acceptList.contains(advertisement.address) { return }
    if state.scan.duplicates == .reportOnce,
      !state.scan.reported.insert(advertisement.address).inserted
    {
      return
    }
    report(advertisement, .advertisement, advertisement.data)
    if state.scan.kind == .active, advertisement.kind != .nonConnectable {
      report(advertisement, .scanResponse, advertisement.scanResponse)
    }
  }

  private enum ReportedPDU { case advertisement, scanResponse }

  private func report(_ advertisement: Advertisement, _ pdu: ReportedPDU, _ data: [UInt8]) {
    let address = advertisement.address
    if state.family == .extended {
      event(.extendedAdvertisingReport, capacity: 25 + data.count) {
        $0.append(1)
        $0.append(u16: Self.extendedType(advertisement.kind, pdu))
        $0.append(address.type.rawValue)
        $0.append(address)
        $0.append(1)  // primary PHY: LE 1M
        $0.append(0)  // secondary PHY: none, a legacy PDU
        $0.append(0xFF)  // no advertising set
        $0.append(0x7F)  // power not known
        $0.append(UInt8(bitPattern: advertisement.rssi))
        $0.append(u16: 0)  // not periodic
        $0.append(zeros: 7)  // not directed
        $0.append(UInt8(data.count))
        $0.append(data.span)
      }
    } else {
      event(.advertisingReport, capacity: 11 + data.count) {
        $0.append(1)
        $0.append(pdu == .scanResponse ? 4 : advertisement.kind.rawValue)
        $0.append(address.type.rawValue)
        $0.append(address)
        $0.append(UInt8(data.count))
        $0.append(data.span)
        $0.append(UInt8(bitPattern: advertisement.rssi))
      }
    }
  }

  /// Returns the Event_Type of the extended report for a legacy PDU. Core 5.4, Vol 4, Part E, 7.7.65.13,
  /// table 7.1.
  private static func extendedType(_ kind: Advertisement.Kind, _ pdu: ReportedPDU) -> UInt16 {
    switch (kind, pdu) {
    case (.connectable, .advertisement): 0x0013
    case (.connectable, .scanResponse): 0x001B
    case (.scannable, .advertisement): 0x0012
    case (.scannable, .scanResponse): 0x001A
    case (.nonConnectable, _): 0x0010
    }
  }
}

extension HCIStatus {
  fileprivate static let connectionAlreadyExists = HCIStatus(rawValue: 0x0B)
}

// MARK: - Connections

/// Creating, changing and ending links. Core 5.4, Vol 4, Part E, 7.1.6, 7.8.12–21, 7.8.66.
extension VirtualController {
  func createConnection(_ parameters: Span<UInt8>, now: MonotonicTime) {
    initiate(
      .createConnection, filterPolicy: parameters[4], peerType: parameters[5],
      peer: parameters.address(at: 6, type: .public), ownType: parameters[12], parameters, scanAt: 0,
      timingAt: 13, now: now)
  }

  /// Connects to a peer. Uses the timing of the first requested PHY.
  func extendedCreateConnection(_ parameters: Span<UInt8>, now: MonotonicTime) {
    guard parameters.count == 10 + 16 * (parameters[9] & 0x07).nonzeroBitCount else {
      return status(.extendedCreateConnection, .invalidParameters)
    }
    initiate(
      .extendedCreateConnection, filterPolicy: parameters[0], peerType: parameters[2],
      peer: parameters.address(at: 3, type: .public), ownType: parameters[1], parameters, scanAt: 10,
      timingAt: 14, now: now)
  }

  private func initiate(
    _ command: ControllerCommand, filterPolicy: UInt8, peerType: UInt8, peer: DeviceAddress,
    ownType: UInt8, _ parameters: Span<UInt8>, scanAt scanOffset: Int, timingAt offset: Int,
    now: MonotonicTime
  ) {
    guard filterPolicy <= 1, let type = AddressType(rawValue: peerType & 1),
      let timing = linkParameters(parameters, at: offset)
    else { return status(command, .invalidParameters) }
    guard state.initiation == nil || injected.goesOnWithConnects else {
      return status(command, .commandDisallowed)
    }
    let target = filterPolicy == 0 ? peer.with(type: type) : nil
    if let target, links.contains(where: { $0.peer == target }) {
      return status(command, .connectionAlreadyExists)
    }
    let wasListening = isListening
    state.initiation = Initiation(
      peer: target, ownAddress: ownAddress(ownType), parameters: timing,
      window: ListeningWindow(
        interval: max(4, parameters.u16(at: scanOffset)), length: parameters.u16(at: scanOffset + 2),
        start: now))
    if !wasListening { air.resumeAdvertising() }
    status(command)
  }

  /// Returns the address that the controller uses for an Own_Address_Type.
  ///
  /// - Parameter type: Own_Address_Type; 2 and 3 are treated as 0 and 1, because private addresses are not
  ///   supported.
  func ownAddress(_ type: UInt8) -> DeviceAddress {
    type & 1 == 0 ? configuration.address : state.randomAddress
  }

  /// Parses interval (minimum, maximum), latency and timeout. Uses the maximum interval, like many
  /// controllers.
  ///
  /// - Returns: `nil` if a value is outside the ranges of Core 5.4, Vol 4, Part E, 7.8.12.
  private func linkParameters(_ bytes: Span<UInt8>, at offset: Int) -> LinkParameters? {
    let (least, most) = (bytes.u16(at: offset), bytes.u16(at: offset + 2))
    let (latency, timeout) = (bytes.u16(at: offset + 4), bytes.u16(at: offset + 6))
    guard least >= 6, least <= most, most <= 3200, latency <= 499, (10...3200).contains(timeout),
      // The timeout must exceed two intervals with latency: 10 ms · t > 2 · 1.25 ms · i · (1 + l).
      UInt32(timeout) * 4 > (1 + UInt32(latency)) * UInt32(most)
    else { return nil }
    return LinkParameters(interval: most, latency: latency, supervisionTimeout: timeout)
  }

  private func cancelConnection() {
    guard state.initiation != nil else { return complete(.createConnectionCancel, .commandDisallowed) }
    if injected.goesOnWithConnects { return complete(.createConnectionCancel) }
    state.initiation = nil
    complete(.createConnectionCancel)
    connectionComplete(.unknownConnection, nil)
  }

  /// Adds a link and reports it to the host. Called when a link is established, at either end.
  func connected(_ end: LinkEnd) {
    if end.role == .central { state.initiation = nil }
    end.allowedDataLength = air.configuration.pace == .air ? state.defaultDataLength : .maximum
    links.append(end)
    connectionComplete(.success, end)
    if end.role == .peripheral { endAdvertising(connectedBy: end) }
    // If the host has set a longer default, the controller itself requests longer packets. Core 5.4, Vol 6,
    // Part B, 4.5.10.
    if end.allowedDataLength != .minimum, air.configuration.pace == .air {
      end.link?.requestDataLength(end.allowedDataLength, from: end)
    }
  }

  /// Sends LE Connection Complete, or the enhanced event if the host has enabled it.
  private func connectionComplete(_ code: HCIStatus, _ end: LinkEnd?) {
    let peer = end?.peer ?? .any
    let timing = end?.link?.parameters
    let isEnhanced = state.mask.allows(.enhancedConnectionComplete)
    event(isEnhanced ? .enhancedConnectionComplete : .connectionComplete, capacity: 30) {
      $0.append(code.rawValue)
      $0.append(u16: end?.handle.rawValue ?? 0)
      $0.append(end?.role.rawValue ?? 0)
      $0.append(peer.type.rawValue)
      $0.append(peer)
      if isEnhanced { $0.append(zeros: 12) }  // no private addresses
      $0.append(u16: timing?.interval ?? 0)
      $0.append(u16: timing?.latency ?? 0)
      $0.append(u16: timing?.supervisionTimeout ?? 0)
      $0.append(0)  // central clock accuracy: 500 ppm
    }
  }

  // MARK: Commands for a link

  private func executeOnLink(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    let handle = ConnectionHandle(parameters.u16(at: 0))
    guard let end = links.first(where: { $0.handle == handle }), let link = end.link else {
      return refuse(command, .unknownConnection)
    }
    switch command {
    case .disconnect:
      status(command)
      link.terminate(from: end, HCIStatus(rawValue: parameters[2]))
    case .connectionUpdate: update(link, end, parameters)
    case .readRemoteVersion:
      status(command)
      link.requestVersion(from: end)
    case .readRemoteFeatures:
      status(command)
      link.requestFeatures(from: end)
    case .setDataLength:
      complete(.setDataLength, capacity: 2) { $0.append(u16: handle.rawValue) }
      link.requestDataLength(
        DataLength(octets: parameters.u16(at: 2), time: parameters.u16(at: 4)), from: end)
    case .setPHY: setPHY(link, end, parameters)
    case .enableEncryption, .longTermKeyRequestReply, .longTermKeyRequestNegativeReply:
      executeEncryption(command, parameters, link, end)
    default: read(command, end, link)
    }
  }

  /// Changes a link's parameters. A peripheral can request a change only by L2CAP, because the virtual
  /// controller does not support Connection Parameters Request.
  private func update(_ link: AirLink, _ end: LinkEnd, _ parameters: Span<UInt8>) {
    guard let timing = linkParameters(parameters, at: 2) else {
      return status(.connectionUpdate, .invalidParameters)
    }
    guard end.role == .central else { return status(.connectionUpdate, .unsupportedRemoteFeature) }
    status(.connectionUpdate)
    link.update(timing)
  }

  private func setPHY(_ link: AirLink, _ end: LinkEnd, _ parameters: Span<UInt8>) {
    // Bits 0 and 1 of All_PHYs: no preference for sending or receiving. The coded PHY is not supported.
    let wish = PHYWish(
      transmit: parameters[2] & 1 != 0 ? 3 : parameters[3] & 3,
      receive: parameters[2] & 2 != 0 ? 3 : parameters[4] & 3)
    guard wish.transmit != 0, wish.receive != 0 else { return status(.setPHY, .unsupportedFeature) }
    status(.setPHY)
    link.requestPHY(wish, from: end)
  }

  private func read(_ command: ControllerCommand, _ end: LinkEnd, _ link: AirLink) {
    complete(command, capacity: 7) {
      $0.append(u16: end.handle.rawValue)
      switch command {
      case .readRSSI: $0.append(UInt8(bitPattern: -55))
      case .readTransmitPowerLevel: $0.append(0)
      case .readPHY:
        $0.append(end.phy.rawValue)
        $0.append(link.other(end).phy.rawValue)
      default:  // the channel map: all 37 data channels
        $0.append(u32: 0xFFFF_FFFF)
        $0.append(0x1F)
      }
    }
  }
}

/// Sends the links' events to the host.
extension VirtualController: LinkOwner {
  func received(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary, on end: LinkEnd) {
    var offset = 0
    repeat {
      let next = min(data.count, offset + configuration.aclByteCount)
      post(.acl, capacity: ACLPacket.headerByteCount + next - offset) {
        ACLPacket(
          handle: end.handle, boundary: offset == 0 ? boundary : .continuation,
          data: data.extracting(offset..<next)
        ).encode(into: &$0)
      }
      offset = next
    } while offset < data.count
  }

  /// Sends Number Of Completed Packets. Core 5.4, Vol 4, Part E, 7.7.19.
  func acknowledged(on end: LinkEnd) {
    event(.numberOfCompletedPackets, capacity: 5) {
      $0.append(1)
      $0.append(u16: end.handle.rawValue)
      $0.append(u16: 1)
    }
  }

  func parametersChanged(on end: LinkEnd) {
    guard let timing = end.link?.parameters else { return }
    event(.connectionUpdateComplete, capacity: 9) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(u16: timing.interval)
      $0.append(u16: timing.latency)
      $0.append(u16: timing.supervisionTimeout)
    }
  }

  func dataLengthChanged(on end: LinkEnd) {
    guard let other = end.other else { return }
    event(.dataLengthChange, capacity: 10) {
      $0.append(u16: end.handle.rawValue)
      for length in [end.dataLength, other.dataLength] {
        $0.append(u16: length.octets)
        $0.append(u16: length.time)
      }
    }
  }

  func phyChanged(on end: LinkEnd) {
    guard let other = end.other else { return }
    event(.phyUpdateComplete, capacity: 5) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(end.phy.rawValue)
      $0.append(other.phy.rawValue)
    }
  }

  /// Reports the same features for all emulated devices: encryption, longer data packets and LE 2M PHY.
  func featuresRead(on end: LinkEnd) {
    event(.readRemoteFeaturesComplete, capacity: 11) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(u64: 1 << 0 | 1 << 5 | 1 << 8)
    }
  }

  func versionRead(on end: LinkEnd) {
    event(.readRemoteVersionComplete, capacity: 8) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(0x09)  // Core 5.0
      $0.append(u16: 0xFFFF)
      $0.append(u16: 0)
    }
  }

  func ended(_ end: LinkEnd, _ reason: HCIStatus) {
    links.removeAll { $0 === end }
    event(.disconnectionComplete, capacity: 4) {
      DisconnectionComplete(status: .success, handle: end.handle, reason: reason).encode(into: &$0)
    }
    if isListening { air.resumeAdvertising() }
  }
}

extension HCIStatus {
  private static let unsupportedRemoteFeature = HCIStatus(rawValue: 0x1A)
}

// MARK: - Encryption

/// Encryption of links and of blocks. Core 5.4, Vol 4, Part E, 7.8.22 and 7.8.24–26.
extension VirtualController {
  private func encryptBlock(_ parameters: Span<UInt8>) {
    let block = AES128(key: parameters.u128(at: 0)).encrypt(parameters.u128(at: 16))
    complete(.encrypt, capacity: 16) { $0.append(u128: block) }
  }

  private func executeEncryption(
    _ command: ControllerCommand, _ parameters: Span<UInt8>, _ link: AirLink, _ end: LinkEnd
  ) {
    guard command != .enableEncryption else { return enableEncryption(parameters, link, end) }
    guard end.awaitsKey else { return complete(command, .commandDisallowed) }
    end.awaitsKey = false
    complete(command, capacity: 2) { $0.append(u16: end.handle.rawValue) }
    link.answerEncryption(command == .longTermKeyRequestReply ? parameters.u128(at: 2) : nil)
  }

  private func enableEncryption(_ parameters: Span<UInt8>, _ link: AirLink, _ end: LinkEnd) {
    guard end.role == .central, link.wantedEncryption == nil else {
      return status(.enableEncryption, .commandDisallowed)
    }
    status(.enableEncryption)
    if let failure = injected.encryption {
      if let status = failure.status { encryptionEnded(status, isRefresh: false, on: end) }
      return
    }
    link.requestEncryption(
      LinkEncryption(
        random: parameters.u64(at: 2), diversifier: parameters.u16(at: 10), key: parameters.u128(at: 12)))
  }

  /// Reports that encryption has ended on each encrypted link.
  func endEncryption() {
    for end in links where end.isEncrypted {
      end.isEncrypted = false
      event(.encryptionChange, capacity: 4) {
        EncryptionChange(status: .success, handle: end.handle, isEncrypted: false).encode(into: &$0)
      }
    }
  }

  func keyWanted(_ random: UInt64, _ diversifier: UInt16, on end: LinkEnd) {
    // A host that does not enable the event has no keys. Core 5.4, Vol 4, Part E, 7.7.65.5.
    guard state.mask.allows(.longTermKeyRequest) else { return end.link?.answerEncryption(nil) ?? () }
    end.awaitsKey = true
    event(.longTermKeyRequest, capacity: 12) {
      $0.append(u16: end.handle.rawValue)
      $0.append(u64: random)
      $0.append(u16: diversifier)
    }
  }

  func encryptionEnded(_ status: HCIStatus, isRefresh: Bool, on end: LinkEnd) {
    if isRefresh {
      event(.encryptionKeyRefreshComplete, capacity: 3) {
        EncryptionKeyRefreshComplete(status: status, handle: end.handle).encode(into: &$0)
      }
    } else {
      event(.encryptionChange, capacity: 4) {
        EncryptionChange(status: status, handle: end.handle, isEncrypted: status == .success).encode(
          into: &$0)
      }
    }
  }
}

// MARK: - Tests

/// Test code behind a virtual controller. Replaces the peers in the virtual air, and edits the packets that
/// the controller sends to its host.
package protocol ControllerTester: AnyObject {
  /// Called with each command of the host, H4 type first. The controller also executes the command.
  func hear(command packet: Span<UInt8>)
  /// Accepts a data packet of the host for a link.
  ///
  /// - Returns: `false` if the link does not exist.
  func accept(_ packet: borrowing ACLPacket) -> Bool
  /// Returns the packets to send to the host instead of `packet`, H4 type first.
  func edit(_ packet: [UInt8]) -> [[UInt8]]
  /// Called before the controller's packets are drained.
  func work(for controller: VirtualController)
}

/// Operations of a tester on a controller.
extension VirtualController {
  package var linkCount: Int { links.count }
  /// Address of the host's advertisement; `nil` if it does not advertise.
  package var hostAddress: DeviceAddress? { advertisement?.address }

  /// Sends a packet to the host, H4 type first.
  package func put(_ packet: [UInt8]) {
    outbox.append(HCIPacketType(rawValue: packet[0]), capacity: packet.count - 1) {
      $0.append(packet.span.extracting(1...))
    }
  }

  /// Makes the peers of the chosen links disconnect.
  package func disconnectPeers(where isChosen: (ConnectionHandle) -> Bool = { _ in true }) {
    for end in links where isChosen(end.handle) {
      if let other = end.other { end.link?.terminate(from: other, .remoteUserTerminated) }
    }
  }

  /// Connects to a host that advertises in the same virtual air. This controller needs no host of its own.
  package func connect(to address: DeviceAddress) {
    outbox.removeAll()
    state.initiation = Initiation(
      peer: address, ownAddress: configuration.address,
      parameters: LinkParameters(interval: 24, latency: 0, supervisionTimeout: 400),
      window: ListeningWindow())
    air.resumeAdvertising()
  }
}
