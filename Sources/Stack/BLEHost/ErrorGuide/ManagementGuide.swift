extension ErrorGuide {
  /// Statuses of the kernel's management interface. BlueZ, `doc/mgmt-api.txt`, "Error codes"; Linux 6.1,
  /// `include/net/bluetooth/mgmt.h`.
  package static let management = table(
    """
    01 | the kernel is too old for the command | use --mode raw, or a newer kernel
    02 | the device is not connected | connect again
    03 | the controller failed at it | try again; `btmgmt power off` and `power on` if it stays so
    04 | the link could not be made | bring the device near and try again
    05 | the two sides' keys or the passkey differ | forget the device on both sides (`bluetoothctl remove ADDRESS`) and pair again
    06 | the kernel has no key of the device | pair with it (`bluetoothctl pair ADDRESS`)
    07 | the kernel or the controller has no room | disconnect another device, or end other programs that advertise
    08 | the controller or the device did not answer in time | bring the device near and try again; reset the adapter if it stays so
    09 | the device is connected already | disconnect it first (`bluetoothctl disconnect ADDRESS`)
    0a | another program discovers, or the same is under way | stop that first (`bluetoothctl scan off`), or use --mode raw
    0b | the kernel does not do that in this state | try again; `ringtap doctor` tells the adapter's state
    0c | the controller or its settings do not allow it | switch LE on (`btmgmt le on`), or use --mode raw
    0d | the kernel does not take the values | choose other values for --interval, --latency, --supervision-timeout
    0e | the link ended meanwhile | connect again
    0f | the adapter is off | bring it up with `btmgmt power on`
    10 | somebody cancelled it | try again
    11 | there is no such adapter, or a program has it alone | `ringtap doctor` tells which are there and who holds them
    12 | a switch keeps the radio off | `rfkill unblock bluetooth`, or the switch on the machine
    13 | the device is paired already | forget it first (`bluetoothctl remove ADDRESS`)
    14 | this process may not | run as root, or once `sudo setcap cap_net_raw,cap_net_admin+eip` on the ringtap binary
    """)
}
