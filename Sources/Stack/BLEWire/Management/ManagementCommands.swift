/// Opcode of a management command. `mgmt-api.txt`. Unknown values are kept.
public struct ManagementOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let readControllerInformation = ManagementOpcode(rawValue: 0x0004)
  public static let setPowered = ManagementOpcode(rawValue: 0x0005)
  public static let startDiscovery = ManagementOpcode(rawValue: 0x0023)
  public static let stopDiscovery = ManagementOpcode(rawValue: 0x0024)
  public static let getConnectionInformation = ManagementOpcode(rawValue: 0x0031)
  public static let loadConnectionParameters = ManagementOpcode(rawValue: 0x0035)
}

/// A management command: its opcode and the encoding of its parameters.
public protocol ManagementCommand: Sendable {
  static var opcode: ManagementOpcode { get }
  /// Maximum size of the parameters in bytes.
  var parameterByteCount: Int { get }
  func encodeParameters(into output: inout OutputSpan<UInt8>)
}

extension ManagementCommand {
  /// Default of 7 bytes; sufficient for all commands of fixed length in this file.
  public var parameterByteCount: Int { 7 }
}

/// Requests information about an adapter; the reply has `ControllerSettings`. `mgmt-api.txt`, 0x0004.
public struct ReadControllerInformation: ManagementCommand {
  public static let opcode = ManagementOpcode.readControllerInformation
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Current settings of an adapter, from the reply to Read Controller Information.
public struct ControllerSettings: Hashable, Sendable, BitwiseCopyable {
  public let bits: UInt32

  public var isPowered: Bool { bits & 1 != 0 }
  public var isLowEnergy: Bool { bits & 1 << 9 != 0 }
  public var isBondable: Bool { bits & 1 << 4 != 0 }
  /// Whether the adapter's advertising setting is on, as set by `btmgmt advertising`. Does not include
  /// advertising by instances or HCI commands.
  public var isAdvertising: Bool { bits & 1 << 10 != 0 }
  public var hasSecureConnections: Bool { bits & 1 << 11 != 0 }

  /// Whether the kernel's host uses resolvable private addresses and distributes its identity resolving key
  /// when it pairs.
  public var isPrivate: Bool { bits & 1 << 13 != 0 }

  public init(bits: UInt32) { self.bits = bits }

  /// Decodes the current settings.
  ///
  /// - Parameter reply: reply to Read Controller Information: address, version, manufacturer, supported
  ///   settings, current settings, class, names.
  public init(informationReply reply: Span<UInt8>) throws(WireError) {
    try reply.require(17, .management)
    bits = reply.u32(at: 13)
  }
}

/// Switches an adapter on or off. The kernel then sends HCI Reset and initialises the controller, or ends its
/// links and closes it. `mgmt-api.txt`, 0x0005.
public struct SetPowered: ManagementCommand {
  public static let opcode = ManagementOpcode.setPowered
  public var isOn: Bool

  @inlinable public init(_ isOn: Bool) { self.isOn = isOn }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(isOn ? 1 : 0) }
}

/// Discovers devices with public and random LE addresses by active scanning for about 10 s. All programs
/// share the kernel's one discovery: the status is `busy` while a discovery is running. `mgmt-api.txt`,
/// 0x0023.
public struct StartDiscovery: ManagementCommand {
  public static let opcode = ManagementOpcode.startDiscovery
  /// One bit per address type: LE public, LE random.
  static let lowEnergy: UInt8 = 0x06

  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(Self.lowEnergy) }
}

/// Stops a discovery of the same address types, even if another program started it. The status is `rejected`
/// if no discovery is running. `mgmt-api.txt`, 0x0024.
public struct StopDiscovery: ManagementCommand {
  public static let opcode = ManagementOpcode.stopDiscovery

  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(StartDiscovery.lowEnergy)
  }
}

/// Requests the state of a link; the reply has `ConnectionInformation`. `mgmt-api.txt`, 0x0031.
public struct GetConnectionInformation: ManagementCommand {
  public static let opcode = ManagementOpcode.getConnectionInformation
  public let peer: DeviceAddress

  public init(_ peer: DeviceAddress) { self.peer = peer }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(management: peer) }
}

/// State of a link. The kernel caches the values for at least a second before it reads them from the
/// controller again.
public struct ConnectionInformation: Hashable, Sendable, BitwiseCopyable {
  /// RSSI in dBm; `nil` if it is unknown (127).
  public let rssi: Int8?

  /// Decodes the reply to Get Connection Information.
  ///
  /// - Parameter reply: address, RSSI, transmit power, maximum transmit power.
  public init(validating reply: Span<UInt8>) throws(WireError) {
    try reply.require(10, .management)
    rssi = reply[7] == 0x7F ? nil : Int8(bitPattern: reply[7])
  }
}

#if !NO_ALLOCATIONS
  /// Sets the connection parameters that the kernel requests when it connects to these devices.
  /// `mgmt-api.txt`, 0x0035.
  ///
  /// The kernel first deletes all stored parameters, except for devices that it connects to automatically
  /// (`load_conn_param` in `net/bluetooth/mgmt.c`, `hci_conn_params_clear_disabled` in `hci_core.c`). No
  /// command reads the stored parameters.
  public struct LoadConnectionParameters: ManagementCommand {
    public struct Entry: Hashable, Sendable {
      /// Identity address of the device if it is bonded.
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
