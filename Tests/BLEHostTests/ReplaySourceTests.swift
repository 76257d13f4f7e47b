import BLEHost
import Testing

/// Logs in a transport's specification.
@Suite struct ReplaySourceTests {
  @Test func parses() throws {
    #expect(
      try TransportSpecification("replay:walk/packets.btsnoop")
        == .replay(ReplaySource(path: "walk/packets.btsnoop", speed: .max, link: nil)))
    #expect(
      try TransportSpecification("replay:a,b.btsnoop,speed=10x,link=2")
        == .replay(ReplaySource(path: "a,b.btsnoop", speed: .times(10), link: 2)))
    let text = "replay:a.pcap,speed=1x,link=3,ltk=4C68384139F574D836BCF34E9DFB01BF"
    #expect(try TransportSpecification(text).description == text)
  }

  @Test(arguments: [
    "replay:", "replay:,link=1", "replay:a,speed=0x", "replay:a,speed=2", "replay:a,link=0",
    "replay:a,rate=3", "replay:a,ltk=12", "replay:a,ltk=4C68384139F574D836BCF34E9DFB01BG",
  ])
  func refuses(_ text: String) {
    #expect(throws: TransportSpecification.ParseError.self) { _ = try TransportSpecification(text) }
  }
}
