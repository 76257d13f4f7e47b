import ArgumentParser
import BLEHost
import BLELinux
import CommandKit
import Daemon
import JSONText

/// The command `ringtap open`.
struct OpenCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "open",
    abstract: "Open privileged sockets, drop privileges, run a command.",
    discussion: """
      The command inherits the open sockets by the protocol of sd_listen_fds(3) (LISTEN_FDS, \
      LISTEN_FDNAMES). It has no capability and no supplementary group, is not root, and cannot regain \
      privileges. ringtap's own commands use inherited sockets without an option. Connecting by address in \
      raw mode needs no privilege, so nothing needs to be opened for it.

      EXAMPLES
        sudo ringtap open --user-channel hci0 --user "$USER" -- \\
          ringtap capture --duration 60
            exclusive mode, on an adapter that is down
        sudo ringtap open --management --user "$USER" -- ringtap scan
            coexist mode
        sudo ringtap open --monitor --user "$USER" -- \\
          ringtap log record --output air.btsnoop
      """,
    shouldDisplay: false)

  @Option(help: "Open the user channel of this adapter, hci0 or its address: for exclusive mode.")
  var userChannel: [String] = []

  @Flag(help: "Open the kernel's management interface: for scans in coexist mode.")
  var management = false

  @Flag(help: "Open the kernel's monitor: for `ringtap log record`.")
  var monitor = false

  @Option(help: "The user to run the command as: a name or a number. Required for root.")
  var user: String?

  @Argument(parsing: .postTerminator, help: "The command and its arguments, after --.")
  var command: [String] = []

  func validate() throws {
    guard !command.isEmpty else { throw ValidationError("give a command after --") }
    for name in userChannel { _ = try RadioChoice.adapter(name) }
    guard Set(userChannel).count == userChannel.count else {
      throw ValidationError("an adapter is named twice")
    }
    guard management || monitor || !userChannel.isEmpty else {
      throw ValidationError("give at least one of --user-channel, --management and --monitor")
    }
    _ = try owner()
  }

  func run() throws {
    let (sockets, owner) = (try sockets(), try owner())
    try failing { () throws(SystemError) in
      try UnprivilegedProgram.become(command, as: owner, with: sockets)
    }
  }

  private func sockets() throws -> [InheritedSocket] {
    var sockets: [InheritedSocket] = []
    for name in userChannel {
      let adapter = try RadioChoice.adapter(name)
      let index = try failing { () throws(HostError) in try KernelAdapter.index(of: adapter) }
      sockets.append(.userChannel(index))
    }
    if management { sockets.append(.management) }
    if monitor { sockets.append(.monitor) }
    guard Set(sockets).count == sockets.count else { throw ValidationError("an adapter is named twice") }
    return sockets
  }

  private func owner() throws -> SystemUser {
    let owner: SystemUser
    if let user {
      guard let found = SystemUser(user) else {
        throw ValidationError("there is no user '\(user.printable)'")
      }
      owner = found
    } else {
      owner = SystemUser.own
    }
    guard owner.number != 0 else {
      throw ValidationError("give a user other than root with --user")
    }
    return owner
  }
}
