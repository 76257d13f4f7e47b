public import BLELinux
import CBluetoothLinux
import Glibc

/// A user account of this machine.
public struct SystemUser: Hashable, Sendable {
  public let number: UInt32
  public let group: UInt32
  public let home: String

  /// Looks up a user by name or number; `nil` if the user does not exist.
  ///
  /// `getpwnam`, `getpwuid`.
  public init?(_ name: String) {
    var home = [CChar](repeating: 0, count: Int(PATH_MAX))
    let capacity = CInt(home.count)
    var (number, group): (UInt32, UInt32) = (0, 0)
    // SAFETY: the three results outlive the call, and the array has room for `capacity` characters.
    guard unsafe ringtap_user(name, &number, &group, &home, capacity) == 0 else { return nil }
    (self.number, self.group) = (number, group)
    self.home = String(decoding: home.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The user that this process runs as.
  public static var own: SystemUser {
    SystemUser(number: geteuid(), group: getegid(), home: ProcessFacts.environment("HOME") ?? "/")
  }

  private init(number: UInt32, group: UInt32, home: String) {
    (self.number, self.group, self.home) = (number, group, home)
  }
}

/// Opens privileged sockets, then runs a program without privileges.
public enum UnprivilegedProgram {
  /// Opens the sockets, drops all privileges, and executes `arguments` with the sockets as descriptors 3 and
  /// up, named in LISTEN_FDNAMES. Returns only by throwing.
  ///
  /// Groups, user, all capabilities, and the ability to gain capabilities by executing a file (no_new_privs)
  /// are dropped permanently. The function verifies with the kernel that the privileges are gone.
  ///
  /// `setgroups`, `setresgid`, `setresuid`, `capset`, `prctl`, `execvp`.
  ///
  /// - Parameters:
  ///   - arguments: the program, found in PATH, and its arguments.
  ///   - user: the user that the program runs as.
  ///   - sockets: the sockets, opened before privileges are dropped.
  /// - Throws: the error of a socket or of `execvp`; EPERM if a privilege cannot be dropped.
  public static func become(
    _ arguments: [String], as user: SystemUser, with sockets: [InheritedSocket]
  ) throws(SystemError) -> Never {
    // The descriptors stay open so that the executed program inherits them.
    var numbers: [CInt] = []
    for socket in sockets { numbers.append(try socket.open().release()) }
    try checked("dropping privileges") { ringtap_drop_privileges(user.number, user.group) }
    set("HOME", user.home)
    if numbers.isEmpty {
      for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsafe unsetenv(name) }
    } else {
      set("LISTEN_PID", String(getpid()))
      set("LISTEN_FDS", String(numbers.count))
      set("LISTEN_FDNAMES", sockets.map(\.name).joined(separator: ":"))
    }
    var texts: [UnsafeMutablePointer<CChar>?] = unsafe arguments.map { unsafe strdup($0) }
    unsafe texts.append(nil)
    let count = CInt(numbers.count)
    // SAFETY: both arrays outlive the call, the texts are never freed, and the last element is null.
    _ = unsafe ringtap_execute_with(&numbers, count, &texts)
    throw SystemError(call: "execute \(arguments.first ?? "")", number: lastError())
  }

  private static func set(_ name: String, _ value: String) {
    // SAFETY: no other thread of this process reads the environment while the process executes another
    // program.
    unsafe setenv(name, value, 1)
  }
}
