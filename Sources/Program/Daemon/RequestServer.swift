package import BLELinux
import BLEWire
import Glibc
import Synchronization

/// Answers requests on a local port. Each connection has one short question and one short answer.
///
/// A thread for each peer reads the question, so a silent peer does not delay other peers. If a question is
/// incomplete after two seconds, the server stops reading, even if the peer keeps sending.
package final class RequestServer: Sendable {
  /// Time limit for a peer to send its question.
  private static let patience = Duration.seconds(2)
  private static let questionByteCount = 4096
  private static let peerLimit = Limit(
    64, "peers of a daemon's port that have sent no request", by: .program,
    whenFull: "the one that has waited longest is disconnected", counted: "nowhere")

  /// A peer's connection. One thread reads from the connection, and another thread may close it.
  fileprivate final class Link: Sendable {
    let descriptor: FileDescriptor

    init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }
  }

  /// A peer that has sent a question and waits for the answer.
  package struct Peer: ~Copyable, Sendable {
    private let link: Link
    package let question: String

    fileprivate init(_ link: Link, _ question: String) {
      self.link = link
      self.question = question
    }

    /// Sends the answer and closes the connection. If the answer exceeds the kernel's buffer, about 200 kB,
    /// the rest is not sent.
    package consuming func answer(_ octets: Span<UInt8>) {
      _ = try? link.descriptor.send(octets)
      link.descriptor.shutDown()
    }
  }

  private let port: ReaderPort
  /// Peers that have not completed their question, oldest first.
  private let silent = Mutex<[Link]>([])

  /// Listens on a UNIX socket. Every user who may write to the socket may connect; the umask and the socket's
  /// folder control access.
  ///
  /// - Throws: EADDRINUSE if another process answers on the socket.
  package convenience init(path: String) throws(SystemError) {
    self.init(try ReaderPort(.unix(path: path), mode: nil))
  }

  /// Listens on TCP.
  package convenience init(host: String, port: UInt16) throws(SystemError) {
    self.init(try ReaderPort(.tcp(host: host, port: port)))
  }

  private init(_ port: ReaderPort) { self.port = port }

  /// Starts answering.
  ///
  /// A question ends with an empty line, as in HTTP.
  ///
  /// - Parameter body: called on a separate thread for each peer.
  package func start(_ body: @escaping @Sendable (consuming Peer) -> Void) throws(SystemError) {
    try SystemThread.start(named: "ringtap-server", as: .patient) { [self] in
      while let descriptor = port.next() { serve(Link(descriptor), body) }
    }
  }

  private func serve(_ link: Link, _ body: @escaping @Sendable (consuming Peer) -> Void) {
    let givenUp = silent.withLock { silent in
      silent.append(link)
      return silent.count > Self.peerLimit.count ? silent.removeFirst() : nil
    }
    givenUp?.descriptor.shutDown()
    do throws(SystemError) {
      try SystemThread.start(named: "ringtap-peer", as: .patient) { [self] in
        let question = Self.question(of: link.descriptor)
        forget(link)
        body(Peer(link, question))
      }
    } catch { forget(link) }
  }

  private func forget(_ link: Link) { silent.withLock { $0.removeAll { $0 === link } } }

  /// Ends the thread and removes the socket's file.
  package func stop() { port.close() }

  private static func question(of descriptor: borrowing FileDescriptor) -> String {
    var (octets, buffer): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: questionByteCount))
    let end = Array("\r\n\r\n".utf8)
    let deadline = SystemClock.monotonic().advanced(by: patience)
    while octets.count < questionByteCount, !octets.suffix(4).elementsEqual(end) {
      let left = (deadline - SystemClock.monotonic()).nanoseconds / 1_000_000
      guard left > 0, descriptor.waitUntilReadable(milliseconds: Int(left)),
        let count = try? descriptor.read(into: &buffer), count > 0
      else { break }
      octets += buffer.prefix(count)
    }
    return String(decoding: octets, as: UTF8.self)
  }
}

/// Sends a request to a local program over its UNIX socket.
package enum RequestClient {
  private static let milliseconds = 5000

  /// Returns the complete answer to `question`.
  ///
  /// - Throws: ENOENT or ECONNREFUSED if no program answers.
  package static func answer(of path: String, to question: String) throws(SystemError) -> [UInt8] {
    let descriptor = try ControllerPort.unix(path: path)
    _ = try descriptor.send(Array((question + "\r\n\r\n").utf8).span)
    var (octets, buffer): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: 1 << 16))
    while true {
      guard descriptor.waitUntilReadable(milliseconds: milliseconds) else {
        throw SystemError(call: "read \(path)", number: ETIMEDOUT)
      }
      let count = try descriptor.read(into: &buffer)
      if count == 0 { return octets }
      octets += buffer.prefix(count)
    }
  }
}
