/// One advertisement or scan response from a legacy or extended event of the controller.
///
/// `data` borrows the receive buffer. Core 5.4, Vol 4, Part E, 7.7.65.2 and 7.7.65.13.
@frozen public struct AdvertisingReport: ~Escapable {
  /// Properties of the advertisement, as the bits of the extended report's Event_Type.
  public struct Properties: Hashable, Sendable, BitwiseCopyable {
    public let bits: UInt16
    @inlinable public init(bits: UInt16) { self.bits = bits }

    public var isConnectable: Bool { bits & 0x01 != 0 }
    public var isScannable: Bool { bits & 0x02 != 0 }
    public var isDirected: Bool { bits & 0x04 != 0 }
    public var isScanResponse: Bool { bits & 0x08 != 0 }
    public var isLegacy: Bool { bits & 0x10 != 0 }
    /// Whether more fragments of the same advertisement follow.
    public var isIncomplete: Bool { bits & 0x60 == 0x20 }
    /// Whether the controller dropped the rest of the data.
    public var isTruncated: Bool { bits & 0x60 == 0x40 }
    /// The same properties, marked as truncated.
    public var truncated: Properties { Properties(bits: bits & ~0x60 | 0x40) }
  }

  public let properties: Properties
  /// Address of the advertiser. The identity address types 2 and 3 are converted to public and random.
  public let address: DeviceAddress
  /// RSSI in dBm; `nil` if the controller does not know it (0x7F).
  public let rssi: Int8?
  /// Transmit power in dBm, from the header of an extended advertisement.
  public let txPower: Int8?
  /// Advertising_SID: one of the advertiser's sets, 0 … 15; 0xFF if there is no set, as with legacy PDUs.
  public let advertisingSet: UInt8
  public let data: Span<UInt8>

  @_lifetime(copy data)
  @inlinable init(
    properties: Properties, address: DeviceAddress, rssi: UInt8, txPower: UInt8,
    advertisingSet: UInt8 = 0xFF, data: Span<UInt8>
  ) {
    self.properties = properties
    self.address = address
    self.advertisingSet = advertisingSet
    self.rssi = rssi == 0x7F ? nil : Int8(bitPattern: rssi)
    self.txPower = txPower == 0x7F ? nil : Int8(bitPattern: txPower)
    self.data = data
  }

  /// Creates one report from several: the fields of the last report, and the data of all reports.
  @_lifetime(copy data)
  @inlinable package init(
    _ last: borrowing AdvertisingReport, properties: Properties, data: Span<UInt8>
  ) {
    self.properties = properties
    address = last.address
    rssi = last.rssi
    txPower = last.txPower
    advertisingSet = last.advertisingSet
    self.data = data
  }

  /// Converts the legacy PDU types 0 … 4 to the bits of the extended report; `nil` for a reserved type.
  @inlinable static func properties(legacyType: UInt8) -> Properties? {
    switch legacyType {
    case 0: Properties(bits: 0x13)  // ADV_IND
    case 1: Properties(bits: 0x15)  // ADV_DIRECT_IND
    case 2: Properties(bits: 0x12)  // ADV_SCAN_IND
    case 3: Properties(bits: 0x10)  // ADV_NONCONN_IND
    case 4: Properties(bits: 0x1B)  // SCAN_RSP: the advertisement may be ADV_IND or ADV_SCAN_IND
    default: nil
    }
  }

  @inlinable static func addressType(_ raw: UInt8) -> AddressType {
    raw & 1 == 0 ? .public : .random
  }
}

/// The advertising reports of one LE Meta event, legacy or extended.
@frozen public struct AdvertisingReports: ~Escapable {
  @usableFromInline let reports: Span<UInt8>
  @usableFromInline let form: LESubevent

