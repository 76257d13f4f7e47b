public import BLEWire

/// Reads a packet log of any kind that comes in pieces of any size: logs of HCI as they are, logs of the air as the HCI
/// packets that a host would have seen.
///
/// ```swift
/// var reader = AnyLogReader(keys: [key])
/// while let chunk = next() { try reader.read(chunk.span) { record in … } }
/// try reader.finish()
/// ```
/// It takes `PacketLogReader`'s place for whatever works with any log. Links that are encrypted need a key, unless the log
/// shows a pairing of the old kind, Just Works or with a passkey.
public struct AnyLogReader: ~Copyable {
  private var reader = PacketLogReader()
  private var translator: AirTranslator

  /// - Parameter keys: long-term keys that links of the air may have.
  public init(keys: [AirKey] = []) {
    self.init(keys: keys, passkeySearches: AirTranslator.passkeySearches.count)
  }

  /// - Parameter passkeySearches: pairings whose passkey is searched for; each takes up to a million tries.
  package init(keys: [AirKey], passkeySearches: Int) {
    translator = AirTranslator(keys, passkeySearches: passkeySearches)
  }

  public var format: PacketLogFormat? { reader.format }
  /// Records of the file so far: a packet of the air may give several.
  public var recordCount: Int { reader.recordCount }
  public var cumulativeDrops: UInt32 { reader.cumulativeDrops }
  /// What the file seems to be, after an error by which it is no log; `nil` if it is one.
  public var foreignFile: ForeignFile? { reader.foreignFile }
  public var hasMonitorRecords: Bool { reader.hasMonitorRecords }
  /// Whether packets of the air were among them.
  public private(set) var isFromAir = false

  /// Takes the next piece of the file and hands each record that it completes to `body`, in order.
  ///
  /// - Throws: as `PacketLogReader.read`.
  public mutating func read(
    _ chunk: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void
  ) throws(WireError) {
    // Out of `self` for the call, which needs both.
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
  /// - Parameter body: receives the records that a log of the air gives at its end.
  /// - Throws: as `PacketLogReader.finish`, after those records.
  public mutating func finish(_ body: (borrowing PacketRecord) -> Void = { _ in }) throws(WireError) {
    if isFromAir { translator.end(body) }
    try reader.finish()
  }

  /// What the packets of the air were, connections that are still there included; `nil` for a log of HCI.
  public mutating func airReport() -> AirReport? { isFromAir ? translator.finish() : nil }

  /// What a person should know of a log that was read to its end; `nil` for one that holds what it seems to.
  public var remark: String? {
    if let number = reader.foreignLinkType {
      let all = reader.foreignPackets == reader.recordCount
      return
        "\(all ? "all \(reader.recordCount)" : "\(reader.foreignPackets) of \(reader.recordCount)") packets are of "
        + LinkTypes.unread(number)
    }
    return reader.format != nil && reader.recordCount == 0 ? "it holds no packet" : nil
  }

  /// Whether the log has nothing that can be read.
  public var isForeign: Bool { reader.foreignPackets > 0 && reader.foreignPackets == reader.recordCount }
}
