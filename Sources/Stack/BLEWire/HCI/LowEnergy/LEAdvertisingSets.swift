extension HCIOpcode {
  public static let leSetAdvertisingSetRandomAddress = HCIOpcode(group: 0x08, command: 0x035)
  public static let leSetExtendedAdvertisingParameters = HCIOpcode(group: 0x08, command: 0x036)
  public static let leSetExtendedAdvertisingData = HCIOpcode(group: 0x08, command: 0x037)
  public static let leSetExtendedScanResponseData = HCIOpcode(group: 0x08, command: 0x038)
  public static let leSetExtendedAdvertisingEnable = HCIOpcode(group: 0x08, command: 0x039)
  public static let leRemoveAdvertisingSet = HCIOpcode(group: 0x08, command: 0x03C)
  public static let leClearAdvertisingSets = HCIOpcode(group: 0x08, command: 0x03D)
}

extension LESubevent {
  public static let advertisingSetTerminated = LESubevent(rawValue: 0x12)
}

/// Number by which a host identifies an advertising set; 0 … 0xEF. Core 5.4, Vol 4, Part E, 7.8.53.
public struct AdvertisingSetHandle: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let first = AdvertisingSetHandle(rawValue: 0)
  /// A set handle that the kernel's host does not use: the kernel numbers its sets from 0 up
  /// (`hci_find_adv_instance`, `net/bluetooth/hci_core.c`).
  public static let besideKernel = AdvertisingSetHandle(rawValue: 0xEF)
}

/// Sets the random address of a set. Allowed after the set's parameters are set and before the set is
/// enabled. Core 5.4, Vol 4, Part E, 7.8.52.
public struct LESetAdvertisingSetRandomAddress: HCICommand {
  public static let opcode = HCIOpcode.leSetAdvertisingSetRandomAddress
  public let set: AdvertisingSetHandle
  public let address: DeviceAddress

  @inlinable public init(_ set: AdvertisingSetHandle, _ address: DeviceAddress) {
    self.set = set
    self.address = address
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(set.rawValue)
    output.append(address)
  }
}

/// Parameters of a set for undirected advertising on the 1M PHY, for all devices, at the controller's
/// preferred power.
///
/// Core 5.4, Vol 4, Part E, 7.8.53.
public struct LESetExtendedAdvertisingParameters: HCICommand {
  /// Type of the advertising PDUs.
  public enum Form: Hashable, Sendable, BitwiseCopyable {
    /// Legacy PDUs, which every scanner receives; 31 bytes of data.
    case legacy
    /// Extended PDUs, which only extended scanners receive. A connectable set then has no scan response.
    case extended
  }

  public static let opcode = HCIOpcode.leSetExtendedAdvertisingParameters
  public let set: AdvertisingSetHandle
  public let form: Form
  public let kind: AdvertisingKind
  public let interval: AdvertisingInterval
  public let ownType: AddressType

  @inlinable public init(
    _ set: AdvertisingSetHandle, form: Form = .legacy, kind: AdvertisingKind, interval: AdvertisingInterval,
    ownType: AddressType = .public
  ) {
    self.set = set
    self.form = form
    self.kind = kind
    self.interval = interval
    self.ownType = ownType
  }

  /// Advertising properties. Bit 0: connectable; bit 1: scannable; bit 4: legacy PDUs. Connectable legacy
  /// PDUs are always scannable.
  var properties: UInt16 {
    switch (form, kind) {
    case (.legacy, .connectable): 0x0013
    case (.legacy, .scannable): 0x0012
    case (.legacy, .nonConnectable): 0x0010
    case (.extended, .connectable): 0x0001
    case (.extended, .scannable): 0x0002
    case (.extended, .nonConnectable): 0x0000
    }
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(set.rawValue)
    output.append(u16: properties)
    output.append(u24: UInt32(interval.least))
    output.append(u24: UInt32(interval.most))
    output.append(0x07)  // channels 37, 38 and 39
    output.append(ownType.rawValue)
    output.append(zeros: 7)  // peer: for directed advertising only
    output.append(0)  // accept scan and connection requests from all devices
    output.append(0x7F)  // no preferred power
    output.append(1)  // primary PHY: LE 1M
    output.append(0)  // skip no advertising event before the auxiliary packet
    output.append(1)  // secondary PHY: LE 1M
    output.append(0)  // advertising set identifier
    output.append(0)  // do not report scan requests
  }
}

