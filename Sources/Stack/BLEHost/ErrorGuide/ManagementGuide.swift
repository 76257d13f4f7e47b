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
