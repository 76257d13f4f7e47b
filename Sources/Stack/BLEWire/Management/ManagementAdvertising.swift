extension ManagementOpcode {
  public static let readAdvertisingFeatures = ManagementOpcode(rawValue: 0x003D)
  public static let removeAdvertising = ManagementOpcode(rawValue: 0x003F)
  public static let addExtendedAdvertisingParameters = ManagementOpcode(rawValue: 0x0054)
  public static let addExtendedAdvertisingData = ManagementOpcode(rawValue: 0x0055)
}

/// What the kernel's host advertises, and could. `mgmt-api.txt`, 0x003D.
public struct ReadAdvertisingFeatures: ManagementCommand {
  public static let opcode = ManagementOpcode.readAdvertisingFeatures
  @inlinable public init() {}
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {}
}

/// The reply to Read Advertising Features.
@frozen public struct AdvertisingFeatures: ~Escapable {
  @usableFromInline let reply: Span<UInt8>

  /// How many the kernel's host takes, numbered from 1.
  public var limit: UInt8 { reply[6] }
  /// Those that are there.
  public var count: Int { Int(reply[7]) }

  @_lifetime(copy reply)
  public init(validating reply: Span<UInt8>) throws(WireError) {
    try reply.require(8, .management)
    try reply.require(8 + Int(reply[7]), .management)
    self.reply = reply
  }

  /// The number of one.
  public func instance(_ index: Int) -> UInt8 { reply[8 + index] }

  /// The least number that is free; `nil` where all are taken.
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

/// Makes an advertisement of the kernel's host, or gives one others parameters: connectable, until it is removed. Data
/// follow, and switch it on. It stays when the socket is closed. `mgmt-api.txt`, 0x0054, since Linux 5.11.
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
    // Bit 0 connectable, 7 extended PDUs with LE 1M, 14 the interval is given.
    output.append(u32: form == .extended ? 0x4081 : 0x4001)
    output.append(zeros: 4)  // duration and time-out
    output.append(u32: UInt32(interval.least))
    output.append(u32: UInt32(interval.most))
    output.append(0)  // power
  }
}

/// Takes an advertisement away. `mgmt-api.txt`, 0x003F.
public struct RemoveAdvertising: ManagementCommand {
  public static let opcode = ManagementOpcode.removeAdvertising
  public let instance: UInt8

  @inlinable public init(_ instance: UInt8) { self.instance = instance }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(instance) }
}

#if !NO_ALLOCATIONS
  /// What an advertisement says and answers: AD structures, as many octets as the controller takes. `mgmt-api.txt`, 0x0055.
  public struct AddExtendedAdvertisingData: ManagementCommand {
    public static let opcode = ManagementOpcode.addExtendedAdvertisingData
    public let instance: UInt8
    public let data: [UInt8]
    public let scanResponse: [UInt8]

    /// - Precondition: 251 octets each, at most.
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
