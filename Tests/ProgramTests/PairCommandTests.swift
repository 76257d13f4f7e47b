import Foundation
import TestKit
import Testing

/// `ringtap pair` with an emulated device in another process, and the places where its keys appear.
@Suite(.timeLimit(.minutes(3)))
struct PairCommandTests {
  private static let address = "70:CB:0D:00:18:0D"

  /// Emulates a strap that requires security while `body` runs, which gets arguments to reach it and a
  /// folder.
  private func withStrap(
    _ options: [String], _ body: (_ transport: [String], _ folder: String) async throws -> Void
  ) async throws {
    try await withFolder { folder in
      let transport = ["--transport", "unix:" + folder + "/strap"]
      let strap = try Ringtap.start(["emulate", "heart-rate"] + transport + options)
      try await strap.line(containing: "ready")
      try await body(transport, folder)
      strap.send(SIGINT)
      _ = try await strap.finish()
    }
  }

  private func run(_ arguments: [String], state: String) async throws -> Program.Result {
    try await Ringtap.start(arguments, state: state).finish()
  }

  private func bonds(_ folder: String) throws -> [[String: Any]] {
    let files = try FileManager.default.contentsOfDirectory(atPath: folder + "/ringtap/devices")
    return try files.filter { $0.hasSuffix(".bond") }.map { name in
      let data = try Data(contentsOf: URL(filePath: folder + "/ringtap/devices/" + name))
      return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    }
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let device: [String]
    let own: [String]
    let isAuthenticated: Bool
    let isSecure: Bool
  }

  static let cases = [
    Case(
      testDescription: "Just Works", device: ["--security", "encrypted"], own: [], isAuthenticated: false,
      isSecure: true),
    Case(
      testDescription: "passkey", device: ["--security", "authenticated", "--passkey", "046128"],
      own: ["--passkey", "46128"], isAuthenticated: true, isSecure: true),
    Case(
      testDescription: "legacy passkey",
      device: ["--security", "authenticated", "--passkey", "46128", "--legacy-pairing"],
      own: ["--passkey", "46128", "--authenticated"], isAuthenticated: true, isSecure: false),
    Case(
      testDescription: "numeric comparison",
      device: ["--security", "authenticated", "--io-capability", "yes-no"], own: ["--yes"],
      isAuthenticated: true, isSecure: true),
  ]

  /// Secure Connections need OpenSSL: without it, both pairing and accepting a pairing report what is
  /// missing.
  @Test(arguments: [
    ["pair", address, "--transport", "virtual:heart-rate"],
    ["emulate", "heart-rate", "--security", "encrypted", "--transport", "unix:strap"],
  ])
  func saysWhatIsMissing(_ arguments: [String]) async throws {
    try await withFolder { folder in
      try Data("no library".utf8).write(to: URL(filePath: folder + "/libcrypto.so.3"))
      let arguments = arguments.map { $0.replacing("unix:", with: "unix:\(folder)/") }
      let result = try await Program.run(
        Place.ringtap, arguments, environment: ["LD_LIBRARY_PATH": folder])
      #expect(result.status == 1)
      #expect(result.output.isEmpty)
      #expect(result.errors.contains("libcrypto.so.3: file too short (Debian: libssl3)"), "\(result.errors)")
    }
  }

  /// Refused at first, read with the stored key afterwards, and forgotten with the device.
  @Test(arguments: cases) func pairsAndForgets(_ way: Case) async throws {
    try await withStrap(way.device) { transport, folder in
      let read = ["read", Self.address, "2a38"] + transport
      let before = try await run(read, state: folder)
      #expect(before.status == 1)
      let pair = try await run(["pair", Self.address, "--json"] + way.own + transport, state: folder)
      #expect(pair.status == 0, "\(pair.errorLines)")
      let line = try #require(pair.outputLines.first)
      let object = try #require(
        try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      #expect(object["address"] as? String == Self.address)
      #expect(object["authenticated"] as? Bool == way.isAuthenticated)
      #expect(object["secureConnections"] as? Bool == way.isSecure)
      #expect(object["keySize"] as? Int == 16)
      #expect(object["bonded"] as? Bool == true)
      #expect(try bonds(folder).count == 1)
      let after = try await run(read + ["--json"], state: folder)
      #expect(after.status == 0, "\(after.errorLines)")
      try await recordsEncrypted(way, transport, folder)
      let forget = try await run(["pair", Self.address, "--forget", "--mode", "exclusive"], state: folder)
      #expect(forget.status == 0 && forget.outputLines == ["removed the keys of \(Self.address)"])
      #expect(try bonds(folder).isEmpty)
      #expect(try await run(read, state: folder).status == 1)
    }
  }

