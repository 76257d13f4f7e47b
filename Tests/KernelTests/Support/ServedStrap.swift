import Foundation
import TestKit
import Testing

/// How our device is made available to centrals.
nonisolated struct ServeWay: CustomTestStringConvertible, Sendable {
  let mode: String
  var isExtended = false
  /// Whether the controllers lack the extended commands.
  var isOld = false

  var testDescription: String {
    mode + (isExtended ? ", extended advertising" : isOld ? ", legacy commands" : "")
  }

  static let modes = [ServeWay(mode: "raw"), ServeWay(mode: "exclusive")]
  static let all =
    modes + modes.map { ServeWay(mode: $0.mode, isExtended: true) }
    + modes.map { ServeWay(mode: $0.mode, isOld: true) }
}

/// `ringtap serve` on hci1, one of btvirt's controllers, with hci0 in its range.
extension Scene {
  static let (centralAddress, strapAddress) = ("00:AA:01:00:00:00", "00:AA:01:01:00:01")

  /// Two values that any link may use, one that requires encryption, and one that requires authentication.
  private static let strap = """
    device Strap
      0x0001-0x0003 2800 0018
      0x0002 2803 02 0300 002a
      0x0003 2a00 5374726170
      0x0010-0x0018 2800 0d18
      0x0011 2803 10 1200 372a
      0x0012 2a37
      0x0013 2902 0000
      0x0014 2803 2a 1500 01aa
      0x0015 aa01 010203
      0x0016 2902 0000
      0x0017 2803 02 1800 02aa
      0x0018 aa02 02
    needs encrypted 0x0015
    needs authenticated 0x0018

    """

  /// Creates both controllers: hci1 as the device needs it; hci0 up for a central of the kernel, or down for
  /// a central that opens the user channel.
  func strapControllers(_ way: ServeWay, central isUp: Bool) throws {
    if way.isOld { try linkedControllers(at: 0..<2, "-L") } else { try linkedControllers(at: 0..<2) }
    try prepare(0, isUp: isUp, way)
    try prepareStrap(way)
  }

  /// Prepares only the device's controller.
  func prepareStrap(_ way: ServeWay) throws { try prepare(1, isUp: way.mode != "exclusive", way) }

  /// Enables privacy on the device's controller if the kernel uses the controller.
  func hideStrap(_ way: ServeWay) throws {
    guard way.mode != "exclusive" else { return }
    try takeDown(1)
    try makePrivate(1)
    try takeUp(1)
  }

  private func prepare(_ adapter: Int, isUp: Bool, _ way: ServeWay) throws {
    switch (isUp, way.isOld) {
    case (true, true): try takeUp(adapter)
    case (true, false): try makeCentral(adapter)
    case (false, _): try takeDown(adapter)
    }
  }

  func strapFile() throws -> String {
    let file = path("strap.txt")
    try Self.strap.write(toFile: file, atomically: true, encoding: .utf8)
    return file
  }

  /// Starts the device and waits until it is available. Its keys are stored in the scene's folder.
  func serveStrap(_ way: ServeWay, _ options: [String] = [], adapter: Int = 1) throws -> Program {
    let arguments =
      ["serve", try strapFile(), "--adapter", "hci\(adapter)", "--mode", way.mode, "--json"] + options
      + (way.isExtended ? ["--extended"] : [])
    let program = try start(
      "env", ["-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(path("state"))", Place.ringtap] + arguments)
    let ready = try program.line(containing: "ready")
    #expect(adapter != 1 || ready.contains(Self.strapAddress))
    return program
  }

  /// Starts our controllers in one virtual air, for cases in which btvirt's single link per controller is not
  /// enough: one for a host at each place, then hci0, behind a serial line that the kernel makes an adapter.
  ///
  /// - Parameter hosts: connects to each place.
  func airWithAdapter<Hosts>(
    _ places: [String], _ hosts: () async throws -> Hosts
  ) async throws -> Hosts {
    let air = try start(
      Place.ringtap,
      ["emulate", "air", "--transport", "pty:"] + places.flatMap { ["--transport", "tcp-server:\($0)"] })
    let ready = try await air.line(containing: "ready")
    let terminal = String(try #require(ready.firstMatch(of: /\/dev\/pts\/[0-9]+/)).output)
    let connected = try await hosts()
    try attachAdapter(behind: terminal)
    return connected
  }

  /// Starts a central of google/bumble. It releases its controller before the controller is removed.
  func bumbleCentral(_ options: [String]) async throws -> BumbleCentrals {
    try await BumbleCentrals.adopt(
      try start(Place.bumblePython(), [Place.peer("bumble_user.py")] + options))
  }
}
