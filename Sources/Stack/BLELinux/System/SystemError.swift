import CBluetoothLinux
import Glibc

/// A failed system call and its error number.
public struct SystemError: Error, Hashable, Sendable {
  /// The call, named as in its manual page, such as `connect` or `bind(HCI_CHANNEL_RAW)`.
  public let call: String
  /// `errno` after the call.
  public let number: CInt

  public init(call: String, number: CInt) {
    self.call = call
    self.number = number
  }
}

extension SystemError {
  /// Meaning of an error number for a Bluetooth host, so that the layers above need no errno table.
  public enum Condition: Hashable, Sendable {
    /// EAFNOSUPPORT, EPROTONOSUPPORT: the kernel or the network namespace does not support such sockets.
    case unsupported
    case wouldBlock
    /// EACCES, EPERM: the process lacks a permission.
    case notPermitted
    /// ENETDOWN, ENODEV, EBADFD, ENXIO: the adapter is down or was removed.
    case adapterGone
    /// EHOSTUNREACH: no adapter has a route to the address.
    case unreachable
    /// EBUSY, EUSERS: the resource is in use.
    case busy
    case timedOut
    case refused
    /// ECONNRESET: the other side closed the connection.
    case reset
    /// ENOMEM, ENOBUFS: the kernel has no memory for the call.
    case noMemory
    case invalid
    case other
  }

  /// ENOBUFS: the send queue of a bearer without a descriptor is full. For such bearers, `full` (EAGAIN)
  /// means that there is no room now, and `gone` (ENOTCONN) that the link has ended.
  package static var noBufferSpace: CInt { ENOBUFS }
  package static var full: CInt { EAGAIN }
  package static var gone: CInt { ENOTCONN }
  package static var notSupported: CInt { EOPNOTSUPP }
  /// EPIPE: the pipe has no reader.
  package static var readerGone: CInt { EPIPE }

  /// Returns the error of a write to a pipe without a reader.
  package static func brokenPipe(_ path: String) -> SystemError {
    SystemError(call: "write \(path)", number: EPIPE)
  }

  /// Thrown if there is less free disk space than needed.
  package static var noRoom: SystemError { SystemError(call: "make room for a capture", number: ENOSPC) }

  /// Returns the error for a file that was removed or moved while it was written.
  package static func removed(_ path: String) -> SystemError {
    SystemError(call: "find \(path), which was removed or moved away", number: ENOENT)
  }

  /// Returns the error for a path that should be a regular file but is a pipe, device, socket or directory.
  static func notRegular(_ path: String, _ number: CInt) -> SystemError {
    SystemError(call: "open \(path), which is not a regular file", number: number)
  }

  /// Returns the error for a file that was truncated while it was written, for example by logrotate's
  /// `copytruncate`.
  package static func cut(_ path: String) -> SystemError {
    SystemError(call: "continue \(path), which was cut short", number: ESTALE)
  }

  /// EMFILE, ENFILE: the process or the system has reached its limit of open files.
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

  /// Name of the error number, such as `EBUSY`; the number itself if the number has no name.
  /// `strerrorname_np`.
  public var name: String {
    // SAFETY: the text is a constant of the C library.
    unsafe ringtap_error_name(number).map { unsafe String(cString: $0) } ?? String(number)
  }

  private static func text(for number: CInt) -> String {
    // SAFETY: strerror returns a string that is valid until its next call; it is copied at once.
    unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
  }
}

/// Runs a system call that reports failure as −1, and retries it on EINTR.
///
/// Traps on EBADF and EFAULT, which only bugs in this program can cause.
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

/// Returns `errno`; no other code reads it. Not inlined, so that nothing runs between the call and the read.
@inline(never)
package func lastError() -> CInt { errno }
