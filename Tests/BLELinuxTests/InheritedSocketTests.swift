import BLELinux
import Testing

/// LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES as in `sd_listen_fds(3)`.
@Suite struct InheritedSocketTests {
  private func named(_ count: String?, _ names: String?, _ process: String?) -> [InheritedSocket: CInt] {
    InheritedSockets.named(count: count, names: names, process: process, own: 42)
  }

  @Test func findsSocketsByName() {
    #expect(
      named("3", "hci7-user:hci-management:hci-monitor", "42") == [
        .userChannel(7): 3, .management: 4, .monitor: 5,
      ])
    // Sockets of other programs keep their places.
    #expect(named("3", "unknown::hci-monitor", "42") == [.monitor: 5])
    #expect(named("2", "hci-monitor:hci-monitor", "42") == [.monitor: 3])
    #expect(named("2", "hci70000-user:hci-user", "42") == [:])
  }

  /// For another process, without names, or with a count that does not match them.
  @Test func takesNothingThatIsNotMeant() {
    #expect(named("1", "hci-monitor", "41") == [:])
    #expect(named("1", "hci-monitor", nil) == [:])
    #expect(named(nil, "hci-monitor", "42") == [:])
    #expect(named("1", nil, "42") == [:])
    for count in ["0", "2", "-1", "x", "65", "99999999999999999999"] {
      #expect(named(count, "hci-monitor", "42") == [:], "\(count)")
    }
  }

  @Test(arguments: [InheritedSocket.userChannel(0), .userChannel(65_535), .management, .monitor])
  func namesReadBack(_ socket: InheritedSocket) {
    #expect(InheritedSocket(name: socket.name) == socket)
    // sd_listen_fds_with_names(3): ASCII without control characters and colons, at most 255.
    #expect(socket.name.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: ":") })
  }

  /// This test was started without any.
  @Test func hasNoneUnlessGiven() {
    #expect(!InheritedSockets.has(.management))
    #expect(InheritedSockets.userChannel == nil)
    #expect(InheritedSockets.all == [])
  }
}
