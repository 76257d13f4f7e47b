import BLELinux
import BLEWire
import Synchronization

/// A connection to the port of a WebSocket, which sends each line as one text message.
///
/// Two threads use the connection: the reader's thread sends lines, and the thread that reads from the socket
/// sends control frames. While the reader's thread is sending, it also sends the control frames, so the other
/// thread never waits for a slow reader.
final class WebClient: LineSink {
  /// Size in bytes at which lines are sent. A reader that accepts fewer bytes within a time limit counts as
  /// stalled.
  private static let step = 4096
  /// Time in milliseconds for the client to confirm that the WebSocket is closed.
  static let closingMilliseconds = 1000

  /// Frames to send before the next line.
  private struct Pending: Sendable {
    /// The response that opens the WebSocket.
    var response: [UInt8]?
    /// The latest pong; earlier pongs are omitted (RFC 6455, 5.5.3).
    var pong: [UInt8]?
    var close: [UInt8]?

    var isEmpty: Bool { response == nil && pong == nil && close == nil }
  }

  /// The state of sending. The lock of this state is held during a send, so that frames are not mixed.
  private struct Sending: Sendable {
    var frames: [UInt8] = []
    /// Whether the close frame, which is the last frame, was sent.
    var isClosed = false
  }

  let descriptor: FileDescriptor
  private let sending = Mutex(Sending())
  private let pending = Mutex(Pending())
  /// Whether the client has closed its side, or the socket is shut down.
  private let isOver = Atomic<Bool>(false)
  private let over: WakeEvent

  init(_ descriptor: consuming FileDescriptor) throws(SystemError) {
    self.descriptor = descriptor
    over = try WakeEvent()
  }

  // MARK: The reader's thread

  /// Sends as many lines as possible.
  ///
  /// - Parameter octets: complete lines.
  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int {
    let count = try sending.withLock { sending throws(SystemError) in
      try sendPending(&sending)
      return sending.isClosed ? 0 : try send(lines: octets, &sending.frames)
    }
    sendPending()
    if count > 0 { return count }
    waitForOver()
    throw .brokenPipe("WebSocket")
  }

  /// Sends the lines of one step.
  ///
  /// - Returns: number of bytes of `octets` that were sent.
  private func send(lines octets: Span<UInt8>, _ frames: inout [UInt8]) throws(SystemError) -> Int {
    frames.removeAll(keepingCapacity: true)
    var start = 0
    for place in octets.indices where octets[place] == UInt8(ascii: "\n") {
      WebSocketFrames.append(text: octets.extracting(start..<place), to: &frames)
      start = place + 1
      if frames.count >= Self.step { break }
    }
    try send(frames.span)
    return start
  }

  /// Closes the WebSocket after the last line, and waits until the client has confirmed the close.
  func end() {
    disconnect(.normal, "the recording has ended")
    waitForOver()
  }

  private func waitForOver() {
    over.sleep(milliseconds: Self.closingMilliseconds) { !isOver.load(ordering: .acquiring) }
  }

  /// Closes the connection without a close frame. May be called from any thread.
  func close() {
    descriptor.shutDown()
    noteOver()
  }

  // MARK: The thread that reads from the socket

  /// Sets the response to send before all frames; `nil` if the client is refused.
  func setResponse(_ octets: [UInt8]?) { pending.withLock { $0.response = octets } }

  func pong(_ payload: [UInt8]) {
    pending.withLock { $0.pong = WebSocketFrames.pong(payload) }
    sendPending()
  }

  /// Sends a close frame as the last frame, and closes this side.
  func disconnect(_ code: WebSocketCloseCode, _ reason: String) {
    disconnect(WebSocketFrames.close(code.rawValue, reason))
  }

  /// Confirms that the client has closed the WebSocket, with its own code.
  func confirm(_ code: UInt16?) { disconnect(WebSocketFrames.close(code)) }

  private func disconnect(_ frame: [UInt8]) {
    pending.withLock { $0.close = $0.close ?? frame }
    sendPending()
  }

  /// Records that the client has closed its side.
  func noteOver() {
    isOver.store(true, ordering: .releasing)
    over.signal()
  }

  // MARK: Sending

  /// Sends pending frames, unless the other thread is sending. In this case, the other thread sends the
  /// pending frames afterwards.
  func sendPending() {
    while pending.withLock({ !$0.isEmpty }) {
      // An error of the socket ends both threads.
      let isSent: Void? = sending.withLockIfAvailable { sending in try? sendPending(&sending) }
      if isSent == nil { return }
    }
  }

  private func sendPending(_ sending: inout Sending) throws(SystemError) {
    let pending = pending.withLock { pending in
      defer { pending = Pending() }
      return pending
    }
    guard !sending.isClosed else { return }
    if let response = pending.response { try send(response.span) }
    if let pong = pending.pong { try send(pong.span) }
    if let close = pending.close {
      sending.isClosed = true
      try send(close.span)
      descriptor.shutDownWriting()
    }
  }

  /// Sends all bytes. Waits while the socket's buffer is full.
  ///
  /// - Parameter deadline: `nil` to wait until the connection is closed.
  /// - Throws: EPIPE or ECONNRESET if the connection is closed.
  func send(_ octets: Span<UInt8>, before deadline: MonotonicTime? = nil) throws(SystemError) {
    var offset = 0
    while offset < octets.count {
      do throws(SystemError) { offset += try descriptor.send(octets.extracting(offset...)) } catch {
        let left = deadline.map { $0.millisecondsLeft }
        guard error.condition == .wouldBlock, left != 0 else { throw error }
        descriptor.waitUntilWritable(milliseconds: left ?? -1)
      }
    }
  }

  /// Waits for bytes from the client.
  ///
  /// - Returns: 0 at the end of the connection; `nil` if the deadline passes.
  func read(into buffer: inout [UInt8], before deadline: MonotonicTime? = nil) -> Int? {
    while true {
      let left = deadline.map { $0.millisecondsLeft }
      guard descriptor.waitUntilReadable(milliseconds: left ?? -1) else {
        if left == nil { continue }
        return nil
      }
      do throws(SystemError) { return try descriptor.read(into: &buffer) } catch {
        if error.condition != .wouldBlock { return 0 }
      }
    }
  }
}

extension MonotonicTime {
  /// Milliseconds until this time, rounded up; 0 if the time has passed.
  fileprivate var millisecondsLeft: Int {
    max(0, Int((SystemClock.monotonic().duration(to: self) / .milliseconds(1)).rounded(.up)))
  }
}
