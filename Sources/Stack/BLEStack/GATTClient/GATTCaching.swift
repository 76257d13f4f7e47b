public import BLEWire

#if !hasFeature(Embedded)
  /// Checks whether cached attributes are still valid. Core 5.4, Vol 3, Part G, 2.5.2 and 7.
  extension ATTRequester {
    /// Reads the Database Hash, which changes only when the device's attributes change. Returns `nil` if the
    /// device does not support the hash or refuses to send it.
    ///
    /// Reads by UUID over all handles, because the handle of the hash may have changed too. Part G, 7.3.
    public func readDatabaseHash() async throws(GATTError) -> [UInt8]? {
      let request = [UInt8](encoding: 7) {
        ReadByTypeRequest(range: .all, type: .databaseHash).encode(into: &$0)
      }
      guard let response = try await unlessRefused(request) else { return nil }
      let byteCount = try decoding { () throws(WireError) in
        try ReadByTypeResponse(validating: response.span).entryByteCount
      }
      // Opcode and length precede the first entry: handle and value.
      let hash = Array(response[4..<2 + byteCount])
      return hash.count == 16 ? hash : nil
    }

    private func unlessRefused(_ request: [UInt8]) async throws(GATTError) -> [UInt8]? {
      do throws(GATTError) { return try await transact(request) } catch {
        guard case .refused = error else { throw error }
        return nil
      }
    }
  }
#endif

/// The value of Service Changed: the range of handles that the server reports as changed. Core 5.4, Vol 3,
/// Part G, 7.1.
extension HandleRange {
  /// Decodes the range. An invalid range is treated as all handles.
  public init(serviceChanged value: Span<UInt8>) {
    self = .all
    guard value.count == 4 else { return }
    let range = HandleRange(start: value.handle(at: 0), end: value.handle(at: 2))
    if range.isValid { self = range }
  }
}
