import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CTestSystem
import Foundation
import Testing

/// A kernel without free memory under our own host.
@Suite(.timeLimit(.minutes(1))) struct MemoryShortageLinkTests {
  /// Packets that wait in the controller's socket are received when there is memory again.
  @Test(arguments: [ENOMEM, ENOBUFS]) func receivesAllTheSame(_ number: CInt) async throws {
    let link = try await VirtualLink.open([quietRing()])
    await Task(executorPreference: link.loop) { test_fail(TEST_RECVMMSG, number, 5, 50) }.value
    let connection = try await link.adapter.connect(
      to: quietRing().address, asking: LinkRequest(), timeout: .seconds(5), tap: nil)
    let database = try await connection.discover()
    #expect(database.services.count == 5)
    let failures = await Task(executorPreference: link.loop) { () -> CInt in
      defer { test_fail(TEST_RECVMMSG, 0, 0, 0) }
      return test_failures(TEST_RECVMMSG)
    }.value
    #expect(failures == 50)
    #expect(await link.adapter.faults == 0)
    await link.close()
  }

  /// If there is never any memory, the controller counts as lost.
  @Test func isLostInTheEnd() async throws {
    let link = try await VirtualLink.open([quietRing()])
    await Task(executorPreference: link.loop) { test_fail(TEST_RECVMMSG, ENOMEM, 0, .max) }.value
    do throws(HostError) {
      _ = try await link.adapter.connect(
        to: quietRing().address, asking: LinkRequest(), timeout: .seconds(5), tap: nil)
      Issue.record("nothing can have come")
    } catch { #expect(error == .controller("virtual", .transportLost)) }
    await link.close()
  }
}
