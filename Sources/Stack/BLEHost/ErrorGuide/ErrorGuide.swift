public import BLELinux
public import BLEStack
public import BLEWire

/// Cause and remedy of an error code. Covers the codes of the kernel, the controller and the device.
///
/// A command that fails ends with one line: the error, then the remedy.
public struct ErrorGuide: Hashable, Sendable {
  /// Cause of the code.
  public let cause: String
  /// Advice for the user. Printed after a semicolon.
  public let remedy: String

  /// Parses a table. Each line has one code, or several codes with the same meaning: `key key | cause |
  /// remedy`.
  static func table(_ text: String) -> [String: ErrorGuide] {
    var table: [String: ErrorGuide] = [:]
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: "|").map { trimmed($0) }
      precondition(parts.count == 3, "no row of a guide: \(line)")
      for key in parts[0].split(separator: " ") {
        let guide = ErrorGuide(cause: parts[1], remedy: parts[2])
        precondition(table.updateValue(guide, forKey: String(key)) == nil, "twice in a guide: \(key)")
      }
    }
    return table
  }

  private static func trimmed(_ text: Substring) -> String {
    let start = text.drop { $0 == " " }
    guard let last = start.lastIndex(where: { $0 != " " }) else { return "" }
    return String(start[...last])
  }

  /// Returns the key of a code: two lower-case hexadecimal digits.
  static func key(_ code: UInt8) -> String {
    let digits = String(code, radix: 16)
    return digits.utf8.count == 1 ? "0" + digits : digits
  }
}

extension HCIStatus {
  /// Explains the status; `nil` for success and for codes that no version up to Core 5.4 defines.
  public var guide: ErrorGuide? { ErrorGuide.controller[ErrorGuide.key(rawValue)] }

  /// Name and code, such as `Command Disallowed (0xc)`.
  package var text: String { "\(name) (0x\(String(rawValue, radix: 16)))" }
}

extension ManagementStatus {
  /// Explains the status; `nil` for success and for codes that Linux 6.1 does not have.
  public var guide: ErrorGuide? { ErrorGuide.management[ErrorGuide.key(rawValue)] }

  package var text: String { "\(name) (0x\(String(rawValue, radix: 16)))" }
}

extension ATTErrorCode {
  /// Explains the error; `nil` for reserved codes.
  public var guide: ErrorGuide? {
    ErrorGuide.attribute[(0x80...0x9F).contains(rawValue) ? "80-9f" : ErrorGuide.key(rawValue)]
  }
}

extension PairingFailure {
  /// Explains the failure; `nil` for reserved codes.
  public var guide: ErrorGuide? { ErrorGuide.pairing[ErrorGuide.key(rawValue)] }
}

extension SystemError {
  /// Explains the error number. Prefers the meaning for this system call to the general meaning. `nil` only
  /// for a number that Linux does not name.
  public var guide: ErrorGuide? { ErrorGuide.system["\(name)@\(call)"] ?? ErrorGuide.system[name] }
}

extension GATTError {
  /// Advice for the code or its category, if there is any.
  public var remedy: String? {
    switch self {
    case .refused(let error): error.code.guide?.remedy
    case .timedOut, .closed(.transactionTimeout):
      "bring the device near and connect again; restart it if it happens again"
    case .closed(.linkLost(.silence)): "bring the device near; check its battery"
    case .closed(.linkLost(.closedByPeer)): "wake the device, or disconnect other hosts from it"
    case .closed(.linkLost(.controllerReset)): "connect again; if it happens again, replug the adapter"
    case .closed(.linkLost(.unknown)): "bring the device near and connect again"
    case .closed(.encryptionLost):
      "connect again; if it happens again, another device may be using the address"
    case .closed(.silent): "switch the device off and on; check its battery"
    case .malformed, .closed(.answersNotTaken):
      "this is a fault of the device: look for newer firmware, and record a log (`btmon -w FILE`)"
    case .valueTooLong: "write less, or use a device that accepts a larger MTU"
    case .writeNotVerified: "write again"
    case .cannotSign: "pair with the device (`ringtap pair ADDRESS`) and store its keys"
    case .notSupported: "`ringtap gatt ADDRESS` shows what each characteristic supports"
    case .cancelled, .closed(.closedLocally): nil
    }
  }
}