/// Enables one set without a time limit, or disables sets. Core 5.4, Vol 4, Part E, 7.8.56.
public struct LESetExtendedAdvertisingEnable: HCICommand {
  public static let opcode = HCIOpcode.leSetExtendedAdvertisingEnable
  public let state: AdvertisingState
  /// The set; `nil` for all sets, which is allowed only when disabling.
  public let set: AdvertisingSetHandle?

  @inlinable public init(_ state: AdvertisingState, _ set: AdvertisingSetHandle) {
    self.state = state
    self.set = set
  }

  private init() { (state, set) = (.off, nil) }
  public static let allOff = LESetExtendedAdvertisingEnable()

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(state.rawValue)
    output.append(set == nil ? 0 : 1)
    guard let set else { return }
    output.append(set.rawValue)
    output.append(u16: 0)  // no time limit
    output.append(0)  // no limit on advertising events
  }
}

/// Removes a set. The set must be disabled first. Core 5.4, Vol 4, Part E, 7.8.59.
public struct LERemoveAdvertisingSet: HCICommand {
  public static let opcode = HCIOpcode.leRemoveAdvertisingSet
  public let set: AdvertisingSetHandle

  @inlinable public init(_ set: AdvertisingSetHandle) { self.set = set }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(set.rawValue) }
}

/// Removes all sets. All sets must be disabled first. Core 5.4, Vol 4, Part E, 7.8.60.
public struct LEClearAdvertisingSets: HCICommand {
  public static let opcode = HCIOpcode.leClearAdvertisingSets
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Reports that a set was disabled because a central connected or its time limit was reached. Core 5.4, Vol
/// 4, Part E, 7.7.65.18.
@frozen public struct LEAdvertisingSetTerminated: Hashable, Sendable, BitwiseCopyable {
  /// Success if a central has connected.
  public let status: HCIStatus
  public let set: AdvertisingSetHandle
  /// Handle of the link; meaningless unless the status is success.
  public let handle: ConnectionHandle

  /// Decodes the event.
  ///
  /// - Parameter event: parameters of the LE Meta event, including the subevent code.
  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(6, of: .advertisingSetTerminated)
    status = HCIStatus(rawValue: event[1])
    set = AdvertisingSetHandle(rawValue: event[2])
    handle = ConnectionHandle(event.u16(at: 3))
  }
}

#if !NO_ALLOCATIONS
  /// Sets the complete data of a set: AD structures, at most 31 bytes with legacy PDUs, otherwise at most 251
  /// bytes in one command.
  ///
  /// Core 5.4, Vol 4, Part E, 7.8.54.
  public struct LESetExtendedAdvertisingData: HCICommand {
    public static let opcode = HCIOpcode.leSetExtendedAdvertisingData
    public static let maximumByteCount = 251
    public let set: AdvertisingSetHandle
    public let data: [UInt8]

    /// Creates the command for the advertising data of a set.
    ///
    /// - Precondition: at most 251 bytes.
    public init(_ set: AdvertisingSetHandle, _ data: [UInt8]) {
      precondition(data.count <= Self.maximumByteCount)
      self.set = set
      self.data = data
    }

    public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(data, of: set) }
  }

  /// Sets the response of a set to a scan request. Core 5.4, Vol 4, Part E, 7.8.55.
  public struct LESetExtendedScanResponseData: HCICommand {
    public static let opcode = HCIOpcode.leSetExtendedScanResponseData
    public let set: AdvertisingSetHandle
    public let data: [UInt8]

    /// Creates the command for the scan response data of a set.
    ///
    /// - Precondition: at most 251 bytes.
    public init(_ set: AdvertisingSetHandle, _ data: [UInt8]) {
      precondition(data.count <= LESetExtendedAdvertisingData.maximumByteCount)
      self.set = set
      self.data = data
    }

    public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(data, of: set) }
  }

  extension OutputSpan where Element == UInt8 {
    fileprivate mutating func append(_ data: [UInt8], of set: AdvertisingSetHandle) {
      append(set.rawValue)
      append(3)  // complete data
      append(1)  // the controller should not fragment it
      append(UInt8(truncatingIfNeeded: data.count))
      append(data.span)
    }
  }
#endif
