import BLELinux
import SensorSessions
import Testing

@Suite struct ModeChoiceTests {
  private func choice(_ daemon: Int?, _ capabilities: Set<ProcessFacts.Capability>) -> ModeChoice {
    ModeChoice(daemon: daemon, capabilities: capabilities)
  }

  @Test func isCoexistBesideTheDaemon() {
    #expect(
      choice(7, [.netAdmin, .netRaw]).note(on: "hci0") == "coexist mode on hci0; bluetoothd is running")
    #expect(choice(7, [.netAdmin]).mode == .coexist)
    #expect(choice(7, []).mode == .coexist, "connecting needs nothing, and the scan says what it needs")
  }

  @Test func isRawAlone() {
    #expect(choice(nil, [.netAdmin, .netRaw]).note(on: "hci1") == "raw mode on hci1")
    #expect(choice(nil, [.netRaw]).mode == .raw)
    #expect(choice(nil, []).mode == .raw)
  }

  @Test func goesByWhatItMay() {
    let beside = choice(7, [.netRaw])
    #expect(beside.mode == .raw)
    #expect(beside.reason?.contains("CAP_NET_ADMIN") == true)
    let alone = choice(nil, [.netAdmin])
    #expect(alone.mode == .coexist)
    #expect(alone.reason?.contains("CAP_NET_RAW") == true)
  }
}
