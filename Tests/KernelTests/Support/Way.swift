import Foundation
import TestKit
import Testing

/// A path from ringtap to the radio. The tests of `OverEachWay` are the same for each.
nonisolated enum Way: String, CaseIterable, CustomTestStringConvertible {
  /// The kernel's host, in `raw` mode.
  case kernel
  /// Our own host on an adapter that is down, through the HCI user channel.
  case userChannel
  /// Our own host at one end of an H4 stream, with the controller at the other.
  case tcp, unix
  /// The same, through a pseudo-terminal that our host opens as a serial port.
  case serial
  /// Our own host on a controller in the same process. It cannot be used with bumble's ring.
  case virtual

  /// Paths that do not need a kernel with Bluetooth are tested on this machine, the others in the test
  /// kernel. TCP stands for both kinds of sockets, which behave the same once connected.
  static let here: [Way] = isInTestKernel ? [.kernel, .userChannel] : [.tcp, .serial]

  /// The paths for the emulated ring, which starts at once.
  static let hereWithEmulation = isInTestKernel ? here : here + [.unix, .virtual]

  /// The paths for bumble's strap: one with our host, and those of the kernel.
  static let sensorsHere: [Way] = isInTestKernel ? [.kernel, .userChannel] : [.tcp]

  static let isInTestKernel = ProcessInfo.processInfo.environment["RINGTAP_TEST_KERNEL"] == "1"

  var testDescription: String { rawValue }

  /// Whether the kernel timestamps arriving data. It does so on packet sockets, but not for the bytes of a
  /// stream.
  var stamps: CaptureFolder.Stamps {
    switch self {
    case .kernel, .userChannel, .virtual: .kernel
    case .tcp, .unix, .serial: .arrival
    }
  }

  /// The mode's name in `session.json`.
  var mode: String { self == .kernel ? "raw" : "exclusive" }

  /// Number of notifications in a long capture. Paths other than the kernel's only show that the loop works
  /// the same, so a shorter capture is enough.
  var longCount: Int { self == .kernel ? 1500 : 600 }
}

/// The connection between ringtap and a ring.
extension Scene {
  /// Our own emulation behind our own controller: a kernel adapter through /dev/vhci, or a stream.
  func emulatedRing(over way: Way, _ options: String...) throws -> Peer {
    try emulatedRing(over: way, options)
  }

  func emulatedRing(over way: Way, _ options: [String]) throws -> Peer {
    switch way {
    case .kernel: return try emulatedRing(options)
    case .userChannel:
      var ring = try emulatedRing(options)
      try takeDown(0)
      ring.options = ["--transport", "hci-socket:0"]
      return ring
    case .tcp:
      let place = "127.0.0.1:\(try freePort())"
      return try servedRing("tcp-server:\(place)", options) { _ in "tcp-client:\(place)" }
    case .unix:
      let place = "unix:\(path("controller"))"
      return try servedRing(place, options) { _ in place }
    // The program reports the terminal's name.
    case .serial: return try servedRing("pty:", options) { "serial:\($0),115200" }
    case .virtual: return try virtualRing(options)
    }
  }

  /// Includes the address type, so that no scan is needed: btvirt reports an advertiser only once, when it
  /// starts. A peer that restarts repeatedly would sometimes be missed.
  private static let overUserChannel = ["--transport", "hci-socket:0", "--address-type", "public"]

  /// Starts bumble's ring: with the kernel on btvirt's controller, with a stream on bumble's controller.
  func bumbleRing(over way: Way, _ options: String...) throws -> Peer {
    switch way {
    case .kernel:
      let controllers = try linkedControllers()
      var ring = try bumbleRing(options)
      ring.controllers = controllers
      return ring
    case .userChannel:
      let controllers = try linkedControllers()
      try takeDown(0)
      var ring = try bumbleRing(options)
      ring.options = Self.overUserChannel
      ring.controllers = controllers
      return ring
    case .tcp: return try bumbleRing(at: freePort(), options)
    case .unix:
      let place = path("controller")
      return try bumbleController("unix-server:\(place)", options, "unix:\(place)")
    case .serial:
      let place = path("port")
      return try bumbleController("pty:\(place)", options, "serial:\(place),115200")
    case .virtual: throw Program.Failure(description: "bumble's ring is no part of ringtap")
    }
  }

  /// Starts bumble's strap, on the same controllers as the ring.
  func bumbleStrap(over way: Way, _ options: String...) throws -> Peer {
    let script = "bumble_heart_rate.py"
    switch way {
    case .kernel:
      let controllers = try linkedControllers()
      var strap = try bumble(script, options)
      strap.controllers = controllers
      return strap
    case .userChannel:
      let controllers = try linkedControllers()
      try takeDown(0)
      var strap = try bumble(script, options)
      strap.options = Self.overUserChannel
      strap.controllers = controllers
      return strap
    default:
      let place = "127.0.0.1:\(try freePort())"
      let program = try start(
        Place.bumblePython(), [Place.peer(script), "--controller", "tcp-server:\(place)"] + options)
      let words = try program.line(containing: "ready").split(separator: " ")
      return Peer(
        address: String(try #require(words.last)), program: program,
        options: ["--transport", "tcp-client:\(place)", "--address-type", "random"])
    }
  }

  /// Starts bumble's ring at this TCP port.
  func bumbleRing(at port: Int, _ options: String...) throws -> Peer { try bumbleRing(at: port, options) }

  private func bumbleRing(at port: Int, _ options: [String]) throws -> Peer {
    let place = "127.0.0.1:\(port)"
    return try bumbleController("tcp-server:\(place)", options, "tcp-client:\(place)")
  }

  /// Unplugs our controller by killing the program that provides it.
  func unplug(_ ring: Peer) { (ring.controllers ?? ring.program).end() }

  /// Converts the options of `emulate ring` to the syntax of a transport: `--rate 300 --quiet` is
  /// `rate=300,quiet`.
  private func virtualRing(_ options: [String]) throws -> Peer {
    var words = ["virtual:ring"]
    for option in options {
      if option.hasPrefix("--") {
        words.append(String(option.dropFirst(2)))
      } else {
        words[words.count - 1] += "=\(option)"
      }
    }
    // The ring is in the command that reaches it: this program takes the part of a peer's.
    return Peer(
      address: "70:CB:0D:00:A1:B2", program: try start("cat"),
      options: ["--transport", words.joined(separator: ",")])
  }

  private func servedRing(
    _ transport: String, _ options: [String], _ ours: (String) -> String
  ) throws -> Peer {
    let program = try start(Place.ringtap, ["emulate", "ring", "--transport", transport] + options)
    let words = try program.line(containing: "ready").split(separator: " ").map(String.init)
    try #require(words.count == 4)
    return Peer(address: words[2], program: program, options: ["--transport", ours(words[1])])
  }

  private func bumbleController(
    _ transport: String, _ options: [String], _ ours: String
  ) throws -> Peer {
    let program = try start(Place.bumblePython(), [Place.peer("bumble_controller.py"), transport] + options)
    let words = try program.line(containing: "ready").split(separator: " ")
    return Peer(
      address: String(try #require(words.last)), program: program,
      options: ["--transport", ours, "--address-type", "random"])
  }

  /// Runs a ringtap command with the options that it needs to reach the ring.
  func ringtap(
    reaching ring: Peer, _ arguments: String..., within limit: Duration = Program.patience
  ) throws -> Program.Result {
    try run(Place.ringtap, arguments + ring.options, within: limit)
  }

  func startRingtap(reaching ring: Peer, _ arguments: String...) throws -> Program {
    try start(Place.ringtap, arguments + ring.options)
  }
}