extension PairingError {
  /// Advice; `nil` if the description already includes it.
  public var remedy: String? {
    switch self {
    case .refused(let reason), .failed(let reason): reason.guide?.remedy
    case .notEncrypted(let status): status.guide?.remedy
    case .timedOut: "bring the device near, put it into pairing mode, and connect again"
    case .identityRefused, .weakerThanBond:
      "if you have reset or replaced the device, run `ringtap pair --forget ADDRESS` and pair again"
    case .notSecureConnections: "look for newer firmware, or accept legacy pairing"
    case .tooSoon: "wait half a minute and try again"
    case .linkLost: "bring the device near and try again"
    case .cancelled: nil
    }
  }
}

extension ErrorGuide {
  /// Joins a description and an optional remedy.
  package static func text(_ what: String, _ remedy: String?) -> String {
    remedy.map { "\(what); \($0)" } ?? what
  }
}

extension HostError {
  fileprivate var guided: String {
    switch self {
    case .gatt(let error): ErrorGuide.text("\(error)", error.remedy)
    case .system(let error): ErrorGuide.text("\(error)", error.guide?.remedy)
    default: "\(self)"
    }
  }
}

extension ErrorGuide {
  /// Returns an error's description, followed by a remedy if a table has a remedy for it.
  ///
  /// Most descriptions of `HostError` already include a remedy. The description of an error from a lower
  /// layer does not, because it is also used as a capture's `endReason`.
  public static func text(of error: some Error) -> String {
    switch error {
    case let error as GATTError: text("\(error)", error.remedy)
    case let error as SystemError: text("\(error)", error.guide?.remedy)
    case let error as HostError: error.guided
    case let error as PairingError: text("\(error)", error.remedy)
    default: "\(error)"
    }
  }
}

// MARK: - Controllers

