import Foundation
import TestKit
import Testing

/// `ringtap serve`, with google/bumble's host as the central.
@Suite(.timeLimit(.minutes(2))) struct ServeCommandTests {
  private static let strap = """
    # A strap with a battery that can be written.
    device Strap
    advertise 180d
      0x0001-0x0003 2800 0018
      0x0002 2803 02 0300 002a
      0x0003 2a00 5374726170
      0x0010-0x0017 2800 0d18
      0x0011 2803 10 1200 372a
      0x0012 2a37
      0x0013 2902 0000
      0x0014 2803 0a 1500 382a
      0x0015 2a38 02
      0x0016 2901 57726973 74
      0x0020-0x0023 2800 0f18
      0x0021 2803 22 2200 192a
      0x0022 2a19 64
      0x0023 2902 0000
    needs encrypted 0x0022

    """

  private struct Event: Decodable {
    let event: String
    var address: String?
    var central: Int?
    var handle: Int?
    var uuid: String?
    var value: String?
    var notifications: Bool?
    var indications: Bool?
  }

  private func events(_ output: String) throws -> [Event] {
    try output.split(separator: "\n").map { try JSONDecoder().decode(Event.self, from: Data($0.utf8)) }
  }

  @Test func isTheDeviceOfItsFile() async throws {
    let peer = try await BumbleCentrals.start()
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try Data(Self.strap.utf8).write(to: URL(filePath: file))
      let program = try Ringtap.start(
        [
          "serve", file, "--transport", "tcp-client:127.0.0.1:\(peer.port)", "--json",
        ], input: .typed)
      let ready = try events(await program.line(containing: "ready")).first
      let address = try #require(ready?.address)
      try await peer.expect("found \(address) Strap 180D", for: "find Strap")
      try await peer.expect("connected \(address)", for: "connect Strap")
      try await peer.ask("attributes", "attributes")
      #expect(
        peer.lines().filter { $0.hasPrefix("attribute 0x") }.map { String($0.dropFirst(10)) }
          == [
            "0x0001 2800", "0x0002 2803", "0x0003 2a00", "0x0010 2800", "0x0011 2803", "0x0012 2a37",
            "0x0013 2902", "0x0014 2803", "0x0015 2a38", "0x0016 2901", "0x0020 2800", "0x0021 2803",
            "0x0022 2a19", "0x0023 2902",
          ])
      try await peer.expect("read 5772697374", for: "read 0x0016")
      try await peer.expect("subscribed", for: "subscribe 0x0012 notify")
      for number in 10..<30 { try program.type(#"{"uuid":"2A37","value":"00\#(number)"}"#) }
      try await eventually("20 values") { peer.values().count == 20 }
      #expect(peer.values() == (10..<30).map { "0x0012 00\($0) notification" })
      try await peer.expect("written", for: "write 0x0015 01")
      try await peer.expect("refused 5", for: "subscribe 0x0022 indicate")
      try await peer.expect("paired", for: "pair")
      try await peer.expect("subscribed", for: "subscribe 0x0022 indicate")
      try program.type(#"{"handle":34,"value":"63"}"#)
      #expect(try await peer.next(["value"]) == "value 0x0022 63 indication")
      try await peer.expect("read 63", for: "read 0x0022")

      program.send(SIGTERM)
      #expect(try await peer.next(["disconnected"]).hasPrefix("disconnected"))
      let result = try await program.ended()
      #expect(result.status == 0, "\(result.errors)")
      let told = try events(result.output)
      #expect(told.map(\.event).prefix(5) == ["ready", "connected", "subscribed", "written", "subscribed"])
      #expect(told.last?.event == "end")
      #expect(told[1].address == peer.addresses[0])
      #expect(told[2].handle == 0x12)
      #expect(told[2].uuid == "2a37" || told[2].uuid?.hasPrefix("00002a37") == true)
      #expect(told[2].notifications == true && told[2].indications == false)
      #expect(told[3].handle == 0x15 && told[3].value == "01")
    }
  }

  /// An invalid line is reported and skipped.
  @Test func passesOverWhatIsNoValue() async throws {
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try Data(Self.strap.utf8).write(to: URL(filePath: file))
      let program = try Ringtap.start(["serve", file, "--transport", "virtual:ring"], input: .typed)
      try await program.line(containing: "ready virtual:ring")
      let lines = [
        "{", #"{"uuid":"2A37"}"#, #"{"uuid":"2A37","value":"0"}"#, #"{"uuid":"2AFF","value":"00"}"#,
        #"{"handle":19,"value":"00"}"#, #"{"value":"00"}"#,
        #"{"handle":18,"value":"\#(String(repeating: "00", count: 513))"}"#,
      ]
      for line in lines { try program.type(line) }
      try await program.line(on: .errors, containing: "line 7 ")
      program.send(SIGTERM)
      let result = try await program.ended()
      #expect(result.status == 1)
      #expect(
        result.errorLines.map { $0.replacingOccurrences(of: "ringtap: ", with: "") }.filter {
          $0.hasPrefix("line")
        }
          == [
            "line 1 of standard input: not a JSON object",
            "line 2 of standard input: no \"value\" in hexadecimal",
            "line 3 of standard input: no \"value\" in hexadecimal",
            "line 4 of standard input: there is no characteristic 2AFF",
            "line 5 of standard input: 0x0013 is not a characteristic value",
            "line 6 of standard input: neither \"handle\" nor \"uuid\"",
            "line 7 of standard input: more than 512 bytes",
          ])
    }
  }

  @Test(
    arguments: [
      ("device\n0x0001-0x0001 2800 0d18\n", "there is no `device NAME` in it"),
      (
        "device a\nx\n",
        "line 2: 'x' is not one of device, advertise, service, secondary, include, characteristic, descriptor, "
          + "needs and a handle such as 0x0003"
      ),
      ("device a\n0x0001 2803 02 0200 002a\n", "line 2: the first attribute declares a service: type 2800"),
      (
        "device a\n0x0001-0x0003 2800 0d18\n0x0002 2803 02 0400 002a\n0x0003 2a00\n",
        "line 3: its value must directly follow it, with the handle and type that it declares"
      ),
      (
        "device a\n0x0001-0x0004 2800 0d18\n0x0002 2803 10 0300 002a\n0x0003 2a00\n",
        "line 3: a characteristic with notify or indicate needs its descriptor 2902 directly after its value"
      ),
      (
        "device a\n0x0001-0x0002 2800 0d18\n0x0002 2803 02 0300 002a\n0x0003 2a00\n",
        "line 4: it is beyond the end of its service"
      ),
      (
        "device a\n0x0001-0x0009 2800 0d18\n0x0008-0x0009 2800 0f18\n",
        "line 2: the next service begins inside of this one"
      ),
      (
        "device a\n0x0001-0x0001 2800 0d18\nneeds encrypted 0x0007\n",
        "there is no attribute 0x0007 that could need anything"
      ),
      (
        "device a\nneeds more 0x0001\n",
        "line 2: `needs` takes `encrypted` or `authenticated`, and handles"
      ),
      (
        "device a\n0x0001-0x0002 2800 0d18\n0x0002 2802 0700 0800 0f18\n",
        "line 3: there is no service at 0x0007"
      ),
    ])
  func tellsWhatIsWrongWithAFile(_ text: String, _ reason: String) async throws {
    try await withFolder { folder in
      let file = folder + "/device.txt"
      try Data(text.utf8).write(to: URL(filePath: file))
      let result = try await Ringtap.run(["serve", file, "--transport", "virtual:ring"])
      #expect(result.status == 1)
      #expect(result.errorLines == ["ringtap: \(file): \(reason)"])
    }
  }

  /// With the key and the message of BlueZ's unit/test-crypto.c: accepted once, also across restarts.
  @Test func takesASignatureOnce() async throws {
    try await withFolder { folder in
      let (file, devices) = (folder + "/device.txt", folder + "/ringtap/devices")
      let text = "device Strap\n0x0010-0x0012 2800 0d18\n0x0011 2803 4a 1200 01aa\n0x0012 aa01 01\n"
      try Data(text.utf8).write(to: URL(filePath: file))
      try FileManager.default.createDirectory(atPath: devices, withIntermediateDirectories: true)
      for value in ["1337", "01"] {
        let peer = try await BumbleCentrals.start()
        let central = String(try #require(peer.addresses.first).prefix(17))
        let bond = """
          {"version":1,"address":"\(central)","addressType":"random","localAddress":"00:00:5E:00:53:01",
          "localAddressType":"public","authenticated":false,"secureConnections":true,"keySize":16,
          "peerSigningKey":"611b64ebfbcd1fd372ec9196df425e50"}
          """
        let path = "\(devices)/\(central.replacing(":", with: "-"))-random.bond"
        if value == "1337" { try Data(bond.utf8).write(to: URL(filePath: path)) }
        let program = try Program(
          Place.ringtap, ["serve", file, "--transport", "tcp-client:127.0.0.1:\(peer.port)", "--json"],
          environment: ["XDG_STATE_HOME": folder, "RINGTAP_NO_REMEMBER": nil])
        try await program.line(containing: "ready")
        try await peer.ask("connect Strap", "connected")
        try peer.tell("1 send d21200133701000000f1871e933c900ff2")
        try await peer.expect("read \(value)", for: "read 0x0012")
        program.send(SIGTERM)
        #expect(try await program.ended().status == 0)
        #expect(try String(contentsOfFile: path, encoding: .utf8).contains(#""peerSignCounter":2"#))
      }
    }
  }

  /// The kernel's host would respond to centrals itself.
  @Test func wantsAControllerOfItsOwn() async throws {
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try Data(Self.strap.utf8).write(to: URL(filePath: file))
      let result = try await Ringtap.run(["serve", file, "--transport", "serial:/dev/none,115200"])
      #expect(result.status == 1)
      #expect(result.output.isEmpty)
    }
  }
}
