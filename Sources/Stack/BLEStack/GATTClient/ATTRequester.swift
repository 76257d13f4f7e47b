#if !hasFeature(Embedded)
  import BLEWire

  /// Whoever can send an ATT request and bring its answer: a connection, or a script in a test.
  ///
  /// The GATT procedures are extensions of it, so each is written once, without I/O.
  public protocol ATTRequester {
    /// ATT_MTU in force.
    var mtu: Int { get async }

    /// Sends a request and waits for its answer.
    ///
    /// - Returns: the response PDU, opcode first; never an Error Response.
    /// - Throws: `refused` for an Error Response, or what ended the request otherwise.
    func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8]

    /// Sends a PDU that has no answer.
    func send(_ command: [UInt8]) async throws(GATTError)

    /// Waits until nobody else fills the server's queue of prepared writes. Each is ended by `endQueuedWrite`.
    func beginQueuedWrite() async
    func endQueuedWrite() async
  }

  extension ATTRequester {
    /// Enough where there is one caller at a time.
    public func beginQueuedWrite() async {}
    public func endQueuedWrite() async {}

    /// A request whose refusal with one of `codes` is the normal end of a walk, given as `nil`.
    func answer(
      to request: [UInt8], orNilFor codes: ATTErrorCode...
    ) async throws(GATTError) -> [UInt8]? {
      do { return try await transact(request) } catch {
        if case .refused(let response) = error, codes.contains(response.code) { return nil }
        throw error
      }
    }
  }

  /// Decodes an answer; what the wire layer rejects is the peer's fault.
  func decoding<T>(_ body: () throws(WireError) -> T) throws(GATTError) -> T {
    do throws(WireError) { return try body() } catch { throw .malformed(error) }
  }
#endif
