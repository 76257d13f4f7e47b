public import BLEWire

#if !hasFeature(Embedded)
  /// What tells a client whether attributes that it knows are as they were. Core 5.4, Vol 3, Part G, 2.5.2 and 7.
  extension ATTRequester {
    /// The Database Hash, which equals an earlier one of the same device where nothing has changed; `nil` where the
    /// device has none, or does not give it away.
    ///
    /// Asked for by its UUID over all handles, as its own handle may have changed too. Part G, 7.3.
    public func readDatabaseHash() async throws(GATTError) -> [UInt8]? {
      let request = [UInt8](encoding: 7) {
        ReadByTypeRequest(range: .all, type: .databaseHash).encode(into: &$0)
      }
      guard let response = try await unlessRefused(request) else { return nil }
      let byteCount = try decoding { () throws(WireError) in
        try ReadByTypeResponse(validating: response.span).entryByteCount
      }
      // Opcode and length, then the first entry: its handle and its value.
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

/// The value of Service Changed: what a server says to have changed. Core 5.4, Vol 3, Part G, 7.1.
extension HandleRange {
  /// What is no range of handles stands for all.
  public init(serviceChanged value: Span<UInt8>) {
    self = .all
    guard value.count == 4 else { return }
    let range = HandleRange(start: value.handle(at: 0), end: value.handle(at: 2))
    if range.isValid { self = range }
  }
}
