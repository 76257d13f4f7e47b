import BLELinux

/// A failed call by its number alone: messages name paths, which are another each time.
struct SystemErrorNumber: Error, Equatable {
  let number: Int32
  init(_ number: Int32) { self.number = number }

  static func of(_ body: () throws -> Void) throws {
    do { try body() } catch let error as SystemError { throw SystemErrorNumber(error.number) }
  }
}
