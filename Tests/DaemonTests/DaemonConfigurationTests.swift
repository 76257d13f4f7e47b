import BLEHost
import BLELinux
import BLESensors
import BLEWire
import Fleet
import Foundation
import Outlets
import Recording
import SensorSessions
import TestKit
import Testing

import CaptureTools
import CommandKit
@testable import Daemon

/// The daemon's configuration file: accepted settings, and the messages for invalid ones.
@Suite struct DaemonConfigurationTests {
  private func read(_ text: String) throws(DaemonConfiguration.Invalid) -> DaemonConfiguration {
    try DaemonConfiguration(Array(text.utf8), path: "ringtap.json")
  }

  private func faults(_ text: String) -> [String] {
    do throws(DaemonConfiguration.Invalid) {
      _ = try read(text)
      return []
    } catch { return error.problems.map { "\($0.line): \($0.text)" } }
  }

  @Test func whole() throws {
    let configuration = try read(
      """
      {"directory": "/data", "radio": {"adapter": "hci1", "mode": "exclusive"}, "newCaptureHours": 0.5,
       "keepDays": 30, "keepGigabytes": 1.5, "keepFreeGigabytes": 0, "metrics": "[::1]:9469",
       "statusSocket": "/tmp/s", "syncSeconds": 30,
       "devices": [
         {"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"},
         {"name": "h10", "address": "c4:12:34:56:78:9a", "addressType": "random", "sensor": "polar",
          "stream": "acc", "rate": 200, "format": "npy", "link": {"interval": "7.5-15", "latency": 4}}]}
      """)
    #expect(configuration.directory == "/data" && configuration.newCaptureAfter == .seconds(1800))
    #expect(configuration.syncInterval == .seconds(30))
    #expect(
      configuration.radios[0].choice.adapter == "hci1" && configuration.radios[0].choice.mode == .exclusive)
    #expect(configuration.retention.maximumAge == .seconds(30 * 86_400))
    #expect(configuration.retention.maximumByteCount == 1_500_000_000)
    #expect(configuration.retention.minimumFreeByteCount == 0)
    #expect(configuration.metrics?.host == "::1" && configuration.metrics?.port == 9469)
    #expect(configuration.statusSocket == "/tmp/s")
    let (ring, polar) = (configuration.devices[0], configuration.devices[1])
    #expect(ring.sensor == .init("ring") && ring.format == .csv && ring.link.isEmpty)
    #expect(ring.address == DeviceAddress("70:CB:0D:00:A1:B2", type: .public))
    #expect(polar.address == DeviceAddress("C4:12:34:56:78:9A", type: .random))
    #expect(polar.sensor == .init("polar", stream: .init(.accelerometer, sampleRate: 200)))
    #expect(polar.format == .npy)
    // 7.5 and 15 ms in units of 1.25 ms.
    #expect(polar.link.interval == 6...12 && polar.link.latency == 4)
    #expect(polar.link.supervisionTimeout == nil && polar.link.phy == nil && polar.link.dataLength == nil)
  }

  /// Several radios, and devices that are tied to one of them.
  @Test func radios() throws {
    let configuration = try read(
      """
      {"directory": "/data",
       "radios": [{"adapter": "00:1A:7D:DA:71:13", "mode": "raw", "links": 7}, {"adapter": "hci1"},
                  {"transport": "serial:/dev/ttyAMA0,115200"}],
       "devices": [
         {"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring", "adapter": "00:1a:7d:da:71:13"},
         {"name": "right", "address": "70:CB:0D:00:A1:B3", "sensor": "ring", "adapter": "hci1"},
         {"name": "serial", "address": "70:CB:0D:00:A1:B4", "sensor": "ring",
          "adapter": "serial:/dev/ttyAMA0,115200"},
         {"name": "any", "address": "70:CB:0D:00:A1:B5", "sensor": "ring"}]}
      """)
    #expect(configuration.radios.map(\.choice.adapter) == ["00:1A:7D:DA:71:13", "hci1", nil])
    #expect(
      configuration.radios.map(\.links) == [7, nil, nil] && configuration.radios[0].choice.mode == .raw)
    #expect(configuration.devices.map(\.radio) == [0, 1, 2, nil])
  }

  /// Each error of the radios has its line.
  @Test func faultsOfRadios() {
    func text(_ radios: String, _ tie: String) -> String {
      """
      {"directory": "/data",
      \(radios),
       "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring",
       "adapter": "\(tie)"}]}
      """
    }
    let several = """
      "radios": [{"adapter": "hci0"},
       {"mode": "raw"},
       {"adapter": "00:1A:7D:DA:71:13", "links": 0},
       {"links": 2.5,
        "adapter": "00:1a:7d:da:71:13"}]
      """
    #expect(
      faults(text(several, "hci7")) == [
        "3: radios: each of several needs an adapter or a transport",
        "4: links must be 1 … 64",
        "5: links must be a whole number",
        "6: radios: 00:1a:7d:da:71:13 appears twice",
        "8: adapter: 'hci7' is not one of the file's radios: hci0, 00:1A:7D:DA:71:13, 00:1a:7d:da:71:13",
      ])
    #expect(
      faults(text(#""radio": {"adapter": "hci0"},"# + "\n" + #""radios": [{"adapter": "hci1"}]"#, "hci1"))
        == ["3: radios: give radio or radios, not both"])
    #expect(
      faults(text(#""radios": []"#, "hci0")) == [
        "2: radios: no radios are listed: leave radios out to use any adapter",
        "4: adapter: name 'hci0' in radio or radios, too",
      ])
    #expect(faults(text(#""radios": [{"adapter": "usb"}]"#, "usb")).map { $0.prefix(10) } == ["2: radio: "])
    #expect(
      faults(text(#""radios": ["hci0"]"#, "hci0"))[0] == "2: each of radios must be an object in braces")
  }

  @Test func homeAssistant() throws {
    let devices = #""devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}]"#
    let configuration = try read(
      #"{"directory": "/data", "homeAssistant": {"to": "mqtts://a@b/home", "ca": "ca.pem"}, \#(devices)}"#)
    let home = try #require(configuration.homeAssistant)
    #expect(home.broker.host == "b" && home.broker.user == "a" && home.broker.isEncrypted)
    #expect(home.broker.prefix == "home" && home.certificates == "ca.pem")
    #expect(configuration.jobs.map(\.homeAssistant) == [home])
    #expect(
      faults("{\"directory\": \"/data\",\n \"homeAssistant\": {\"form\": \"mqtt://b\"}, \(devices)}") == [
        #"2: "to" is missing: the broker, such as mqtts://ward@broker.example"#,
        #"2: unknown key "form"; did you mean "to"?"#,
      ])
  }

  /// Every option of a section becomes a value, and each error has the line of its own option.
  @Test func sections() throws {
    func text(_ link: String, _ publish: String, _ radio: String) -> String {
      """
      {"directory": "/data",
       "publish": {
      \(publish)},
       "radio": {
      \(radio)},
       "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring", "link": {
      \(link)}}]}
      """
    }
    let configuration = try read(
      text(
        #""interval": 30, "supervision-timeout": "4001", "phy": "2m", "data-length": 251"#,
        #""to": "mqtt://ward@broker:1884/a/b", "as": "gate", "backlog": "500k", "ca": "ca.pem""#,
        #""transport": "unix:/tmp/c""#))
    let link = configuration.devices[0].link
    // 30 ms in units of 1.25 ms; 4001 ms in units of 10 ms, rounded up.
    #expect(link.interval == 24...24 && link.supervisionTimeout == 401)
    #expect(link.phy == .le2M && link.dataLength == 251 && link.latency == nil)
    let plan = try #require(configuration.publishing)
    #expect(plan.broker.description == "mqtt://broker:1884/a/b" && plan.broker.user == "ward")
    #expect(plan.name == "gate" && plan.backlogByteCount == 512_000 && plan.certificates == "ca.pem")
    #expect(configuration.radios[0].choice.transport == .unix(path: "/tmp/c"))

    let wrong = faults(
      text(
        "\"interval\": \"4001-5000\",\n\"phy\": \"5g\",\n\"latency\": 500,\n\"data-length\": -1",
        "\"as\": \"a b\",\n\"to\": \"http://b:secret@c\",\n\"backlog\": \"3k\",\n\"password-file\": \"/none/such\"",
        "\"mode\": \"sideways\",\n\"transport\": \"usb:0\""))
    #expect(wrong.map { $0.prefix { $0 != ":" } } == ["3", "4", "5", "6", "8", "9", "11", "12", "13", "14"])
    for (fault, words) in zip(
      wrong,
      [
        "publish: 'a b' is not a name", "publish: 'http",
        "publish: the value '3k' is invalid for backlog: it must be 4k to",
        "/none/such", "radio: 'sideways' is not one of auto, raw, coexist, exclusive", "radio: ",
        "link of left: the value '4001-5000' is invalid for interval: it must be 7.5 to 4000 ms",
        "link of left: '5g' is not one of 1m, 2m, coded",
        "link of left: the value '500' is invalid for latency: it must be a whole number, 0 to 499",
        "link of left: the value '-1' is invalid for data-length: it must be a whole number, 27 to 251 octets",
      ])
    { #expect(fault.contains(words), "\(fault)") }
  }

  /// Options that contradict each other have the line of their section.
  @Test func contradictions() {
    func faults(_ section: String) -> [String] {
      self.faults(
        """
        {"directory": "/data", "devices": [
          {"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}],
         \(section)}
        """)
    }
    #expect(
      faults(#""radio": {"adapter": "hci0", "transport": "unix:/c"}"#) == [
        "3: radio: give --adapter or --transport, not both"
      ])
    #expect(
      faults(#""radio": {"mode": "exclusive", "adapter": "usb"}"#) == [
        "3: radio: 'usb' is not an adapter name such as hci0, or an adapter's address (see `ringtap adapters`)"
      ])
    #expect(
      faults("\"publish\": {\"to\": \"mqtt://b\",\n\"as\": \"a b\"}") == [
        "4: publish: 'a b' is not a name: use 1 … 64 letters, digits, '.', '_' and '-'"
      ])
  }

  /// A password comes from its file and needs a user.
  @Test func passwords() throws {
    try withFolder { folder in
      let file = folder + "/password"
      try Files.write(Array("hunter2\nmore\n".utf8).span, to: file, ifExists: .refuse)
      func text(_ url: String) -> String {
        """
        {"directory": "/data", "devices": [
          {"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}],
         "publish": {"to": "\(url)",
           "password-file": "\(file)"}}
        """
      }
      #expect(try read(text("mqtt://ward@b")).publishing?.broker.password == "hunter2")
      #expect(
        faults(text("mqtt://b")) == [
          "4: publish: a password needs a user in the URL, such as mqtt://user@host"
        ])
    }
  }

  /// All errors are reported at once, each with its line.
  @Test func faultsByLine() {
    #expect(
      faults(
        """
        {
          "directroy": "/data",
          "keepDays": "thirty",
          "keepDays": 3,
          "metrics": "9469",
          "devices": [
            {"name": "../left", "address": "70:CB:0D:00:A1", "sensor": "ring"},
            {"name": "b", "address": "70:CB:0D:00:A1:B2", "sensor": "rign", "colour": 3},
            {"name": "b", "address": "70:CB:0D:00:A1:B2", "sensor": "ring",
             "link": {"interval": true}},
            7
          ],
          "newCaptureHours": 0
        }
        """) == [
          #"1: "directory" is missing: the directory for captures"#,
          #"2: unknown key "directroy"; did you mean "directory"?"#,
          #"4: "keepDays" appears twice"#,
          "5: '9469' is not an address and port such as 127.0.0.1:9469",
          "7: '../left' is not a folder name: use letters, digits, '-', '_' and '.'",
          "7: '70:CB:0D:00:A1' is not a device address such as 70:CB:0D:00:A1:B2",
          "8: 'rign' is not one of ring, heart-rate, thermometer, cycling, polar",
          #"8: unknown key "colour"; known keys are adapter, address, addressType, format, link, name, sensor"#,
          "9: 70:CB:0D:00:A1:B2 appears twice",
          "9: two devices are named b",
          "10: interval must be a string or a number",
          "11: each of devices must be an object in braces",
          "13: newCaptureHours must be 0.01 … 8784",
        ])
    let polar = #"{"name": "a", "address": "70:CB:0D:00:A1:B2", "sensor": "polar", "rate": 130.5}"#
    #expect(
      faults("{\"directory\": \"/d\", \"devices\": [\n\(polar)]}") == ["2: rate must be a whole number"])
    #expect(faults("{}").count == 2)
    #expect(faults("[]") == ["1: the file is not a JSON object: it must begin with { and end with }"])
    #expect(
      faults("{\n \"directory\": \"/data\"\n \"devices\": []}")
        == ["3: invalid JSON from here on: a comma, quote or bracket before it is missing or superfluous"])
    #expect(faults("{\n")[0].hasPrefix("2: the file ends too early"))
    #expect(faults("{\"directory\": \"/d\", \"devices\": []}").count == 1)
  }

  // MARK: Retention

  private func capture(_ name: String, _ hour: Int64, _ octets: Int, isOpen: Bool = false)
    -> Retention.Capture
  {
    Retention.Capture(
      path: name, begunAt: ReceiveTime(nanoseconds: hour * 3_600_000_000_000), byteCount: octets,
      isOpen: isOpen)
  }

  /// Deletes the oldest captures first, and never one that is being written.
  @Test func retention() {
    let captures = [
      capture("b", 20, 100), capture("a", 10, 100), capture("c", 30, 100), capture("z", 0, 100, isOpen: true),
    ]
    let now = ReceiveTime(nanoseconds: 40 * 3_600_000_000_000)
    func gone(_ change: (inout Retention) -> Void, free: Int = 1000) -> [String] {
      var retention = Retention()
      change(&retention)
      return retention.expired(captures, at: now, free: free).map(\.path)
    }
    #expect(gone { _ in } == [])
    #expect(gone { $0.maximumAge = .seconds(19 * 3600) } == ["a", "b"])
    #expect(gone { $0.maximumAge = .seconds(20 * 3600) } == ["a"])
    #expect(gone { $0.maximumByteCount = 400 } == [])
    #expect(gone { $0.maximumByteCount = 399 } == ["a"])
    #expect(gone { $0.maximumByteCount = 0 } == ["a", "b", "c"])
    #expect(gone({ $0.minimumFreeByteCount = 1150 }) == ["a", "b"])
    // Clocks that are years ahead of the captures, or behind them.
    let late = ReceiveTime(nanoseconds: .min)
    var retention = Retention()
    retention.maximumAge = .seconds(1)
    #expect(retention.expired([capture("a", 1, 1)], at: late, free: 0).count <= 1)
  }

  /// Capture names are the start time in UTC; folders with other names are not captures. Compared with
  /// Foundation's formatter.
  @Test(arguments: [0, 951_782_399, 951_782_400, 1_700_000_000, 4_107_542_399, 6_000_000_000])
  func names(_ seconds: Int64) throws {
    let formatter = ISO8601DateFormatter()
    formatter.formatOptions = [.withYear, .withMonth, .withDay, .withTime, .withTimeZone]
    let name = formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
    #expect(UTCText(seconds * 1_000_000_000 + 999_999_999).fileName == name)
    #expect(UTCText.time(ofFileName: name) == seconds * 1_000_000_000)
    #expect(UTCText.time(ofFileName: name + "-12") == seconds * 1_000_000_000)
    for wrong in [
      "", "x" + name, name + "-1", name + "-x", name + "-2-3", String(name.dropLast()), "99991231T235959Z",
    ] {
      #expect(UTCText.time(ofFileName: wrong) == nil, "\(wrong)")
    }
  }

  @Test func shelf() async throws {
    try withFolder { folder in
      let shelf = CaptureShelf(directory: folder)
      let now = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
      let first = shelf.place(for: "left", at: now)
      #expect(first == folder + "/left/20231114T221320Z")
      try Files.createDirectory(first + "/ppg")
      try Files.write(Array("12345".utf8).span, to: first + "/ppg/time_ns.npy", ifExists: .replace)
      try Files.write(Array("678".utf8).span, to: first + "/session.json", ifExists: .replace)
      // A dangling link still occupies its name.
      try Files.link(first + "/link", to: folder)
      #expect(shelf.place(for: "left", at: now) == first + "-2")
      try Files.createDirectory(folder + "/left/notes")
      try Files.createDirectory(folder + "/other")
      let inventory = shelf.inventory()
      let capture = Retention.Capture(path: first, begunAt: now, byteCount: 8, isOpen: false)
      #expect(inventory.captures == [capture] && inventory.links == [])
      try shelf.remove(capture) { true }
      #expect(!Files.exists(first) && Files.exists(folder + "/left/notes"))
      #expect(Files.names(in: folder + "/left").count == 3)
    }
  }

  /// Dangling and circular links, and a link that replaces the capture after it was found.
  @Test func aLinkIsNotFollowedWhenItComes() throws {
    try withFolder { folder in
      let (kept, name) = (folder + "/archive", "20231114T221320Z")
      try Files.createDirectory("\(kept)/\(name)")
      try Files.write(Array("123".utf8).span, to: "\(kept)/\(name)/ppg.csv", ifExists: .refuse)
      let shelf = CaptureShelf(directory: folder + "/shelf")
      for device in ["left", "right"] {
        try Files.createDirectory("\(folder)/shelf/\(device)/\(name)")
        try Files.write(
          Array("1".utf8).span, to: "\(folder)/shelf/\(device)/\(name)/ppg.csv", ifExists: .refuse)
      }
      try Files.link(folder + "/shelf/nowhere", to: folder + "/nothing")
      try Files.link(folder + "/shelf/loop", to: folder + "/shelf/loop")
      let found = shelf.inventory().captures
      #expect(found.map(\.path).sorted() == ["left", "right"].map { "\(folder)/shelf/\($0)/\(name)" })
      // Between the check and the removal, a device's folder and a capture are replaced by links.
      try Files.removeTree(folder + "/shelf/left")
      try Files.link(folder + "/shelf/left", to: kept)
      try Files.removeTree("\(folder)/shelf/right/\(name)")
      try Files.link("\(folder)/shelf/right/\(name)", to: "\(kept)/\(name)")
      for capture in found { try shelf.remove(capture) { true } }
      try shelf.removeRests { true }
      #expect(contents("\(kept)/\(name)/ppg.csv") == Array("123".utf8))
    }
  }

  /// Link targets are never removed, whatever their name; neither are files with a second hard link.
  @Test func nothingBehindALinkIsRemoved() async throws {
    try withFolder { folder in
      let (kept, name) = (folder + "/archive", "20231114T221320Z")
      try Files.createDirectory("\(kept)/\(name)")
      try Files.write(Array("123".utf8).span, to: "\(kept)/\(name)/ppg.csv", ifExists: .refuse)
      let shelf = CaptureShelf(directory: folder + "/shelf")
      let device = folder + "/shelf/left"
      try Files.createDirectory("\(device)/20231115T000000Z")
      // Links in place of a device's folder, a capture, and a folder and a file in a capture.
      try Files.link(folder + "/shelf/right", to: kept)
      try Files.link("\(device)/20231116T000000Z", to: "\(kept)/\(name)")
      try Files.link("\(device)/20231115T000000Z/link", to: kept)
      try Files.link("\(device)/20231115T000000Z/ppg.csv", to: "\(kept)/\(name)/ppg.csv")
      let big = "\(device)/20231115T000000Z/big"
      #expect(FileManager.default.createFile(atPath: big, contents: Data(count: 3)))
      #expect(truncate(big, 1 << 30) == 0)
      try FileManager.default.linkItem(atPath: big, toPath: kept + "/big")
      let inventory = shelf.inventory()
      #expect(inventory.captures.map(\.path) == ["\(device)/20231115T000000Z"])
      #expect(Set(inventory.links) == [folder + "/shelf/right", "\(device)/20231116T000000Z"])
      for capture in inventory.captures { try shelf.remove(capture) { true } }
      #expect(Files.names(in: device).filter { !$0.hasPrefix(".") } == ["20231116T000000Z"])
      #expect(contents("\(kept)/\(name)/ppg.csv") == Array("123".utf8))
      #expect(Files.byteCount(of: kept + "/big") == 1 << 30)
    }
  }

  /// An interrupted removal leaves nothing that looks like a capture, and the next sweep removes the rest.
  @Test func anInterruptedRemovalIsFinishedLater() async throws {
    try withFolder { folder in
      let shelf = CaptureShelf(directory: folder)
      let path = folder + "/left/20231114T221320Z"
      try Files.createDirectory(path)
      #expect(FileManager.default.createFile(atPath: path + "/big", contents: Data(count: 3)))
      #expect(truncate(path + "/big", 10 << 30) == 0)
      try Files.createDirectory(folder + "/left/.20231114T221320Z.removing.mine")
      var steps = 0
      try shelf.remove(try #require(shelf.inventory().captures.first)) {
        steps += 1
        return steps < 5
      }
      #expect(steps == 5 && shelf.inventory().captures.isEmpty)
      let rest = folder + "/left/.20231114T221320Z.removing"
      #expect(Files.byteCount(of: rest + "/big") == (10 << 30) - 5 * (64 << 20))
      try shelf.removeRests { true }
      #expect(!Files.exists(rest) && Files.exists(rest + ".mine"))
    }
  }

  // MARK: Reloading

  /// Files that differ only in white space, key order or numbers written as strings are equal.
  @Test func aReformattedFileIsTheSame() throws {
    let one = try read(
      #"{"directory": "/data", "radio": {"adapter": "hci0", "mode": "raw"}, "devices": [{"name": "left", "#
        + #""address": "70:CB:0D:00:A1:B2", "sensor": "ring", "link": {"interval": "7.5-15", "latency": 4}}]}"#
    )
    let other = try read(
      #"""

      {
        "devices": [
          {
            "link": {
              "latency": "4",
              "interval": "7.5-15"
            },
            "sensor": "ring",
            "address": "70:cb:0d:00:a1:b2",
            "name": "left"
          }
        ],
        "radio": {
          "mode": "raw",

          "adapter": "hci0"
        },
        "directory": "\u002fdata"
      }
      """#)
    #expect(one == other && one.radios == other.radios)
    #expect(one.jobs == other.jobs)
    // A file with a changed setting is not equal.
    var changed = other
    changed.devices[0].format = .npy
    #expect(one.jobs != changed.jobs)
    changed = other
    changed.devices[0].link.latency = 5
    #expect(one.jobs != changed.jobs)
  }
}
