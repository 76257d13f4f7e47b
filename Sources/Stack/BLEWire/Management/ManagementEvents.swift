/// Code of a management event. `mgmt-api.txt`. Unknown values are kept.
public struct ManagementEventCode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let commandComplete = ManagementEventCode(rawValue: 0x0001)
  public static let commandStatus = ManagementEventCode(rawValue: 0x0002)
  public static let indexRemoved = ManagementEventCode(rawValue: 0x0005)
  public static let deviceFound = ManagementEventCode(rawValue: 0x0012)
  public static let discovering = ManagementEventCode(rawValue: 0x0013)
}

/// The reply to a command: Command Complete, or Command Status if the command fails at once. `mgmt-api.txt`,
/// events 0x0001 and 0x0002.
@frozen public struct ManagementReply: ~Escapable {
  /// Opcode of the command that this reply answers.
  public let opcode: ManagementOpcode
  public let status: ManagementStatus
  /// Parameters of the reply; empty for a Command Status.
  public let parameters: Span<UInt8>

  /// Decodes a reply.
  ///
  /// - Parameter event: parameters of a Command Complete or Command Status.
  @_lifetime(copy event)
  @inlinable public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(3, .management)
    opcode = ManagementOpcode(rawValue: event.u16(at: 0))
    status = ManagementStatus(rawValue: event[2])
    parameters = event.extracting(3...)
  }
}

/// Reports that the kernel's discovery has started or ended. Any program may have caused the change.
/// `mgmt-api.txt`, event 0x0013.
public struct Discovering: Hashable, Sendable, BitwiseCopyable {
  /// One bit per address type: BR/EDR, LE public, LE random.
  public let addressTypes: UInt8
  public let isOn: Bool

  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(2, .management)
    addressTypes = event[0]
    isOn = event[1] != 0
  }
}

/// Reports an advertisement, followed by the scan response if the kernel has both. The kernel sends the event
/// to every management socket. `mgmt-api.txt`, event 0x0012.
@frozen public struct DeviceFound: ~Escapable {
  static let headerByteCount = 14

  /// `false` for a BR/EDR device, whose report is meaningless for LE.
  public let isLowEnergy: Bool
  public let report: AdvertisingReport

  /// Decodes the event.
  ///
  /// - Throws: `lengthMismatch` if the length field differs from the actual length of the data.
  @_lifetime(copy event)
  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(Self.headerByteCount, .management)
    let length = Int(event.u16(at: 12))
    guard event.count - Self.headerByteCount == length else {
      throw WireError(
        .management, offset: 12,
        .lengthMismatch(claimed: length, available: event.count - Self.headerByteCount))
    }
    let address = event.managementAddress(at: 0)
    isLowEnergy = address != nil
    report = AdvertisingReport(
      properties: Self.properties(flags: event.u32(at: 8)), address: address ?? .any, rssi: event[7],
      txPower: 0x7F, data: event.extracting(Self.headerByteCount...))
  }

  /// Converts the event's flags to the properties of an advertising report. Bit 2: not connectable. Bit 5: a
  /// scan response whose advertisement the kernel has not received.
  private static func properties(flags: UInt32) -> AdvertisingReport.Properties {
    if flags & 1 << 5 != 0 { return AdvertisingReport.Properties(bits: 0x1B) }
    return AdvertisingReport.Properties(bits: flags & 1 << 2 != 0 ? 0x10 : 0x13)
  }
}
