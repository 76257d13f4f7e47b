import Foundation
import TestKit
import Testing

/// The file of `serve` with names, and `gatt --output`, which writes it.
@Suite(.timeLimit(.minutes(3))) struct DeviceCloneTests {
  private static let address = "00:00:5E:00:53:01"

  private func write(_ text: String, _ path: String) throws {
    try Data(text.utf8).write(to: URL(filePath: path))
  }

  private func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

  /// The lines of the file without the comment with the address.
  private func attributes(_ path: String) throws -> [String] {
    try text(path).split(separator: "\n").map(String.init).filter { !$0.hasPrefix("# The attributes of ") }
  }

  /// Two commands: the strap's attributes into a file, and a device from that file. A third sees the same.
  @Test(arguments: [
    ("heart-rate", "70:CB:0D:00:18:0D"), ("polar", "70:CB:0D:00:5C:80"), ("thermometer", "70:CB:0D:00:18:09"),
    ("cycling", "70:CB:0D:00:18:16"), ("ring", "70:CB:0D:00:A1:B2"),
  ])
  func clonesADevice(_ kind: String, _ address: String) async throws {
    try await withFolder { folder in
      let (first, second) = (folder + "/first.txt", folder + "/second.txt")
      let source = ["--transport", "virtual:\(kind)"]
      let told = try await Ringtap.run(["gatt", address, "--output", first] + source)
      #expect(told.status == 0, "\(told.errors)")
      let tree = try await Ringtap.run(["gatt", address, "--json"] + source).output
      #expect(tree.contains("characteristic"))

      let (left, right) = ("unix:\(folder)/left", "unix:\(folder)/right")
      let air = try Ringtap.start(["emulate", "air", "--transport", left, "--transport", right])
      try await air.line(containing: "ready")
      let clone = try Ringtap.start(["serve", first, "--transport", left])
      try await clone.line(containing: "ready")
      let seen = try await Ringtap.run(["gatt", Self.address, "--json", "--transport", right])
      #expect(seen.output == tree, "\(seen.errors)")
      let again = try await Ringtap.run(["gatt", Self.address, "--output", second, "--transport", right])
      #expect(again.status == 0, "\(again.errors)")
      #expect(try attributes(second) == attributes(first))
      for program in [clone, air] {
        program.send(SIGINT)
        _ = try await program.finish()
      }
    }
  }

  /// google/bumble sees the strap of the emulation in its clone: the services of Heart Rate Service 1.0 and
  /// their values.
  @Test func anIndependentClientSeesTheClone() async throws {
    let peer = try await BumbleCentrals.start()
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      let source = ["gatt", "70:CB:0D:00:18:0D", "--output", file, "--transport", "virtual:heart-rate"]
      #expect(try await Ringtap.run(source).status == 0)
      let program = try Ringtap.start(
        ["serve", file, "--name", "Strap", "--transport", "tcp-client:127.0.0.1:\(peer.port)"])
      try await program.line(containing: "ready")
      try await peer.ask("connect Strap", "connected")
      try await peer.ask("attributes", "attributes")
      let seen = peer.lines().filter { $0.hasPrefix("attribute 0x") }.map { String($0.dropFirst(10)) }
      #expect(
        Array(seen.dropFirst(6).prefix(8)) == [
          "0x0007 2800", "0x0008 2803", "0x0009 2a37", "0x000a 2902", "0x000b 2803", "0x000c 2a38",
          "0x000d 2803", "0x000e 2a39",
        ])
      #expect(seen.count == 31)
      try await peer.expect("read 72696e67746170207374726170", for: "read 0x0003")
      try await peer.expect("read 4103", for: "read 0x0005")
      try await peer.expect("read 01", for: "read 0x000c")
      try await peer.expect("read 322e302e31", for: "read 0x0019")
      try await peer.expect("refused 2", for: "read 0x000e")
      try await peer.expect("subscribed", for: "subscribe 0x0009 notify")
      program.send(SIGTERM)
      #expect(try await program.ended().status == 0)
    }
  }

  private static let strap = """
    # A strap as a person writes it.
    device "Strap"
    advertise "Heart Rate", 180f   # and nothing else

    service Heart Rate
      characteristic "Heart Rate Measurement" notify
      characteristic 2A38 read = u8 1
        descriptor "Characteristic User Description" = "chest"
      characteristic Heart Rate Control Point write-without-response
    service 180f
      characteristic battery level read, notify, encrypted = u8 57
    service fb005c80-02e7-f387-1cad-8acd2d8df0c8
      include "Battery Service"
      characteristic fb005c81-02e7-f387-1cad-8acd2d8df0c8 [read, indicate] = hex 0f uint16 1000 i16 -2 "ab" u24 0x010203
        descriptor "Characteristic Presentation Format" = 04 00 0027 01 0000
    needs authenticated 2904

    """

  /// google/bumble sees the device that the names describe. The UUIDs are those of the SIG's Assigned Numbers.
  @Test func anIndependentClientSeesTheNamedDevice() async throws {
    let peer = try await BumbleCentrals.start()
    try await withFolder { folder in
      let file = folder + "/strap.txt"
      try write(Self.strap, file)
      let program = try Ringtap.start(["serve", file, "--transport", "tcp-client:127.0.0.1:\(peer.port)"])
      let ready = try await program.line(containing: "ready").split(separator: " ")
      let address = ready[ready.count - 2]
      try await peer.expect("found \(address) Strap 180D 180F", for: "find Strap")
      try await peer.expect("connected \(address)", for: "connect Strap")
      try await peer.ask("attributes", "attributes")
      #expect(
        peer.lines().filter { $0.hasPrefix("attribute 0x") }.map { String($0.dropFirst(10)) }
          == [
            // Generic Access and Generic Attribute, which the file leaves out.
            "0x0001 2800", "0x0002 2803", "0x0003 2a00", "0x0004 2803", "0x0005 2a01", "0x0006 2800",
            "0x0007 2800", "0x0008 2803", "0x0009 2a37", "0x000a 2902", "0x000b 2803", "0x000c 2a38",
            "0x000d 2901", "0x000e 2803", "0x000f 2a39",
            "0x0010 2800", "0x0011 2803", "0x0012 2a19", "0x0013 2902",
            "0x0014 2800", "0x0015 2802", "0x0016 2803", "0x0017 fb005c81-02e7-f387-1cad-8acd2d8df0c8",
            "0x0018 2902", "0x0019 2904",
          ])
      try await peer.expect("read 5374726170", for: "read 0x0003")
      try await peer.expect("read 100900372a", for: "read 0x0008")
      try await peer.expect("read 01", for: "read 0x000c")
      try await peer.expect("read 6368657374", for: "read 0x000d")
      try await peer.expect("read 040f00392a", for: "read 0x000e")
      try await peer.expect("refused 5", for: "read 0x0012")
      // 15; 1000 and -2 least significant byte first; two letters; three bytes.
      try await peer.expect("read 0fe803feff6162030201", for: "read 0x0017")
      // Start and end of the included service, and its UUID.
      try await peer.expect("read 100013000f18", for: "read 0x0015")
      try await peer.expect("refused 5", for: "read 0x0019")
      try await peer.expect("paired", for: "pair")
      try await peer.expect("read 39", for: "read 0x0012")
      program.send(SIGTERM)
      #expect(try await program.ended().status == 0)
    }
  }

  /// The files of the guide and of the help can be served.
  @Test func theFilesOfTheGuideCanBeServed() async throws {
    let guide = try text(Place.root + "/Sources/Program/RingTap/RingTap.docc/Peripheral.md")
    let blocks = guide.split(separator: "```", omittingEmptySubsequences: false).filter {
      $0.hasPrefix("\ndevice ")
    }
    #expect(blocks.count == 2)
    let help = try await Ringtap.run(["serve", "--help"]).outputLines
    // The columns of the help's lines without their explanations.
    let lines = help.drop { !$0.contains("device NAME") }.prefix { !$0.contains("Hosts may pair") }
      .map { $0.drop { $0 == " " }.replacing(/\s{3,}.*/, with: "") }
    let example = lines.filter { !$0.isEmpty && !$0.hasPrefix("or authenticated") }.joined(separator: "\n")
      .replacing(" …", with: "")
    try await withFolder { folder in
      for (index, block) in (blocks.map { String($0) } + [example]).enumerated() {
        let file = "\(folder)/\(index).txt"
        try write(block, file)
        let served = try Ringtap.start(["serve", file, "--transport", "virtual:ring"])
        try await served.line(containing: "ready virtual:ring")
        served.send(SIGINT)
        let run = try await served.finish()
        #expect(run.status == 0, "\(run.errors)")
      }
    }
  }

  /// A value that demands pairing keeps its security, and both the file and standard error report it.
  @Test func reportsWhatCannotBeRead() async throws {
    try await withFolder { folder in
      let (file, clone) = (folder + "/strap.txt", folder + "/clone.txt")
      try write(Self.strap, file)
      let (left, right) = ("unix:\(folder)/left", "unix:\(folder)/right")
      let air = try Ringtap.start(["emulate", "air", "--transport", left, "--transport", right])
      try await air.line(containing: "ready")
      let strap = try Ringtap.start(["serve", file, "--transport", left])
      try await strap.line(containing: "ready")
      let run = try await Ringtap.run(["gatt", Self.address, "--output", clone, "--transport", right])
      #expect(run.status == 0, "\(run.errors)")
      let lines = try text(clone).split(separator: "\n").map(String.init)
      let reason = "could not be read: Insufficient Authentication; pair with `ringtap pair \(Self.address)`"
      for remark in [
        "0x0012 Battery Level: the value \(reason)", "0x0019 Characteristic Format: the value \(reason)",
      ] {
        #expect(run.errorLines.contains("ringtap: \(remark)"), "\(run.errorLines)")
        #expect(lines.contains { $0.hasSuffix("# \(remark)") }, "\(lines)")
      }
      #expect(lines.contains("  characteristic 0x0011 \"Battery Level\" read notify encrypted"), "\(lines)")
      #expect(lines.contains("    descriptor 0x0019 \"Characteristic Format\" encrypted"), "\(lines)")
      #expect(lines.contains("    descriptor 0x000d \"Characteristic User Description\" = \"chest\""))
      #expect(lines.contains("  include 0x0010"))

      strap.send(SIGINT)
      _ = try await strap.finish()
      let again = try Ringtap.start(["serve", clone, "--transport", left])
      try await again.line(containing: "ready")
      let refused = try await Ringtap.run(["read", Self.address, "2a19", "--transport", right])
      #expect(refused.errors.contains("Insufficient Authentication"), "\(refused.errors)")
      for program in [again, air] {
        program.send(SIGINT)
        _ = try await program.finish()
      }
    }
  }

  /// Layouts that `serve` does not have are changed, and each change is reported.
  @Test func reportsWhatItChanges() async throws {
    let script = """
      database odd
        0x0001-0x0003 2800 0018
        0x0002 2803 02 0300 002a
        0x0003 2a00 4f6464
        0x0010-0x0017 2800 0d18
        0x0011 2803 10 1200 372a
        0x0012 2a37
        0x0013 2901 72617465
        0x0014 2902 0000
        0x0015 2803 10 1600 382a
        0x0016 2a38 01
      dialogue read
        mtu 512
        with odd
        > 0a0300
        < 0b 4f6464
        > 0a1300
        < 0b 72617465
      """
    try await withFolder { folder in
      let (file, socket, clone) = (folder + "/script.txt", "unix:\(folder)/peer", folder + "/clone.txt")
      try write(script, file)
      let peer = try Harness.start(["script-peer", file, "--transport", socket])
      try await peer.line(containing: "ready")
      let run = try await Ringtap.run(["gatt", "70:CB:0D:00:5C:01", "-o", clone, "--transport", socket])
      #expect(run.status == 0, "\(run.errors)")
      _ = try await peer.finish()
      for remark in [
        "0x0012: the descriptor 2902 directly follows the value here",
        "0x0013: the descriptor has handle 0x0014 here",
        "0x0016: added the descriptor 2902, which the device lacks",
      ] {
        #expect(run.errorLines.contains("ringtap: \(remark)"), "\(run.errorLines)")
        #expect(try text(clone).contains("# \(remark)\n"))
      }
      #expect(try text(clone).contains("descriptor 0x0014 \"Characteristic User Description\" = \"rate\"\n"))
      let served = try Ringtap.start(["serve", clone, "--transport", "virtual:ring"])
      try await served.line(containing: "ready virtual:ring")
      served.send(SIGINT)
      #expect(try await served.finish().status == 0)
    }
  }

  /// The error is in the service's line, although the next service shows it.
  @Test func tellsTheLineOfAServiceThatIsTooShort() async throws {
    try await withFolder { folder in
      let file = folder + "/device.txt"
      try write("device Strap\nservice 0x0001-0x0002 180d\ncharacteristic 2a37 notify\nservice 180f\n", file)
      let result = try await Ringtap.run(["serve", file, "--transport", "virtual:ring"])
      #expect(
        result.errorLines == [
          "ringtap: \(file): line 2: the service ends at 0x0002, before its last attribute; write 0x0001-0x0004"
        ])
    }
  }

  @Test(arguments: [
    ("servce 180d", "'servce' is not the first word of a line; did you mean 'service'?"),
    (
      "heart 180d",
      "'heart' is not one of device, advertise, service, secondary, include, characteristic, descriptor, needs "
        + "and a handle such as 0x0003"
    ),
    ("service Hart Rate", "there is no service 'Hart Rate'; did you mean \"Heart Rate\" (180d)?"),
    (
      "service", "the service has no type; write its name or UUID, such as \"Heart Rate\", 180d"
    ),
    ("service \"Heart Rate", "the text has no closing quotation mark; write it as in \"Heart Rate\""),
    ("service 180d = 01", "a service has no value; remove the equals sign and what follows it"),
    (
      "characteristic 2a37 notify",
      "a characteristic belongs to a service; write a line before it such as: service 180d"
    ),
    (
      "service 180d\ncharacteristic 2a37",
      "the characteristic has no properties; add one or more of broadcast, read, writeWithoutResponse, write, "
        + "notify, indicate, authenticatedSignedWrites, extendedProperties, encrypted, authenticated, or none"
    ),
    ("service 180d\ncharacteristic 2a37 notfy", "'notfy' is not a property; did you mean 'notify'?"),
    (
      "service 180d\ncharacteristic Heart Rate Measurement notfy",
      "'notfy' is not a property; did you mean 'notify'?"
    ),
    (
      "service 180d\ncharacteristic 2a38 read u8 1", "a value begins with an equals sign; write = before u8"
    ),
    (
      "service 180d\ncharacteristic 2a38 read = u8 256", "256 does not fit into u8, which takes 0 to 255"
    ),
    (
      "service 180d\ncharacteristic 2a38 read = i16 -32769",
      "-32769 does not fit into i16, which takes -32768 to 32767"
    ),
    (
      "service 180d\ncharacteristic 2a38 read = 100",
      "'100' is not pairs of hexadecimal digits; write u8 100 or u16 100 for a number"
    ),
    (
      "service 180d\ncharacteristic 2a38 read = 0x0102",
      "'0x0102' may be bytes or a number; write 0102 for bytes, or u8, u16, u32 before it"
    ),
    (
      "service 180d\ncharacteristic 2a38 read = chest",
      "'chest' is not a value; write hexadecimal such as 0048, a number such as u8 57, or text in quotation marks"
    ),
    (
      "service 180d\ncharacteristic 2a38 read = 00*513",
      "the value has 513 bytes; a value has at most 512"
    ),
    (
      "service 180d\ndescriptor 2901 = \"rate\"",
      "a descriptor belongs to a characteristic; write a line before it such as: characteristic 2a38 read"
    ),
    (
      "service 180d\ncharacteristic 2a38 read\ndescriptor 2902",
      "a descriptor 2902 needs a characteristic with notify or indicate; add one of them to it"
    ),
    (
      "service 180d\ncharacteristic 2a38 read\ninclude 180d",
      "an include directly follows its service; move it there, and leave its handle out"
    ),
    (
      "service 180d\ninclude 180f",
      "the file has no service '180f'; write one that it has, by its name, UUID or first handle"
    ),
    (
      "service 0x0005 180d\ncharacteristic 0x0004 2a37 notify",
      "its handle 0x0004 is not above those before it; the next free one is 0x0006"
    ),
    (
      "service 180d\ncharacteristic 0xffff 2a37 notify", "there is no handle left: the last is 0xffff"
    ),
    (
      "service 180d\ncharacteristic 2a38 read = u16",
      "a number follows u16, as in: u16 57"
    ),
    (
      "service 180d\ncharacteristic 2a38 read\nneeds encrypted 0x0007",
      "the file has no value 0x0007; write one that it has, by its name, UUID or handle"
    ),
  ])
  func tellsTheLineAndWhatToWrite(_ lines: String, _ reason: String) async throws {
    try await withFolder { folder in
      let file = folder + "/device.txt"
      try write("device Strap\n\(lines)\n", file)
      let result = try await Ringtap.run(["serve", file, "--transport", "virtual:ring"])
      #expect(result.status == 1)
      let number = lines.split(separator: "\n").count + 1
      #expect(result.errorLines == ["ringtap: \(file): line \(number): \(reason)"])
    }
  }
}