extension ErrorGuide {
  /// HCI error codes. Core 5.4, Vol 1, Part F, 2. Codes that only BR/EDR can cause are marked.
  package static let controller = table(
    """
    01 | the controller does not support the command | leave out the option that needs it, or use a newer adapter
    02 | the link has ended or never existed | connect again
    03 | the controller's hardware failed | replug or reset the adapter
    04 | the device did not answer a page (BR/EDR) | wake the device and bring it near
    05 | the two sides' keys or the passkey differ | forget the device on both sides (`ringtap pair ADDRESS --forget`) and pair again
    06 | the device has lost its key, or never had one | forget the device here (`ringtap pair ADDRESS --forget`) and pair again
    07 | the controller has no memory left | close other links and scans, or reset the adapter
    08 | nothing was received for the supervision timeout: the device is out of range or off | bring the device near; check its battery
    09 | the controller has no room for another link | disconnect another device
    0a | the device's limit of synchronous links is reached (BR/EDR) | disconnect its audio
    0b | the controller already has a link to that device | disconnect it there first (`bluetoothctl disconnect ADDRESS`)
    0c | the controller is scanning or connecting, or legacy and extended commands were mixed | stop other programs that use the adapter (`ringtap doctor` lists them), or reset it
    0d | the device has no room for another link | disconnect the device from other hosts
    0e | the device refuses links that are not secure | pair with it (`ringtap pair ADDRESS`)
    0f | the device accepts links only from hosts it knows | make the device forget its host, or put it into pairing mode
    10 | the device took too long to accept (BR/EDR) | wake the device and try again
    11 | the controller does not support the feature or the value | leave out the option that needs it (--phy, --data-length, --interval)
    12 | the controller rejected the command's values | choose other values for --interval, --latency, --supervision-timeout
    13 | the device ended the link | wake the device, or disconnect other hosts from it
    14 | the device ended the link because it is low on resources | disconnect it from other hosts, or restart it
    15 | the device switched itself off | switch it on, or charge it
    16 | this side ended the link: this program, or another on this adapter | connect again; `ringtap doctor` lists programs that use the adapter
    17 | pairing was retried too soon | wait half a minute and try again
    18 | the device does not accept pairing now | put the device into pairing mode
    19 | the device does not know a link manager PDU (BR/EDR) | look for newer device firmware
    1a | the device or the controller does not support the feature | leave out the option that needs it (--phy, --data-length)
    1b | a synchronous link was refused its offset (BR/EDR) | disconnect other audio devices
    1c | a synchronous link was refused its interval (BR/EDR) | disconnect other audio devices
    1d | a synchronous link was refused its air mode (BR/EDR) | choose another codec
    1e | a link-layer PDU had invalid values | leave the link's parameters to the device (no --interval, --phy, --data-length)
    1f | the controller gave no reason | try again; reset the adapter if it happens again
    20 | a link-layer PDU had a value that the other side does not support | leave the link's parameters to the device (no --interval, --phy, --data-length)
    21 | the roles of the link cannot be changed now | try again
    22 | the device did not answer a link-layer PDU within 40 s | bring the device near and connect again
    23 | both sides started the same procedure at once | try again
    24 | a PDU was received that encryption does not allow | forget the device on both sides and pair again
    25 | the two sides do not agree on encryption | forget the device on both sides and pair again
    26 | the key is fixed and cannot be changed (BR/EDR) | pair again
    27 | the quality of service is not available | leave the link's parameters to the device
    28 | a change of the link was received after its instant | bring the device near and connect again
    29 | the device has a unit key, which is not safe (BR/EDR) | use another device
    2a | another procedure is in progress on the link | try again
    2c | the requested quality of service is invalid | leave the link's parameters to the device
    2d | the quality of service was refused | leave the link's parameters to the device
    2e | the device does not report bad channels | nothing: the link works without
    2f | the link is less secure than the other side requires | pair with the device (`ringtap pair ADDRESS --authenticated`)
    30 | a value is outside the range that every controller must accept | choose other values for --interval, --latency, --supervision-timeout
    32 | a change of roles is in progress (BR/EDR) | try again
    34 | a reserved slot was used (BR/EDR) | reset the adapter
    35 | the change of roles failed (BR/EDR) | try again
    36 | the inquiry response has no room for its data (BR/EDR) | shorten the adapter's name
    37 | the device's host does not support Secure Simple Pairing | pair with a PIN, or use another device
    38 | the device's host is busy pairing | wait until that has finished, and try again
    39 | the controller found no channel for the link | bring the device near, away from other radios
    3a | the controller is busy | try again in a moment; stop other programs that use the adapter
    3b | the device does not accept the link's parameters | choose another --interval, or none
    3c | no device answered a directed advertisement | connect again while the device advertises
    3d | a packet's integrity check failed: the keys differ, or an attacker interferes | forget the device on both sides and pair again
    3e | the device did not answer the first packets of the link | bring the device near and try again
    3f | the second controller's link failed (AMP) | use another adapter
    40 | the device adjusts its clock slowly (BR/EDR) | nothing: the link works without
    41 | a map of slots is not defined (BR/EDR) | use another adapter
    42 | the controller has no advertising set with that number | start the advertising again
    43 | the controller's limit of time or events was reached | start again with a larger limit
    44 | the host cancelled the command | try again
    45 | a packet is longer than the controller accepts | choose a smaller --data-length
    """)
}

// MARK: - Devices

