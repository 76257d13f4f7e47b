#if !hasFeature(Embedded)
  import BLEWire

  /// A sender of ATT requests: a connection, or a script in a test.
  ///
  /// The GATT procedures are extensions of this protocol, so each is written once and without I/O.
  public protocol ATTRequester {
    /// ATT_MTU in force.
    var mtu: Int { get async }
    /// Whether Exchange MTU was sent; it is sent at most once. Core 5.4, Vol 3, Part F, 3.4.2.1.
    var hasAskedMTU: Bool { get async }

    /// Sends a request and waits for its response.
    ///
    /// - Returns: The response PDU, opcode first; never an Error Response.
    /// - Throws: `refused` for an Error Response, or the reason why the request failed.
    func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8]

    /// Sends a PDU that has no response.
    func send(_ command: [UInt8]) async throws(GATTError)

    /// Waits until no other caller uses the server's queue of prepared writes. Call `endQueuedWrite` once
    /// after each call.
    func beginQueuedWrite() async
    func endQueuedWrite() async
  }

  extension ATTRequester {
    /// Always `false` by default, which suffices for a caller that exchanges the MTU once.
    public var hasAskedMTU: Bool { false }

    /// Does nothing by default, which suffices for one caller at a time.
    public func beginQueuedWrite() async {}
    public func endQueuedWrite() async {}

    /// Sends a request. Returns `nil` if it is refused with one of `codes`, which is the normal end of a
    /// discovery.
    func answer(
      to request: [UInt8], orNilFor codes: ATTErrorCode...
    ) async throws(GATTError) -> [UInt8]? {
      do { return try await transact(request) } catch {
        if case .refused(let response) = error, codes.contains(response.code) { return nil }
        throw error
      }
    }
  }

  /// Decodes a response. Reports a decoding error as `malformed`, an error of the peer.
  func decoding<T>(_ body: () throws(WireError) -> T) throws(GATTError) -> T {
    do throws(WireError) { return try body() } catch { throw .malformed(error) }
  }
#endif
