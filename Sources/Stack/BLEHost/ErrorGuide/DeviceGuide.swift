extension ErrorGuide {
  /// Error codes of an attribute server. Core 5.4, Vol 3, Part F, 3.4.1.1; 0xFC … 0xFF: CSS 11, Part B, 1.2.
  package static let attribute = table(
    """
    01 | the device has no attribute of that handle | `ringtap gatt ADDRESS` lists those it has; its firmware may be another than remembered
    02 | the attribute cannot be read | use `ringtap notify` or `ringtap write`, whichever `ringtap gatt ADDRESS` lists for it
    03 | the attribute cannot be written | read it, or choose one that `ringtap gatt ADDRESS` lists as writable
    04 | the device does not understand the request | look for newer firmware of the device
    05 | the device wants a pairing with a passkey first | pair with it (`ringtap pair ADDRESS --authenticated`)
    06 | the device does not have that kind of request | use another way: read instead of a long read, write instead of a prepared one
    07 | the offset lies behind the value's end | read the value from its start
    08 | the device wants its user's leave | allow it on the device
    09 | the device has no room for another prepared write | write less at once
    0a | nothing of that kind lies in the range | `ringtap gatt ADDRESS` lists what the device has
    0b | the value is short: it has no parts | read it whole
    0c | the link's key is shorter than the device demands | forget the device on both sides and pair again with a key of 16 octets
    0d | the value has a length that the attribute does not take | see in the device's documentation how long it must be
    0e | something failed inside of the device | try again; restart the device if it stays so
    0f | the device wants an encrypted link | pair with it (`ringtap pair ADDRESS`)
    10 | services cannot be grouped by that attribute | ask for primary or secondary services
    11 | the device has no room or time for the request | try again in a moment; disconnect other hosts from it
    12 | the device's attributes changed meanwhile | connect again: they are discovered anew
    13 | the attribute does not take that value | see in the device's documentation which values it takes
    80-9f | the device's application refuses; what for, its profile says | see the service's specification for that code
    fc | the device refuses the write now | see what state the device must be in, and try again
    fd | the descriptor does not have what the procedure needs | subscribe first (`ringtap notify`)
    fe | the device is busy with the same procedure | wait until that has ended, and try again
    ff | the value lies outside of what the attribute takes | see in the device's documentation which values it takes
    """)

  /// Reasons of a failed pairing. Core 5.4, Vol 3, Part H, 3.5.5.
  package static let pairing = table(
    """
    01 | the passkey was not given, or its entry was cancelled | give it with --passkey, or answer on a terminal
    02 | out-of-band data is wanted that one side lacks | pair without it: by passkey or by comparison
    03 | one side demands more than the other's keyboard and display can give | leave out --authenticated, or use a device with a display
    04 | a wrong passkey, or somebody in the middle | try again with the passkey that the device shows
    05 | the device does not pair, or not now | make the device ready to pair, or do without
    06 | the key would be shorter than one side demands | look for newer firmware of the device
    07 | the device does not know the command | pair with --legacy
    08 | the device does not say | make the device ready to pair and try again; restart it if it stays so
    09 | a pairing failed a moment ago | wait half a minute, and try again
    0a | a value makes no sense to the device | pair with --legacy
    0b | a wrong passkey, or somebody in the middle | try again, and compare what both sides show
    0c | somebody said that the numbers differ | try again, and confirm only if both sides show the same
    0d | the devices pair over BR/EDR already | wait until that has ended, and try again
    0e | keys of BR/EDR may not be made from those of LE here | pair over BR/EDR by itself
    0f | the device does not take the key | forget the device on both sides and pair again
    """)
}
