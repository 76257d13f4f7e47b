import BLEWire
import Foundation
import TestKit
import Testing

/// A program in `Tests/KernelTests/Peers` that uses google/bumble, with its controller on a port of this
/// machine.
final class BumblePeer: Sendable {
  let port: UInt16
  /// Address of the device behind that controller.
  let address: DeviceAddress
  private let program: Program

  /// Starts the program and waits until it is ready.
  static func start(_ script: String, _ options: [String] = []) async throws -> BumblePeer {
    let program = try Program(Place.bumblePython(), [Place.peer(script)] + options)
    do {
      return try BumblePeer(program, await program.line(containing: "ready "))
    } catch {
      program.send(SIGKILL)
      throw error
    }
  }

  private init(_ program: Program, _ line: String) throws {
    let words = line.split(separator: " ")
    try #require(words.count == 3, "\(line)")
    port = try #require(UInt16(words[1]))
    address = try #require(DeviceAddress(String(words[2]), type: .random))
    self.program = program
  }

  deinit { program.send(SIGKILL) }
}