extension ErrorGuide {
  /// Error codes of an attribute server. Core 5.4, Vol 3, Part F, 3.4.1.1; 0xFC … 0xFF: CSS 11, Part B, 1.2.
  package static let attribute = table(
    """
    01 | the device has no attribute with that handle | `ringtap gatt ADDRESS` lists its attributes; a firmware update may have changed them
    02 | the attribute cannot be read | use `ringtap notify` or `ringtap write`, whichever `ringtap gatt ADDRESS` lists for it
    03 | the attribute cannot be written | read it, or choose one that `ringtap gatt ADDRESS` lists as writable
    04 | the device does not understand the request | look for newer firmware of the device
    05 | the device requires pairing, perhaps with a passkey | pair with it (`ringtap pair ADDRESS`; if that is not enough, with --authenticated)
    06 | the device does not support that request | use another one: read instead of a long read, write instead of a prepared write
    07 | the offset is beyond the value's end | read the value from its start
    08 | the device needs its user's permission | allow it on the device
    09 | the device has no room for another prepared write | write less at once
    0a | the range has no attribute of that type | `ringtap gatt ADDRESS` lists what the device has
    0b | the value cannot be read in parts | read it with one request
    0c | the link's key is shorter than the device requires | forget the device on both sides and pair again with a key of 16 bytes
    0d | the attribute does not accept a value of this length | see the device's documentation for its length
    0e | an error occurred inside the device | try again; restart the device if it happens again
    0f | the device requires an encrypted link | pair with it (`ringtap pair ADDRESS`)
    10 | services cannot be grouped by that attribute | ask for primary or secondary services
    11 | the device has no room or time for the request | try again in a moment; disconnect other hosts from it
    12 | the device's attributes have changed | connect again to discover them again
    13 | the attribute does not accept that value | see the device's documentation for valid values
    80-9f | the device's application refused for a reason that its service defines | see the service's specification for that code
    fc | the device refuses the write now | check which state the device must be in, and try again
    fd | the descriptor is not set as the procedure requires | subscribe first (`ringtap notify`)
    fe | the device is busy with the same procedure | wait until that has finished, and try again
    ff | the value is outside the attribute's range | see the device's documentation for valid values
    """)

  /// Reasons for a failed pairing. Core 5.4, Vol 3, Part H, 3.5.5.
  package static let pairing = table(
    """
    01 | no passkey was given, or its entry was cancelled | give it with --passkey, or answer on a terminal
    02 | out-of-band data is required, but one side has none | pair by passkey or comparison instead
    03 | one side requires more protection than the other's keyboard and display allow | leave out --authenticated, use a device with a display, or forget an earlier bond on both sides
    04 | wrong passkey, or an attacker in the middle | try again with the passkey that the device shows
    05 | the device does not support pairing, or not now | put the device into pairing mode, or use it without pairing
    06 | the key would be shorter than one side requires | look for newer device firmware
    07 | the device does not support the command | pair with --legacy
    08 | the device gave no reason | put the device into pairing mode and try again; restart it if it happens again
    09 | the last pairing failed too recently | wait half a minute and try again
    0a | the device rejected a value as invalid | pair with --legacy
    0b | wrong passkey, or an attacker in the middle | try again, and compare what both sides show
    0c | a user reported that the numbers differ | try again, and confirm only if both sides show the same
    0d | the devices are already pairing over BR/EDR | wait until that has finished, and try again
    0e | BR/EDR keys may not be derived from LE keys here | pair over BR/EDR separately
    0f | the device does not accept the key | forget the device on both sides and pair again
    """)
}

// MARK: - The management interface

extension ErrorGuide {
  /// Statuses of the kernel's management interface. BlueZ, `doc/mgmt-api.txt`, "Error codes"; Linux 6.1,
  /// `include/net/bluetooth/mgmt.h`.
  package static let management = table(
    """
    01 | the kernel is too old for the command | use --mode raw, or a newer kernel
    02 | the device is not connected | connect again
    03 | the controller failed | try again; `btmgmt power off` and `power on` if it happens again
    04 | the link could not be established | bring the device near and try again
    05 | the two sides' keys or the passkey differ | forget the device on both sides (`bluetoothctl remove ADDRESS`) and pair again
    06 | the kernel has no key of the device | pair with it (`bluetoothctl pair ADDRESS`)
    07 | the kernel or the controller is out of resources | disconnect another device, or stop other programs that advertise
    08 | the controller or the device did not answer in time | bring the device near and try again; reset the adapter if it happens again
    09 | the device is already connected | disconnect it first (`bluetoothctl disconnect ADDRESS`)
    0a | another program runs discovery, or the operation is already in progress | stop discovery first (`bluetoothctl scan off`), or use --mode raw
    0b | the kernel refuses this in the adapter's current state | try again; `ringtap doctor` shows the state
    0c | the controller or its settings do not allow it | switch LE on (`btmgmt le on`), or use --mode raw
    0d | the kernel rejected the values | choose other values for --interval, --latency, --supervision-timeout
    0e | the link ended in the meantime | connect again
    0f | the adapter is off | bring it up with `btmgmt power on`
    10 | it was cancelled | try again
    11 | there is no such adapter, or a program uses it exclusively | `ringtap doctor` lists the adapters and the programs that use them
    12 | the radio is blocked by a switch | `rfkill unblock bluetooth`, or the switch on the machine
    13 | the device is already paired | forget it first (`bluetoothctl remove ADDRESS`)
    14 | this process is not permitted to do this | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    """)
}

