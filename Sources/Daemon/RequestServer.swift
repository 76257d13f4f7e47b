import BLECore
package import BLELinux
import CBluetoothLinux
import Glibc

/// Answers whoever connects to a port of this machine: one short question, one short answer, and the end.
///
/// A thread of its own waits for them. Who has not asked after two seconds, however busily, is given up; more than 64
/// that wait are refused by the kernel.
package final class RequestServer: Sendable {
  /// How long a peer may take to ask.
  private static let patience = Duration.seconds(2)
  private static let questionByteCount = 4096

  /// Somebody who waits for the answer to `question`.
  package struct Peer: ~Copyable, Sendable {
    private let descriptor: FileDescriptor
    package let question: String

    fileprivate init(_ descriptor: consuming FileDescriptor, _ question: String) {
      self.descriptor = descriptor
      self.question = question
    }

    /// Sends what the kernel takes at once, some 200 kB, and ends.
    package consuming func answer(_ octets: Span<UInt8>) {
      _ = try? descriptor.send(octets)
      descriptor.shutDown()
    }
  }

  private let port: ReaderPort

  /// A UNIX socket. Who may write to it may ask: that is for the umask, and the folder that it lies in.
  ///
  /// - Throws: EADDRINUSE where another process answers there.
  package convenience init(path: String) throws(SystemError) {
    self.init(try ReaderPort(.unix(path: path), mode: nil))
  }

  /// TCP.
  package convenience init(host: String, port: UInt16) throws(SystemError) {
    self.init(try ReaderPort(.tcp(host: host, port: port)))
  }

  private init(_ port: ReaderPort) { self.port = port }

  /// Begins to answer.
  ///
  /// A question ends with an empty line, as in HTTP.
  ///
  /// - Parameter body: called on the server's thread, which waits meanwhile for nobody else.
  package func start(_ body: @escaping @Sendable (consuming Peer) -> Void) throws(SystemError) {
    try SystemThread.start(named: "ringtap-server", as: .patient) { [self] in
      while let descriptor = port.next() {
        let question = Self.question(of: descriptor)
        body(Peer(descriptor, question))
      }
    }
  }

  /// Ends the thread, and removes the socket's file.
  package func stop() { port.close() }

  private static func question(of descriptor: borrowing FileDescriptor) -> String {
    var (octets, buffer): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: questionByteCount))
    let end = Array("\r\n\r\n".utf8)
    let deadline = SystemClock.monotonic().advanced(by: patience)
    while octets.count < questionByteCount, !octets.suffix(4).elementsEqual(end) {
      let left = (deadline - SystemClock.monotonic()).nanoseconds / 1_000_000
      guard left > 0, ringtap_wait_readable(descriptor.rawValue, CInt(left)) > 0,
        let count = try? descriptor.read(into: &buffer), count > 0
      else { break }
      octets += buffer.prefix(count)
    }
    return String(decoding: octets, as: UTF8.self)
  }
}

/// Asks a program of this machine over its UNIX socket.
package enum RequestClient {
  private static let milliseconds: CInt = 5000

  /// All that it says to `question` until it ends.
  ///
  /// - Throws: ENOENT or ECONNREFUSED where nobody answers.
  package static func answer(of path: String, to question: String) throws(SystemError) -> [UInt8] {
    let descriptor = try ControllerPort.unix(path: path)
    _ = try descriptor.send(Array((question + "\r\n\r\n").utf8).span)
    var (octets, buffer): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: 1 << 16))
    while true {
      guard ringtap_wait_readable(descriptor.rawValue, milliseconds) > 0 else {
        throw SystemError(call: "read \(path)", number: ETIMEDOUT)
      }
      let count = try descriptor.read(into: &buffer)
      if count == 0 { return octets }
      octets += buffer.prefix(count)
    }
  }
}
