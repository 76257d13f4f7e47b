import Foundation

/// A Python script in a process that has already imported its modules: `Tools/tests/preload.py`, which
/// defines the protocol. `Tools/test` runs that script during the tests and passes its address in an
/// environment variable. Without it, scripts start as separate processes, which is slower.
struct Preloaded {
  /// Id of the script's process.
  let identifier: Int32
  private let connection: Int32

  private struct Request: Encodable {
    var arguments: [String]
    var environment: [String: String]
    var folder: String
  }

  /// Starts a script.
  ///
  /// - Parameters:
  ///   - arguments: arguments of the program, or a script in the same folder to run instead, and its
  ///     arguments.
  ///   - streams: descriptors of the standard streams.
  /// - Returns: `nil` if the script must be started as a separate process.
  static func start(
    _ path: String, _ arguments: [String], _ environment: [String: String], _ streams: [Int32]
  ) throws -> Preloaded? {
    let program = URL(filePath: path)
    let words =
      program.lastPathComponent == "python" ? Array(arguments.dropFirst()) : [path] + arguments.dropFirst()
    guard let prefix = environment["RINGTAP_TEST_PRELOADED"], words.first?.hasPrefix("/") == true,
      program.deletingLastPathComponent().lastPathComponent == "bin"
    else { return nil }
    let python = program.deletingLastPathComponent().deletingLastPathComponent().lastPathComponent
    guard let connection = connect(to: "\(prefix)-\(python)") else { return nil }
    let request = Request(
      arguments: words, environment: environment, folder: FileManager.default.currentDirectoryPath)
    try send([UInt8](JSONEncoder().encode(request)), streams, over: connection)
    guard let identifier = number(from: connection) else {
      Glibc.close(connection)
      throw Program.Failure(description: "\(words[0]): no process of \(path) with its modules")
    }
    return Preloaded(identifier: identifier, connection: connection)
  }

  /// Waits for the process to end.
  ///
  /// - Returns: The exit status. The process ID stays reserved until `close`.
  func end() -> Int32 { Self.number(from: connection) ?? 255 }

  func close() { Glibc.close(connection) }

  // MARK: The socket

  private static func connect(to name: String) -> Int32? {
    let number = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0)
    if withAbstractAddress(name, { Glibc.connect(number, $0, $1) == 0 }) { return number }
    Glibc.close(number)
    return nil
  }

  /// Sends one packet with descriptors: `SCM_RIGHTS`, unix(7), laid out by CMSG_LEN and CMSG_SPACE of
  /// cmsg(3).
  private static func send(_ octets: [UInt8], _ descriptors: [Int32], over socket: Int32) throws {
    let header = MemoryLayout<cmsghdr>.stride
    let length = header + descriptors.count * MemoryLayout<Int32>.stride
    var control = [UInt64](repeating: 0, count: (length + 7) / 8)
    var octets = octets
    let sent = control.withUnsafeMutableBytes { control in
      var rights = cmsghdr()
      (rights.cmsg_len, rights.cmsg_level, rights.cmsg_type) = (length, SOL_SOCKET, Int32(SCM_RIGHTS))
      control.storeBytes(of: rights, as: cmsghdr.self)
      descriptors.withUnsafeBytes { control[header...].copyBytes(from: $0) }
      return octets.withUnsafeMutableBytes { octets in
        var part = iovec(iov_base: octets.baseAddress, iov_len: octets.count)
        return withUnsafeMutablePointer(to: &part) { part in
          var message = msghdr(
            msg_name: nil, msg_namelen: 0, msg_iov: part, msg_iovlen: 1, msg_control: control.baseAddress,
            msg_controllen: control.count, msg_flags: 0)
          return sendmsg(socket, &message, Int32(MSG_NOSIGNAL))
        }
      }
    }
    guard sent == octets.count else {
      throw Program.Failure(description: "sendmsg: \(String(cString: strerror(errno)))")
    }
  }

  private static func number(from socket: Int32) -> Int32? {
    var octets = [UInt8](repeating: 0, count: 16)
    while true {
      let count = recv(socket, &octets, octets.count, 0)
      if count < 0, errno == EINTR { continue }
      return count > 0 ? Int32(String(decoding: octets.prefix(count), as: UTF8.self)) : nil
    }
  }
}
