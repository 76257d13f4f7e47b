public import BLECore

/// The number of a management command. `mgmt-api.txt`. Unknown values are kept.
public struct ManagementOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let readControllerInformation = ManagementOpcode(rawValue: 0x0004)
  public static let startDiscovery = ManagementOpcode(rawValue: 0x0023)
  public static let stopDiscovery = ManagementOpcode(rawValue: 0x0024)
  public static let loadConnectionParameters = ManagementOpcode(rawValue: 0x0035)
}

/// A management command that knows its opcode and how to write its parameters.
public protocol ManagementCommand: Sendable {
  static var opcode: ManagementOpcode { get }
  /// At most `ManagementCommandLimit.parameterByteCount` octets.
  func encodeParameters(into output: inout OutputSpan<UInt8>)
}

public enum ManagementCommandLimit {
  /// Load Connection Parameters with one entry is the longest command here.
  public static let parameterByteCount = 17
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

/// The timing that the kernel will ask for when it connects a device. `mgmt-api.txt`, 0x0035.
///
/// The kernel first forgets all entries but those of devices that it connects by itself (`load_conn_param` in
/// `net/bluetooth/mgmt.c`, `hci_conn_params_clear_disabled` in `hci_core.c`), and no command reads them.
public struct LoadConnectionParameters: ManagementCommand {
  public static let opcode = ManagementOpcode.loadConnectionParameters
  /// `nil` leaves the list empty.
  public let peer: DeviceAddress?
  public let parameters: LinkParameterRange

  /// - Parameter peer: its identity address where it is bonded.
  public init(_ peer: DeviceAddress, _ parameters: LinkParameterRange) {
    self.peer = peer
    self.parameters = parameters
  }

  private init() {
    peer = nil
    parameters = .default
  }

  /// Forgets what was loaded.
  public static var none: LoadConnectionParameters { LoadConnectionParameters() }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    guard let peer else {
      output.append(u16: 0)
      return
    }
    output.append(u16: 1)
    output.append(management: peer)
    output.append(u16: parameters.minimumInterval)
    output.append(u16: parameters.maximumInterval)
    output.append(u16: parameters.latency)
    output.append(u16: parameters.supervisionTimeout)
  }
}
