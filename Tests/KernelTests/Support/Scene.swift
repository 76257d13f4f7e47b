import Foundation
import TestKit
import Testing

/// Everything that one test sets up: adapters, peers, a folder. `end` removes it in reverse order.
final class Scene {
  /// An adapter and a device in its range.
  struct Peer {
    /// Address of the device.
    var address: String
    let program: Program
    /// Options that ringtap's commands need to reach the device if it is not in range of hci0.
    var options: [String] = []
    /// The program that runs the link's controllers, if it is not `program`.
    var controllers: Program?
  }

  let folder: URL
  private var programs: [Program] = []

  init() throws {
    Watchdog.shared.begin()
    folder = FileManager.default.temporaryDirectory.appending(path: "ringtap-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  func end() {
    for program in programs.reversed() { program.end() }
    if Way.isInTestKernel { forgetDevices() }
    try? FileManager.default.removeItem(at: folder)
    Watchdog.shared.end()
  }

  /// Removes the devices that bluetoothd has stored: btmon would apply them to the next device with the same
  /// address, and crash.
  private func forgetDevices() {
    let store = URL(filePath: "/var/lib/bluetooth")
    let entries = try? FileManager.default.contentsOfDirectory(at: store, includingPropertiesForKeys: nil)
    for entry in entries ?? [] { try? FileManager.default.removeItem(at: entry) }
  }

  func path(_ name: String) -> String { folder.appending(path: name).path }

  /// Starts a program, which runs until the end of the scene.
  func start(_ program: String, _ arguments: [String] = []) throws -> Program {
    let program = try Program(program, arguments)
    programs.append(program)
    return program
  }

  /// Runs a program until it exits.
  @discardableResult
  func run(
    _ program: String, _ arguments: [String] = [], within limit: Duration = Program.patience
  ) throws -> Program.Result {
    try start(program, arguments).finish(within: limit)
  }

  /// Runs a helper program, which must succeed.
  @discardableResult
  func demand(_ program: String, _ arguments: [String] = []) throws -> Program.Result {
    let result = try run(program, arguments)
    try #require(result.status == 0, "\(program) \(arguments): \(result.errors)\(result.output)")
    return result
  }

  func ringtap(_ arguments: String..., within limit: Duration = Program.patience) throws -> Program.Result {
    try run(Place.ringtap, arguments, within: limit)
  }

  func harness(_ arguments: String..., within limit: Duration = Program.patience) throws -> Program.Result {
    try run(Place.harness, arguments, within: limit)
  }

  func startRingtap(_ arguments: String...) throws -> Program { try start(Place.ringtap, arguments) }

  // MARK: Adapters and peers

  /// Starts our own emulation: hci0 with a ring in its range.
  func emulatedRing(_ options: String...) throws -> Peer { try emulatedRing(options) }

  func emulatedRing(_ options: [String]) throws -> Peer {
    let (ring, adapter) = try emulatedRingAnywhere(options)
    try #require(adapter == "hci0", "an adapter was left behind: \(adapter)")
    return ring
  }

  /// Starts our own emulation beside other adapters.
  ///
  /// - Returns: the ring, and the name of the adapter in its range.
  func emulatedRingAnywhere(_ options: [String] = []) throws -> (ring: Peer, adapter: String) {
    let program = try start(Place.ringtap, ["emulate", "ring", "--vhci"] + options)
    let words = try program.line(containing: "ready").split(separator: " ")
    try #require(words.count == 4)
    return (Peer(address: String(words[2]), program: program), String(words[1]))
  }

  /// Starts BlueZ's emulation: hci0 up, hci1 down.
  @discardableResult
  func linkedControllers(_ count: Int = 2) throws -> Program {
    let program = try linkedControllers(at: 0..<count)
    try makeCentral(0)
    try takeDown(1)
    return program
  }

  /// Starts a ring made with google/bumble on hci1, in range of hci0.
  func bumbleRing(_ options: String...) throws -> Peer { try bumbleRing(options) }

  func bumbleRing(_ options: [String]) throws -> Peer { try bumble("bumble_ring.py", options) }

  func bumbleAdvertiser(_ options: String...) throws -> Peer {
    try bumble("bumble_advertiser.py", options)
  }

  func bumble(_ script: String, _ options: [String]) throws -> Peer {
    let program = try start(Place.bumblePython(), [Place.peer(script), "hci-socket:1"] + options)
    let words = try program.line(containing: "ready").split(separator: " ")
    return Peer(address: String(try #require(words.last)), program: program)
  }
}

extension Program.Result {
  /// The messages of ringtap, without the line that reports the adapter.
  var messages: [String] {
    errorLines.filter { line in
      !["raw mode on ", "coexist mode on ", "found "].contains { line.hasPrefix("ringtap: " + $0) }
    }
  }

  /// Expects a failed command: status 1, no standard output, and one line with the error.
  func expectFailure(
    saying words: String..., printing output: String = "", at location: SourceLocation = #_sourceLocation
  ) {
    #expect(status == 1, "\(errors)", sourceLocation: location)
    #expect(self.output == output, sourceLocation: location)
    #expect(messages.count == 1, "\(errors)", sourceLocation: location)
    for word in words {
      #expect(errors.contains(word), sourceLocation: location)
    }
  }

  func expectSuccess(at location: SourceLocation = #_sourceLocation) {
    #expect(status == 0, "\(errors)", sourceLocation: location)
    #expect(messages == [], sourceLocation: location)
  }

  /// Parses each line of the output as a JSON object.
  func objects<Value: Decodable>(_ type: Value.Type) throws -> [Value] {
    try outputLines.map { try JSONDecoder().decode(type, from: Data($0.utf8)) }
  }
}
