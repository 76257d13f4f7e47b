import Foundation
import Synchronization
import Testing

/// Connects to a listening socket. Reads lines from it after `read` is called.
package final class SocketLines: Sendable {
  private struct State: Sendable {
    var octets: [UInt8] = []
    var isAtEnd = false
  }

  private let number: Int32
  private let state = Mutex(State())

  private init(_ number: Int32) { self.number = number }

  deinit { close(number) }

  package static func unix(_ path: String) throws -> SocketLines {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let number = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    return try connected(number, address, path)
  }

  /// Connects to a TCP port on this machine.
  package static func tcp(port: Int) throws -> SocketLines {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    return try connected(number, address, "port \(port)")
  }

  private static func connected<Address>(
    _ number: Int32, _ address: Address, _ name: String
  ) throws -> SocketLines {
    let lines = SocketLines(number)
    let result = withUnsafePointer(to: address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(number, $0, socklen_t(MemoryLayout<Address>.size))
      }
    }
    guard result == 0 else {
      throw Program.Failure(description: "connect to \(name): \(String(cString: strerror(errno)))")
    }
    return lines
  }

  /// Starts reading on a separate thread.
  package func read() {
    Thread.detachNewThread { [self] in
      var buffer = [UInt8](repeating: 0, count: 1 << 16)
      while true {
        let count = recv(number, &buffer, buffer.count, 0)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        state.withLock { $0.octets += buffer[..<count] }
      }
      state.withLock { $0.isAtEnd = true }
    }
  }

  /// Disconnects.
  package func hangUp() { shutdown(number, Int32(SHUT_RDWR)) }

  package var isAtEnd: Bool { state.withLock(\.isAtEnd) }

  /// Complete lines received so far.
  package var lines: [String] {
    let octets = state.withLock(\.octets)
    guard let last = octets.lastIndex(of: 0x0A) else { return [] }
    return octets[..<last].split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Waits for the end, and returns all lines.
  package func all() async throws -> [String] {
    try await eventually("the end of the lines") { isAtEnd }
    return lines
  }
}