// MARK: - The system

extension ErrorGuide {
  /// All error numbers of Linux, by their names in `errno.h`, so that every failure has an entry. `NAME@call`
  /// is the meaning for one call, according to the kernel's sources (`net/bluetooth/l2cap_sock.c`,
  /// `l2cap_core.c`, `hci_sock.c`).
  package static let system = table(
    """
    EHOSTUNREACH@connect(L2CAP) ENETDOWN@connect(L2CAP) ENODEV@connect(L2CAP) | no adapter is up | bring one up with `btmgmt --index 0 power on`
    ENXIO@connect(L2CAP) EBADFD@connect(L2CAP) | no adapter is up | bring one up with `btmgmt --index 0 power on`
    ECONNREFUSED@connect(L2CAP) | LE is switched off | `btmgmt --index 0 le on`
    EACCES@connect(L2CAP) EPERM@connect(L2CAP) | the link is less secure than requested | pair with the device (`ringtap pair ADDRESS`), or try as root
    ENOMEM@connect(L2CAP) ENOBUFS@connect(L2CAP) | the controller has no room for another link | disconnect another device
    EMLINK@connect(L2CAP) | the controller has no room for another link | disconnect another device
    EINVAL@connect(L2CAP) | no device can have that address | check the address and --address-type
    EBUSY@connect(L2CAP) | another program holds the ATT channel of the device | disconnect it there first (`bluetoothctl disconnect ADDRESS`)
    EBUSY@bind(HCI_CHANNEL_USER) | the kernel's host uses the adapter | free it with `btmgmt power off`
    EUSERS@bind(HCI_CHANNEL_USER) | another program uses the adapter exclusively | stop it; `ringtap doctor` names it
    EPERM@bind(HCI_CHANNEL_USER) | the user channel needs CAP_NET_ADMIN | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    EPERM@bind(HCI_CHANNEL_MONITOR) | the monitor needs CAP_NET_RAW | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    EPERM | this process is not permitted to do this | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    EACCES | the permissions of the file or device do not allow it | choose another place, or ask its owner for access (`ls -l`)
    ENOENT | there is no file of that name | check the path
    ENOTDIR | a part of the path is not a folder | check the path
    EISDIR | it is a folder | name a file in it
    EEXIST ENOTEMPTY | a file of that name already exists | choose another name
    ENAMETOOLONG | the name is too long | choose a shorter one
    ELOOP | symbolic links form a loop | check the path with `ls -l`
    EXDEV | it is on another file system | choose a place on the same one
    EMLINK | the file system's limit of links is reached | choose another folder
    EROFS | the file system is read-only | choose another folder
    ENOSPC | the disk is full | free some space (`df -h`), or choose another folder
    EDQUOT | this user's disk quota is used up | free some space (`quota`), or choose another folder
    EFBIG EOVERFLOW | the file exceeds its size limit | raise `ulimit -f`, or split it
    ETXTBSY | the file is a running program | choose another name
    EIO EREMOTEIO EUCLEAN EBADMSG | the disk or the device failed | check `dmesg`; record elsewhere until it works
    ESTALE | the server of the file system has lost the file | mount it again, or record elsewhere
    ENOMEDIUM EMEDIUMTYPE | there is no disk, or the wrong one | insert it
    ENODEV ENXIO | the device was removed, or its driver is not loaded | replug it; `ringtap doctor` lists the adapters
    EBUSY | another program uses it | stop that program first; `ringtap doctor` names the programs that use an adapter
    EUSERS | another program uses it exclusively | stop that program first; `ringtap doctor` names the programs that use an adapter
    ENETDOWN EBADFD | the adapter is down or was removed | bring it up with `btmgmt power on`
    ERFKILL | the radio is blocked by a switch | `rfkill unblock bluetooth`, or the switch on the machine
    EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT EPFNOSUPPORT | no such sockets in this kernel, namespace or sandbox | `modprobe bluetooth`; run containers in the host's network namespace
    EOPNOTSUPP ENOSYS ENOPROTOOPT | the kernel or the file system does not support it | use a newer kernel, or another file system
    EINVAL EDOM ERANGE | the kernel rejected a value | check the options; `ringtap COMMAND --help` lists their ranges
    E2BIG | there are too many arguments | give fewer
    EMFILE | this process has too many files open | raise `ulimit -n`
    ENFILE | the machine has too many files open | end other programs, or raise `sysctl fs.file-max`
    ENOMEM ENOBUFS | the kernel has no memory left for it | end other programs
    EAGAIN | the kernel is short of resources, or a limit of this user is reached | try again; raise `ulimit -u` if it happens again
    ENOLCK EDEADLK | the file cannot be locked | choose a folder on a local disk
    ETIMEDOUT ETIME EHOSTDOWN | the other side did not answer | bring the device near, or check that it is on
    EHOSTUNREACH ENETUNREACH ENONET | there is no route to it | check the name and the address
    ECONNREFUSED | nothing listens at that address | start the server, and check the address
    ECONNRESET ECONNABORTED ENOTCONN ESHUTDOWN EPIPE | the other side closed the connection | start it again, and reconnect
    ENETRESET ENOLINK ECOMM | the connection to the other side was lost | reconnect
    EADDRINUSE | another program has that address or port | stop it, or choose another
    EADDRNOTAVAIL | this machine has no such address | check the address
    EALREADY EINPROGRESS EISCONN | it is already done or in progress | wait, and try again
    ECANCELED | it was cancelled | try again
    EINTR ERESTART | it was interrupted by a signal | try again
    EMSGSIZE | a packet is too long for the socket | report it: this program should have split it
    EPROTO EPROTOTYPE EILSEQ | the other side violates the protocol | check what is at the other end, and its baud rate
    ENOTTY | it is not a serial port | check the path of the port
    ENOEXEC ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC | the file is not a program for this machine | check the path, and which processor the program was built for
    ESRCH ECHILD | the process has ended | start it again
    EKEYEXPIRED EKEYREVOKED EKEYREJECTED ENOKEY | the kernel has no key for it | pair again, or unlock the file system
    EHWPOISON | the machine's memory is damaged | check `dmesg`
    ENOTBLK ESPIPE | the file is of the wrong kind | name a regular file
    EOWNERDEAD ENOTRECOVERABLE | the process that held a lock died | stop other programs that use it, and try again
    EBADF EFAULT ENOTSOCK EDESTADDRREQ EMULTIHOP EXFULL | this program passed an invalid argument | report it: this is a bug in this program
    EADV EBADE EBADR EBADRQC EBADSLT EBFONT ECHRNG EDOTDOT EIDRM EISNAM EL2HLT EL2NSYNC EL3HLT EL3RST ELNRNG | no system call that this program uses documents this error; a driver or file system returned it | check `dmesg`, and record elsewhere
    ENAVAIL ENOANO ENOCSI ENODATA ENOMSG ENOPKG ENOSR ENOSTR ENOTNAM ENOTUNIQ EREMCHG EREMOTE ESRMNT ESTRPIPE ETOOMANYREFS EUNATCH | no system call that this program uses documents this error; a driver or file system returned it | check `dmesg`, and record elsewhere
    """)
}
