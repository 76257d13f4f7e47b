import Foundation
import TestKit
import Testing

/// BlueZ's own daemon and its client, run with the program under test.
extension Scene {
  /// Starts the bus and the daemon, which knows no devices yet and uses every adapter.
  ///
  /// - Parameters:
  ///   - options: such as `-f FILE`, its configuration.
  ///   - name: name of the program to run.
  @discardableResult
  func bluetoothd(_ options: String..., as name: String = "bluetoothd") throws -> Program {
    let bus = try start("dbus-daemon", ["--system", "--nofork", "--nopidfile", "--print-address"])
    try bus.line(containing: "unix:path=")
    let daemon = try start(name, ["-n"] + options)
    try daemon.line(on: .errors, containing: "Bluetooth management interface")
    return daemon
  }

  /// Starts bluetoothctl, and restarts it if it crashes before it has registered its agent.
  ///
  /// BlueZ 5.66's bluetoothctl sometimes ends with SIGSEGV while it processes the daemon's first messages,
  /// before our programs run. Any other end, and a third crash, fails the test.
  func bluetoothctl() throws -> Program {
    var crashes = 0
    while true {
      let control = try start("bluetoothctl")
      do {
        try control.line(containing: "Agent registered")
        return control
      } catch {
        guard control.hasEnded, try control.ended().status == 128 + SIGSEGV, crashes < 2 else { throw error }
        crashes += 1
        let note = "slow: bluetoothctl crashed at its start, and is started again\n"
        FileHandle.standardError.write(Data(note.utf8))
      }
    }
  }

  /// Starts BlueZ's emulation in addition to hci0: hci1 up, hci2 down and in its range.
  func moreLinkedControllers() throws {
    try linkedControllers(at: 1..<3)
    try makeCentral(1)
    try takeDown(2)
  }

  /// A ring made with google/bumble on an adapter other than hci1.
  func bumbleRing(on index: Int, _ options: String...) throws -> Peer {
    let program = try start(
      Place.bumblePython(), [Place.peer("bumble_ring.py"), "hci-socket:\(index)"] + options)
    let words = try program.line(containing: "ready").split(separator: " ")
    return Peer(address: String(try #require(words.last)), program: program)
  }

  /// Creates a folder that every user may write to.
  func openFolder() throws -> String {
    let folder = path("open")
    try demand("mkdir", ["-m", "777", folder])
    return folder
  }

  /// Runs ringtap as a user who may search folders and has no other capabilities than the given ones.
  ///
  /// - Parameter capabilities: such as `net_admin`.
  func unprivileged(_ arguments: [String], with capabilities: [String] = []) throws -> Program.Result {
    let nobody = "65534"
    let rights = (["-all", "+dac_read_search"] + capabilities.map { "+" + $0 }).joined(separator: ",")
    return try run(
      "setpriv",
      [
        "--reuid", nobody, "--regid", nobody, "--clear-groups", "--inh-caps", rights, "--ambient-caps",
        rights,
        "--bounding-set", rights, Place.ringtap,
      ] + arguments)
  }
}
