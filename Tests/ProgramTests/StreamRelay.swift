import Foundation
import Glibc
import TestKit

/// Forwards packets between a host and its controller on UNIX sockets, and stores the bytes that the host
/// sends.
final class StreamRelay: @unchecked Sendable {  // `lock` guards what is below it
  /// The socket to which the host connects.
  let path: String
  private let listener: Int32
  private let lock = NSLock()
  private var fromHost: [UInt8] = []
  private var rest: [UInt8] = []
  private var notifications = 0
  private var heldBack = 0
  private var passes: @Sendable ([UInt8]) -> Bool
  private var isOver = false

  /// - Parameters:
  ///   - path: socket created for the host.
  ///   - controller: socket of a controller that waits for a host.
  ///   - passes: whether a packet from the controller is forwarded.
  init(
    _ path: String, to controller: String,
    passing passes: @escaping @Sendable ([UInt8]) -> Bool = { _ in true }
  ) throws {
    self.path = path
    self.passes = passes
    listener = Self.socket()
    try Self.with(path) { name, length in
      guard bind(listener, name, length) == 0, listen(listener, 1) == 0 else {
        throw Program.Failure(description: "\(path): \(String(cString: strerror(errno)))")
      }
    }
    let far = Self.socket()
    try Self.with(controller) { name, length in
      guard connect(far, name, length) == 0 else {
        throw Program.Failure(description: "\(controller): \(String(cString: strerror(errno)))")
      }
    }
    Thread.detachNewThread { [self] in
      let host = accept(listener, nil, nil)
      Thread.detachNewThread { [self] in
        copy(far, to: host) { filter($0) }
        _ = shutdown(host, Int32(SHUT_RDWR))
      }
      copy(host, to: far) {
        fromHost += $0
        return $0
      }
      for descriptor in [far, listener] { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
      lock.withLock { isOver = true }
    }
  }

  /// All bytes that the host has sent.
  var octetsFromHost: [UInt8] { lock.withLock { fromHost } }
  /// Number of Handle Value Notifications that the controller has sent.
  var notificationCount: Int { lock.withLock { notifications } }
  /// Whether the host has disconnected and all of its bytes have been read.
  var hasEnded: Bool { lock.withLock { isOver } }

  /// Number of packets from the controller that were not forwarded.
  var heldBackCount: Int { lock.withLock { heldBack } }
  /// Sets the filter for all further packets from the controller.
  func pass(_ passes: @escaping @Sendable ([UInt8]) -> Bool) { lock.withLock { self.passes = passes } }

  private func copy(_ source: Int32, to target: Int32, _ take: ([UInt8]) -> [UInt8]) {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = read(source, &buffer, buffer.count)
      guard count > 0 else { return }
      let octets = lock.withLock { take(Array(buffer.prefix(count))) }
      var sent = 0
      while sent < octets.count {
        let more = octets[sent...].withUnsafeBytes {
          send(target, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        guard more > 0 else { return }
        sent += more
      }
    }
  }

  /// Filters ACL packets of H4 (Core 5.4, Vol 4, Part A, 2) that contain a Handle Value Notification on the
  /// ATT channel (Vol 3, Part F, 3.4.7.1).
  ///
  /// - Returns: The bytes to forward to the host.
  private func filter(_ octets: [UInt8]) -> [UInt8] {
    rest += octets
    var passed: [UInt8] = []
    while rest.count >= 3 {
      let byteCount: Int
      switch rest[0] {
      case 0x02 where rest.count < 5: return passed
      case 0x02: byteCount = 5 + Int(rest[3]) + Int(rest[4]) << 8
      case 0x04: byteCount = 3 + Int(rest[2])
      default: return passed
      }
      guard rest.count >= byteCount else { return passed }
      let packet = Array(rest.prefix(byteCount))
      rest.removeFirst(byteCount)
      guard passes(packet) else {
        heldBack += 1
        continue
      }
      if packet[0] == 0x02, byteCount > 9, packet[7] == 0x04, packet[8] == 0, packet[9] == 0x1B {
        notifications += 1
      }
      passed += packet
    }
    return passed
  }

  private static func socket() -> Int32 {
    Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  }

  private static func with(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Void
  ) throws {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
    try withUnsafePointer(to: &address) {
      try $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        try body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}