  /// A capture, and the results made from it, state how the link was encrypted.
  private func recordsEncrypted(_ way: Case, _ transport: [String], _ folder: String) async throws {
    let walk = folder + "/walk"
    let capture = try await run(
      ["heart-rate", Self.address, "--count", "2", "--output", walk] + transport, state: folder)
    #expect(capture.status == 0, "\(capture.errorLines)")
    let text = "encrypted (\(way.isAuthenticated ? "" : "not ")authenticated, 16 bytes)"
    let analysis = try await run(["analyse", walk], state: folder)
    #expect(analysis.outputLines.contains("link      \(text)"), "\(analysis.outputLines)")
    let json = try await run(["analyse", walk, "--json"], state: folder)
    let flags = #""authenticated":\#(way.isAuthenticated),"secureConnections":\#(way.isSecure),"bonded":true"#
    #expect(
      json.output.contains(#""security":[{"encrypted":true,"keySize":16,\#(flags)}]"#), "\(json.output)")
    let report = try await run(["report", walk, "--output", folder + "/walk.html"], state: folder)
    #expect(report.status == 0, "\(report.errorLines)")
    #expect(try String(contentsOfFile: folder + "/walk.html", encoding: .utf8).contains(text))
  }

  /// The quickest trial: device and host in one process, whose keys end with it.
  @Test func pairsInsideOneProcess() async throws {
    try await withFolder { folder in
      let pair = ["pair", Self.address, "--json", "--passkey", "7", "--transport"]
      let specification = "virtual:heart-rate,security=authenticated,passkey=7"
      let run = try await run(pair + [specification], state: folder)
      #expect(run.status == 0, "\(run.errorLines)")
      #expect(run.outputLines.first?.contains(#""authenticated":true,"secureConnections":true"#) == true)
      #expect(run.outputLines.first?.contains(#""bonded":false"#) == true)
      let legacy = try await self.run(pair + [specification + ",legacy-pairing"], state: folder)
      #expect(legacy.outputLines.first?.contains(#""secureConnections":false"#) == true)
      #expect(legacy.errorLines.filter { $0.contains("paired without Secure Connections") }.count == 1)
      let insists = try await self.run(
        pair + [specification + ",legacy-pairing", "--secure-connections"], state: folder)
      #expect(insists.status == 1 && insists.outputLines.isEmpty, "\(insists.errorLines)")
      let both = try await self.run(
        pair + [specification, "--secure-connections", "--legacy"], state: folder)
      #expect(both.status == 2)
      let secure = try await self.run(pair + [specification, "--secure-connections"], state: folder)
      #expect(secure.status == 0, "\(secure.errorLines)")
      for wrong in ["virtual:ring,passkey=1", "virtual:ring,security=authenticated,io-capability=none"] {
        #expect(try await self.run(pair + [wrong], state: folder).status == 2, "usage")
      }
    }
  }

  /// A wrong passkey, and a device whose passkey cannot be seen.
  @Test func saysWhyItDoesNotPair() async throws {
    try await withStrap(["--security", "authenticated"]) { transport, folder in
      let wrong = try await run(
        ["pair", Self.address, "--passkey", "123457"] + transport, state: folder)
      #expect(wrong.status == 1)
      #expect(
        wrong.errorLines.last?.contains("wrong passkey") == true
          || wrong.errorLines.last?.contains("Confirm") == true)
      let nobody = try await run(["pair", Self.address, "--authenticated"] + transport, state: folder)
      #expect(nobody.status == 1)
      #expect(nobody.errorLines.count == 1)
      #expect(!FileManager.default.fileExists(atPath: folder + "/ringtap/devices"))
    }
  }

