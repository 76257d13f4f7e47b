extension ErrorGuide {
  /// All error numbers of Linux, by their names in `errno.h`, so that every failure has an entry. `NAME@call`
  /// is the meaning for one call, from the kernel's sources (`net/bluetooth/l2cap_sock.c`, `l2cap_core.c`,
  /// `hci_sock.c`).
  package static let system = table(
    """
    EHOSTUNREACH@connect(L2CAP) ENETDOWN@connect(L2CAP) ENODEV@connect(L2CAP) | no adapter is up | bring one up with `btmgmt --index 0 power on`
    ENXIO@connect(L2CAP) EBADFD@connect(L2CAP) | no adapter is up | bring one up with `btmgmt --index 0 power on`
    ECONNREFUSED@connect(L2CAP) | LE is switched off | `btmgmt --index 0 le on`
    EACCES@connect(L2CAP) EPERM@connect(L2CAP) | the link is not as secure as was asked for | pair with the device (`ringtap pair ADDRESS`), or try as root
    ENOMEM@connect(L2CAP) ENOBUFS@connect(L2CAP) | the controller has no room for another link | close one
    EMLINK@connect(L2CAP) | the controller has no room for another link | close one
    EINVAL@connect(L2CAP) | no device can have that address | check the address and --address-type
    EBUSY@connect(L2CAP) | another program holds the ATT channel of the device | disconnect it there first (`bluetoothctl disconnect ADDRESS`)
    EBUSY@bind(HCI_CHANNEL_USER) | the kernel's host uses the adapter | free it with `btmgmt power off`
    EUSERS@bind(HCI_CHANNEL_USER) | another program has the adapter alone | stop it; `ringtap doctor` names it
    EPERM@bind(HCI_CHANNEL_USER) | the user channel needs CAP_NET_ADMIN | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    EPERM@bind(HCI_CHANNEL_MONITOR) | the monitor needs CAP_NET_RAW | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    EPERM | this process may not | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    EACCES | the file's or the device's rights do not allow it | choose another place, or have its owner allow it (`ls -l`)
    ENOENT | there is nothing of that name | check the path
    ENOTDIR | a part of the path is no folder | check the path
    EISDIR | it is a folder | name a file in it
    EEXIST ENOTEMPTY | something of that name is there already | choose another name
    ENAMETOOLONG | the name is too long | choose a shorter one
    ELOOP | symbolic links lead in a circle | check the path with `ls -l`
    EXDEV | it lies on another file system | choose a place on the same one
    EMLINK | the file system has its limit of links | choose another folder
    EROFS | the file system is read-only | choose another folder
    ENOSPC | the disk is full | free some room (`df -h`), or choose another folder
    EDQUOT | this user's share of the disk is used up | free some room (`quota`), or choose another folder
    EFBIG EOVERFLOW | the file is larger than it may be | raise `ulimit -f`, or split it
    ETXTBSY | the file is a program that is running | choose another name
    EIO EREMOTEIO EUCLEAN EBADMSG | the disk or the device failed | look into `dmesg`; record elsewhere until that is clear
    ESTALE | the server of the file system has lost the file | mount it again, or record elsewhere
    ENOMEDIUM EMEDIUMTYPE | there is no disk, or the wrong one | insert it
    ENODEV ENXIO | the device is gone, or its driver is not loaded | replug it; `ringtap doctor` tells what is there
    EBUSY | somebody else uses it | stop that first; `ringtap doctor` names who holds an adapter
    EUSERS | somebody else has it alone | stop that first; `ringtap doctor` names who holds an adapter
    ENETDOWN EBADFD | the adapter is down or gone | bring it up with `btmgmt power on`
    ERFKILL | a switch keeps the radio off | `rfkill unblock bluetooth`, or the switch on the machine
    EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT EPFNOSUPPORT | no such sockets in this kernel, namespace or sandbox | `modprobe bluetooth`; run containers in the host's network namespace
    EOPNOTSUPP ENOSYS ENOPROTOOPT | the kernel or the file system cannot do that | use a newer kernel, or another file system
    EINVAL EDOM ERANGE | the kernel does not take a value | check the options; `ringtap COMMAND --help` tells their ranges
    E2BIG | there are too many arguments | give fewer
    EMFILE | this process has too many files open | raise `ulimit -n`
    ENFILE | the machine has too many files open | end other programs, or raise `sysctl fs.file-max`
    ENOMEM ENOBUFS | the kernel has no memory left for it | end other programs
    EAGAIN | the kernel has no room now, or a limit of this user is reached | try again; raise `ulimit -u` if it stays so
    ENOLCK EDEADLK | the file cannot be locked | choose a folder on a local disk
    ETIMEDOUT ETIME EHOSTDOWN | the other side did not answer | bring the device near, or see that it is on
    EHOSTUNREACH ENETUNREACH ENONET | no way leads there | check the name and the address
    ECONNREFUSED | nobody answers there | start what is to answer, and check the address
    ECONNRESET ECONNABORTED ENOTCONN ESHUTDOWN EPIPE | the other side has gone | start it again, and connect again
    ENETRESET ENOLINK ECOMM | the way to the other side has gone | connect again
    EADDRINUSE | another program has that address or port | stop it, or choose another
    EADDRNOTAVAIL | this machine has no such address | check the address
    EALREADY EINPROGRESS EISCONN | it is so already, or under way | wait, and try again
    ECANCELED | somebody cancelled it | try again
    EINTR ERESTART | a signal came meanwhile | try again
    EMSGSIZE | a packet is too long for the socket | report it: this program should have split it
    EPROTO EPROTOTYPE EILSEQ | the other side breaks the protocol | check what is at the other end, and its baud rate
    ENOTTY | it is no serial port | check the path of the port
    ENOEXEC ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC | the file is no program of this machine | check which program is meant, and for which processor it is
    ESRCH ECHILD | the process has gone | start it again
    EKEYEXPIRED EKEYREVOKED EKEYREJECTED ENOKEY | the kernel has no key for it | pair again, or unlock the file system
    EHWPOISON | the machine's memory is damaged | look into `dmesg`
    ENOTBLK ESPIPE | the file is not of the kind that is wanted | name an ordinary file
    EOWNERDEAD ENOTRECOVERABLE | a lock's owner died | end what else uses it, and try again
    EBADF EFAULT ENOTSOCK EDESTADDRREQ EMULTIHOP EXFULL | this program passed something wrong | report it: that is a mistake in this program
    EADV EBADE EBADR EBADRQC EBADSLT EBFONT ECHRNG EDOTDOT EIDRM EISNAM EL2HLT EL2NSYNC EL3HLT EL3RST ELNRNG | no call of this program's gives that by its manual; a driver or file system does | look into `dmesg`, and record elsewhere
    ENAVAIL ENOANO ENOCSI ENODATA ENOMSG ENOPKG ENOSR ENOSTR ENOTNAM ENOTUNIQ EREMCHG EREMOTE ESRMNT ESTRPIPE ETOOMANYREFS EUNATCH | no call of this program's gives that by its manual; a driver or file system does | look into `dmesg`, and record elsewhere
    """)
}
