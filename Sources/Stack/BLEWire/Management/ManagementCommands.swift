/// The number of a management command. `mgmt-api.txt`. Unknown values are kept.
public struct ManagementOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let readControllerInformation = ManagementOpcode(rawValue: 0x0004)
  public static let startDiscovery = ManagementOpcode(rawValue: 0x0023)
  public static let stopDiscovery = ManagementOpcode(rawValue: 0x0024)
  public static let getConnectionInformation = ManagementOpcode(rawValue: 0x0031)
  public static let loadConnectionParameters = ManagementOpcode(rawValue: 0x0035)
}

/// A management command that knows its opcode and how to write its parameters.
public protocol ManagementCommand: Sendable {
  static var opcode: ManagementOpcode { get }
  /// Octets of the parameters, at most.
  var parameterByteCount: Int { get }
  func encodeParameters(into output: inout OutputSpan<UInt8>)
}

extension ManagementCommand {
  /// Enough for all commands of fixed length here.
  public var parameterByteCount: Int { 7 }
}

/// What the kernel knows of an adapter; answered with `ControllerSettings`. `mgmt-api.txt`, 0x0004.
public struct ReadControllerInformation: ManagementCommand {
  public static let opcode = ManagementOpcode.readControllerInformation
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// What is switched on at an adapter, from the reply to Read Controller Information.
public struct ControllerSettings: Hashable, Sendable, BitwiseCopyable {
  public let bits: UInt32

  public var isPowered: Bool { bits & 1 != 0 }
  public var isLowEnergy: Bool { bits & 1 << 9 != 0 }
  public var isBondable: Bool { bits & 1 << 4 != 0 }
  /// As `btmgmt advertising` sets it. What is advertised beside, by instances or commands of HCI, does not show here.
  public var isAdvertising: Bool { bits & 1 << 10 != 0 }
  public var hasSecureConnections: Bool { bits & 1 << 11 != 0 }

  /// The kernel's host goes by resolvable private addresses, and gives its key away when it pairs.
  public var isPrivate: Bool { bits & 1 << 13 != 0 }

  public init(bits: UInt32) { self.bits = bits }

  /// - Parameter reply: of Read Controller Information: address, version, manufacturer, supported settings, current
  ///   settings, class, names.
  public init(informationReply reply: Span<UInt8>) throws(WireError) {
    try reply.require(17, .management)
    bits = reply.u32(at: 13)
  }
}

/// Looks for devices with LE addresses, public and random, actively and for about 10 s. The kernel has one discovery
/// for everybody: `busy` while any is on. `mgmt-api.txt`, 0x0023.
public struct StartDiscovery: ManagementCommand {
  public static let opcode = ManagementOpcode.startDiscovery
  /// One bit for each address type: LE public, LE random.
  static let lowEnergy: UInt8 = 0x06

  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(Self.lowEnergy) }
}

/// Ends a discovery of the same address types, whoever started it: `rejected` where none is on. `mgmt-api.txt`, 0x0024.
public struct StopDiscovery: ManagementCommand {
  public static let opcode = ManagementOpcode.stopDiscovery

  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(StartDiscovery.lowEnergy)
  }
}

/// How a link stands; answered with `ConnectionInformation`. `mgmt-api.txt`, 0x0031.
public struct GetConnectionInformation: ManagementCommand {
  public static let opcode = ManagementOpcode.getConnectionInformation
  public let peer: DeviceAddress

  public init(_ peer: DeviceAddress) { self.peer = peer }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(management: peer) }
}

/// The kernel keeps the values for a second or more before it asks the controller again.
public struct ConnectionInformation: Hashable, Sendable, BitwiseCopyable {
  /// dBm; `nil` where it is not known (127).
  public let rssi: Int8?

  /// - Parameter reply: address, RSSI, transmit power, its maximum.
  public init(validating reply: Span<UInt8>) throws(WireError) {
    try reply.require(10, .management)
    rssi = reply[7] == 0x7F ? nil : Int8(bitPattern: reply[7])
  }
}

#if !NO_ALLOCATIONS
  /// The timing that the kernel will ask for when it connects these devices. `mgmt-api.txt`, 0x0035.
  ///
  /// The kernel first forgets all entries but those of devices that it connects by itself (`load_conn_param` in
  /// `net/bluetooth/mgmt.c`, `hci_conn_params_clear_disabled` in `hci_core.c`), and no command reads them.
  public struct LoadConnectionParameters: ManagementCommand {
    public struct Entry: Hashable, Sendable {
      /// Its identity address where it is bonded.
      public let peer: DeviceAddress
      public let parameters: LinkParameterRange

      public init(_ peer: DeviceAddress, _ parameters: LinkParameterRange) {
        self.peer = peer
        self.parameters = parameters
      }
    }

    public static let opcode = ManagementOpcode.loadConnectionParameters
    public let entries: [Entry]

    public init(_ entries: [Entry]) { self.entries = entries }

    public var parameterByteCount: Int { 2 + 15 * entries.count }

    public func encodeParameters(into output: inout OutputSpan<UInt8>) {
      output.append(u16: UInt16(truncatingIfNeeded: entries.count))
      for entry in entries {
        output.append(management: entry.peer)
        output.append(u16: entry.parameters.minimumInterval)
        output.append(u16: entry.parameters.maximumInterval)
        output.append(u16: entry.parameters.latency)
        output.append(u16: entry.parameters.supervisionTimeout)
      }
    }
  }
#endif