  /// On a terminal the user is asked. `script`, which is on every Debian system, provides the terminal.
  @Test(
    arguments: [
      (["--passkey", "654321"], "654321", "passkey that the device shows:", 0),
      (["--io-capability", "yes-no"], "y", "does the device show", 0),
      (["--io-capability", "yes-no"], "n", "does the device show", 1),
    ] as [([String], String, String, Int32)])
  func asksAPerson(_ options: [String], _ typed: String, _ question: String, _ status: Int32) async throws {
    try await withStrap(["--security", "authenticated"] + options) { transport, folder in
      let command = ([try Place.ringtap, "pair", Self.address] + transport).joined(separator: " ")
      let program = try Program(
        "script", ["-qec", command, "/dev/null"], environment: Ringtap.environment(folder))
      try await program.question(containing: question)
      try program.type(typed)
      // Its input stays open, because `script` takes end of file for the end of the typed input.
      let run = try await program.ended()
      #expect(run.status == status)
      #expect(run.outputLines.contains { $0.contains(question) })
      #expect(
        run.outputLines.contains { $0.contains("paired with \(Self.address): authenticated") }
          == (status == 0))
    }
  }

  /// Keys are in the bond's file and nowhere else, unless they are requested.
  @Test func keepsKeysOutOfWhatIsWritten() async throws {
    try await withStrap(["--security", "authenticated", "--legacy-pairing", "--rate", "50"]) {
      transport, folder in
      let pair = ["pair", Self.address, "--passkey", "123456"] + transport
      let secret = try await run(pair + ["--packet-log", folder + "/secret.btsnoop"], state: folder)
      #expect(secret.status == 0, "\(secret.errorLines)")
      var keys = try Self.keys(bonds(folder))
      #expect(keys.count == 4, "LTK, IRK, and a CSRK each way")
      #expect(Self.found(keys, in: [folder + "/secret.btsnoop"]) == 0)

      let capture = try await run(
        [
          "heart-rate", Self.address, "--count", "5", "--output", folder + "/capture", "--packet-log",
          folder + "/hci.pcapng",
        ]
          + transport, state: folder)
      #expect(capture.status == 0, "\(capture.errorLines)")
      let files = try FileManager.default.subpathsOfDirectory(atPath: folder + "/capture")
      #expect(files.contains("session.json"))
      #expect(Self.found(keys, in: files.map { folder + "/capture/" + $0 } + [folder + "/hci.pcapng"]) == 0)

      // When requested: each key that was sent over the link, and the warning.
      let open = try await run(
        pair + ["--packet-log", folder + "/open.btsnoop", "--log-keys"], state: folder)
      #expect(open.status == 0, "\(open.errorLines)")
      #expect(open.errorLines.contains { $0.contains("warning") && $0.contains("open.btsnoop") })
      keys = try Self.keys(bonds(folder))
      #expect(Self.found(keys, in: [folder + "/open.btsnoop"]) == 4)
      let convert = try await run(
        ["log", "convert", folder + "/open.btsnoop", "-o", folder + "/shown.btsnoop", "--anonymise"],
        state: folder)
      #expect(convert.status == 0, "\(convert.errorLines)")
      #expect(Self.found(keys, in: [folder + "/shown.btsnoop"]) == 0)
    }
  }

  /// A device with private addresses is shown with its identity, and can be connected to by it.
  @Test func findsABondedDeviceThatHides() async throws {
    try await withStrap(["--security", "encrypted", "--private-address"]) { transport, folder in
      let scan = ["scan", "--duration", "0.5", "--json"] + transport
      func heard() async throws -> [String: Any] {
        let run = try await run(scan, state: folder)
        let line = try #require(run.outputLines.first)
        return try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      }
      let stranger = try await heard()
      let address = try #require(stranger["address"] as? String)
      #expect(address != Self.address)
      #expect(stranger["identityAddress"] == nil)
      let pair = try await run(
        ["pair", address, "--address-type", "random", "--json"] + transport, state: folder)
      #expect(pair.status == 0, "\(pair.errorLines)")
      #expect(pair.outputLines.first?.contains(#""identityAddress":"\#(Self.address)""#) == true)
      let known = try await heard()
      #expect(known["identityAddress"] as? String == Self.address)
      #expect(known["identityAddressType"] as? String == "public")
      #expect(known["address"] as? String != Self.address)
      let text = try await run(["scan", "--duration", "0.5"] + transport, state: folder)
      #expect(text.outputLines.first?.hasPrefix("\(Self.address) public (now ") == true)
      let read = try await run(["read", Self.address, "2a38"] + transport, state: folder)
      #expect(read.status == 0, "\(read.errorLines)")
    }
  }

  // MARK: Parts

  /// Numbers of 128 bits, most significant byte first.
  private static func keys(_ bonds: [[String: Any]]) -> [[UInt8]] {
    var texts: [String] = []
    for bond in bonds {
      texts += ["identityKey", "peerSigningKey", "localSigningKey"].compactMap { bond[$0] as? String }
      for name in ["peerKey", "localKey"] {
        if let key = (bond[name] as? [String: Any])?["key"] as? String { texts.append(key) }
      }
    }
    return texts.map { text in
      let digits = Array(text)
      return stride(from: 0, to: digits.count, by: 2).compactMap {
        UInt8(String(digits[$0...$0 + 1]), radix: 16)
      }
    }
  }

  /// How many of the keys occur in a file, in either byte order or in hexadecimal.
  private static func found(_ keys: [[UInt8]], in paths: [String]) -> Int {
    let files = paths.compactMap { FileManager.default.contents(atPath: $0) }
    return keys.count { key in
      let text = Data(hexOf(key).utf8)
      return files.contains { file in
        [Data(key), Data(key.reversed()), text].contains { file.range(of: $0) != nil }
      }
    }
  }
}
