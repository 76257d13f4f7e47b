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
