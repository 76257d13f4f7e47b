import CBluetoothLinux
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

extension SystemError {
  /// What an error number means to a Bluetooth host, so that layers above need no errno table.
  public enum Condition: Hashable, Sendable {
    /// EAFNOSUPPORT, EPROTONOSUPPORT: no such sockets in this kernel or network namespace.
    case unsupported
    case wouldBlock
    /// EACCES, EPERM.
    case notPermitted
    /// ENETDOWN, ENODEV, EBADFD, ENXIO: the adapter went down or away.
    case adapterGone
    /// EHOSTUNREACH: no adapter leads there.
    case unreachable
    /// EBUSY, EUSERS.
    case busy
    case timedOut
    case refused
    /// ECONNRESET: the other side ended it.
    case reset
    /// ENOMEM, ENOBUFS.
    case noMemory
    case invalid
    case other
  }

  /// For carriers that are no descriptors: ENOBUFS, far too much waits; EAGAIN, no room now; ENOTCONN, the link is gone.
  package static var noBufferSpace: CInt { ENOBUFS }
  package static var full: CInt { EAGAIN }
  package static var gone: CInt { ENOTCONN }
  package static var notSupported: CInt { EOPNOTSUPP }
  /// EPIPE: nobody reads the pipe any more.
  package static var readerGone: CInt { EPIPE }

  /// What a write into a pipe without reader fails with.
  package static func brokenPipe(_ path: String) -> SystemError {
    SystemError(call: "write \(path)", number: EPIPE)
  }

  /// What is told where less is free than is needed.
  package static var noRoom: SystemError { SystemError(call: "make room for a capture", number: ENOSPC) }

  /// What is told of a file that somebody took away while it was written.
  package static func removed(_ path: String) -> SystemError {
    SystemError(call: "look for \(path), which was removed or moved away", number: ENOENT)
  }

  /// What is told of a pipe, device, socket or directory in the place of a file.
  static func notRegular(_ path: String, _ number: CInt) -> SystemError {
    SystemError(call: "open \(path), which is not a regular file", number: number)
  }

  /// What is told of a file that somebody cut while it was written, as logrotate's `copytruncate` does.
  package static func cut(_ path: String) -> SystemError {
    SystemError(call: "go on with \(path), which was cut short", number: ESTALE)
  }

  /// EMFILE, ENFILE: the process or the machine may open no more.
  public var isOfOpenFiles: Bool { number == EMFILE || number == ENFILE }

  public var condition: Condition {
    switch number {
    case EAFNOSUPPORT, EPROTONOSUPPORT: .unsupported
    case EAGAIN: .wouldBlock
    case EACCES, EPERM: .notPermitted
    case ENETDOWN, ENODEV, EBADFD, ENXIO: .adapterGone
    case EHOSTUNREACH: .unreachable
    case EBUSY, EUSERS: .busy
    case ETIMEDOUT: .timedOut
    case ECONNREFUSED: .refused
    case ECONNRESET: .reset
    case ENOMEM, ENOBUFS: .noMemory
    case EINVAL: .invalid
    default: .other
    }
  }
}

extension SystemError: CustomStringConvertible {
  public var description: String { "\(call): \(Self.text(for: number))" }

  /// `EBUSY`; a number that has no name here as it is. `strerrorname_np`.
  public var name: String {
    // SAFETY: the text is a constant of the C library.
    unsafe ringtap_error_name(number).map { unsafe String(cString: $0) } ?? String(number)
  }

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
