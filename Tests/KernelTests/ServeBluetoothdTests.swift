import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// BlueZ's daemon as the central of our device, with its own client and with bleak. It plays another
  /// computer: it does not use the device's adapter and runs under another name. In coexist mode it is this
  /// computer's daemon and uses the device's adapter.
  @Suite final class ServeBluetoothdTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// A question that the daemon's user is asked.
    nonisolated struct Case: CustomTestStringConvertible, Sendable {
      let testDescription: String
      let own: [String]
      var question: String?
      /// The agent's capability, by its name in BlueZ.
      var capability: String?

      static let all = [
        Case(testDescription: "Just Works", own: []),
        Case(testDescription: "numeric comparison", own: ["--yes"], question: "Confirm passkey"),
        Case(
          testDescription: "passkey that we show", own: ["--display"], question: "Enter passkey",
          capability: "KeyboardOnly"),
      ]
    }

    @Test(arguments: ServeWay.modes, Case.all) func isUsedByBluetoothctl(_ way: ServeWay, _ pairing: Case)
      throws
    {
      let control = try startElsewhere(way)
      if let capability = pairing.capability { try replaceAgent(capability, control) }
      // btvirt reports an advertiser when it starts, and never again.
      try control.type("scan on")
      try control.line(containing: "Discovery started")
      let program = try scene.serveStrap(way, pairing.own)
      let device = Scene.strapAddress
      try control.line(containing: "Device \(device) Strap")
      try control.type("scan off")
      try control.line(containing: "Discovery stopped")
      try control.type("connect \(device)")
      try control.line(containing: "Connection successful")
      try control.line(containing: "ServicesResolved: yes")

      try select("2a37", control)
      try control.type("gatt.notify on")
      try control.line(containing: "Notify started")
      try program.type(#"{"uuid":"2A37","value":"0048"}"#)
      try control.line(containing: "00 48 ")

      try control.type("pair \(device)")
      if let question = pairing.question {
        try control.question(containing: question)
        let number = try shown(by: program)
        if pairing.capability == nil {
          try control.question(containing: "\(question) \(number)")
          try control.type("yes")
        } else {
          try control.type(number)
        }
      }
      try control.line(containing: "Pairing successful")
      try select("aa01", control)
      try control.type("gatt.read")
      try control.line(containing: "01 02 03 ")
      try control.type("gatt.write \"\(Array(repeating: "0x5a", count: 300).joined(separator: " "))\"")
      let written = try program.line(containing: #""event":"written""#)
      #expect(written.contains("\"\(String(repeating: "5a", count: 300))\""))
      try control.type("gatt.notify on")
      try program.line(containing: #""indications":true"#)
      try program.type(#"{"handle":21,"value":"77787a"}"#)
      try control.line(containing: "77 78 7a ")
      // Just Works is not sufficient for the last value.
      try select("aa02", control)
      try control.type("gatt.read")
      try control.line(containing: pairing.own.isEmpty ? "Failed to read" : "  02 ")

      // It reconnects with its key, without any prompt.
      try control.type("disconnect \(device)")
      try control.line(containing: "Successful disconnected")
      try program.line(containing: #""event":"disconnected""#)
      try control.type("connect \(device)")
      _ = try control.lines(untilThey: "report another connection") { lines in
        lines.count { $0.contains("Connection successful") } == 2
      }
      _ = try program.lines(untilThey: "report restored subscriptions") { lines in
        lines.contains { $0.contains(#""event":"subscribed","central":2"#) && $0.contains(#""handle":21"#) }
      }
      try program.type(#"{"handle":21,"value":"797a7b"}"#)
      try select("aa01", control)
      try control.type("gatt.read")
      try control.line(containing: "79 7a 7b ")
      program.send(SIGTERM)
      #expect(try program.ended().status == 0)
    }

    @Test(arguments: ServeWay.modes) func isUsedByBleak(_ way: ServeWay) throws {
      // With its agent, keys may be stored.
      try startElsewhere(way)
      let client = try scene.start(Place.bleakPython(), [Place.peer("bleak_user.py"), "Strap"])
      try client.line(containing: "scanning")
      let program = try scene.serveStrap(way)
      try client.line(containing: "connected \(Scene.strapAddress)")
      try client.line(containing: "subscribed")
      try program.type(#"{"uuid":"2A37","value":"0048"}"#)
      try client.line(containing: "value 0048")
      _ = try client.lines(untilThey: "report another subscription") { lines in
        lines.count { $0 == "subscribed" } == 2
      }
      try program.type(#"{"handle":21,"value":"77"}"#)
      try client.line(containing: "disconnected")
      let long = String(repeating: "5a", count: 300)
      #expect(
        client.output.split(separator: "\n").map(String.init) == [
          "scanning", "connected \(Scene.strapAddress)",
          "characteristic 0x0011 00002a37-0000-1000-8000-00805f9b34fb notify",
          "characteristic 0x0014 0000aa01-0000-1000-8000-00805f9b34fb indicate,read,write",
          "characteristic 0x0017 0000aa02-0000-1000-8000-00805f9b34fb read",
          "subscribed", "value 0048", "paired", "read 010203", "written", "read \(long)", "subscribed",
          "indicated 77", "disconnected",
        ])
      program.send(SIGTERM)
      #expect(try program.ended().status == 0)
    }

    /// The daemon finds the device again, which hides behind another private address than when they paired.
    @Test(arguments: ServeWay.all.filter { !$0.isOld }) func findsADeviceThatHides(_ way: ServeWay) throws {
      let control = try startElsewhere(way)
      try scene.hideStrap(way)
      try control.type("scan on")
      try control.line(containing: "Discovery started")
      let first = try scene.serveStrap(way, ["--private"])
      let seen = try control.line(containing: " Strap")
      let address = String(try #require(seen.firstMatch(of: /Device ([0-9A-F:]{17}) Strap/)).1)
      #expect(address != Scene.strapAddress)
      try control.type("scan off")
      try control.line(containing: "Discovery stopped")
      try control.type("connect \(address)")
      try control.line(containing: "ServicesResolved: yes")
      try control.type("pair \(address)")
      try control.line(containing: "Pairing successful")
      first.send(SIGTERM)
      #expect(try first.ended().status == 0)
      try control.line(containing: "Connected: no")

      let again = try scene.serveStrap(way, ["--private"])
      try control.type("connect \(Scene.strapAddress)")
      _ = try control.lines(untilThey: "report another connection") { lines in
        lines.count { $0.contains("Connection successful") } == 2
      }
      try select("aa01", control)
      try control.type("gatt.read")
      try control.line(containing: "01 02 03 ")
      try control.type("disconnect \(Scene.strapAddress)")
      try again.line(containing: #""event":"disconnected""#)
      // With the daemon's keys, but without the daemon.
      let value = try scene.demand(
        "gatttool", ["-i", "hci0", "-b", Scene.strapAddress, "-l", "medium", "--char-read", "-a", "0x0015"])
      #expect(value.outputLines == ["Characteristic value/descriptor: 01 02 03 "])
      again.send(SIGTERM)
      #expect(try again.ended().status == 0)
    }

    // MARK: Beside bluetoothd

    /// The daemon uses the device's adapter. Centrals find our services while our device is there, and the
    /// daemon's before and after.
    @Test func isThereBesideBluetoothd() throws {
      let daemon = try scene.bluetoothd("-f", try configuration())
      try scene.demand(Place.peer("hide_adapter.py"), ["\(daemon.identifier)", "0"])
      try scene.linkedControllers(at: 0..<2)
      try scene.makeCentral(0)
      let control = try powerOn(Scene.strapAddress)
      try control.type("advertise on")
      try control.line(containing: "Advertising object registered")
      func services() throws -> [String] {
        let result = try scene.run(
          Place.ringtap,
          ["gatt", Scene.strapAddress, "--adapter", "hci0", "--mode", "raw", "--json"])
        result.expectSuccess()
        return result.output.matches(of: /000018[0-9a-f]{2}-0000-1000-8000-00805f9b34fb/).map {
          String($0.output)
        }
      }
      // The daemon's own Device Information.
      let deviceInformation = "0000180a-0000-1000-8000-00805f9b34fb"
      let heartRate = "0000180d-0000-1000-8000-00805f9b34fb"
      #expect(try services().contains(deviceInformation))
      try waitForLinks(0)

      let program = try scene.serveStrap(ServeWay(mode: "coexist"))
      let found = try services()
      #expect(found.contains(heartRate) && !found.contains(deviceInformation))
      try program.line(containing: #""event":"connected""#)
      let doctor = try scene.ringtap("doctor", "--adapter", "hci1")
      #expect(doctor.output.contains("the kernel is advertising on hci1"))
      program.send(SIGTERM)
      let result = try program.ended()
      #expect(result.status == 0, "\(result.errors)")
      try waitForLinks(0)

      // The daemon's advertisement is still registered, although btvirt ended it, too, with the connect,
      // which the kernel does not know.
      try control.type("show")
      try control.line(containing: "ActiveInstances: 0x01")
      try control.type("advertise off")
      try control.line(containing: "Advertising object unregistered")
      try control.type("advertise on")
      _ = try control.lines(untilThey: "report that it advertises again") { lines in
        lines.count { $0.contains("Advertising object registered") } == 2
      }
      #expect(try services().contains(deviceInformation))
    }

    // MARK: Parts

    /// Starts the controllers, and a daemon that does not use hci1.
    ///
    /// - Returns: the daemon's client.
    @discardableResult
    private func startElsewhere(_ way: ServeWay) throws -> Program {
      let name = scene.path("elsewhere")
      try scene.demand("ln", ["-s", try Place.tool("bluetoothd"), name])
      let daemon = try scene.bluetoothd("-f", try configuration(), as: name)
      try scene.demand(Place.peer("hide_adapter.py"), ["\(daemon.identifier)", "1"])
      try scene.linkedControllers(at: 0..<2)
      try scene.prepareStrap(way)
      return try powerOn(Scene.centralAddress)
    }

    /// A configuration in which the adapters are left as they are until the client changes them.
    private func configuration() throws -> String {
      let path = scene.path("main.conf")
      try "[Policy]\nAutoEnable=false\n".write(toFile: path, atomically: true, encoding: .utf8)
      return path
    }

    private func powerOn(_ address: String) throws -> Program {
      let control = try scene.bluetoothctl()
      try control.type("select \(address)")
      try control.type("power on")
      try control.line(containing: "power on succeeded")
      return control
    }

    private func replaceAgent(_ capability: String, _ control: Program) throws {
      try control.type("agent off")
      try control.line(containing: "Agent unregistered")
      try control.type("agent \(capability)")
      try control.question(containing: "Agent registered", times: 2)
      try control.type("default-agent")
      try control.line(containing: "Default agent request successful")
    }

    private func select(_ uuid: String, _ control: Program) throws {
      try control.type("gatt.select-attribute 0000\(uuid)-0000-1000-8000-00805f9b34fb")
    }

    /// Six digits of a passkey.
    private func shown(by program: Program) throws -> String {
      let line = try program.line(on: .errors, containing: "passkey ")
      return String(try #require(line.firstMatch(of: /[0-9]{6}/)).output)
    }

    /// Waits until the kernel has ended hci1's links, which it keeps for two seconds.
    private func waitForLinks(_ count: Int) throws {
      let end = ContinuousClock.now + Program.patience
      while try scene.demand("hcitool", ["-i", "hci1", "con"]).outputLines.count != 1 + count {
        try #require(ContinuousClock.now < end, "hci1 still has links")
      }
    }
  }
}
