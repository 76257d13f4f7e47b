import BLELinux
import BLEWire
import CTestSystem
import Glibc
import TestPeer
import Testing

@Suite struct ReceiveFactTests {
  private static let options: [(fact: ReceiveFact, option: CInt, call: String)] = [
    (.time, SO_TIMESTAMPNS, "setsockopt(SO_TIMESTAMPNS)"), (.drops, SO_MEMINFO, "getsockopt(SO_MEMINFO)"),
    (.laterDrops, SO_RXQ_OVFL, "setsockopt(SO_RXQ_OVFL)"),
  ]

  /// Facts that this thread's kernel does not report, without those that it really lacks.
  private func untold(lacking options: [CInt]) throws -> [ReceiveFact: SystemError] {
    let before = try ReceiveFact.untold()
    for option in options { test_lack(SOL_SOCKET, option) }
    defer { test_lack_nothing() }
    return try ReceiveFact.untold().filter { before[$0.key] == nil }
  }

  @Test func findsWhatIsLacking() throws {
    #expect(try untold(lacking: []) == [:])
    for (fact, option, call) in Self.options {
      #expect(try untold(lacking: [option]) == [fact: SystemError(call: call, number: ENOPROTOOPT)])
    }
    #expect(try Set(untold(lacking: Self.options.map(\.option)).keys) == [.time, .drops, .laterDrops])
  }

  @Test func leavesDropsUnknown() throws {
    let ours = try SocketPair().ours()
    #expect(ours.receiveQueueDrops == 0)
    test_lack(SOL_SOCKET, SO_MEMINFO)
    defer { test_lack_nothing() }
    #expect(ours.receiveQueueDrops == nil)
  }

  /// TCP_NODELAY only makes packets arrive earlier.
  @Test func connectsWithoutAnOptionOfTCP() throws {
    let listener = try ControllerPort.listen(host: "127.0.0.1", port: 0)
    var address = sockaddr_in()
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let number = listener.rawValue
    try checked("getsockname") {
      withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &size) }
      }
    }
    test_lack(CInt(IPPROTO_TCP), TCP_NODELAY)
    defer { test_lack_nothing() }
    _ = try ControllerPort.tcp(host: "127.0.0.1", port: UInt16(bigEndian: address.sin_port))
  }

  /// qemu-user returns only the first number of SO_MEMINFO; the drops are the ninth (`linux/sock_diag.h`).
  @Test(arguments: [(4, true), (32, true), (36, false)])
  func takesNoPartForTheWhole(_ octets: UInt32, _ isUntold: Bool) throws {
    let ours = try SocketPair().ours()
    test_curtail(SOL_SOCKET, SO_MEMINFO, octets)
    defer { test_lack_nothing() }
    #expect((ours.receiveQueueDrops == nil) == isUntold)
    #expect(try (ReceiveFact.untold()[.drops] != nil) == isUntold)
  }
}
