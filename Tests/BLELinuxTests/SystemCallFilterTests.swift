import CTestSystem
import Glibc
import Testing

/// The system call filter, tested by a process that installs it and tries forbidden calls.
@Suite struct SystemCallFilterTests {
  private func attempts(_ confinement: test_confinement) throws -> test_attempts {
    var attempts = test_attempts()
    let status = test_attempt(confinement, &attempts)
    try #require(status == 0, "the child ended with \(status)")
    return attempts
  }

  /// The kernel's own results without a filter: execve(2), io_uring_setup(2).
  @Test func refusesNothingWhereThereIsNone() throws {
    let attempts = try attempts(TEST_UNCONFINED)
    #expect(attempts.socket == 0 && attempts.execute == ENOENT && attempts.earlier_thread_execute == ENOENT)
    #expect(attempts.ring == EFAULT || attempts.ring == ENOSYS || attempts.ring == EPERM)
    #expect(attempts.open == 0 && attempts.allocate == 0)
  }

  private func expectNoPrograms(_ attempts: test_attempts, at location: SourceLocation = #_sourceLocation) {
    #expect(
      attempts.execute == EPERM && attempts.earlier_thread_execute == EPERM, sourceLocation: location)
    #expect(
      attempts.trace == EPERM && attempts.look_into == EPERM && attempts.ring == EPERM,
      sourceLocation: location)
    #expect(attempts.open == 0 && attempts.allocate == 0, sourceLocation: location)
  }

  @Test func refusesPrograms() throws {
    let attempts = try attempts(TEST_WITHOUT_PROGRAMS)
    expectNoPrograms(attempts)
    #expect(attempts.socket == 0)
  }

  @Test func refusesReadersOfFilesSockets() throws {
    let attempts = try attempts(TEST_WITHOUT_SOCKETS)
    expectNoPrograms(attempts)
    #expect(attempts.socket == EPERM)
  }
}
