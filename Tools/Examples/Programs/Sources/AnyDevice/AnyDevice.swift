// Prints the firmware of any device, and what one of its characteristics notifies, until Ctrl-C.
//
// AnyDevice ADDRESS CHARACTERISTIC [RADIO]     such as 70:CB:0D:00:18:0D 2a37 virtual:heart-rate
import RingTap

let arguments = CommandLine.arguments.dropFirst().map { String($0) }
guard arguments.count >= 2, let address = DeviceAddress(arguments[0]),
  let characteristic = BluetoothUUID(arguments[1])
else { fatalError("which device, and which characteristic? 70:CB:0D:00:18:0D 2a37, for example") }

await runProgram {
  let radio = try await Radio.open(arguments.dropFirst(2).first)
  try await radio.withConnection(to: address) { device in
    print("firmware", try await device.value(of: .firmwareRevision).text)
    for try await value in device.notifications(of: characteristic) {
      print(value.time.nanoseconds, value.bytes)
    }
  }
}
