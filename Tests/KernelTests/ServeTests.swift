import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Our device on one of btvirt's controllers; on the other are independent hosts and our own.
  @Suite final class ServeTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    @Test(arguments: ServeWay.all) func isUsedByBumblesHost(_ way: ServeWay) async throws {
      try scene.strapControllers(way, central: false)
      let program = try scene.serveStrap(way)
      let central = try await scene.bumbleCentral(["hci-socket:0"])
      try await central.expect("connected \(Scene.strapAddress)", for: "connect Strap")
      try await central.expect("mtu 100", for: "mtu 100")
      try await central.expect("attributes 12", for: "attributes")
      try await central.expect("subscribed", for: "subscribe 0x0012 notify")
      for number in 10..<60 { try program.type(#"{"uuid":"2A37","value":"00\#(number)"}"#) }
      try await eventually("50 values") { central.values().count == 50 }
      #expect(central.values() == (10..<60).map { "0x0012 00\($0) notification" })
      try await central.expect("refused 5", for: "read 0x0015")
      try await central.expect("paired", for: "pair")
      try await central.expect("read 010203", for: "read 0x0015")
      try await central.expect("refused 5", for: "read 0x0018")
      let long = String(repeating: "5a", count: 300)
      try await central.expect("written", for: "write 0x0015 \(long)")
      try await central.expect("read \(long)", for: "read 0x0015")
      try await central.expect("subscribed", for: "subscribe 0x0015 indicate")
      try program.type(#"{"handle":21,"value":"77"}"#)
      #expect(try await central.next(["value"]) == "value 0x0015 77 indication")
      try await central.expect("disconnected 19", for: "disconnect")

      // The device is there again and gives the central access with its key. The central gets notifications
      // for its earlier subscriptions.
      try await central.expect("connected \(Scene.strapAddress)", for: "connect Strap")
      try await central.expect("refused 15", for: "read 0x0015")
      try await central.expect("encrypted", for: "encrypt")
      try await central.expect("read 77", for: "read 0x0015")
      try program.type(#"{"handle":21,"value":"78"}"#)
      #expect(try await central.next(["value"]) == "value 0x0015 78 indication")
      program.send(SIGTERM)
      // Disconnected by the device's host, not by a timeout.
      #expect(try await central.next(["disconnected"]) == "disconnected 19")
      let result: Program.Result = try await program.ended()
      #expect(result.status == 0, "\(result.errors)")
    }

    /// The kernel's host, with BlueZ's gatttool and with our own raw mode.
    @Test(arguments: ServeWay.all) func isUsedByTheKernelsHost(_ way: ServeWay) async throws {
      try scene.strapControllers(way, central: true)
      let program = try scene.serveStrap(way)
      func gatttool(_ arguments: String...) throws -> [String] {
        try scene.demand("gatttool", ["-i", "hci0", "-b", Scene.strapAddress] + arguments).outputLines
      }
      #expect(
        try gatttool("--primary") == [
          "attr handle = 0x0001, end grp handle = 0x0003 uuid: 00001800-0000-1000-8000-00805f9b34fb",
          "attr handle = 0x0010, end grp handle = 0x0018 uuid: 0000180d-0000-1000-8000-00805f9b34fb",
        ])
      #expect(
        try gatttool("--char-read", "-a", "0x0003") == ["Characteristic value/descriptor: 53 74 72 61 70 "])
      let listening = try scene.start(
        "gatttool",
        [
          "-i", "hci0", "-b", Scene.strapAddress, "--char-write-req", "-a", "0x0013", "-n", "0100",
          "--listen",
        ])
      try await program.line(containing: "subscribed")
      try await listening.line(containing: "written successfully")
      // It listens only some time after that, and not while values arrive one right after the other.
      try await eventually("a notification") {
        try scene.demand("hcitool", ["-i", "hci0", "con"])
        try program.type(#"{"uuid":"2A37","value":"0048"}"#)
        return listening.output.contains("Notification handle = 0x0012 value: 00 48")
      }
      listening.send(SIGKILL)
      try await program.line(containing: "disconnected")

      let ours = ["--adapter", "hci0", "--mode", "raw", "--json"]
      let read = try scene.run(Place.ringtap, ["read", Scene.strapAddress, "2a00"] + ours)
      read.expectSuccess()
      #expect(read.output.contains(#""value":"5374726170""#))
      let values = try scene.start(
        Place.ringtap, ["notify", Scene.strapAddress, "2a37", "--count", "1"] + ours)
      _ = try await program.lines(untilThey: "report another subscription") { lines in
        lines.count { $0.contains(#""event":"subscribed""#) && $0.contains(#""notifications":true"#) } == 2
      }
      try program.type(#"{"uuid":"2A37","value":"0049"}"#)
      try await values.line(containing: #""value":"0049""#)
      try await values.finish().expectSuccess()

      program.send(SIGTERM)
      #expect(try await program.ended().status == 0)
      // Advertising is off: a scan finds no device.
      let after = try scene.ringtap("scan", "--adapter", "hci0", "--duration", "2", "--json")
      after.expectSuccess()
      #expect(after.outputLines.isEmpty)
    }

    @Test func isUsedByTwoCentralsAtOnce() async throws {
      let places = ["127.0.0.1:\(try freePort())", "127.0.0.1:\(try freePort())"]
      let (one, two) = try await scene.airWithAdapter(places) {
        async let first = scene.bumbleCentral(["tcp-client:\(places[0])"])
        async let second = scene.bumbleCentral(["tcp-client:\(places[1])", "--number", "2"])
        return try await (first, second)
      }

      let program = try scene.serveStrap(ServeWay(mode: "raw"), adapter: 0)
      for (number, central) in [(1, one), (2, two)] {
        try await central.ask("connect Strap", "connected", central: number)
        try await central.expect("subscribed", for: "subscribe 0x0012 notify", central: number)
      }
      for number in 10..<60 { try program.type(#"{"uuid":"2A37","value":"00\#(number)"}"#) }
      let values = (10..<60).map { "0x0012 00\($0) notification" }
      for (number, central) in [(1, one), (2, two)] {
        try await eventually("50 values") { central.values(central: number).count == 50 }
        #expect(central.values(central: number) == values)
      }
      // One disconnects and reconnects, and the other stays. Its own host disconnected, as its controller
      // reports; btvirt reports otherwise.
      try await one.expect("disconnected 22", for: "disconnect")
      try await one.ask("connect Strap", "connected")
      try await two.expect("read 5374726170", for: "read 0x0003", central: 2)
      program.send(SIGTERM)
      #expect(try await one.next(["disconnected"]) == "disconnected 19")
      #expect(try await two.next(["disconnected"], central: 2) == "disconnected 19")
      #expect(try await program.ended().status == 0)
    }

    /// Advertising is switched off, as the kernel does before it connects.
    @Test(arguments: [ServeWay(mode: "raw"), ServeWay(mode: "raw", isOld: true)])
    func goesOnWhenSomebodySwitchesItOff(_ way: ServeWay) throws {
      try scene.strapControllers(way, central: true)
      let program = try scene.serveStrap(way)
      // LE Set Advertising Enable, or Set Extended Advertising Enable of all sets: off.
      let off = way.isOld ? ["0x000a", "00"] : ["0x0039", "00", "00"]
      try scene.demand("hcitool", ["-i", "hci1", "cmd", "0x08"] + off)
      let name = try scene.demand(
        "gatttool", ["-i", "hci0", "-b", Scene.strapAddress, "--char-read", "-a", "0x0003"])
      #expect(name.outputLines == ["Characteristic value/descriptor: 53 74 72 61 70 "])
      program.send(SIGTERM)
      #expect(try program.ended().status == 0)
    }

    // MARK: State after the end

    struct Finding: Decodable {
      var check: String
      var state: String
      var finding: String
    }

    /// The doctor's finding about the device's adapter.
    private func advertising() throws -> String {
      let result = try scene.ringtap("doctor", "--adapter", "hci1", "--json")
      return try result.objects(Finding.self).filter { $0.check == "advertising" }.map(\.finding).joined()
    }

    /// After `kill -9` the sockets close, but advertising that was enabled by HCI commands stays: the doctor
    /// reports it.
    @Test(arguments: [ServeWay(mode: "raw"), ServeWay(mode: "raw", isOld: true)])
    func isToldOfByTheDoctor(_ way: ServeWay) throws {
      try scene.strapControllers(way, central: true)
      let program = try scene.serveStrap(way)
      #expect(try advertising() == "hci1 is advertising, started by HCI commands")
      program.end()
      #expect(try advertising() == "hci1 is advertising, started by HCI commands")
      let again = try scene.ringtap("serve", scene.path("strap.txt"), "--adapter", "hci1", "--mode", "raw")
      again.expectFailure(saying: "hci1 is already advertising", "ringtap doctor")
      // The remedy that it gives.
      try scene.takeDown(1)
      try scene.takeUp(1)
      #expect(try advertising() == "no advertising was found")
    }
  }
}
