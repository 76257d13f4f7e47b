import BLELinux

/// A failed system call, compared only by its number, because messages contain paths that differ each time.
struct SystemErrorNumber: Error, Equatable {
  let number: Int32
  init(_ number: Int32) { self.number = number }

  static func of(_ body: () throws -> Void) throws {
    do { try body() } catch let error as SystemError { throw SystemErrorNumber(error.number) }
  }
}
