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