  /// Checks that an LE Meta event contains advertising reports.
  ///
  /// - Parameter parameters: parameters of the LE Meta event, including the subevent code.
  /// - Throws: `invalidValue` unless the subevent contains advertising reports.
  @_lifetime(copy parameters)
  @inlinable public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(2, .hciEvent)
    form = LESubevent(rawValue: parameters[0])
    guard form == .advertisingReport || form == .extendedAdvertisingReport else {
      throw WireError(.hciEvent, offset: 0, .invalidValue(UInt32(parameters[0])))
    }
    reports = parameters.extracting(2...)
  }

  /// Passes each report to `body`.
  ///
  /// The fields of a report are expected to be contiguous, as BlueZ and all known controllers send them. A
  /// strict reading of the legacy event suggests an array per field instead.
  ///
  /// - Throws: `truncated` or `lengthMismatch` for the first report that does not fit, after `body` has
  ///   received the preceding reports.
  @inlinable public func forEach(
    _ body: (borrowing AdvertisingReport) -> Void
  ) throws(WireError) {
    var offset = 0
    let isLegacy = form == .advertisingReport
    let headerByteCount = isLegacy ? 9 : 24
    let trailerByteCount = isLegacy ? 1 : 0
    while offset < reports.count {
      guard reports.count - offset >= headerByteCount + trailerByteCount else {
        throw WireError(
          .hciEvent, offset: offset + 2,
          .truncated(needed: headerByteCount, available: reports.count - offset))
      }
      let length = Int(reports[offset + headerByteCount - 1])
      let end = offset + headerByteCount + length
      guard end + trailerByteCount <= reports.count else {
        throw WireError(
          .hciEvent, offset: offset + headerByteCount + 1,
          .lengthMismatch(
            claimed: length, available: reports.count - offset - headerByteCount - trailerByteCount)
        )
      }
      let data = reports.extracting(offset + headerByteCount..<end)
      if isLegacy {
        // A reserved type is treated as neither connectable nor scannable.
        body(
          AdvertisingReport(
            properties: AdvertisingReport.properties(legacyType: reports[offset])
              ?? AdvertisingReport.Properties(bits: 0x10),
            address: reports.address(
              at: offset + 2, type: AdvertisingReport.addressType(reports[offset + 1])),
            rssi: reports[end], txPower: 0x7F, data: data))
      } else {
        body(
          AdvertisingReport(
            properties: AdvertisingReport.Properties(bits: reports.u16(at: offset)),
            address: reports.address(
              at: offset + 3, type: AdvertisingReport.addressType(reports[offset + 2])),
            rssi: reports[offset + 13], txPower: reports[offset + 12],
            advertisingSet: reports[offset + 11], data: data))
      }
      offset = end + trailerByteCount
    }
  }
}

extension AdvertisingReport {
  /// Maximum data size of one report in a 255-byte event.
  private static var pieceByteCount: Int { 229 }

  /// Encodes the report for a log, as one or more LE Meta events. Uses extended events, because a legacy
  /// event lacks some fields of a report. Core 5.4, Vol 4, Part E, 7.7.65.13.
  ///
  /// - Parameter body: called with event code, length and parameters, once per 229 bytes of data.
  package func events(_ body: (Span<UInt8>) -> Void) {
    var start = 0
    repeat {
      let piece = data.extracting(start..<min(data.count, start + Self.pieceByteCount))
      start += piece.count
      let status: UInt16 = start < data.count ? 0x20 : properties.bits & 0x60
      let event = InlineArray<257, UInt8> { output in
        output.append(HCIEventCode.leMeta.rawValue)
        output.append(UInt8(26 + piece.count))
        output.append(LESubevent.extendedAdvertisingReport.rawValue)
        output.append(1)
        output.append(u16: properties.bits & ~0x60 | status)
        output.append(address.type == .public ? 0 : 1)
        output.append(address)
        // LE 1M. The secondary channel, periodic advertising and the directed peer are unknown.
        output.append(1)
        output.append(0)
        output.append(advertisingSet)
        output.append(UInt8(bitPattern: txPower ?? 0x7F))
        output.append(UInt8(bitPattern: rssi ?? 0x7F))
        for _ in 0..<9 { output.append(0) }
        output.append(UInt8(piece.count))
        output.append(piece)
        output.append(zeros: output.freeCapacity)
      }
      body(event.span.extracting(first: 28 + piece.count))
    } while start < data.count
  }
}
