import Foundation
import TestKit
import Testing

/// `ringtap emulate`, which takes what a `virtual:` transport takes.
@Suite(.timeLimit(.minutes(2))) struct EmulateCommandTests {
  private func withDevices(_ words: [String], _ body: (_ place: String, _ ready: String) async throws -> Void)
    async throws
  {
    try await withFolder { folder in
      let place = "unix:\(folder)/radio"
      let program = try Ringtap.start(["emulate"] + words + ["--transport", place])
      try await body(place, try await program.line(containing: "ready"))
      program.send(SIGINT)
      #expect(try await program.finish().status == 0)
    }
  }

  /// A strap at 90 to the minute whose every third value is off the body: in one text or as options.
  @Test(arguments: [
    ["heart-rate,rate=50,name=Strap,address=70:CB:0D:00:18:77,heart-rate=90,variability=0,off-body-every=3"],
    [
      "heart-rate", "--rate", "50", "--name", "Strap", "--address=70:CB:0D:00:18:77", "--heart-rate", "90",
      "--variability", "0", "--off-body-every", "3",
    ],
    ["heart-rate,rate=50,name=Strap,heart-rate=90,variability=0", "--address", "70:CB:0D:00:18:77"],
  ]) func takesTheLanguageOfVirtual(_ words: [String]) async throws {
    try await withDevices(words) { place, ready in
      #expect(ready == "ready \(place) 70:CB:0D:00:18:77 Strap")
      let run = try await Ringtap.run(["heart-rate", "--name", "Strap", "--count", "6", "--transport", place])
      #expect(run.status == 0, "\(run.errors)")
      #expect(run.outputLines.filter { $0.hasPrefix("90 bpm") }.count == 6, "\(run.output)")
      #expect(run.outputLines.contains("no contact") == (words.joined().contains("off-body-every")))
    }
  }

  /// Several devices in range of each other, with an option for all of them and options of each.
  @Test func emulatesSeveralDevices() async throws {
    try await withDevices(["ring,name=Left+heart-rate,name=Strap+core", "--rate", "20"]) { place, ready in
      #expect(ready.hasSuffix(" 70:CB:0D:00:A1:B2 Left"))
      let scan = try await Ringtap.run(["scan", "--duration", "1", "--transport", place])
      for name in ["Left", "Strap", "CORE"] { #expect(scan.output.contains(name), "\(scan.output)") }
    }
  }

  /// The first keeps its address; the others have the following ones and names with their numbers.
  @Test func numbersRings() async throws {
    try await withDevices(["ring", "--rings", "3"]) { place, ready in
      #expect(ready.hasSuffix(" 70:CB:0D:00:A1:B2 R02_A1B2"))
      let scan = try await Ringtap.run(["scan", "--duration", "1", "--transport", place])
      for ring in ["70:CB:0D:00:A1:B3", "R02_0002", "70:CB:0D:00:A1:B4", "R02_0003"] {
        #expect(scan.output.contains(ring), "\(scan.output)")
      }
    }
  }

  @Test(arguments: [
    ([], "which device? Give one such as ring"),
    (["--quiet", "ring"], "which device?"),
    (["strap"], "there is no virtual peripheral 'strap'; there are ring, source, heart-rate"),
    (["ring", "--rate", "0"], "'rate=0': 0.001 … 1000000 a second is wanted"),
    (["ring", "--rate"], "'rate' is no option"),
    (
      ["ring", "--quiet", "--bogus", "1"], "'bogus=1' is no option of virtual:ring; there are rate=N, count=N"
    ),
    (["ring", "--name", ""], "at least 1 byte"),
    (["ring", "--name=A ring of twenty-seven byte"], "at most 31"),
    (["heart-rate", "--name", "A strap with a long name of bytes"], "at most 31"),
    (["ring", "--address", "70:CB"], "an address such as 70:CB:0D:00:A1:B2 is wanted"),
    (["ring", "--address-type", "secret"], "one of public, random is wanted"),
    (["core", "--unit", "kelvin"], "one of celsius, fahrenheit is wanted"),
    (["ring", "heart-rate"], "unexpected 'heart-rate': join several devices with +"),
    (["air", "--rate", "3"], "'rate' is no option of air"),
    (["ring", "--loss", "0.1"], "--loss needs --real-time"),
  ]) func refuses(_ words: [String], _ message: String) async throws {
    let run = try await Ringtap.run(["emulate"] + words + ["--transport", "unix:missing/controller"])
    #expect(run.status == 2 && run.output.isEmpty)
    #expect(
      run.errorLines.first?.hasPrefix("Error: ") == true && run.errors.contains(message), "\(run.errors)")
  }

  /// A device on an adapter has the adapter's radio.
  @Test(arguments: ["ring,real-time", "ring,extended", "ring,devices=2", "ring,sleeps-after=3"])
  func needsAVirtualController(_ device: String) async throws {
    let run = try await Ringtap.run(["emulate", device, "--adapter", "hci9"])
    #expect(run.status == 2 && run.errors.contains("are for a virtual controller, not an --adapter"))
  }
}

