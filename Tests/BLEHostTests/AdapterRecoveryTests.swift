import BLEHost
import BLELinux
import BLEWire
import Foundation
import Synchronization
import TestKit
import Testing

/// The ladder of recovery, with a system that refuses steps or pretends to take them.
@Suite struct AdapterRecoveryTests {
  private final class Tools: RecoveryTools {
    struct State {
      var taken: [String] = []
      var present: [AdapterInfo]
    }

    let state: Mutex<State>
    let refusal: HostError?

    init(_ adapter: AdapterInfo, refusal: HostError? = nil) {
      state = Mutex(State(present: [adapter]))
      self.refusal = refusal
    }

    var taken: [String] { state.withLock(\.taken) }

    private func take(_ text: String) throws(HostError) {
      state.withLock { $0.taken.append(text) }
      if let refusal { throw refusal }
    }

    func adapters() -> [AdapterInfo] { state.withLock(\.present) }
    func setPowered(_ isOn: Bool, index: UInt16) throws(HostError) {
      try take("\(isOn ? "on" : "off") \(index)")
    }
    func cycleSwitch(of adapter: AdapterInfo) throws(HostError) {
      state.withLock {
        $0.present = [.init(index: adapter.index, address: adapter.address, isUp: false, bus: 1)]
      }
      try take("rfkill \(adapter.index)")
    }
    /// The adapter comes back under another index.
    func reauthorise(_ adapter: AdapterInfo) throws(HostError) {
      state.withLock { $0.present = [.init(index: 5, address: adapter.address, isUp: false, bus: 1)] }
      try take("authorise \(adapter.index)")
    }
  }

  private static let adapter = AdapterInfo(
    index: 2, address: DeviceAddress(bits: 0x001A_7DDA_7113, type: .public), isUp: true, bus: 1)

  /// Climbs until the number of questions is reached.
  private func climb(
    _ tools: Tools, for use: AdapterRecovery.Use = .shared, answersAt number: Int
  ) async -> [RecoveryAttempt] {
    var count = 0
    return await AdapterRecovery(of: Self.adapter, for: use, with: tools).climb { () async -> Bool in
      count += 1
      return count >= number
    }
  }

  @Test func endsWithTheFirstAnswer() async {
    for (number, taken) in [
      (1, []), (2, ["off 2", "on 2"]), (3, ["off 2", "on 2", "rfkill 2", "on 2"]),
      (4, ["off 2", "on 2", "rfkill 2", "on 2", "authorise 2", "on 5"]),
    ] {
      let tools = Tools(Self.adapter)
      let attempts = await climb(tools, answersAt: number)
      #expect(tools.taken == taken)
      #expect(attempts.map(\.step) == Array(RecoveryStep.allCases.prefix(number)))
      #expect(attempts.map(\.outcome) == Array(repeating: .silent, count: number - 1) + [.answers])
    }
  }

  /// For exclusive use the adapter must be down after each step.
  @Test func leavesAnExclusiveAdapterDown() async {
    let tools = Tools(Self.adapter)
    let attempts = await climb(tools, for: .exclusive, answersAt: 9)
    #expect(tools.taken == ["on 2", "off 2", "rfkill 2", "authorise 2"])
    #expect(attempts.map(\.outcome) == [.silent, .silent, .silent, .silent])
  }

  /// Without rights each step says what it lacks, and none is left out.
  @Test func saysWhatIsNotPermitted() async {
    let tools = Tools(
      Self.adapter, refusal: .notPermitted(action: "switching hci2 off", capability: "CAP_NET_ADMIN"))
    let attempts = await climb(tools, answersAt: 9)
    #expect(attempts.count == 4 && attempts[0].outcome == .silent)
    for attempt in attempts.dropFirst() {
      #expect("\(attempt)".contains("not possible: switching hci2 off needs CAP_NET_ADMIN"), "\(attempt)")
    }
  }

  @Test func words() {
    let attempts = [
      RecoveryAttempt(.reopen, .silent, after: .milliseconds(2049)),
      RecoveryAttempt(.powerCycle, .answers, after: .milliseconds(6250)),
      RecoveryAttempt(.reauthorise, .impossible("it is not on USB"), after: .seconds(9)),
    ]
    #expect(
      attempts.map { "\($0)" } == [
        "reopening it: still no answer, after 2.0 s",
        "switching it off and on: it answers again, after 6.2 s",
        "authorising its USB device again: not possible: it is not on USB",
      ])
  }

  /// The files that Linux has for an adapter on USB: `Documentation/usb/authorization.rst`,
  /// `Documentation/ABI/stable/sysfs-class-rfkill`, `include/uapi/linux/rfkill.h`.
  @Test func writesTheFilesOfTheKernel() throws {
    try withFolder { root in
      let files = FileManager.default
      let device = root + "/sys/devices/pci0000:00/usb1/1-3"
      try files.createDirectory(atPath: device + "/1-3:1.0/bluetooth/hci2", withIntermediateDirectories: true)
      try files.createSymbolicLink(
        atPath: device + "/1-3:1.0/bluetooth/hci2/device", withDestinationPath: "../..")
      for folder in [
        "/sys/class/bluetooth", "/sys/class/rfkill/rfkill0", "/sys/class/rfkill/rfkill12", "/dev",
      ] {
        try files.createDirectory(atPath: root + folder, withIntermediateDirectories: true)
      }
      try files.createSymbolicLink(
        atPath: root + "/sys/class/bluetooth/hci2",
        withDestinationPath: "../../devices/pci0000:00/usb1/1-3/1-3:1.0/bluetooth/hci2")
      for (number, type, name) in [(0, "wlan", "phy0"), (12, "bluetooth", "hci2")] {
        for (file, value) in [("type", type), ("name", name), ("index", "\(number)"), ("hard", "0")] {
          try "\(value)\n".write(
            toFile: root + "/sys/class/rfkill/rfkill\(number)/\(file)", atomically: false, encoding: .utf8)
        }
      }
      _ = files.createFile(atPath: root + "/dev/rfkill", contents: nil)
      _ = files.createFile(atPath: device + "/authorized", contents: Data("1\n".utf8))
      let tools = SystemRecoveryTools(root: root)
      try tools.cycleSwitch(of: Self.adapter)
      // The last event: switch 12, type Bluetooth, operation change, not soft-blocked.
      #expect(files.contents(atPath: root + "/dev/rfkill") == Data([12, 0, 0, 0, 2, 2, 0, 0]))
      try files.removeItem(atPath: root + "/dev/rfkill")
      #expect(throws: HostError.self) { try tools.cycleSwitch(of: Self.adapter) }
      try "0\n".write(toFile: device + "/authorized", atomically: false, encoding: .utf8)
      try tools.reauthorise(Self.adapter)
      #expect(files.contents(atPath: device + "/authorized")?.first == UInt8(ascii: "1"))
      try "1\n".write(
        toFile: root + "/sys/class/rfkill/rfkill12/hard", atomically: false, encoding: .utf8)
      #expect(throws: HostError.unsuitable("a switch or key on the machine blocks it")) {
        try tools.cycleSwitch(of: Self.adapter)
      }
      let other = AdapterInfo(index: 0, address: .any, isUp: true, bus: 0)
      #expect(throws: HostError.unsuitable("it is not on USB")) { try tools.reauthorise(other) }
      #expect(throws: HostError.unsuitable("it has no rfkill switch")) { try tools.cycleSwitch(of: other) }
    }
  }
}
