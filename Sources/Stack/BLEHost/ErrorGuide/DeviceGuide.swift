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
