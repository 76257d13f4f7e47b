import Foundation
import TestKit
import Testing

/// BlueZ's virtual controllers, prepared through the kernel's management interface (BlueZ, doc/mgmt-api.txt).
///
/// The tests use the interface directly, because starting BlueZ's `btmgmt` takes 70 ms in a test kernel and
/// each test would need five starts.
extension Scene {
  /// Starts BlueZ's emulation of controllers in range of each other.
  ///
  /// - Parameters:
  ///   - adapters: adapter numbers that the controllers must get.
  ///   - options: such as `-L`, for LE-only controllers without the extended commands.
  @discardableResult
  func linkedControllers(at adapters: Range<Int>, _ options: String...) throws -> Program {
    let management = try Management()
    let program = try start("btvirt", options + ["-l\(adapters.count)"])
    var added: Set<Int> = []
    while added.count < adapters.count { added.insert(try management.addedAdapter()) }
    try #require(added == Set(adapters), "an adapter was left behind, or one is missing")
    return program
  }

  /// Adds controllers of no use until one gets this adapter number. The kernel reuses the number of a removed
  /// adapter once no process has a socket of it.
  func occupy(_ adapter: Int) throws {
    for _ in 0..<8 {
      let management = try Management()
      _ = try start("btvirt", ["-l1"])
      if try management.addedAdapter() == adapter { return }
    }
  }

  /// Creates hci0 from the controller at the other end of a serial line, with BlueZ's btattach, and powers
  /// it.
  func attachAdapter(behind line: String) throws {
    let management = try Management()
    _ = try start("btattach", ["-P", "h4", "-B", line])
    try #require(try management.addedAdapter() == 0, "an adapter was left behind")
    try management.set(.powered, true, of: 0)
  }

  /// Prepares an adapter for a central: LE only, up, ready to scan and connect.
  func makeCentral(_ adapter: Int) throws {
    let management = try Management()
    // BR/EDR can be switched off only while the adapter is down.
    try management.set(.powered, false, of: adapter)
    try management.set(.lowEnergy, true, of: adapter)
    try management.set(.bredr, false, of: adapter)
    try management.set(.powered, true, of: adapter)
  }

  /// Enables privacy on an adapter that is down.
  func makePrivate(_ adapter: Int) throws { try Management().hide(adapter, key: Array(1...16)) }

  /// Powers an adapter that is already LE only.
  func takeUp(_ adapter: Int) throws { try Management().set(.powered, true, of: adapter) }

  /// Turns on the kernel's connectable advertising on an adapter.
  func makeAdvertiser(_ adapter: Int) throws {
    try makeCentral(adapter)
    let management = try Management()
    try management.set(.connectable, true, of: adapter)
    try management.set(.advertising, true, of: adapter)
  }

  /// Takes an adapter down, so that a program can open its user channel, as bumble does.
  func takeDown(_ adapter: Int) throws { try Management().set(.powered, false, of: adapter) }
}

/// A socket of the management interface.
private final class Management {
  enum Setting: UInt16 {
    case powered = 0x0005
    case connectable = 0x0007
    case lowEnergy = 0x000D
    case advertising = 0x0029
    case bredr = 0x002A
  }

  private enum Event {
    static let complete = 1
    static let status = 2
    static let indexAdded = 4
  }

  private let handle: FileHandle

  init() throws {
    // AF_BLUETOOTH and BTPROTO_HCI.
    let number = socket(31, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue), 1)
    handle = FileHandle(fileDescriptor: number, closeOnDealloc: true)
    // No adapter, HCI_CHANNEL_CONTROL.
    let isBound = withUnsafeBytes(of: (UInt16(31), UInt16(0xFFFF), UInt16(3))) {
      bind(number, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count)) == 0
    }
    var patience = timeval(tv_sec: Int(Program.patience.components.seconds), tv_usec: 0)
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    guard isBound else { throw failure("bind") }
  }

  func set(_ setting: Setting, _ value: Bool, of adapter: Int) throws {
    try command(setting.rawValue, [value ? 1 : 0], of: adapter)
  }

  /// Set Privacy, with the key that resolves the addresses.
  func hide(_ adapter: Int, key: [UInt8]) throws { try command(0x002F, [1] + key, of: adapter) }

  private func command(_ number: UInt16, _ parameters: [UInt8], of adapter: Int) throws {
    let words = [number, UInt16(adapter), UInt16(parameters.count)]
    let command = words.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
    try handle.write(contentsOf: command + parameters)
    while true {
      let event = try next()
      guard [Event.complete, Event.status].contains(event.code), event.parameters.count >= 3,
        event.parameters[0] == command[0], event.parameters[1] == command[1]
      else { continue }
      try #require(
        event.parameters[2] == 0, "hci\(adapter) refuses command \(number): \(event.parameters[2])")
      return
    }
  }

  /// Waits for a new adapter.
  func addedAdapter() throws -> Int {
    while true {
      let event = try next()
      if event.code == Event.indexAdded { return event.adapter }
    }
  }

  private func next() throws -> (code: Int, adapter: Int, parameters: [UInt8]) {
    Program.checkThatItMayBlock()
    var octets = [UInt8](repeating: 0, count: 1024)
    let count = read(handle.fileDescriptor, &octets, octets.count)
    guard count >= 6 else { throw failure("read") }
    return (
      Int(octets[0]) | Int(octets[1]) << 8, Int(octets[2]) | Int(octets[3]) << 8, Array(octets[6..<count])
    )
  }

  private func failure(_ call: String) -> Program.Failure {
    Program.Failure(
      description: "the kernel's management interface: \(call): \(String(cString: strerror(errno)))")
  }
}
