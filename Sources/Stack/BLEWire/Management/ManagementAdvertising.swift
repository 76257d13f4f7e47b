extension ManagementOpcode {
  public static let readAdvertisingFeatures = ManagementOpcode(rawValue: 0x003D)
  public static let removeAdvertising = ManagementOpcode(rawValue: 0x003F)
  public static let addExtendedAdvertisingParameters = ManagementOpcode(rawValue: 0x0054)
  public static let addExtendedAdvertisingData = ManagementOpcode(rawValue: 0x0055)
}

/// Requests the advertising capabilities and instances of the kernel's host. `mgmt-api.txt`, 0x003D.
public struct ReadAdvertisingFeatures: ManagementCommand {
  public static let opcode = ManagementOpcode.readAdvertisingFeatures
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// The reply to Read Advertising Features.
@frozen public struct AdvertisingFeatures: ~Escapable {
  @usableFromInline let reply: Span<UInt8>

  /// Maximum number of instances. Instances are numbered from 1.
  public var limit: UInt8 { reply[6] }
  /// Number of existing instances.
  public var count: Int { Int(reply[7]) }

  @_lifetime(copy reply)
  public init(validating reply: Span<UInt8>) throws(WireError) {
    try reply.require(8, .management)
    try reply.require(8 + Int(reply[7]), .management)
    self.reply = reply
  }

  /// Returns the instance number of entry `index` in the reply.
  public func instance(_ index: Int) -> UInt8 { reply[8 + index] }

  /// The lowest free instance number; `nil` if all are in use.
  public var free: UInt8? {
    var number: UInt8 = 1
    while number <= limit {
      var index = 0
      while index < count, instance(index) != number { index += 1 }
      if index == count { return number }
      number += 1
    }
    return nil
  }
}

/// Creates an advertising instance of the kernel's host, or changes the parameters of an existing instance.
/// The instance is connectable, has no time limit, and outlives the socket. `AddExtendedAdvertisingData` sets
/// its data and enables it. `mgmt-api.txt`, 0x0054, since Linux 5.11.
public struct AddExtendedAdvertisingParameters: ManagementCommand {
  public static let opcode = ManagementOpcode.addExtendedAdvertisingParameters
  public let instance: UInt8
  public let form: LESetExtendedAdvertisingParameters.Form
  public let interval: AdvertisingInterval

  public init(
    _ instance: UInt8, form: LESetExtendedAdvertisingParameters.Form, interval: AdvertisingInterval
  ) {
    self.instance = instance
    self.form = form
    self.interval = interval
  }

  public var parameterByteCount: Int { 18 }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(instance)
    // Bit 0: connectable; bit 7: extended PDUs on LE 1M; bit 14: interval given.
    output.append(u32: form == .extended ? 0x4081 : 0x4001)
    output.append(zeros: 4)  // duration and timeout
    output.append(u32: UInt32(interval.least))
    output.append(u32: UInt32(interval.most))
    output.append(0)  // power
  }
}

/// Removes an advertising instance. `mgmt-api.txt`, 0x003F.
public struct RemoveAdvertising: ManagementCommand {
  public static let opcode = ManagementOpcode.removeAdvertising
  public let instance: UInt8

  @inlinable public init(_ instance: UInt8) { self.instance = instance }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(instance) }
}

#if !NO_ALLOCATIONS
  /// Sets the advertising data and scan response of an instance, and enables the instance. Data and response
  /// consist of AD structures, up to the controller's limit. `mgmt-api.txt`, 0x0055.
  public struct AddExtendedAdvertisingData: ManagementCommand {
    public static let opcode = ManagementOpcode.addExtendedAdvertisingData
    public let instance: UInt8
    public let data: [UInt8]
    public let scanResponse: [UInt8]

    /// Creates the command for this advertising data and scan response.
    ///
    /// - Precondition: at most 251 bytes each.
    public init(_ instance: UInt8, _ data: [UInt8], scanResponse: [UInt8]) {
      precondition(max(data.count, scanResponse.count) <= LESetExtendedAdvertisingData.maximumByteCount)
      self.instance = instance
      self.data = data
      self.scanResponse = scanResponse
    }

    public var parameterByteCount: Int { 3 + data.count + scanResponse.count }
    public func encodeParameters(into output: inout OutputSpan<UInt8>) {
      output.append(instance)
      output.append(UInt8(truncatingIfNeeded: data.count))
      output.append(UInt8(truncatingIfNeeded: scanResponse.count))
      output.append(data.span)
      output.append(scanResponse.span)
    }
  }
#endif
