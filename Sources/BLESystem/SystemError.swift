import Glibc

/// A system call that failed: which, and the kernel's error number.
public struct SystemError: Error, Hashable, Sendable {
  /// The call as its manual page names it, `connect` or `bind(HCI_CHANNEL_RAW)`.
  public let call: String
  /// `errno` after the call.
  public let number: CInt

  public init(call: String, number: CInt) {
    self.call = call
    self.number = number
  }
}

extension SystemError: CustomStringConvertible {
  public var description: String { "\(call): \(Self.text(for: number))" }

  private static func text(for number: CInt) -> String {
    // SAFETY: strerror returns a string that is valid until its next call; it is copied at once.
    unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
  }
}

/// Runs a call that reports failure as −1, again while it is interrupted.
///
/// EBADF and EFAULT are bugs of ours, never of the world, so they trap.
@discardableResult
package func checked(
  _ call: @autoclosure () -> String, _ body: () -> CInt
) throws(SystemError) -> CInt {
  while true {
    let result = body()
    if result >= 0 { return result }
    let number = lastError()
    if number == EINTR { continue }
    precondition(number != EBADF && number != EFAULT, "\(call()) on a bad descriptor or address")
    throw SystemError(call: call(), number: number)
  }
}

/// The one place that reads `errno`; not inlined, so that nothing runs between a call and the reading.
@inline(never)
package func lastError() -> CInt { errno }