/// `ringtap emulate air`: hosts come and go at any time, in any order.
@Suite(.timeLimit(.minutes(2))) struct EmulateAirTests {
  /// As in the guide "Serving a device to others".
  private static let strap = """
    device Strap
    advertise 180d
      0x0001-0x0003 2800 0018
      0x0002 2803 02 0300 002a
      0x0003 2a00 5374726170
      0x0010-0x0015 2800 0d18
      0x0011 2803 10 1200 372a
      0x0012 2a37
      0x0013 2902 0000
      0x0014 2803 02 1500 382a
      0x0015 2a38 01

    """
  private static let address = "00:00:5E:00:53:01"

  @Test func letsHostsComeAndGo() async throws {
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try Data(Self.strap.utf8).write(to: URL(filePath: file))
      let (left, right) = ("unix:\(folder)/left", "unix:\(folder)/right")
      let air = try Ringtap.start(["emulate", "air", "--transport", left, "--transport", right])
      try await air.line(containing: "ready \(left),\(right)")
      // Longer than the 2 s in which a controller must answer its host.
      let alone = try await Ringtap.run(["scan", "--transport", right, "--duration", "3"])
      #expect(alone.status == 0 && alone.output.isEmpty, "\(alone.errors)")
      for _ in 0..<2 {
        let strap = try Ringtap.start(["serve", file, "--transport", left])
        try await strap.line(containing: "ready")
        for _ in 0..<10 {
          let read = try await Ringtap.run(["read", Self.address, "2a38", "--transport", right])
          #expect(read.output == "0x0015  01  Body Sensor Location: chest\n", "\(read.errors)")
        }
        strap.send(SIGINT)
        #expect(try await strap.finish().output.contains("end 10 connected"))
        let empty = try await Ringtap.run(["scan", "--transport", right, "--duration", "0.5"])
        #expect(empty.status == 0 && empty.output.isEmpty, "\(empty.errors)")
      }
      // The central first.
      let waiting = try Ringtap.start(["scan", "--transport", right, "--duration", "60"])
      let strap = try Ringtap.start(["serve", file, "--transport", left])
      try await waiting.line(containing: "Strap")
      for program in [waiting, strap, air] {
        program.send(SIGINT)
        _ = try await program.finish()
      }
    }
  }

  /// Two pairings: the second after both sides have removed the keys of the first. While one side still has
  /// them, the refusal says what to do.
  @Test func pairsTwice() async throws {
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try Data((Self.strap + "needs encrypted 0x0015\n").utf8).write(to: URL(filePath: file))
      let (left, right) = ("unix:\(folder)/left", "unix:\(folder)/right")
      let (server, client) = (folder + "/server", folder + "/client")
      let air = try Ringtap.start(["emulate", "air", "--transport", left, "--transport", right])
      try await air.line(containing: "ready")
      func run(_ words: [String]) async throws -> Program.Result {
        try await Ringtap.run(words + ["--transport", right], state: client)
      }
      for pairing in 1...2 {
        let strap = try Ringtap.start(["serve", file, "--transport", left], state: server)
        try await strap.line(containing: "ready")
        let refused = try await run(["read", Self.address, "2a38"])
        #expect(refused.status == 1 && refused.errors.contains("ringtap pair"), "\(refused.errors)")
        let paired = try await run(["pair", Self.address])
        #expect(paired.output.hasPrefix("paired with \(Self.address): "), "\(paired.errors)")
        let read = try await run(["read", Self.address, "2a38"])
        #expect(read.output == "0x0015  01  Body Sensor Location: chest\n", "\(read.errors)")
        if pairing == 1 {
          let again = try await run(["pair", Self.address])
          #expect(again.status == 1 && again.errors.contains("forget an earlier bond on both sides"))
        }
        strap.send(SIGINT)
        let served = try await strap.finish()
        let central = try #require(served.output.firstMatch(of: /connected 1 (\S+)/)).output.1
        for (state, peer) in [(server, String(central)), (client, Self.address)] {
          let forgotten = try await Ringtap.run(["pair", peer, "--forget"], state: state)
          #expect(forgotten.output == "removed the keys of \(peer)\n", "\(forgotten.errors)")
        }
      }
      air.send(SIGINT)
      _ = try await air.finish()
    }
  }
}
