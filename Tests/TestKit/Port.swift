import Foundation
import Testing

/// Returns a TCP port of this machine that is not in use and that no other test process gets while this one
/// runs. In most cases it is passed to a program that binds it later.
///
/// The port is below the range that the system uses for outgoing connections
/// (`net.ipv4.ip_local_port_range`). It is reserved with an abstract socket of its name, which ends with the
/// process.
package func freePort() throws -> Int {
  let first = Int(ProcessInfo.processInfo.processIdentifier) * 61
  for port in (0..<ports.count).lazy.map({ ports.lowerBound + (first + $0) % ports.count }) {
    let claim = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    try #require(claim >= 0)
    if binds(claim, toPort: port), isFree(port) { return port }
    close(claim)
  }
  throw NoFreePort()
}

package struct NoFreePort: Error, CustomStringConvertible {
  package let description = "no port of 127.0.0.1 from \(ports.lowerBound) to \(ports.upperBound - 1) is free"
}

private let ports = 10_000..<32_768

private func binds(_ claim: Int32, toPort port: Int) -> Bool {
  withAbstractAddress("ringtap-test-port-\(port)") { bind(claim, $0, $1) == 0 }
}

/// Passes the address of an abstract socket to `body`: unix(7).
func withAbstractAddress<Value>(
  _ name: String, _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Value
) rethrows -> Value {
  var address = sockaddr_un()
  address.sun_family = sa_family_t(AF_UNIX)
  // An abstract name begins with a zero byte.
  withUnsafeMutableBytes(of: &address.sun_path) { $0[1...].copyBytes(from: name.utf8) }
  let count = socklen_t(MemoryLayout<sa_family_t>.size + 1 + name.utf8.count)
  return try withUnsafePointer(to: &address) {
    try $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { try body($0, count) }
  }
}

private func isFree(_ port: Int) -> Bool {
  let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(listener) }
  var address = loopback(port)
  return withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
    }
  }
}

private func loopback(_ port: Int) -> sockaddr_in {
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = in_port_t(port).bigEndian
  address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
  return address
}

/// Whether somebody listens on a TCP port of this machine.
package func canConnect(_ port: Int) -> Bool {
  let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(number) }
  var address = loopback(port)
  return withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      connect(number, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
    }
  }
}
