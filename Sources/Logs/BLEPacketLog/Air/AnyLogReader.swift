public import BLEWire

/// Reads a packet log of any kind in pieces of any size. HCI logs are read unchanged, and sniffer logs as the
/// HCI packets that a host would have seen.
///
/// ```swift
/// var reader = AnyLogReader(keys: [key])
/// while let chunk = next() { try reader.read(chunk.span) { record in … } }
/// try reader.finish()
/// ```
/// Use it instead of `PacketLogReader` in code that accepts any log. Encrypted links need a key, unless the
/// log contains a legacy pairing with Just Works or a passkey.
public struct AnyLogReader: ~Copyable {
  private var reader = PacketLogReader()
  private var translator: AirTranslator

  /// - Parameter keys: long-term keys of links in a sniffer log.
  public init(keys: [AirKey] = []) {
    self.init(keys: keys, passkeySearches: AirTranslator.passkeySearches.count)
  }

  /// - Parameter passkeySearches: maximum number of pairings for which the passkey is searched; each takes up
  ///   to a million attempts.
  package init(keys: [AirKey], passkeySearches: Int) {
    translator = AirTranslator(keys, passkeySearches: passkeySearches)
  }

  public var format: PacketLogFormat? { reader.format }
  /// Records of the file so far. An air packet may give several.
  public var recordCount: Int { reader.recordCount }
  public var cumulativeDrops: UInt32 { reader.cumulativeDrops }
  /// Guess at the file's type, set after an error which shows that the file is not a log; `nil` for a log.
  public var foreignFile: ForeignFile? { reader.foreignFile }
  public var hasMonitorRecords: Bool { reader.hasMonitorRecords }
  /// Whether the file contains air packets.
  public private(set) var isFromAir = false

  /// Reads the next piece of the file, and passes each completed record to `body`, in order.
  ///
  /// - Throws: as `PacketLogReader.read`.
  public mutating func read(
    _ chunk: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void
  ) throws(WireError) {
    // Moved out of `self` during the call, which needs both.
    var translator = AirTranslator([], passkeySearches: 0)
    swap(&translator, &self.translator)
    defer { swap(&translator, &self.translator) }
    var isFromAir = isFromAir
    defer { self.isFromAir = isFromAir }
    try reader.read(chunk) { record in
      guard let air = record.header.air else { return body(record) }
      isFromAir = true
      translator.take(record, air.linkType, body)
    }
  }

  /// Ends the log.
  ///
  /// - Parameter body: gets the records that a sniffer log gives at its end.
  /// - Throws: as `PacketLogReader.finish`, after those records.
  public mutating func finish(_ body: (borrowing PacketRecord) -> Void = { _ in }) throws(WireError) {
    if isFromAir { translator.end(body) }
    try reader.finish()
  }

  /// Returns the report about air packets, including connections that are still up; `nil` for an HCI log.
  public mutating func airReport() -> AirReport? { isFromAir ? translator.finish() : nil }

  /// Remark for the user about a log that was read to its end; `nil` if there is nothing to say.
  public var remark: String? {
    if let number = reader.foreignLinkType {
      let all = reader.foreignPackets == reader.recordCount
      return
        "\(all ? "all \(reader.recordCount)" : "\(reader.foreignPackets) of \(reader.recordCount)") packets are of "
        + LinkTypes.unread(number)
    }
    return reader.format != nil && reader.recordCount == 0 ? "it contains no packets" : nil
  }

  /// Whether no packet of the log is readable.
  public var isForeign: Bool { reader.foreignPackets > 0 && reader.foreignPackets == reader.recordCount }
}
