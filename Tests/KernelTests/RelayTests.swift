import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// A relay on the kernel's host: hci0 has a link to the strap as the central, and a link to bumble's host
  /// as the peripheral.
  @Suite final class RelayTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Ready: Decodable {
      var address: String
    }

    @Test func tellsWhatAStrapSaysInBothRoles() async throws {
      let places = ["127.0.0.1:\(try freePort())", "127.0.0.1:\(try freePort())"]
      let file = scene.path("strap.txt")
      try """
      device Strap
        0x0010-0x0013 2800 0d18
        0x0011 2803 10 1200 372a
        0x0012 2a37
        0x0013 2902 0000

      """.write(toFile: file, atomically: true, encoding: .utf8)
      let (strap, central) = try await scene.airWithAdapter(places) {
        let strap = try scene.startRingtap("serve", file, "--transport", "tcp-client:\(places[0])", "--json")
        return (strap, try await scene.bumbleCentral(["tcp-client:\(places[1])"]))
      }
      let ready = try await strap.line(containing: "ready")
      let address = try JSONDecoder().decode(Ready.self, from: Data(ready.utf8)).address

      let relay = try scene.startRingtap(
        "relay", "heart-rate", address, "--adapter", "hci0", "--mode", "raw", "--name", "Relay", "--json")
      _ = try await strap.line(containing: "subscribed")
      _ = try await relay.line(containing: #""event":"ready""#)
      try await central.ask("connect Relay", "connected")
      try await central.ask("attributes", "attributes")
      let line = try #require(central.lines().first { $0.hasPrefix("attribute 0x") && $0.hasSuffix(" 2a37") })
      let handle = line.split(separator: " ")[1]
      try await central.expect("subscribed", for: "subscribe \(handle) notify")
      // 72 and up, with contact, and half a second since the previous beat.
      for rate in 72..<92 { try strap.type(#"{"uuid":"2A37","value":"16\#(hexOf([UInt8(rate)]))0002"}"#) }
      try await eventually("20 values") { central.values().count == 20 }
      #expect(central.values() == (72..<92).map { "\(handle) 16\(hexOf([UInt8($0)]))0002 notification" })
      relay.send(SIGTERM)
      #expect(try await central.next(["disconnected"]) == "disconnected 19")
      #expect(try await relay.ended().status == 0)
    }
  }
}
