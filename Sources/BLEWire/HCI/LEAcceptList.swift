public import BLECore

/// How many devices the Filter Accept List holds. Core 5.4, Vol 4, Part E, 7.8.14.
public struct LEReadFilterAcceptListSize: HCIQuery {
  public static let opcode = HCIOpcode.leReadFilterAcceptListSize

  public struct Reply: HCIReply {
    public let count: Int

    public init(validating returned: Span<UInt8>) throws(WireError) {
      try returned.require(1, .hciEvent)
      count = Int(returned[0])
    }
  }

  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Empties the list; not while it is in use. Core 5.4, Vol 4, Part E, 7.8.15.
public struct LEClearFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode.leClearFilterAcceptList
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// Puts a device on the list; not while it is in use. Core 5.4, Vol 4, Part E, 7.8.16.
public struct LEAddDeviceToFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode.leAddDeviceToFilterAcceptList
  public let address: DeviceAddress

  public init(_ address: DeviceAddress) { self.address = address }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(address.type.rawValue)
    output.append(address)
  }
}

/// Takes a device off the list; not while it is in use. Core 5.4, Vol 4, Part E, 7.8.17.
public struct LERemoveDeviceFromFilterAcceptList: HCICommand {
  public static let opcode = HCIOpcode.leRemoveDeviceFromFilterAcceptList
  public let address: DeviceAddress

  public init(_ address: DeviceAddress) { self.address = address }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(address.type.rawValue)
    output.append(address)
  }
}
