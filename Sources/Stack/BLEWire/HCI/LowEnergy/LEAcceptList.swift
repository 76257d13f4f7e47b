/// Clears the Filter Accept List. Not allowed while the list is in use. Core 5.4, Vol 4, Part E, 7.8.15.
public struct LEClearFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode.leClearFilterAcceptList
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Adds a device to the Filter Accept List. Not allowed while the list is in use. Core 5.4, Vol 4, Part E,
/// 7.8.16.
public struct LEAddDeviceToFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode.leAddDeviceToFilterAcceptList
  public let address: DeviceAddress

  public init(_ address: DeviceAddress) { self.address = address }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(address.type.rawValue)
    output.append(address)
  }
}
